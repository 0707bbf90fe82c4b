package arctic

import "golang.org/x/sys/cpu"

// canFold: the processor has VPCLMULQDQ on 512 bits, and CRC32.
var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// hasCRC32: the processor has the instruction of that name, which is CRC-32C.
var hasCRC32 = cpu.X86.HasSSE42

// few returns the remainder of b, of any length, that starts from another. It is for few bytes,
// of which the standard library would first look where they lie.
//
//go:noescape
func few(start uint32, b []byte) uint32

// sum is checksum of a frame, HeaderSize bytes or more, that is short as most are.
//
//go:noescape
func sum(b []byte) uint32

// fold returns the remainder of b, at least foldFrom bytes and a multiple of foldWord, that
// starts from another.
//
//go:noescape
func fold(start uint32, b []byte, by *[4]uint64) uint32

// foldCopy copies as many bytes as well, to memory of the same size that does not overlap, and
// reads each once. Either may be memory that faults (debug.SetPanicOnFault).
//
//go:noescape
func foldCopy(start uint32, to, from []byte, by *[4]uint64) uint32
