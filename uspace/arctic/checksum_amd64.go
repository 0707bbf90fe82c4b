package arctic

import "golang.org/x/sys/cpu"

// canFold reports that the processor has VPCLMULQDQ on 512 bits, and CRC32.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// hasCRC32 reports that the processor has the instruction of that name, which computes CRC-32C.
var hasCRC32 = cpu.X86.HasSSE42

// few returns the remainder of b, of any length, that starts from another. It is for few bytes, for
// which the standard library would spend time on their alignment first.
//
//go:noescape
func few(start uint32, b []byte) uint32

// sum is checksum for a short frame of HeaderSize bytes or more, as most frames are.
//
//go:noescape
func sum(b []byte) uint32

// fold returns the remainder of b, at least foldFrom bytes, a multiple of foldWord, from another.
//
//go:noescape
func fold(start uint32, b []byte, by *[4]uint64) uint32

// foldCopy is fold that also copies the bytes, to memory of the same size that does not overlap. It
// reads each byte once. Either memory may fault (debug.SetPanicOnFault).
//
//go:noescape
func foldCopy(start uint32, to, from []byte, by *[4]uint64) uint32
