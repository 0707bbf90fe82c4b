package arctic

import "golang.org/x/sys/cpu"

// canFold: the processor has VPCLMULQDQ on 512 bits, and CRC32.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// fold returns the remainder of b, a positive multiple of 256 bytes, that starts from
// another.
//
//go:noescape
func fold(start uint32, b []byte, by *[4]uint64) uint32
