//go:build ignore

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

/* guard.c: the guard of ports, a tc program at the ingress of their outer ends. It lets pass what the process of the port may send, to
 * the node that it is for, with the addresses that lead there; everything else is dropped and counted. Nothing
 * reaches the kernel's network stack.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "switch.h"

/* By the outer end's index; the loader makes an entry with the port. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, FUNET_PORTS);
	__type(key, __u32);
	__type(value, struct funet_port_counts);
} funet_port_counters SEC(".maps");

/* The counter is this CPU's own and tc programs do not nest on a port, so a plain add is enough. */
static __always_inline int count(__u32 ifindex, __u32 counter, int verdict)
{
	struct funet_port_counts *counts = bpf_map_lookup_elem(&funet_port_counters, &ifindex);

	if (counts && counter < FUNET_PORT_COUNTERS)
		counts->n[counter] += 1;
	return verdict;
}

SEC("tc")
int funet_guard(struct __sk_buff *skb)
{
	const __u32 from = skb->ifindex;
	const struct funet_port *port = bpf_map_lookup_elem(&funet_ports, &(__u32){ from });
	struct {
		__u8 to[6], from[6];
	} addresses = {};
	const struct funet_header *header;
	const struct funet_place *place;

	if (!port)
		return TC_ACT_SHOT; /* the port ends */
	if (skb->len < FUNET_FRAME_MIN || bpf_skb_pull_data(skb, FUNET_FRAME_MIN))
		return count(from, FUNET_PORT_SHORT, TC_ACT_SHOT);
	header = (void *)(long)skb->data;
	if ((void *)(header + 1) > (void *)(long)skb->data_end)
		return count(from, FUNET_PORT_SHORT, TC_ACT_SHOT);
	if (header->ethertype != funet_be16(FUNET_ETHERTYPE) || header->version != FUNET_VERSION_DIRECT)
		return count(from, FUNET_PORT_BAD_VERSION, TC_ACT_SHOT);
	if (funet_le16(header->gid) != port->gid || funet_le16(header->source_card) != port->card ||
	    funet_le64(header->tag) != port->tag)
		return count(from, FUNET_PORT_FORGED, TC_ACT_SHOT);
	if ((__u32)funet_le16(header->length) + FUNET_ETHERNET_LEN != skb->len)
		return count(from, FUNET_PORT_BAD_LENGTH, TC_ACT_SHOT);

	__u16 card = funet_le16(header->destination_card);
	place = funet_place(port->tag, port->gid, card);
	if (!place || place->kind == FUNET_KIND_NONE)
		return count(from, FUNET_PORT_NO_NODE, TC_ACT_SHOT);
	if (skb->len > place->longest)
		return count(from, FUNET_PORT_TOO_LONG, TC_ACT_SHOT);
	__u32 to = place->ifindex;
	if (place->kind == FUNET_KIND_PORT) {
		if (!funet_at(place, port->tag, port->gid, card))
			return count(from, FUNET_PORT_NO_NODE, TC_ACT_SHOT);
		bpf_skb_store_bytes(skb, 0, &addresses, sizeof(addresses), 0);
		return count(from, FUNET_PORT_LOCAL, bpf_redirect(to, 0));
	}
	__builtin_memcpy(addresses.to, place->mac, sizeof(addresses.to));
	__builtin_memcpy(addresses.from, place->own, sizeof(addresses.from));
	bpf_skb_store_bytes(skb, 0, &addresses, sizeof(addresses), 0);
	return count(from, FUNET_PORT_SENT, bpf_redirect(to, 0));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
