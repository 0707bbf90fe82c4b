//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

/* nic.c: the NIC program. It decides, before user space wakes, whether a frame is FUNet's, is
 * well formed and is of a group that lives on this host, and hands it to the AF_XDP socket of the
 * queue that it came in on. doc.go draws the decision. There are two of it, for frames in one buffer
 * and for frames that may span several; the loader loads one.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "funet.h"

/* Nonzero: the group is active on this host. Written by the card, read here for each frame. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FUNET_GROUPS);
	__type(key, __u32);
	__type(value, __u8);
} funet_groups SEC(".maps");

/* Receive queue to socket. The loader sets max_entries before it loads. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, FUNET_SOCKETS);
	__type(key, __u32);
	__type(value, __u32);
} funet_sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FUNET_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} funet_counters SEC(".maps");

/* The counter is this CPU's own and programs do not nest on it here, so a plain add is enough. */
static __always_inline int count(__u32 counter, int verdict)
{
	__u64 *value = bpf_map_lookup_elem(&funet_counters, &counter);

	if (value)
		*value += 1;
	return verdict;
}

/* What becomes of a frame that is at least its first buffer long. In a frame of several buffers data
 * and data_end bound the first, and that must hold the header: drivers put far more into it.
 */
static __always_inline int judge(struct xdp_md *ctx, __u64 frame_len)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	const struct funet_header *header = data;

	if (data + FUNET_ETHERNET_LEN > end || header->ethertype != funet_be16(FUNET_ETHERTYPE))
		return count(FUNET_COUNT_PASS, XDP_PASS);
	if (data + FUNET_FRAME_MIN > end)
		return count(FUNET_COUNT_SHORT, XDP_DROP);
	if (header->version == FUNET_VERSION_PROBE)
		return count(FUNET_COUNT_PASS, XDP_PASS);
	if (header->version != FUNET_VERSION)
		return count(FUNET_COUNT_BAD_VERSION, XDP_DROP);

	/* One unsigned comparison for both ends: a length below the header's wraps round and is
	 * greater than any frame. The frame has been seen to hold the header, so the right side
	 * does not wrap.
	 */
	__u64 body = (__u64)funet_le16(header->length) - FUNET_HEADER_LEN;
	if (body > frame_len - FUNET_FRAME_MIN)
		return count(FUNET_COUNT_BAD_LENGTH, XDP_DROP);

	/* The map has an entry for every GID of 11 bits, so its own bounds check is the test of
	 * the upper five.
	 */
	__u32 gid = funet_le16(header->gid);
	const __u8 *active = bpf_map_lookup_elem(&funet_groups, &gid);
	if (!active)
		return count(FUNET_COUNT_BAD_GID, XDP_DROP);
	if (!*active)
		return count(FUNET_COUNT_FOREIGN_GROUP, XDP_DROP);

	/* Since Linux 5.3 the helper looks the socket up itself and returns its flags, here
	 * XDP_DROP, where there is none: bpf-helpers(7).
	 */
	if (bpf_redirect_map(&funet_sockets, ctx->rx_queue_index, XDP_DROP) != XDP_REDIRECT)
		return count(FUNET_COUNT_NO_SOCKET, XDP_DROP);
	return count(FUNET_COUNT_REDIRECTED, XDP_REDIRECT);
}

SEC("xdp")
int funet_nic(struct xdp_md *ctx)
{
	return judge(ctx, (void *)(long)ctx->data_end - (void *)(long)ctx->data);
}

/* For frames of several buffers. The driver must show all buffers to it (BPF_F_XDP_HAS_FRAGS, which
 * the section's name asks for; Linux 5.18).
 */
SEC("xdp.frags")
int funet_nic_frags(struct xdp_md *ctx)
{
	return judge(ctx, bpf_xdp_get_buff_len(ctx));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
