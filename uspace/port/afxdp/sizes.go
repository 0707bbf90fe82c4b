package afxdp

// This file computes the sizes of a port's memory: its rings and its UMEM frames. Open allocates
// all of it.

import (
	"math"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/encap"
)

const (
	rxSlots = 2048 // the size of the rx ring of a queue
	// rxFrames is the number of UMEM frames that a queue receives into. The kernel takes them in
	// turn, so a smaller number stays in the cache: 512 are 4 % faster in ping-pong than 2048, and
	// more than a peer's sequence window (engine.Window).
	rxFrames = 512
	txFrames = 512 // the number of UMEM frames to send, on all queues together
	// jumboReceived and jumboSent bound these numbers where a frame needs several UMEM frames: 4
	// and 16 MiB. The kernel receives into all of its UMEM frames in turn, and with more than 4 MiB
	// of them transfers are up to a tenth slower on veth. The 4 MiB hold 341 frames of an MTU of
	// 9000 and 56 of 65535. A peer that has more under way while the card is kept from running
	// loses some and sends them again. A frame to be sent takes the memory that was returned last.
	jumboReceived = 1024
	jumboSent     = 4096
	// headroom is the space that the kernel keeps free before a received frame, and room for a VLAN
	// tag.
	headroom = 256 + 4
	// MaxSingle is the longest frame in bytes that a port sends and receives without Config.Jumbo,
	// whatever the MTU.
	MaxSingle = 4096 - headroom
	maxLent   = 64 // the highest number of frames lent to the card at once
	// maxParts is the highest number of descriptors of a frame: MAX_SKB_FRAGS + 1 (af_xdp.rst),
	// which is no smaller in any kernel. The longest frame that FUNet's length field describes
	// needs 17 to be sent and 18 to be received.
	maxParts = 18
	longest  = arctic.EthernetSize + math.MaxUint16 // the length of the longest frame, in bytes
)

// sizes holds the sizes for an MTU. Ring sizes are powers of two.
type sizes struct {
	umemFrame uint32 // bytes
	wireMax   int    // bytes of the longest frame on the wire
	frameMax  int    // the same as the card sees it, without the headers of a datagram
	room      int    // bytes free in front of a frame that is to be sent
	rxParts   uint32 // UMEM frames that the longest frame is received into
	txParts   uint32 // UMEM frames that it is sent from
	rxSlots   uint32 // of the rx ring of a queue
	rxFrames  uint32 // UMEM frames of a queue and slots of its fill ring
	txFrames  uint32 // UMEM frames to send, on all queues together
	txSlots   uint32 // of the tx ring of a queue: room for all of them, always (transmit.go)
	doneSlots uint32 // of its completion ring
}

// sizes returns the sizes that the port needs. A UMEM frame for zero-copy has 4096 bytes even where
// 2048 are enough. Some drivers round the room behind the headroom down to a receive buffer size
// of their NIC. The drivers igb and igc round 2048 - 256 to 1024 bytes. Frames longer than that
// then break, including all other traffic on the interface. The kernel's copy rounds nothing, and
// there smaller frames stay in the cache.
func (c *Config) sizes(mtu int, zeroCopy bool) sizes {
	if !c.Jumbo {
		z := sizes{umemFrame: 2048, rxParts: 1, txParts: 1, rxSlots: rxSlots, rxFrames: rxFrames, txFrames: txFrames}
		if zeroCopy || mtu+arctic.EthernetSize+headroom > int(z.umemFrame) {
			z.umemFrame = 4096
		}
		z.wireMax = min(mtu+arctic.EthernetSize, int(z.umemFrame)-headroom)
		z.frame(c)
		z.slots()
		return z
	}
	z := sizes{umemFrame: 4096, wireMax: min(mtu+arctic.EthernetSize, longest)}
	z.frame(c)
	parts := func(bytes, room int) uint32 { return uint32((bytes + room - 1) / room) }
	z.rxParts, z.txParts = parts(z.wireMax, int(z.umemFrame)-headroom), parts(z.room+z.frameMax, int(z.umemFrame))
	z.rxFrames = min(powerOfTwo(rxFrames*z.rxParts), jumboReceived)
	z.rxSlots = max(rxSlots, z.rxFrames)
	// Whole slabs.
	z.txFrames = min(txFrames*z.txParts, jumboSent/z.txParts*z.txParts)
	z.slots()
	return z
}

// slots computes the sizes of the tx and completion rings.
func (z *sizes) slots() {
	z.doneSlots = powerOfTwo(z.txFrames)
	z.txSlots = 2 * z.doneSlots
}

// frame computes the part of a frame on the wire that the card sees. The headers of a datagram
// replace the Ethernet header and are longer. So a frame in a datagram ends no further behind the
// room than a frame without one.
func (z *sizes) frame(c *Config) {
	z.frameMax = z.wireMax
	if c.UDP != nil {
		z.room = encap.Room
		z.frameMax -= encap.Overhead(c.UDP.Local)
	}
	if c.VLAN != 0 {
		z.room = encap.Room
		z.frameMax -= TagSize
	}
	if c.Longest > 0 {
		z.frameMax = min(z.frameMax, c.Longest)
	}
}

// powerOfTwo returns the smallest power of two that is not less than n > 0.
func powerOfTwo(n uint32) uint32 { return 1 << bits.Len32(n-1) }

// sizeOr returns n, or the largest size if n is not positive or exceeds it.
func sizeOr(n int, largest uint32) uint32 {
	if n <= 0 || n > int(largest) {
		return largest
	}
	return uint32(n)
}
