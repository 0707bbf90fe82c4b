//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

/* nic.c: the NIC program. It decides, before user space wakes, whether a frame is FUNet's, is well
 * formed and is of a group that lives on this host, and hands it to the AF_XDP socket of the queue
 * that it came in on. doc.go draws the decision. There are two of it, for frames in one buffer and
 * for frames that may span several; the loader loads one. The loader also decides, once and for
 * all, whether frames travel as they are or in UDP datagrams: the kernel's verifier removes the
 * other way.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "capture.h"

/* The UDP port of FUNet's datagrams; 0: frames have an EtherType of their own instead. */
const volatile __u16 funet_udp_port;

/* The VLAN that frames are tagged with, or datagrams; 0: they are not, datagrams perhaps with a
 * priority only. */
const volatile __u16 funet_vlan;

/* Nonzero: absent groups are answered for here (FUNET_ABSENT). */
const volatile __u8 funet_defers;

/* How frames of a group are treated. Written by the card, read here for each frame. */
enum funet_presence {
	FUNET_FOREIGN, /* they are dropped */
	FUNET_HERE,    /* they are handed to a socket */
	/* The same, but frames that the switch may answer are answered here: defer(). */
	FUNET_ABSENT,
};

/* Of each group: enum funet_presence. */
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

/* The own addresses: datagrams for others, which this host may have to forward, are not looked at.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FUNET_ADDRESSES);
	__type(key, struct funet_address);
	__type(value, __u8);
} funet_addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct funet_counts);
} funet_counters SEC(".maps");

/* Who has had answers, by Ethernet address: when the next one would be due if none could be saved
 * up (the generic cell rate algorithm, ITU-T I.371). */
#define FUNET_DEFER_GAP 16384	/* nanoseconds from one answer to the next */
#define FUNET_DEFER_AT_ONCE 2048
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} funet_deferrals SEC(".maps");

/* The same for senders of hellos, by the address that these come from. Cards say hello to each
 * other some ten times a second. So only a flood meets this bound, and it costs the card
 * nothing. */
#define FUNET_HELLO_GAP 1000000
#define FUNET_HELLO_AT_ONCE 256
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct funet_address);
	__type(value, __u64);
} funet_hellos SEC(".maps");

/* Nonzero: there are ports, and direct frames are theirs. */
const volatile __u8 funet_direct;

/* The outer ends of ports. The kernel removes an entry with its link. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FUNET_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} funet_links SEC(".maps");

/* The counter is this CPU's own and programs do not nest on it here, so a plain add is enough. */
static __always_inline int count(__u32 counter, int verdict)
{
	__u32 all = 0;
	struct funet_counts *counts = bpf_map_lookup_elem(&funet_counters, &all);

	if (counts && counter < FUNET_COUNTERS)
		counts->n[counter] += 1;
	return verdict;
}

/* What is found of a frame that is FUNet's. */
struct found {
	/* As if an Ethernet header stood right in front of what follows the EtherType. */
	const struct funet_header *header;
	__u64 len;		   /* from there to the end */
	__u32 before;		   /* bytes in front of it */
	struct funet_address from; /* what it comes from, as in struct funet_place */
};

static __always_inline struct funet_address address4(__u32 ip)
{
	return (struct funet_address){ { 0, 0, funet_be32(0xffff), ip } };
}

static __always_inline struct funet_address address6(const __u8 ip[16])
{
	struct funet_address a;

	__builtin_memcpy(&a, ip, sizeof(a));
	return a;
}

static __always_inline int own(struct funet_address a) { return bpf_map_lookup_elem(&funet_addresses, &a) != 0; }

/* The ones' complement sum of a header without options is all ones (RFC 791 3.1). */
static __always_inline int intact(const struct funet_ipv4 *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < (int)sizeof(*ip) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Finds FUNet's header behind UDP and IP. What FUNet does not send is not FUNet's, but the kernel's
 * to judge: options, fragments, lengths that contradict each other, a header that is damaged. The
 * UDP checksum is left to the card, which reads every byte anyway; only without one, over IPv6, a
 * datagram is none (RFC 8200 8.1).
 */
static __always_inline int datagram(void *data, void *end, __u64 frame_len, struct found *found)
{
	const struct funet_header *ethernet = data;
	const struct funet_udp *udp;
	__u64 len; /* of the IP packet's payload */
	/* bytes before udp; the verifier does not take the difference of two pointers */
	__u64 before = FUNET_ETHERNET_LEN;

	if (data + FUNET_ETHERNET_LEN > end)
		return 0;
	void *ip = data + FUNET_ETHERNET_LEN;
	__u16 ethertype = ethernet->ethertype;
	__u16 vlan = 0;
	if (ethertype == funet_be16(FUNET_ETHERTYPE_VLAN)) {
		const struct funet_vlan_tag *tag = ip;

		ip += sizeof(*tag);
		if (ip > end)
			return 0;
		before += sizeof(*tag);
		vlan = funet_be16(tag->tci) & 0xfff;
		ethertype = tag->ethertype;
	}
	if (vlan != funet_vlan)
		return 0;
	if (ethertype == funet_be16(FUNET_ETHERTYPE_IPV4)) {
		const struct funet_ipv4 *v4 = ip;

		udp = (void *)(v4 + 1);
		if ((void *)(udp + 1) > end)
			return 0;
		if (v4->version_length != 0x45 || v4->protocol != FUNET_PROTOCOL_UDP ||
		    udp->destination != funet_be16(funet_udp_port) || (v4->fragment & funet_be16(0xbfff)))
			return 0;
		/* A length below the header's wraps round, and differs from any that UDP can have. */
		len = (__u64)funet_be16(v4->total_length) - sizeof(*v4);
		if (!intact(v4) || !own(address4(v4->destination)))
			return 0;
		found->from = address4(v4->source);
		before += sizeof(*v4);
	} else if (ethertype == funet_be16(FUNET_ETHERTYPE_IPV6)) {
		const struct funet_ipv6 *v6 = ip;

		udp = (void *)(v6 + 1);
		if ((void *)(udp + 1) > end)
			return 0;
		if (v6->version_class >> 4 != 6 || v6->next_header != FUNET_PROTOCOL_UDP ||
		    udp->destination != funet_be16(funet_udp_port) || udp->checksum == 0)
			return 0;
		len = funet_be16(v6->payload_length);
		if (!own(address6(v6->destination)))
			return 0;
		found->from = address6(v6->source);
		before += sizeof(*v6);
	} else {
		return 0;
	}
	if (len != funet_be16(udp->length) || len < sizeof(*udp) || len > frame_len - before)
		return 0;
	found->header = (void *)(udp + 1) - FUNET_ETHERNET_LEN;
	found->len = len - sizeof(*udp) + FUNET_ETHERNET_LEN;
	found->before = before + sizeof(*udp) - FUNET_ETHERNET_LEN;
	return 1;
}

/* Finds FUNet's header behind a tag of the own VLAN. Of a tag the kernel was told by the driver,
 * and that is not in the frame, nothing is known here.
 */
static __always_inline int tagged(void *data, void *end, __u64 frame_len, struct found *found)
{
	const struct funet_header *ethernet = data;
	const struct funet_vlan_tag *tag = data + FUNET_ETHERNET_LEN;

	if ((void *)(tag + 1) > end || ethernet->ethertype != funet_be16(FUNET_ETHERTYPE_VLAN) ||
	    (funet_be16(tag->tci) & 0xfff) != funet_vlan || tag->ethertype != funet_be16(FUNET_ETHERTYPE))
		return 0;
	found->header = data + sizeof(*tag);
	found->len = frame_len - sizeof(*tag);
	found->before = sizeof(*tag);
	return 1;
}

/* Reports whether another frame begins behind the body of a frame in a datagram. Generic XDP on an
 * interface above another sees what GRO of the lower one merged: too long for a socket, with a
 * checksum of none. A card fills a datagram up with zeroes to find out whether longer ones pass
 * (RFC 4821). A version behind the body is of a frame that the kernel put there. Bodies of 32 KiB
 * and more are not looked behind: the verifier bounds how far a packet pointer moves.
 */
static __always_inline int merged(struct xdp_md *ctx, const struct found *found, __u64 body, int frags)
{
	const __u8 *next = (const __u8 *)found->header + FUNET_FRAME_MIN;
	__u8 version = 0;

	if (!funet_udp_port || body >= found->len - FUNET_FRAME_MIN || body >= 0x8000)
		return 0;
	next += body;
	if ((void *)(next + 1) <= (void *)(long)ctx->data_end)
		version = *next;
	else if (frags)
		bpf_xdp_load_bytes(ctx, (__u32)((long)next - (long)ctx->data), &version, sizeof(version));
	return version == FUNET_VERSION || version == FUNET_VERSION_DIRECT || version == FUNET_VERSION_HELLO;
}

static __always_inline int same(const struct funet_address *a, const struct funet_address *b)
{
	return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) | (a->word[3] ^ b->word[3]));
}

/* Judges a direct frame of a right length. It goes to the port of its destination node, without the
 * addresses and headers of hosts, if it came from the host of its source node. It never goes to the
 * kernel, nor to a socket of the NIC. A capture shows it as it came.
 */
static __always_inline int direct(struct xdp_md *ctx, const struct funet_header *ethernet, __u64 frame_len,
	struct found *found, int merged)
{
	const struct funet_header *header = found->header;
	__u64 tag = funet_le64(header->tag);
	__u16 gid = funet_le16(header->gid), card = funet_le16(header->destination_card);
	const struct funet_place *place = funet_place(tag, gid, funet_le16(header->source_card));
	const struct funet_port *port;
	struct funet_debtor debtor = {};
	struct funet_credit *credit;
	__u32 counter = FUNET_COUNT_DIRECT;
	struct funet_header *frame;

	if (!funet_udp_port)
		__builtin_memcpy(&found->from, ethernet->source_mac, sizeof(ethernet->source_mac));
	if (merged) {
		counter = FUNET_COUNT_MERGED;
	} else if (!place || place->kind < FUNET_KIND_HOST || place->ifindex != ctx->ingress_ifindex ||
		!same(&place->from, &found->from)) {
		counter = FUNET_COUNT_STRANGER;
	} else {
		debtor.host = place->host;
		place = funet_place(tag, gid, card);
		if (!place || place->kind != FUNET_KIND_PORT || !(port = funet_at(place, tag, gid, card)) ||
		    bpf_redirect_map(&funet_links, place->link, XDP_DROP) != XDP_REDIRECT) {
			counter = FUNET_COUNT_NO_PORT;
		} else if (port->low) {
			debtor.account = port->account;
			credit = bpf_map_lookup_elem(&funet_credits, &debtor);
			if (credit && credit->left < FUNET_CREDIT / 2)
				credit->left = FUNET_CREDIT;
		}
	}
	struct funet_seen seen = { .ifindex = ctx->ingress_ifindex, .verdict = FUNET_PORT_COUNTERS + counter };
	funet_show(ctx, 1, frame_len, &seen);
	if (counter != FUNET_COUNT_DIRECT)
		return count(counter, XDP_DROP);
	if (found->before && bpf_xdp_adjust_head(ctx, found->before))
		return count(FUNET_COUNT_NO_PORT, XDP_DROP);
	frame = (void *)(long)ctx->data;
	if ((void *)(frame + 1) > (void *)(long)ctx->data_end)
		return count(FUNET_COUNT_SHORT, XDP_DROP);
	__builtin_memset(frame, 0, sizeof(frame->destination_mac) + sizeof(frame->source_mac));
	frame->ethertype = funet_be16(FUNET_ETHERTYPE);
	return count(FUNET_COUNT_DIRECT, XDP_REDIRECT);
}

/* Table of CRC-32C (RFC 3720 B.4, reflected) for four bits: small enough to stay in the cache. */
static const __u32 funet_crc[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

/* Takes one from what a sender may have now, and reports whether there was one. */
static __always_inline int due(void *senders, const void *key, __u64 gap, __u64 at_once)
{
	__u64 now = bpf_ktime_get_ns(), first = now + gap, *next;

	next = bpf_map_lookup_elem(senders, key);
	if (!next) {
		bpf_map_update_elem(senders, key, &first, BPF_ANY);
		return 1;
	}
	first = *next > now ? *next : now;
	if (first - now > gap * (at_once - 1))
		return 0;
	*next = first + gap; /* frames on several CPUs may get a few more */
	return 1;
}

/* Answers a frame of a group that is absent here: it goes back as its header alone, which says so.
 * The sender's card holds the frame back for a while and sends it again. No answer is longer than
 * its frame, has packets, and so is answered, or goes to many stations.
 */
static __always_inline int defer(struct xdp_md *ctx, __u64 frame_len, const __u32 before)
{
	struct funet_header *header = (void *)(long)ctx->data;
	__u64 key = 0;
	__u8 mac[6];
	__u16 card;

	if ((void *)(header + 1) > (void *)(long)ctx->data_end)
		return count(FUNET_COUNT_SHORT, XDP_DROP);
	__builtin_memcpy(&key, header->source_mac, sizeof(header->source_mac));
	if ((header->source_mac[0] | header->destination_mac[0]) & 1 ||
	    !due(&funet_deferrals, &key, FUNET_DEFER_GAP, FUNET_DEFER_AT_ONCE) ||
	    bpf_xdp_adjust_tail(ctx, FUNET_FRAME_MIN + (int)before - (int)frame_len))
		return count(FUNET_COUNT_UNDEFERRED, XDP_DROP);
	header = (void *)(long)ctx->data;
	if ((void *)header + before + sizeof(*header) > (void *)(long)ctx->data_end)
		return count(FUNET_COUNT_UNDEFERRED, XDP_DROP);
	__builtin_memcpy(mac, header->source_mac, sizeof(mac));
	__builtin_memcpy(header->source_mac, header->destination_mac, sizeof(mac));
	__builtin_memcpy(header->destination_mac, mac, sizeof(mac));
	header = (void *)header + before;
	header->flags &= ~FUNET_FLAG_BLOCK;
	header->length = funet_le16(FUNET_HEADER_LEN);
	card = header->source_card;
	header->source_card = header->destination_card;
	header->destination_card = card;
	header->route = funet_le32((__u32)funet_le16(card));
	header->packets = 0;
	header->age = 0;
	__builtin_memset(&header->request_ack, 0, sizeof(*header) - __builtin_offsetof(struct funet_header, request_ack));

	const __u8 *byte = &header->version;
	__u32 crc = ~0U;
#pragma unroll
	for (int i = 0; i < (int)(sizeof(*header) - FUNET_ETHERNET_LEN - sizeof(header->crc32c)); i++) {
		crc ^= byte[i];
		crc = crc >> 4 ^ funet_crc[crc & 15];
		crc = crc >> 4 ^ funet_crc[crc & 15];
	}
	header->crc32c = funet_le32(~crc);
	return count(FUNET_COUNT_DEFERRED, XDP_TX);
}

/* What becomes of a frame that is at least its first buffer long. In a frame of several buffers
 * data and data_end bound the first, and that must hold the header: drivers put far more into it.
 */
static __always_inline int judge(struct xdp_md *ctx, __u64 frame_len, int frags)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct found found = { .header = data, .len = frame_len };

	if (funet_udp_port) {
		if (!datagram(data, end, frame_len, &found))
			return count(FUNET_COUNT_PASS, XDP_PASS);
	} else if (funet_vlan) {
		if (!tagged(data, end, frame_len, &found))
			return count(FUNET_COUNT_PASS, XDP_PASS);
	} else if (data + FUNET_ETHERNET_LEN > end || found.header->ethertype != funet_be16(FUNET_ETHERTYPE)) {
		return count(FUNET_COUNT_PASS, XDP_PASS);
	}
	/* The EtherType is FUNet's alone. To the UDP port others may send as well, for instance to a
	 * service of Kubernetes that has this port on the node.
	 */
	const int strange = funet_udp_port ? XDP_PASS : XDP_DROP;
	const struct funet_header *header = found.header;
	if ((void *)header + FUNET_FRAME_MIN > end || found.len < FUNET_FRAME_MIN)
		return count(FUNET_COUNT_SHORT, strange);
	if (header->version == FUNET_VERSION_PROBE)
		return count(FUNET_COUNT_PASS, XDP_PASS);
	if (header->version != FUNET_VERSION && header->version != FUNET_VERSION_HELLO &&
	    !(funet_direct && header->version == FUNET_VERSION_DIRECT))
		return count(FUNET_COUNT_BAD_VERSION, strange);

	/* One unsigned comparison for both ends: a length below the header's wraps round and is
	 * greater than any frame. The frame has been seen to hold the header, so the right side
	 * does not wrap.
	 */
	__u64 body = (__u64)funet_le16(header->length) - FUNET_HEADER_LEN;
	if (body > found.len - FUNET_FRAME_MIN)
		return count(FUNET_COUNT_BAD_LENGTH, strange);

	if (funet_direct && header->version == FUNET_VERSION_DIRECT)
		return direct(ctx, data, frame_len, &found, merged(ctx, &found, body, frags));
	if (header->version != FUNET_VERSION_HELLO) {
		/* The map has an entry for every GID of 11 bits, so its own bounds check is the test of
		 * the upper five.
		 */
		__u32 gid = funet_le16(header->gid);
		const __u8 *presence = bpf_map_lookup_elem(&funet_groups, &gid);
		if (!presence)
			return count(FUNET_COUNT_BAD_GID, strange);
		if (merged(ctx, &found, body, frags))
			return count(FUNET_COUNT_MERGED, XDP_DROP);
		if (*presence == FUNET_FOREIGN)
			return count(FUNET_COUNT_FOREIGN_GROUP, XDP_DROP);
		/* Over UDP there would be sums to make: the card answers. */
		if (funet_defers && !funet_udp_port && *presence == FUNET_ABSENT &&
		    (header->flags & ~(FUNET_FLAG_REPLY | FUNET_FLAG_BLOCK)) == FUNET_FLAG_DEFER &&
		    header->packets && !header->rejects)
			return defer(ctx, frame_len, funet_vlan ? sizeof(struct funet_vlan_tag) : 0);
	} else {
		if (!funet_udp_port) /* at the beginning of a frame is its source, tagged or not */
			__builtin_memcpy(&found.from, ((struct funet_header *)data)->source_mac, 6);
		if (!due(&funet_hellos, &found.from, FUNET_HELLO_GAP, FUNET_HELLO_AT_ONCE))
			return count(FUNET_COUNT_HELLOS, XDP_DROP);
	}

	/* Since Linux 5.3 the helper looks the socket up itself and returns its flags, here
	 * XDP_DROP, where there is none: bpf-helpers(7).
	 */
	if (bpf_redirect_map(&funet_sockets, ctx->rx_queue_index, XDP_DROP) != XDP_REDIRECT)
		return count(FUNET_COUNT_NO_SOCKET, XDP_DROP);
	return count(FUNET_COUNT_REDIRECTED + (ctx->rx_queue_index & (FUNET_COUNTED_QUEUES - 1)), XDP_REDIRECT);
}

SEC("xdp")
int funet_nic(struct xdp_md *ctx)
{
	return judge(ctx, (void *)(long)ctx->data_end - (void *)(long)ctx->data, 0);
}

/* For frames of several buffers. The driver must show all buffers to it (BPF_F_XDP_HAS_FRAGS, which
 * the section's name asks for; Linux 5.18).
 */
SEC("xdp.frags")
int funet_nic_frags(struct xdp_md *ctx)
{
	return judge(ctx, bpf_xdp_get_buff_len(ctx), 1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
