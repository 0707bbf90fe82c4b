/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* switch.h: the table that the guard of ports and the NIC program share. A port is a veth pair: a
 * process has an AF_XDP socket on the inner end, and the guard sees on the outer end what the
 * process sends. A job is one array of places, from the number of each node to where it is.
 */
#ifndef FUNET_SWITCH_H
#define FUNET_SWITCH_H

#include "funet.h"

#define FUNET_PORTS 4096 /* ports of a host, unless the loader says otherwise */
#define FUNET_JOBS 2048	 /* jobs with ports on a host; a GID has 11 bits */
#define FUNET_NODES 65536
#define FUNET_HEAD_MAX 72 /* bytes */
/* Bytes that an account's ports may send to a host which sends them nothing: far more than what
 * waits for an answer at 100 Gbit/s. Beyond that they may send a byte in 1024 ns, and at the most
 * so many of these at once. The first greetings to many nodes fit in.
 */
#define FUNET_CREDIT (32 << 20)
#define FUNET_CREDIT_TRICKLE (64 << 10)
#define FUNET_CREDIT_PART (64 << 10) /* bytes that a port takes at once, to use up by itself */
/* accounts times hosts; who has used his least recently has all of it again */
#define FUNET_CREDITS 16384

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
	/* the same, and routers on the way take bundles apart; frames have an Ethernet header alone */
	FUNET_KIND_ROUTED,
};

/* Where a node is. */
struct funet_place {
	__u32 kind;
	__u32 ifindex; /* of the port's outer end, or of the NIC that leads to the host */
	__u32 link;    /* of a port: its place in funet_links */
	__u32 longest; /* bytes of the longest frame that goes there, with its Ethernet header */
	/* Of a host, or routed. */
	/* what its frames come from: an address of Ethernet, in the first 6 bytes, or of IP */
	struct funet_address from;
	__u8 head[FUNET_HEAD_MAX];   /* what stands in front of the version there, on the wire */
	__u16 size;		     /* bytes of that: one of the FUNET_HEAD_ sizes */
	__u16 ip_sum;		     /* of the words of an IPv4 header there, without its length */
	/* of those of the pseudo-header and UDP header, without lengths, source port and frame */
	__u16 udp_sum;
	__u16 host;		     /* its number, which credit goes by */
};

enum funet_head {
	FUNET_HEAD_ETHERNET = FUNET_ETHERNET_LEN,
	FUNET_HEAD_VLAN = FUNET_HEAD_ETHERNET + sizeof(struct funet_vlan_tag),
	FUNET_HEAD_IPV4 = FUNET_HEAD_ETHERNET + sizeof(struct funet_ipv4) + sizeof(struct funet_udp),
	FUNET_HEAD_IPV4_VLAN = FUNET_HEAD_IPV4 + sizeof(struct funet_vlan_tag),
	FUNET_HEAD_IPV6 = FUNET_HEAD_ETHERNET + sizeof(struct funet_ipv6) + sizeof(struct funet_udp),
	FUNET_HEAD_IPV6_VLAN = FUNET_HEAD_IPV6 + sizeof(struct funet_vlan_tag),
};
_Static_assert(FUNET_HEAD_IPV6_VLAN <= FUNET_HEAD_MAX, "the longest headers fit");

/* Has clang describe the type in full, which only the inner arrays have (BTF). */
const struct funet_place *funet_described __attribute__((unused));

/* What became of a frame of a port: the places of its counters. Each frame moves exactly one by
 * one. */
enum funet_port_counter {
	FUNET_PORT_SHORT,	 /* it ends inside the header */
	FUNET_PORT_BAD_VERSION,	 /* it is no direct frame */
	FUNET_PORT_FORGED,	 /* its GID, source card or tag is not the port's */
	FUNET_PORT_BAD_LENGTH,	 /* its length is below the header's or beyond the frame */
	FUNET_PORT_NO_NODE,	 /* no such node, nobody has it now, or it takes no bundles */
	FUNET_PORT_TOO_LONG,	 /* longer than what goes there */
	FUNET_PORT_NO_CREDIT,	 /* for a host that sends nothing */
	FUNET_PORT_SENT,	 /* sent to another host */
	FUNET_PORT_LOCAL,	 /* handed to another port of this host */
	FUNET_PORT_COUNTERS,
};

/* Whose a port is. What the NIC program reads, mostly on another CPU, is on no cache line that the
 * guard writes for each frame. */
struct funet_port {
	__u64 tag;
	__u16 gid;
	__u16 card;    /* its node's number */
	__u32 account; /* who pays; 0: nobody, and it needs no credit */
	__u32 low;     /* of the credit with some host less than half is left */
	__u32 apart[16];
	__u16 host; /* whose credit it has a part of */
	__u16 unused;
	__s32 left; /* of that part, in bytes; frames on several CPUs may take a little more */
	__u32 unused2;
	__u64 n[FUNET_PORT_COUNTERS];
};

/* By the outer end's index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FUNET_PORTS);
	__type(key, __u32);
	__type(value, struct funet_port);
} funet_ports SEC(".maps");

/* Names an account's credit with a host. */
struct funet_debtor {
	__u32 account;
	__u32 host;
};

/* What of it is left, and when it was used up last. Frames on several CPUs may take a little more.
 */
struct funet_credit {
	__s64 left;
	__u64 at;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FUNET_CREDITS);
	__type(key, struct funet_debtor);
	__type(value, struct funet_credit);
} funet_credits SEC(".maps");

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

/* The port at a place, if it is that of the node. A place may be older than its port: an index is
 * used again. */
static __always_inline const struct funet_port *funet_at(const struct funet_place *place, __u64 tag, __u16 gid,
	__u16 card)
{
	__u32 ifindex = place->ifindex;
	const struct funet_port *port = bpf_map_lookup_elem(&funet_ports, &ifindex);

	return port && port->tag == tag && port->gid == gid && port->card == card ? port : 0;
}

#endif
