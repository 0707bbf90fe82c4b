package arctic

// This file finishes a frame with a block, whose bytes it copies and sums at once.

import "encoding/binary"

// SealBlock is PutBlock and Seal at once, for a frame of which nothing but the block is missing. It
// copies data behind the only packet of the frame, a transfer of form Block that ends at n. It also
// writes length and checksum, and returns the frame's length. Data is read once, so the frame is
// whole also when somebody changes data meanwhile. The caller keeps to MaxBlock.
func SealBlock(b []byte, n int, data []byte) int {
	end := n + len(data)
	b = b[:end]
	b[15] |= flagBlock
	binary.LittleEndian.PutUint16(b[16:], uint16(end-EthernetSize))
	c := addChecksum(0, b[EthernetSize:crcOffset])
	c = addChecksum(c, b[crcAfter:n])
	binary.LittleEndian.PutUint32(b[crcOffset:], copyChecksum(c, b[n:], data))
	return end
}
