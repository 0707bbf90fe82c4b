package arctic

// This file finishes a frame with a block, which it copies and sums in one pass.

import "encoding/binary"

// SealBlock is PutBlock and Seal in one, for a frame that lacks only the block. It copies data
// behind the only packet of the frame, a transfer of form Block that ends at n. It also writes
// length and checksum, and returns the frame's length. It reads data once, so the frame is
// consistent even if data is changed meanwhile. The caller observes MaxBlock.
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
