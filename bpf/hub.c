//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

/* hub.c: the hub program, at the ingress of every port of a router. A router is a network
 * namespace, or a machine with several NICs. The program forwards frames of FUNet by their routes,
 * as an Arctic router does (thesis 5.4), and leaves everything else to the kernel. doc.go draws the
 * route.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bundle.h"

#define FUNET_HUB_PORTS 8
/* the first byte of a destination address that is a route: locally administered, of one station */
#define FUNET_HUB_ROUTE 0x0e
#define FUNET_HUB_BITS 30
/* stations whose ways a router knows */
#define FUNET_HUB_STATIONS 65536
#define FUNET_BUNDLE_NONE 0xff

/* What a port leads to. */
enum funet_hub_kind {
	FUNET_HUB_UNWIRED,
	FUNET_HUB_ROUTER,
	FUNET_HUB_STATION,
};

struct funet_hub_port {
	__u8 kind;
	__u8 far;	 /* of a router: the number of its port */
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
	FUNET_HUB_UNBUNDLED, /* for many stations, and no bundle: dropped */
	FUNET_HUB_BUNDLE,    /* a bundle, whose frames count besides */
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

/* The same for the copies of bundles. funet_hub_copy looks at each of them. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FUNET_HUB_PORTS);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} funet_hub_copies SEC(".maps");

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

	__u64 at = counter;

	/* The compiler must not compare another register than it adds: verifiers before 6.8 do not
	 * know then that the place is one. */
	asm volatile("" : "+r"(at));
	if (counts && at < FUNET_HUB_COUNTERS)
		counts->n[at] += 1;
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

/* Takes a digit of a frame's route. Returns the port that the frame leaves by, or less than 0: the
 * counter, negated, of why it is dropped. */
static __always_inline int onward(const struct funet_hub_router *router, const struct funet_hub_port *from, __u8 *to,
				  const __u8 *source)
{
	__u32 bits, left, width = router->width & 7;

	/* so a host floods in its own name only */
	if (from->kind == FUNET_HUB_STATION && !same_address(source, from->station))
		return -FUNET_HUB_FORGED;
	if (to[0] == FUNET_HUB_ROUTE) { /* the sender says the way, or the first router has */
		left = to[1];
		bits = (__u32)to[2] << 24 | to[3] << 16 | to[4] << 8 | to[5];
	} else {
		struct funet_hub_station station = {};

		if (from->kind != FUNET_HUB_STATION || to[0] & 1)
			return -FUNET_HUB_UNROUTED;
		__builtin_memcpy(station.address, to, sizeof(station.address));
		struct funet_hub_route *route = bpf_map_lookup_elem(&funet_hub_routes, &station);
		if (!route)
			return -FUNET_HUB_UNKNOWN;
		left = route->left;
		bits = route->bits;
	}
	if (!left)
		return -FUNET_HUB_EXHAUSTED;
	/* so no frame passes more than 30 routers, whoever made its route */
	if (left * width > FUNET_HUB_BITS || bits >> FUNET_HUB_BITS)
		return -FUNET_HUB_LONG;
	__u32 port = bits & ((1U << width) - 1);
	if (router->up >> port & 1)
		port = upwards(router, port, source, bits);
	bits >>= width;
	left--;
	if (port >= FUNET_HUB_PORTS)
		return -FUNET_HUB_NOWHERE;
	struct funet_hub_port *out = bpf_map_lookup_elem(&funet_hub_ports, &port);
	if (!out || out->kind == FUNET_HUB_UNWIRED)
		return -FUNET_HUB_NOWHERE;
	if (router->down >> port & 1)
		return -FUNET_HUB_DOWN;
	if (out->kind == FUNET_HUB_STATION) {
		if (left)
			return -FUNET_HUB_LONG;
		__builtin_memcpy(to, out->station, sizeof(out->station));
	} else {
		to[0] = FUNET_HUB_ROUTE;
		to[1] = left;
		to[2] = bits >> 24;
		to[3] = bits >> 16;
		to[4] = bits >> 8;
		to[5] = bits;
	}
	return port;
}

/* Does that for the frame of a bundle that begins at an offset. It is a function of its own so that
 * the verifier looks at it once. */
__noinline int funet_hub_onward(struct xdp_md *ctx, __u32 at, __u32 input)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct funet_hub_router *router = bpf_map_lookup_elem(&funet_router, &zero);
	struct funet_hub_port *from = bpf_map_lookup_elem(&funet_hub_ports, &input);
	struct funet_header *frame = data + (at & (FUNET_BUNDLE_MAX - 1));

	if (!router || !from || (void *)frame + FUNET_ETHERNET_LEN > end || frame->ethertype != funet_be16(FUNET_ETHERTYPE))
		return -FUNET_HUB_UNBUNDLED;
	return onward(router, from, frame->destination_mac, frame->source_mac);
}

/* Returns the length of a frame. The compiler must not mix it with other sums: the verifier permits
 * no 32-bit arithmetic with pointers. */
static __always_inline __u32 length_of(const struct xdp_md *ctx)
{
	__u64 length = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	asm volatile("" : "+r"(length));
	return length;
}

/* Leaves one frame of a bundle. */
static __always_inline int take_out(struct xdp_md *ctx, __u32 at, __u32 upto)
{
	__u32 length = length_of(ctx);

	return !bpf_xdp_adjust_tail(ctx, (int)upto - (int)length) && !bpf_xdp_adjust_head(ctx, at);
}

/* Sends the frames of a bundle on. */
static __always_inline int unbundle(struct xdp_md *ctx, __u32 input, const struct funet_hub_port *from)
{
	struct funet_bundle *bundle = (void *)(long)ctx->data;
	__u32 at = sizeof(*bundle), length = length_of(ctx);
	__u32 first = 0, upto = 0, frames, onward = 0, ports = 0, port = 0;

	if ((void *)(bundle + 1) > (void *)(long)ctx->data_end)
		return count(FUNET_HUB_UNBUNDLED, XDP_DROP);
	if (from->kind == FUNET_HUB_STATION && !same_address(bundle->source_mac, from->station))
		return count(FUNET_HUB_FORGED, XDP_DROP);
	frames = bundle->frames;
	if (bundle->version != FUNET_VERSION_BUNDLE || frames < 2 || frames > FUNET_BUNDLE_FRAMES ||
	    length > FUNET_BUNDLE_MAX)
		return count(FUNET_HUB_UNBUNDLED, XDP_DROP);
	for (__u32 i = 0; i < FUNET_BUNDLE_FRAMES && i < frames; i++) {
		__u32 here = at;
		int to;

		bundle = (void *)(long)ctx->data;
		if ((void *)(bundle + 1) > (void *)(long)ctx->data_end)
			return count(FUNET_HUB_UNBUNDLED, XDP_DROP);
		at = funet_le16(bundle->end[i]);
		if (at < here + FUNET_FRAME_MIN || at > length)
			return count(FUNET_HUB_UNBUNDLED, XDP_DROP);
		/* one that the last router sent elsewhere */
		if (from->kind == FUNET_HUB_ROUTER && bundle->port[i] != from->far) {
			bundle->port[i] = FUNET_BUNDLE_NONE;
			continue;
		}
		to = funet_hub_onward(ctx, here, input);
		if (to == (int)input) /* a bundle does not go back */
			to = -FUNET_HUB_NOWHERE;
		if (to < 0 || to >= FUNET_HUB_PORTS) {
			count(-to, 0);
			to = FUNET_BUNDLE_NONE;
		} else {
			first = here;
			upto = at;
			port = to;
			onward++;
			ports |= 1U << port;
		}
		bundle = (void *)(long)ctx->data;
		if ((void *)(bundle + 1) > (void *)(long)ctx->data_end)
			return count(FUNET_HUB_UNBUNDLED, XDP_DROP);
		bundle->port[i] = to;
	}
	count(FUNET_HUB_BUNDLE, 0);
	if (!onward)
		return XDP_DROP;
	if (onward == 1 && !take_out(ctx, first, upto))
		return count(FUNET_HUB_UNBUNDLED, XDP_DROP);
	for (__u32 p = 0; p < FUNET_HUB_PORTS; p++) {
		if (ports >> p & 1)
			count(FUNET_HUB_FORWARDED + p, 0);
	}
	if (onward == 1)
		return bpf_redirect_map(&funet_hub_links, port, XDP_DROP);
	return bpf_redirect_map(&funet_hub_copies, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
}

SEC("xdp")
int funet_hub(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct funet_header *frame = data; /* only its first 14 bytes are looked at */
	__u32 zero = 0, interface = ctx->ingress_ifindex;
	int port;

	if (data + FUNET_ETHERNET_LEN > end || frame->ethertype != funet_be16(FUNET_ETHERTYPE))
		return count(FUNET_HUB_PASS, XDP_PASS);
	struct funet_hub_router *router = bpf_map_lookup_elem(&funet_router, &zero);
	__u32 *input = bpf_map_lookup_elem(&funet_hub_inputs, &interface);
	if (!router || !input || *input >= FUNET_HUB_PORTS)
		return count(FUNET_HUB_STRANGER, XDP_DROP);
	struct funet_hub_port *from = bpf_map_lookup_elem(&funet_hub_ports, input);
	if (!from || from->kind == FUNET_HUB_UNWIRED)
		return count(FUNET_HUB_STRANGER, XDP_DROP);
	if (frame->destination_mac[0] == FUNET_HUB_ROUTES)
		return unbundle(ctx, *input, from);
	port = onward(router, from, frame->destination_mac, frame->source_mac);
	if (port < 0)
		return count(-port, XDP_DROP);
	return count(FUNET_HUB_FORWARDED + port, bpf_redirect_map(&funet_hub_links, port, XDP_DROP));
}

/* Looks at the copy of a bundle that is about to leave by a port. It changes no byte, because the
 * kernel's copies may share their memory. */
SEC("xdp/devmap")
int funet_hub_copy(struct xdp_md *ctx)
{
	struct funet_bundle *bundle = (void *)(long)ctx->data;
	__u32 interface = ctx->egress_ifindex, first = 0, upto = 0, mine = 0, at = sizeof(*bundle);
	__u32 *port = bpf_map_lookup_elem(&funet_hub_inputs, &interface);

	if (!port || (void *)(bundle + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	struct funet_hub_port *out = bpf_map_lookup_elem(&funet_hub_ports, port);
	if (!out)
		return XDP_DROP;
	for (__u32 i = 0; i < FUNET_BUNDLE_FRAMES && i < bundle->frames; i++) {
		__u32 here = at;

		at = funet_le16(bundle->end[i]);
		if (bundle->port[i] != *port)
			continue;
		if (!mine++) {
			first = here;
			upto = at;
		}
	}
	/* a station has one of them; its sender sends the others again */
	if (mine == 1 || (mine && out->kind == FUNET_HUB_STATION))
		return take_out(ctx, first, upto) ? XDP_PASS : XDP_DROP;
	return mine ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
