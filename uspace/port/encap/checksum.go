package encap

// This file computes the Internet checksum (RFC 1071). It sums 16-bit words as they lie in memory,
// read little-endian. The ones' complement sum is the same in either byte order (section 2, B), so
// a sum is stored as the words were read.

import (
	"encoding/binary"
	"math/bits"
)

// sum adds the words of b to a sum that is not folded. An odd last byte counts as if a zero
// followed.
func sum(s uint64, b []byte) uint64 {
	var carry uint64
	for len(b) >= 32 {
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b), 0)
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[8:]), carry)
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[16:]), carry)
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[24:]), carry)
		s += carry // it does not overflow: a sum that carried is below what was added
		b = b[32:]
	}
	for len(b) >= 8 {
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b), 0)
		s += carry
		b = b[8:]
	}
	var last uint64
	for i := range b {
		last |= uint64(b[i]) << (8 * i)
	}
	s, carry = bits.Add64(s, last, 0)
	return s + carry
}

// fold reduces a sum to 16 bits. The result is 0 only if all words that were added were 0.
func fold(s uint64) uint16 {
	s = s&0xffffffff + s>>32
	s = s&0xffffffff + s>>32
	s = s&0xffff + s>>16
	s = s&0xffff + s>>16
	return uint16(s)
}

// network converts a number into the value that its two bytes in network order have when read
// little-endian.
func network(v uint16) uint64 { return uint64(bits.ReverseBytes16(v)) }
