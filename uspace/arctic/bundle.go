package arctic

// This file has the format of a bundle: small frames for several stations in one Ethernet frame,
// which routers take apart on the way (bpf/hub.c). A station receives frames only, never a bundle.
// All of a bundle but its frames belongs to the routers. So no checksum covers it.
//
// Offsets in bytes from its first:
//
//	 0  0x0f, and zeros (5): a route of many stations, and the group bit
//	 6  source address (6)
//	12  EtherType 0x88B5, in network order (2)
//	14  version, 8 (1)             15  zero (1)
//	16  length (2): bytes from offset 14 to the end
//	18  frames, 2 to 8 (1)         19  zero (1)
//	20  ports (8): by which each frame left the last router, which that router writes
//	28  ends (16): offset behind the last byte of each frame
//	44  frames, each from its destination address on

import "encoding/binary"

const (
	VersionBundle    = 8 // the version of a bundle
	BundleHeaderSize = 44
	// MaxBundled is the most frames of a bundle.
	MaxBundled  = 8
	bundleRoute = 0x0f
	endsOffset  = 28
)

// PutBundle makes a bundle of 2 to MaxBundled frames, in b, and returns its length. All frames have
// the same source address. b has room for BundleHeaderSize and the frames.
func PutBundle(b []byte, frames [][]byte) int {
	clear(b[:BundleHeaderSize])
	b[0] = bundleRoute
	copy(b[6:14], frames[0][6:14])
	n := BundleHeaderSize
	for i, f := range frames {
		n += copy(b[n:], f)
		binary.LittleEndian.PutUint16(b[endsOffset+2*i:], uint16(n))
	}
	b[14], b[18] = VersionBundle, byte(len(frames))
	binary.LittleEndian.PutUint16(b[16:], uint16(n-14))
	return n
}

// Bundled appends the frames of a bundle to frames, and reports whether b is one. Then each is
// HeaderSize bytes or more. It accepts any bytes.
func Bundled(frames [][]byte, b []byte) (_ [][]byte, ok bool) {
	if len(b) < BundleHeaderSize || b[0] != bundleRoute || binary.BigEndian.Uint16(b[12:]) != EtherType ||
		b[14] != VersionBundle || b[18] < 2 || b[18] > MaxBundled {
		return frames, false
	}
	at := BundleHeaderSize
	for i := range int(b[18]) {
		end := int(binary.LittleEndian.Uint16(b[endsOffset+2*i:]))
		if end < at+HeaderSize || end > len(b) {
			return frames, false
		}
		frames = append(frames, b[at:end:end])
		at = end
	}
	return frames, true
}

// Bundles reports whether the frame may travel in a bundle: it is for one station, has packets, and
// is no greeting. What is lost is sent again then.
func (f Frame) Bundles() bool {
	return f[0]&1 == 0 && (f[14] == Version || f[14] == VersionDirect) && f[15]&flagHello == 0 && f[28] != 0
}

// DestinationCard returns the number of the card that the frame is for.
func (f Frame) DestinationCard() uint16 { return binary.LittleEndian.Uint16(f[26:]) }

// Epoch returns the frame's epoch.
func (f Frame) Epoch() uint64 { return binary.LittleEndian.Uint64(f[32:]) }
