/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/* bundle.h: the header of a bundle (uspace/arctic/bundle.go). Routers take bundles apart (hub.c),
 * and the guard checks those of ports (guard.c).
 */
#ifndef FUNET_BUNDLE_H
#define FUNET_BUNDLE_H

#include "funet.h"

/* the first byte of a bundle's destination address: a route for many stations */
#define FUNET_HUB_ROUTES 0x0f
#define FUNET_BUNDLE_FRAMES 8
#define FUNET_BUNDLE_MAX 4096 /* bytes; a power of two */
#define FUNET_BUNDLED_LONGEST 256 /* bytes of a port's frame in a bundle */

/* A bundle: whole frames for several stations, one behind the other. Each frame has its own
 * route. Each router sends the bundle to the ports that its frames need, and the frames of one
 * port are the others' no more. It leaves a router with several frames for that port as it came,
 * else as the frame. */
struct funet_bundle {
	__u8 destination_mac[6];
	__u8 source_mac[6];
	__u16 ethertype; /* network byte order */
	__u8 version;
	__u8 flags;
	__u16 length; /* bytes from version to the end of the last frame */
	__u8 frames;
	__u8 reserved;
	/* of each frame, the port by which it left the last router */
	__u8 port[FUNET_BUNDLE_FRAMES];
	__u16 end[FUNET_BUNDLE_FRAMES]; /* of each frame, from the start of the bundle */
} __attribute__((packed, aligned(4)));

#endif
