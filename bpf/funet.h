/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* funet.h: what the programs in the kernel know of a FUNet frame: its constants, its header and
 * the names of what they count. Every eBPF program of FUNet includes it. doc.go draws the header.
 *
 * All fields are little-endian except the EtherType. A program reads a multi-byte field through
 * funet_le16 or funet_le32, so the same source is right on big-endian hosts.
 */
#ifndef FUNET_H
#define FUNET_H

#include <linux/types.h>

#define FUNET_ETHERTYPE 0x88B5 /* IEEE 802 local experimental EtherType 1 */
#define FUNET_ETHERTYPE_VLAN 0x8100
#define FUNET_ETHERTYPE_IPV4 0x0800
#define FUNET_ETHERTYPE_IPV6 0x86DD
#define FUNET_PROTOCOL_UDP 17
#define FUNET_VERSION 6
/* between the ports of one job's processes; the switch looks at nothing else (switch.h) */
#define FUNET_VERSION_DIRECT 7
/* a bundle of frames, which routers take apart (hub.c) */
#define FUNET_VERSION_BUNDLE 8
/* a probe of package ctl/doctor/probe, which the kernel's sockets get */
#define FUNET_VERSION_PROBE 0
/* a hello of package uspace/port/hello, which is of no group and the same in all versions */
#define FUNET_VERSION_HELLO 255
/* an Ethernet header without tags */
#define FUNET_ETHERNET_LEN 14
/* what follows it, up to the first packet */
#define FUNET_HEADER_LEN 66
#define FUNET_FRAME_MIN (FUNET_ETHERNET_LEN + FUNET_HEADER_LEN) /* a frame without packets */
#define FUNET_GROUPS 2048                                       /* a GID has 11 bits */
/* Flags of a frame: its level, that it has a block, and that the switch may answer it, or has
 * (doc.go, Absent groups). */
#define FUNET_FLAG_REPLY 0x01
#define FUNET_FLAG_BLOCK 0x08
#define FUNET_FLAG_DEFER 0x40
/* receive queues, unless the loader says otherwise */
#define FUNET_SOCKETS 64
/* a power of two; queue n counts as n modulo it */
#define FUNET_COUNTED_QUEUES 64
/* own IP addresses that datagrams are taken for */
#define FUNET_ADDRESSES 256

/* The start of every frame. Aligned to 4 and no more, because the 64-bit masks are not aligned
 * to 8; the compiler may still read every field up to 32 bits with one load. No program in the
 * kernel looks at the tag.
 */
struct funet_header {
	__u8 destination_mac[6];
	__u8 source_mac[6];
	__u16 ethertype; /* network byte order */
	__u8 version;
	__u8 flags;
	__u16 length; /* bytes from version to the end of the last packet, without Ethernet padding */
	__u16 gid;
	__u32 route;
	__u16 source_card;
	__u16 destination_card;
	__u8 packets;
	__u8 rejects;
	__u16 age;
	__u64 epoch;
	__u32 sequence;
	__u32 request_ack;
	__u64 request_ack_mask;
	__u32 reply_ack;
	__u64 reply_ack_mask;
	__u64 tag;
	__u32 crc32c;
} __attribute__((packed, aligned(4)));

/* Where FUNet's frames travel in UDP datagrams, these stand in front of what follows the EtherType
 * of struct funet_header. All fields are in network byte order. The addresses of packets are
 * aligned to 2 at most, and so are these.
 */
struct funet_vlan_tag {
	__u16 tci; /* the lower 12 bits are the VLAN's number, 0 for a tag with a priority only */
	__u16 ethertype;
} __attribute__((packed, aligned(2)));

struct funet_ipv4 {
	__u8 version_length; /* 0x45: version 4, five words, so no options */
	__u8 service;
	__u16 total_length;
	__u16 id;
	__u16 fragment; /* bit 14: do not fragment; bit 13: more follow; below: offset */
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
} __attribute__((packed, aligned(2)));

struct funet_ipv6 {
	__u8 version_class; /* upper four bits: 6 */
	__u8 class_flow[3];
	__u16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u8 source[16];
	__u8 destination[16];
} __attribute__((packed, aligned(2)));

struct funet_udp {
	__u16 source;
	__u16 destination;
	__u16 length;
	__u16 checksum;
} __attribute__((packed, aligned(2)));

/* An own address, as the key of funet_addresses; that of IPv4 is mapped into IPv6 (RFC 4291
 * 2.5.5.2). */
struct funet_address {
	__u32 word[4];
};

_Static_assert(sizeof(struct funet_header) == FUNET_FRAME_MIN, "the header ends where packets start");
_Static_assert(__builtin_offsetof(struct funet_header, version) == FUNET_ETHERNET_LEN,
	       "the version follows the EtherType");

/* What became of a frame: the places of the counters. Each frame moves exactly one by one. */
enum funet_counter {
	FUNET_COUNT_PASS,	   /* not FUNet, not as FUNet sends it, or a probe: left to the kernel */
	/* The next four are no frames of FUNet: dropped. In datagrams they are somebody else's: left to
	 * the kernel. */
	FUNET_COUNT_SHORT,	   /* it, or its first buffer, ends inside the header */
	FUNET_COUNT_BAD_VERSION,   /* another version */
	FUNET_COUNT_BAD_LENGTH,	   /* length below the header's or beyond the frame */
	FUNET_COUNT_BAD_GID,	   /* a GID of more than 11 bits */
	/* a datagram with another frame behind its own: the kernel merged several (GRO): dropped */
	FUNET_COUNT_MERGED,
	FUNET_COUNT_FOREIGN_GROUP, /* no context of this group on this host: dropped */
	FUNET_COUNT_NO_SOCKET,	   /* no AF_XDP socket serves this receive queue: dropped */
	/* a direct frame that is not from the host of a node of a job here: dropped */
	FUNET_COUNT_STRANGER,
	FUNET_COUNT_NO_PORT,	   /* a direct frame for a node without a port here: dropped */
	FUNET_COUNT_DIRECT,	   /* a direct frame, handed to a port */
	FUNET_COUNT_DEFERRED,	   /* of a group that is absent here: its sender was told so */
	/* the same, but the sender has had its answers, or cannot have any: dropped */
	FUNET_COUNT_UNDEFERRED,
	FUNET_COUNT_HELLOS,	   /* a hello of a source that has said many: dropped */
	/* handed to the socket of receive queue 0; of queue 1 is the next, and so on */
	FUNET_COUNT_REDIRECTED,
	FUNET_COUNTERS = FUNET_COUNT_REDIRECTED + FUNET_COUNTED_QUEUES,
};

/* The one value of funet_counters. */
struct funet_counts {
	__u64 n[FUNET_COUNTERS];
};

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define funet_be16(x) __builtin_bswap16(x)
#define funet_be32(x) __builtin_bswap32(x)
#define funet_le16(x) (x)
#define funet_le32(x) (x)
#define funet_le64(x) (x)
#else
#define funet_be16(x) (x)
#define funet_be32(x) (x)
#define funet_le16(x) __builtin_bswap16(x)
#define funet_le32(x) __builtin_bswap32(x)
#define funet_le64(x) __builtin_bswap64(x)
#endif

#endif
