package arctic

// This file is the checksum of frames, CRC-32C (RFC 3720 section 12.1, the polynomial of
// Castagnoli). The standard library's runs at some 18 GB/s; a frame of 9000 bytes would spend half
// a microsecond in it, a tenth of what the frame costs in all. Where the processor multiplies
// polynomials 512 bits wide, long frames are folded into few bytes that have the same remainder
// (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel
// 2009). A block is folded while it is copied into its frame, so that its bytes are loaded once.

import (
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	// foldFrom is the length in bytes from which folding is faster. Folding takes that many bytes
	// into the next as many, so it also needs at least that many.
	foldFrom = 256
	foldWord = 8 // a divisor of the number of folded bytes
	// fewBytes is the length up to which one instruction for each word is faster than the library.
	// The library first looks how the bytes are aligned and then sums three parts at once.
	fewBytes = 96
)

// checksum returns the CRC-32C of a frame without the field that holds it.
func checksum(b []byte) uint32 {
	if hasCRC32 && len(b) <= crcAfter+fewBytes {
		_ = b[crcAfter-1]
		return sum(b)
	}
	c := addChecksum(0, b[EthernetSize:crcOffset])
	return addChecksum(c, b[crcAfter:])
}

// addChecksum is crc32.Update with the table of Castagnoli.
func addChecksum(c uint32, b []byte) uint32 {
	if canFold && len(b) >= foldFrom {
		n := len(b) &^ (foldWord - 1)
		c = ^fold(^c, b[:n], &foldBy) // crc32 keeps the remainder inverted
		b = b[n:]
	}
	if hasCRC32 && len(b) <= fewBytes {
		return ^few(^c, b)
	}
	return crc32.Update(c, castagnoli, b)
}

// copyChecksum copies a block to memory of the same size and continues the checksum. It sums what
// it has written, because the block's owner may be changing the source.
func copyChecksum(c uint32, to, from []byte) uint32 {
	to = to[:len(from)]
	if canFold && len(from) >= foldFrom {
		n := len(from) &^ (foldWord - 1)
		c = ^foldCopy(^c, to[:n], from[:n], &foldBy)
		to, from = to[n:], from[n:]
	}
	copy(to, from)
	return addChecksum(c, to)
}

// foldBy has the factors that move the two halves of 16 bytes on: by the length that is folded at
// once, and by a quarter of it.
var foldBy = [4]uint64{power(8*foldFrom + 32), power(8*foldFrom - 32), power(2*foldFrom + 32), power(2*foldFrom - 32)}

// power returns x^n modulo the polynomial, with its bits in the checksum's order. It is a factor
// for a multiplication whose product has one bit less than its two halves.
func power(n int) uint64 {
	p := uint32(1)
	for range n {
		carry := p >> 31
		p = p<<1 ^ carry*bits.Reverse32(crc32.Castagnoli)
	}
	return uint64(bits.Reverse32(p)) << 1
}
