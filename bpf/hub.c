//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

/* hub.c: the hub program, at the ingress of every port of a router. A router is a network
 * namespace, or a machine with several NICs. The program forwards frames of FUNet by their routes,
 * as an Arctic router does (thesis 5.4), and leaves everything else to the kernel. doc.go draws the
 * route.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "funet.h"

#define FUNET_HUB_PORTS 8
/* the first byte of a destination address that is a route: locally administered, of one station */
#define FUNET_HUB_ROUTE 0x0e
#define FUNET_HUB_BITS 30
/* stations whose ways a router knows */
#define FUNET_HUB_STATIONS 65536

/* What a port leads to. */
enum funet_hub_kind {
	FUNET_HUB_UNWIRED,
	FUNET_HUB_ROUTER,
	FUNET_HUB_STATION,
};

struct funet_hub_port {
	__u8 kind;
	__u8 reserved;
	__u8 station[6]; /* its address */
};

/* The one value of funet_hub_router. */
struct funet_hub_router {
	__u8 width; /* route bits that the router takes */
	/* Up ports, as bits: in a fat tree each of them leads to the destination. Where there are any,
	 * and hashed is nonzero, or the named one is down, one that is not down is taken. */
	__u8 up;
	__u8 hashed;
	__u8 down; /* ports that are down, as bits */
};

struct funet_hub_route {
	__u32 bits; /* the lowest are consumed first */
	__u8 left;  /* digits, one for each router */
	__u8 reserved[3];
};

struct funet_hub_station {
	__u8 address[6];
	__u16 reserved;
};

enum funet_hub_counter {
	FUNET_HUB_PASS,	     /* not FUNet: left to the kernel */
	FUNET_HUB_STRANGER,  /* in by an interface that is no port of the router: dropped */
	/* from another router without a route, or for many stations: dropped */
	FUNET_HUB_UNROUTED,
	FUNET_HUB_UNKNOWN,   /* for a station that no way is known to: dropped */
	FUNET_HUB_EXHAUSTED, /* its route has ended before a station: dropped */
	/* its route goes on behind a station, or is of more than 30 bits: dropped */
	FUNET_HUB_LONG,
	FUNET_HUB_NOWHERE,   /* its route names a port that leads nowhere: dropped */
	FUNET_HUB_DOWN,	     /* its route names a port that is down: dropped */
	FUNET_HUB_FORGED,    /* from a station, with the source address of another: dropped */
	FUNET_HUB_FORWARDED, /* by port 0; by port 1 is the next, and so on */
	FUNET_HUB_COUNTERS = FUNET_HUB_FORWARDED + FUNET_HUB_PORTS,
};

struct funet_hub_counts {
	__u64 n[FUNET_HUB_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct funet_hub_router);
} funet_router SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FUNET_HUB_PORTS);
	__type(key, __u32);
	__type(value, struct funet_hub_port);
} funet_hub_ports SEC(".maps");

/* The interface of each port. The kernel removes an entry with its interface. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FUNET_HUB_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} funet_hub_links SEC(".maps");

/* Interface to port. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FUNET_HUB_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} funet_hub_inputs SEC(".maps");

/* The ways from here to stations: the route table of those that are joined to this router. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FUNET_HUB_STATIONS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct funet_hub_station);
	__type(value, struct funet_hub_route);
} funet_hub_routes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct funet_hub_counts);
} funet_hub_counters SEC(".maps");

static __always_inline int same_address(const __u8 a[6], const __u8 b[6])
{
	__u32 difference = 0;

#pragma unroll
	for (int i = 0; i < 6; i++)
		difference |= a[i] ^ b[i];
	return !difference;
}

static __always_inline int count(__u32 counter, int verdict)
{
	__u32 all = 0;
	struct funet_hub_counts *counts = bpf_map_lookup_elem(&funet_hub_counters, &all);

	if (counts && counter < FUNET_HUB_COUNTERS)
		counts->n[counter] += 1;
	return verdict;
}

/* Takes another up port for the one that the route names: by the two ends of the way alone, so that
 * their frames keep their order (a multiplicative hash, Knuth 6.4), among those that are not down.
 */
static __always_inline __u32 upwards(const struct funet_hub_router *router, __u32 port, const __u8 source[6],
				     __u32 bits)
{
	__u32 usable = router->up & ~router->down & 0xff;
	__u32 hash, steps, n = 0;

	if (!usable || (!router->hashed && !(router->down >> port & 1)))
		return port;
	hash = source[2] << 24 | source[3] << 16 | source[4] << 8 | source[5];
	hash = (hash ^ bits * 0x85ebca6bU) * 0x9e3779b1U;
#pragma unroll
	for (int i = 0; i < FUNET_HUB_PORTS; i++)
		n += usable >> i & 1;
	steps = (hash >> 16) % n;
#pragma unroll
	for (int i = 0; i < FUNET_HUB_PORTS; i++) {
		if (!(usable >> i & 1))
			continue;
		if (!steps)
			return i;
		steps--;
	}
	return port;
}

SEC("xdp")
int funet_hub(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct funet_header *frame = data; /* only its first 14 bytes are looked at */
	__u32 zero = 0, interface = ctx->ingress_ifindex;

	if (data + FUNET_ETHERNET_LEN > end || frame->ethertype != funet_be16(FUNET_ETHERTYPE))
		return count(FUNET_HUB_PASS, XDP_PASS);
	struct funet_hub_router *router = bpf_map_lookup_elem(&funet_router, &zero);
	__u32 *input = bpf_map_lookup_elem(&funet_hub_inputs, &interface);
	if (!router || !input || *input >= FUNET_HUB_PORTS)
		return count(FUNET_HUB_STRANGER, XDP_DROP);
	struct funet_hub_port *from = bpf_map_lookup_elem(&funet_hub_ports, input);
	if (!from || from->kind == FUNET_HUB_UNWIRED)
		return count(FUNET_HUB_STRANGER, XDP_DROP);

	/* so a host floods in its own name only */
	if (from->kind == FUNET_HUB_STATION && !same_address(frame->source_mac, from->station))
		return count(FUNET_HUB_FORGED, XDP_DROP);
	__u8 *to = frame->destination_mac;
	__u32 bits, left, width = router->width & 7;
	if (to[0] == FUNET_HUB_ROUTE) { /* the sender says the way, or the first router has */
		left = to[1];
		bits = (__u32)to[2] << 24 | to[3] << 16 | to[4] << 8 | to[5];
	} else {
		struct funet_hub_station station = {};

		if (from->kind != FUNET_HUB_STATION || to[0] & 1)
			return count(FUNET_HUB_UNROUTED, XDP_DROP);
		__builtin_memcpy(station.address, to, sizeof(station.address));
		struct funet_hub_route *route = bpf_map_lookup_elem(&funet_hub_routes, &station);
		if (!route)
			return count(FUNET_HUB_UNKNOWN, XDP_DROP);
		left = route->left;
		bits = route->bits;
	}
	if (!left)
		return count(FUNET_HUB_EXHAUSTED, XDP_DROP);
	/* so no frame passes more than 30 routers, whoever made its route */
	if (left * width > FUNET_HUB_BITS || bits >> FUNET_HUB_BITS)
		return count(FUNET_HUB_LONG, XDP_DROP);
	__u32 port = bits & ((1U << width) - 1);
	if (router->up >> port & 1)
		port = upwards(router, port, frame->source_mac, bits);
	bits >>= width;
	left--;
	if (port >= FUNET_HUB_PORTS)
		return count(FUNET_HUB_NOWHERE, XDP_DROP);
	struct funet_hub_port *out = bpf_map_lookup_elem(&funet_hub_ports, &port);
	if (!out || out->kind == FUNET_HUB_UNWIRED)
		return count(FUNET_HUB_NOWHERE, XDP_DROP);
	if (router->down >> port & 1)
		return count(FUNET_HUB_DOWN, XDP_DROP);
	if (out->kind == FUNET_HUB_STATION) {
		if (left)
			return count(FUNET_HUB_LONG, XDP_DROP);
		__builtin_memcpy(to, out->station, sizeof(out->station));
	} else {
		to[0] = FUNET_HUB_ROUTE;
		to[1] = left;
		to[2] = bits >> 24;
		to[3] = bits >> 16;
		to[4] = bits >> 8;
		to[5] = bits;
	}
	return count(FUNET_HUB_FORWARDED + port, bpf_redirect_map(&funet_hub_links, port, XDP_DROP));
}

char _license[] SEC("license") = "Dual BSD/GPL";
