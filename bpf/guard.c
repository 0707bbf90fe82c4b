//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

/* guard.c: the guard of ports, at the ingress of their outer ends. It lets pass what the process of
 * the port may send, to the node that it is for, with the addresses that lead there; everything
 * else is dropped and counted. Nothing reaches the kernel's network stack. There are two of it, for
 * tc and for generic XDP (doc.go, Ports).
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "bundle.h"
#include "capture.h"

/* What the guard has of a frame that passes. Sums are of 16-bit words as they lie in memory (RFC
 * 1071). */
struct passed {
	const struct funet_place *to; /* none: it is a bundle, or does not pass */
	__u32 len;
	__u32 ifindex; /* of the interface that it leaves by */
	__u32 frames;  /* that count: those of a bundle, else 1 */
	/* of what follows the Ethernet header, as the process says: it alone suffers where it is
	 * wrong */
	__u16 sum;
	/* by how much the source port of its datagram is above the first (package encap, sourceOf) */
	__u16 flow;
};

/* Takes a part of an account's credit with a host, or what has trickled; 0: less than len bytes. */
static __always_inline int part(struct funet_port *port, __u16 host, __u32 len)
{
	struct funet_debtor key = { .account = port->account, .host = port->host };
	struct funet_credit *c;
	__s64 bytes = FUNET_CREDIT_PART;

	if (port->host != host) { /* the rest of the part goes back */
		c = bpf_map_lookup_elem(&funet_credits, &key);
		if (c && port->left > 0)
			__sync_fetch_and_add(&c->left, port->left);
		port->host = host;
		port->left = 0;
	}
	key.host = host;
	c = bpf_map_lookup_elem(&funet_credits, &key);
	if (!c) {
		struct funet_credit first = { .left = FUNET_CREDIT };

		bpf_map_update_elem(&funet_credits, &key, &first, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&funet_credits, &key);
		if (!c)
			return 0;
	}
	/* also where it gets nothing: an answer opens the credit */
	port->low = c->left < FUNET_CREDIT / 2 + FUNET_CREDIT_PART;
	if (c->left < FUNET_CREDIT_PART) {
		__u64 now = bpf_ktime_get_ns();

		bytes = (now - c->at) >> 10;
		if (bytes > FUNET_CREDIT_TRICKLE)
			bytes = FUNET_CREDIT_TRICKLE;
		if (port->left + bytes < (__s64)len)
			return 0;
		c->at = now;
	} else {
		__sync_fetch_and_add(&c->left, -bytes);
	}
	port->left += bytes;
	return 1;
}

/* Takes a frame's bytes off what the port's account may send to a host that has sent nothing since;
 * 0: there is no more. */
static __always_inline int credit(struct funet_port *port, __u16 host, __u32 len)
{
	if (!port->account)
		return 1;
	if ((port->host != host || port->left < (__s32)len) && !part(port, host, len))
		return 0;
	port->left -= len;
	return 1;
}

/* What counts for a frame of a port that is len bytes long. Where it passes, so far as the frame
 * says, to is where it goes. */
static __always_inline __u32 judge(const struct funet_port *port, const struct funet_header *header, __u32 len,
	const struct funet_place **to)
{
	const struct funet_place *place;
	__u64 tag;
	__u16 gid, card;

	if (header->ethertype != funet_be16(FUNET_ETHERTYPE) || header->version != FUNET_VERSION_DIRECT)
		return FUNET_PORT_BAD_VERSION;
	gid = funet_le16(header->gid);
	tag = funet_le64(header->tag);
	if (gid != port->gid || funet_le16(header->source_card) != port->card || tag != port->tag)
		return FUNET_PORT_FORGED;
	/* As in nic.c. It may be longer than its length: a card tries so whether longer frames pass
	 * (RFC 4821). */
	if ((__u64)funet_le16(header->length) - FUNET_HEADER_LEN > len - FUNET_FRAME_MIN)
		return FUNET_PORT_BAD_LENGTH;

	card = funet_le16(header->destination_card);
	place = funet_place(tag, gid, card);
	if (!place || place->kind == FUNET_KIND_NONE)
		return FUNET_PORT_NO_NODE;
	if (len > place->longest)
		return FUNET_PORT_TOO_LONG;
	*to = place;
	if (place->kind != FUNET_KIND_PORT)
		return FUNET_PORT_SENT;
	return funet_at(place, tag, gid, card) ? FUNET_PORT_LOCAL : FUNET_PORT_NO_NODE;
}

/* What counts for a frame that is no bundle. */
static __always_inline __u32 single(struct funet_port *port, const struct funet_header *header, struct passed *p)
{
	const struct funet_place *place = 0;
	__u32 counter = judge(port, header, p->len, &place);
	__u16 card = funet_le16(header->destination_card);

	if (counter < FUNET_PORT_SENT || !place)
		return counter;
	if (counter == FUNET_PORT_SENT && !credit(port, place->host, p->len))
		return FUNET_PORT_NO_CREDIT;
	p->to = place;
	p->ifindex = place->ifindex;
	p->sum = *(const __u16 *)header->destination_mac;
	p->flow = (((__u64)card << 16 | port->card) << 1 | (header->flags & 1)) * 0x9e3779b97f4a7c15 >> 60;
	return counter;
}

/* Judges the frame of a bundle that begins at an offset, and gives it its addresses. Routers copy
 * all of the bundle for each of its frames, at worst. So each is charged as much as a frame of the
 * bundle's length. Returns the interface that it leaves by, or, inverted, the counter of why the
 * bundle is dropped. */
static __always_inline int bundled(struct funet_port *port, void *data, void *end, __u32 at, __u32 len,
	__u32 whole)
{
	struct funet_header *header = data + (at & (FUNET_BUNDLE_MAX - 1));
	const struct funet_place *place = 0;
	__u32 counter;

	if (!port || (void *)(header + 1) > end)
		return ~FUNET_PORT_SHORT;
	counter = judge(port, header, len, &place);
	if (counter < FUNET_PORT_SENT)
		return ~counter;
	if (!place || place->kind != FUNET_KIND_ROUTED) /* nobody takes bundles apart on the way */
		return ~FUNET_PORT_NO_NODE;
	if (whole > place->longest)
		return ~FUNET_PORT_TOO_LONG;
	if (!credit(port, place->host, whole))
		return ~FUNET_PORT_NO_CREDIT;
	__builtin_memcpy(header, place->head, sizeof(header->destination_mac) + sizeof(header->source_mac));
	return place->ifindex;
}

/* These are functions of their own so that the verifier looks at each once. */
__noinline int funet_guard_bundled(struct __sk_buff *skb, __u32 at, __u32 len, __u32 whole)
{
	return bundled(bpf_map_lookup_elem(&funet_ports, &(__u32){ skb->ifindex }), (void *)(long)skb->data,
		       (void *)(long)skb->data_end, at, len, whole);
}

__noinline int funet_guard_bundled_xdp(struct xdp_md *ctx, __u32 at, __u32 len, __u32 whole)
{
	return bundled(bpf_map_lookup_elem(&funet_ports, &(__u32){ ctx->ingress_ifindex }), (void *)(long)ctx->data,
		       (void *)(long)ctx->data_end, at, len, whole);
}

static __always_inline void *data_of(void *ctx, const int xdp)
{
	return xdp ? (void *)(long)((struct xdp_md *)ctx)->data : (void *)(long)((struct __sk_buff *)ctx)->data;
}

static __always_inline void *end_of(void *ctx, const int xdp)
{
	return xdp ? (void *)(long)((struct xdp_md *)ctx)->data_end : (void *)(long)((struct __sk_buff *)ctx)->data_end;
}

/* What counts for a bundle, or each of its frames if it passes. All of it passes or nothing: each
 * frame must be one that would pass alone, to a host behind routers that take bundles apart. */
static __always_inline __u32 bundle(void *ctx, const int xdp, struct passed *p)
{
	struct funet_bundle *bundle = data_of(ctx, xdp);
	__u32 at = sizeof(*bundle), frames, i;
	struct funet_header *first;

	if ((void *)(bundle + 1) > end_of(ctx, xdp))
		return FUNET_PORT_SHORT;
	frames = bundle->frames;
	if (frames < 2 || frames > FUNET_BUNDLE_FRAMES || funet_le16(bundle->length) != p->len - FUNET_ETHERNET_LEN)
		return FUNET_PORT_BAD_LENGTH;
	for (i = 0; i < FUNET_BUNDLE_FRAMES && i < frames; i++) {
		__u32 here = at, len;
		int to;

		bundle = data_of(ctx, xdp);
		if ((void *)(bundle + 1) > end_of(ctx, xdp))
			return FUNET_PORT_SHORT;
		at = funet_le16(bundle->end[i]);
		len = at - here;
		if (at < here + FUNET_FRAME_MIN || len > FUNET_BUNDLED_LONGEST || at > p->len)
			return FUNET_PORT_BAD_LENGTH;
		to = xdp ? funet_guard_bundled_xdp(ctx, here, len, p->len) : funet_guard_bundled(ctx, here, len, p->len);
		if (to < 0)
			return ~to;
		if (i && to != (int)p->ifindex) /* one bundle takes one way */
			return FUNET_PORT_NO_NODE;
		p->ifindex = to;
	}
	if (at != p->len)
		return FUNET_PORT_BAD_LENGTH;
	bundle = data_of(ctx, xdp);
	first = (void *)(bundle + 1);
	if ((void *)(first + 1) > end_of(ctx, xdp))
		return FUNET_PORT_SHORT;
	__builtin_memset(bundle->destination_mac, 0, sizeof(bundle->destination_mac));
	bundle->destination_mac[0] = FUNET_HUB_ROUTES;
	__builtin_memcpy(bundle->source_mac, first->source_mac, sizeof(bundle->source_mac));
	p->frames = frames;
	return FUNET_PORT_SENT;
}

static __always_inline int is_bundle(const struct funet_header *header)
{
	return header->ethertype == funet_be16(FUNET_ETHERTYPE) && header->version == FUNET_VERSION_BUNDLE;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Writes the headers that lead to a host, of that many bytes, with what is the frame's own:
 * lengths, source port and checksums. */
static __always_inline int head(void *data, void *end, const struct passed *p, const __u32 size)
{
	const __u16 *from = (const __u16 *)p->to->head;
	__u16 *to = data;

	if (data + size > end)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < size / sizeof(*to); i++)
		to[i] = from[i];
	if (size <= FUNET_HEAD_VLAN)
		return 1;

	struct funet_udp *udp = data + size - sizeof(*udp);
	__u16 len = p->len - FUNET_ETHERNET_LEN + sizeof(*udp), sum;
	if (size <= FUNET_HEAD_IPV4_VLAN) {
		struct funet_ipv4 *ip = (void *)udp - sizeof(*ip);

		ip->total_length = funet_be16((__u16)(len + sizeof(*ip)));
		ip->checksum = ~fold((__u32)p->to->ip_sum + ip->total_length);
	} else {
		struct funet_ipv6 *ip = (void *)udp - sizeof(*ip);

		ip->payload_length = funet_be16(len);
	}
	udp->source = funet_be16((__u16)(funet_be16(udp->destination) + p->flow));
	udp->length = funet_be16(len);
	sum = ~fold((__u32)p->to->udp_sum + udp->source + 2 * (__u32)udp->length + p->sum);
	udp->checksum = sum ? sum : 0xffff; /* 0 would say that there is none (RFC 768) */
	return 1;
}

/* Writes what stands in front of a frame that passes, behind which there is room for it. */
static __always_inline int headed(void *data, void *end, const struct passed *p)
{
	switch (p->to->size) {
	case FUNET_HEAD_ETHERNET:
		return head(data, end, p, FUNET_HEAD_ETHERNET);
	case FUNET_HEAD_VLAN:
		return head(data, end, p, FUNET_HEAD_VLAN);
	case FUNET_HEAD_IPV4:
		return head(data, end, p, FUNET_HEAD_IPV4);
	case FUNET_HEAD_IPV4_VLAN:
		return head(data, end, p, FUNET_HEAD_IPV4_VLAN);
	case FUNET_HEAD_IPV6:
		return head(data, end, p, FUNET_HEAD_IPV6);
	case FUNET_HEAD_IPV6_VLAN:
		return head(data, end, p, FUNET_HEAD_IPV6_VLAN);
	}
	return 0;
}

/* A frame for another port of this host carries no addresses. */
static __always_inline int bare(struct funet_header *header, void *end)
{
	if ((void *)(header + 1) > end)
		return 0;
	__builtin_memset(header, 0, sizeof(header->destination_mac) + sizeof(header->source_mac));
	return 1;
}

/* Counts a frame, or those of a bundle, as it leaves or was dropped, and shows it to who captures.
 * The port's counters are those of the CPU that its frames come on, as a rule; an atomic add is
 * cheaper than a map of each CPU's.
 */
static __always_inline void told(void *ctx, const int xdp, __u32 length, struct funet_port *port, __u32 counter,
	const struct passed *p)
{
	struct funet_seen seen = { .gid = port->gid, .card = port->card, .verdict = counter };

	__u64 at = counter;

	/* The verifier knows nothing of what another function returns, and verifiers before Linux 6.8
	 * want the same register compared and added. */
	asm volatile("" : "+r"(at));
	if (at < FUNET_PORT_COUNTERS)
		__sync_fetch_and_add(&port->n[at], p->frames);
	if (counter == FUNET_PORT_SENT)
		seen.ifindex = p->ifindex;
	funet_show(ctx, xdp, length, &seen);
}

SEC("tc")
int funet_guard(struct __sk_buff *skb)
{
	struct funet_port *port = bpf_map_lookup_elem(&funet_ports, &(__u32){ skb->ifindex });
	struct passed p = { .len = skb->len, .frames = 1 };
	__u32 counter = FUNET_PORT_SHORT;
	int verdict = TC_ACT_SHOT;
	struct funet_header *header;

	if (!port)
		return TC_ACT_SHOT; /* the port ends */
	if (!bpf_skb_pull_data(skb, FUNET_FRAME_MIN)) {
		header = (void *)(long)skb->data;
		if ((void *)(header + 1) > (void *)(long)skb->data_end)
			counter = FUNET_PORT_SHORT;
		else if (!is_bundle(header))
			counter = single(port, header, &p);
		else if (!bpf_skb_pull_data(skb, p.len))
			counter = bundle(skb, 0, &p);
	}
	if (counter == FUNET_PORT_LOCAL && bare((void *)(long)skb->data, (void *)(long)skb->data_end)) {
		verdict = bpf_redirect(p.ifindex, 0);
	} else if (counter == FUNET_PORT_SENT) {
		if (p.to && ((p.to->size > FUNET_ETHERNET_LEN &&
			      bpf_skb_change_head(skb, p.to->size - FUNET_ETHERNET_LEN, 0)) ||
			     !headed((void *)(long)skb->data, (void *)(long)skb->data_end, &p))) {
			counter = FUNET_PORT_TOO_LONG;
		} else {
			/* Queueing disciplines such as fq_codel and fq, and the choice among a NIC's queues, go
			 * by it: accounts share a full NIC. */
			bpf_set_hash(skb, port->account * 0x9e3779b1);
			verdict = bpf_redirect(p.ifindex, 0);
		}
	}
	told(skb, 0, skb->len, port, counter, &p);
	return verdict;
}

SEC("xdp")
int funet_guard_xdp(struct xdp_md *ctx)
{
	struct funet_port *port = bpf_map_lookup_elem(&funet_ports, &(__u32){ ctx->ingress_ifindex });
	struct funet_header *header = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct passed p = { .len = end - (void *)header, .frames = 1 };
	int verdict = XDP_DROP;
	__u32 counter;

	if (!port)
		return XDP_DROP;
	if ((void *)(header + 1) > end)
		counter = FUNET_PORT_SHORT;
	else if (!is_bundle(header))
		counter = single(port, header, &p);
	else
		counter = bundle(ctx, 1, &p);
	if (counter == FUNET_PORT_LOCAL && bare((void *)(long)ctx->data, (void *)(long)ctx->data_end)) {
		verdict = bpf_redirect(p.ifindex, 0);
	} else if (counter == FUNET_PORT_SENT) {
		if (p.to && ((p.to->size > FUNET_ETHERNET_LEN &&
			      bpf_xdp_adjust_head(ctx, FUNET_ETHERNET_LEN - (int)p.to->size)) ||
			     !headed((void *)(long)ctx->data, (void *)(long)ctx->data_end, &p)))
			counter = FUNET_PORT_TOO_LONG;
		else
			verdict = bpf_redirect(p.ifindex, 0);
	}
	told(ctx, 1, (__u32)((void *)(long)ctx->data_end - (void *)(long)ctx->data), port, counter, &p);
	return verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
