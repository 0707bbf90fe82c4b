/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* switch.h: the table that the guard of ports and the NIC program share. A port is a veth pair: a process has an AF_XDP
 * socket on the inner end, and the guard sees on the outer end what the process sends. A job is one array of places, from the
 * number of each node to where it is.
 */
#ifndef FUNET_SWITCH_H
#define FUNET_SWITCH_H

#include "funet.h"

#define FUNET_PORTS 4096 /* ports of a host, unless the loader says otherwise */
#define FUNET_JOBS 2048	 /* jobs with ports on a host; a GID has 11 bits */
#define FUNET_NODES 65536

/* Whose a port is. */
struct funet_port {
	__u64 tag;
	__u16 gid;
	__u16 card; /* its node's number */
	__u32 unused;
};

/* Names a job. */
struct funet_job {
	__u64 tag;
	__u32 gid;
	__u32 unused;
};

enum funet_kind {
	FUNET_KIND_NONE, /* there is no such node */
	FUNET_KIND_PORT, /* behind a port of this host */
	FUNET_KIND_HOST, /* behind another host */
};

/* Where a node is. */
struct funet_place {
	__u32 kind;
	__u32 ifindex; /* of the port's outer end, or of the NIC that leads to the host */
	__u32 link;    /* of a port: its place in funet_links */
	__u32 longest; /* bytes of the longest frame that goes there, with its Ethernet header */
	__u8 mac[6];   /* of the host */
	__u8 own[6];   /* of this host's NIC that leads there */
	__u32 unused;
};

/* Has clang describe the type in full, which only the inner arrays have (BTF). */
const struct funet_place *funet_described __attribute__((unused));

/* What became of a frame of a port: the places of its counters. Each frame moves exactly one by one. */
enum funet_port_counter {
	FUNET_PORT_SHORT,	 /* it ends inside the header */
	FUNET_PORT_BAD_VERSION,	 /* it is no direct frame */
	FUNET_PORT_FORGED,	 /* its GID, source card or tag is not the port's */
	FUNET_PORT_BAD_LENGTH,	 /* its length is not the frame's */
	FUNET_PORT_NO_NODE,	 /* the job has no such node, or nobody has it now */
	FUNET_PORT_TOO_LONG,	 /* longer than what goes there */
	FUNET_PORT_SENT,	 /* sent to another host */
	FUNET_PORT_LOCAL,	 /* handed to another port of this host */
	FUNET_PORT_COUNTERS,
};

struct funet_port_counts {
	__u64 n[FUNET_PORT_COUNTERS];
};

/* By the outer end's index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FUNET_PORTS);
	__type(key, __u32);
	__type(value, struct funet_port);
} funet_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, FUNET_JOBS);
	__type(key, struct funet_job);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_ARRAY);
		__uint(map_flags, BPF_F_INNER_MAP); /* jobs have different numbers of nodes (Linux 5.10) */
		__uint(max_entries, 1);
		__type(key, __u32);
		__type(value, struct funet_place);
	});
} funet_jobs SEC(".maps");

/* Where a node of a job is, if the frame's destination is one of its nodes. */
static __always_inline const struct funet_place *funet_place(__u64 tag, __u16 gid, __u16 card)
{
	struct funet_job job = { .tag = tag, .gid = gid };
	void *places = bpf_map_lookup_elem(&funet_jobs, &job);
	__u32 node = card;

	return places ? bpf_map_lookup_elem(places, &node) : 0;
}

/* Whether the port at a place is that of the node. A place may be older than its port: an index is used again. */
static __always_inline int funet_at(const struct funet_place *place, __u64 tag, __u16 gid, __u16 card)
{
	__u32 ifindex = place->ifindex;
	const struct funet_port *port = bpf_map_lookup_elem(&funet_ports, &ifindex);

	return port && port->tag == tag && port->gid == gid && port->card == card;
}

#endif
