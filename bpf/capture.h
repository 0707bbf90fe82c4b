/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* capture.h: how guard and NIC program show direct frames to an administrator who captures. The
 * ring exists only while somebody captures; otherwise its place is empty, and a frame costs one
 * load of that place. A frame that finds no room in the ring is counted as lost; nobody waits.
 */
#ifndef FUNET_CAPTURE_H
#define FUNET_CAPTURE_H

#include "switch.h"

/* A frame in the ring. As many bytes of it follow as kept says. */
struct funet_seen {
	__u64 time;    /* nanoseconds of CLOCK_MONOTONIC */
	__u32 length;  /* bytes of the frame */
	__u32 kept;    /* of them, in the ring */
	/* of the NIC that it leaves by, or came in by; 0: it stays here or was dropped at its port */
	__u32 ifindex;
	__u16 gid;     /* whose port it came from, at the guard; 0 at the NIC program */
	__u16 card;
	/* the counter that it moved: enum funet_port_counter, or at the NIC program FUNET_PORT_COUNTERS
	 * + enum funet_counter */
	__u8 verdict;
	__u8 unused[7];
};

/* The bytes of a frame that there is room for: the verifier wants records of fixed sizes. The
 * longest holds every frame of a port with its headers. */
#define FUNET_SEEN_SHORT 224
#define FUNET_SEEN_MIDDLE 1600
#define FUNET_SEEN_LONG 3584

/* The one value of funet_capture. */
struct funet_capture {
	__u64 lost; /* frames that found no room */
	__u32 snap; /* at most this number of bytes of each frame are kept, at least 1 */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct funet_capture);
} funet_capture SEC(".maps");

/* The ring of the capture that goes on, if any. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, 1 << 16); /* each has its own size */
	});
} funet_rings SEC(".maps");

/* Puts a frame into the ring, in a record with room for so many bytes. The reader polls: nothing is
 * woken. */
static __always_inline int funet_put(void *ctx, const int xdp, void *ring, const struct funet_seen *seen,
	const __u32 room)
{
	struct funet_seen *to = bpf_ringbuf_reserve(ring, sizeof(*to) + room, 0);
	__u32 last = seen->kept - 1;
	long failed = -1;

	if (!to)
		return 0;
	*to = *seen;
	/* Keeps the compiler from passing seen->kept itself, whose bound verifiers before Linux 6.8 do
	 * not follow from that of last. */
	asm volatile("" : "+r"(last));
	if (last < room)
		failed = xdp ? bpf_xdp_load_bytes(ctx, 0, to + 1, last + 1) : bpf_skb_load_bytes(ctx, 0, to + 1, last + 1);
	if (failed)
		to->kept = 0;
	bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);
	return 1;
}

/* Shows a frame of a length to who captures, if anybody does, with what is already in seen. xdp:
 * the context is an XDP program's. */
static __always_inline void funet_show(void *ctx, const int xdp, __u32 length, struct funet_seen *seen)
{
	__u32 one = 0;
	void *ring = bpf_map_lookup_elem(&funet_rings, &one);
	struct funet_capture *capture;
	int put;

	if (!ring)
		return;
	capture = bpf_map_lookup_elem(&funet_capture, &one);
	if (!capture)
		return;
	seen->time = bpf_ktime_get_ns();
	seen->length = length;
	seen->kept = length < capture->snap ? length : capture->snap;
	if (seen->kept > FUNET_SEEN_LONG)
		seen->kept = FUNET_SEEN_LONG;
	if (seen->kept <= FUNET_SEEN_SHORT)
		put = funet_put(ctx, xdp, ring, seen, FUNET_SEEN_SHORT);
	else if (seen->kept <= FUNET_SEEN_MIDDLE)
		put = funet_put(ctx, xdp, ring, seen, FUNET_SEEN_MIDDLE);
	else
		put = funet_put(ctx, xdp, ring, seen, FUNET_SEEN_LONG);
	if (!put)
		__sync_fetch_and_add(&capture->lost, 1);
}

#endif
