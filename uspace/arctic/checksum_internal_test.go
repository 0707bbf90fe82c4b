package arctic

// This file compares the checksum with the standard library's, also that of a block while it
// is copied.

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// Rule: the checksum is CRC-32C whatever the length (RFC 3720 appendix B.4 has the
// values of the first two).
func TestChecksum(t *testing.T) {
	ones := make([]byte, 32)
	for i := range ones {
		ones[i] = 0xff
	}
	for _, c := range []struct {
		b    []byte
		want uint32
	}{{make([]byte, 32), 0x8a9136aa}, {ones, 0x62a8ab43}, {nil, 0}} {
		if got := addChecksum(0, c.b); got != c.want {
			t.Errorf("%d bytes: %#x, want %#x", len(c.b), got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint32().Draw(t, "start")
		seed := rapid.Uint32().Draw(t, "seed")
		b := make([]byte, rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 10_000)).Draw(t, "length")+7)
		for i := range b {
			seed = seed*1664525 + 1013904223
			b[i] = byte(seed >> 24)
		}
		b = b[rapid.IntRange(0, 7).Draw(t, "offset"):]
		if got, want := addChecksum(start, b), crc32.Update(start, castagnoli, b); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", len(b), got, want)
		}
	})
	if !canFold {
		t.Log("this processor does not fold: the standard library was compared with itself")
	}
}

// Rule: the checksum of a frame is that of all of it but the Ethernet header and the checksum
// itself, whatever the frame's length.
func TestFrameChecksum(t *testing.T) {
	b := make([]byte, HeaderSize+400)
	for i := range b {
		b[i] = byte(i*131 + i>>5)
	}
	for n := HeaderSize; n <= len(b); n++ {
		f := b[:n:n]
		rest := append(append([]byte{}, f[EthernetSize:crcOffset]...), f[crcOffset+4:]...)
		if got, want := checksum(f), crc32.Checksum(rest, castagnoli); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
}

// Rule: a block that is copied with its checksum is copied as by copy and summed as by crc32,
// whatever its length and wherever it lies, and nothing beside it changes.
func TestCopyChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint32().Draw(t, "start")
		seed := rapid.Uint32().Draw(t, "seed")
		n := rapid.OneOf(rapid.IntRange(0, 1200), rapid.IntRange(0, 70_000)).Draw(t, "length")
		from := make([]byte, n+rapid.IntRange(0, 64).Draw(t, "source"))
		for i := range from {
			seed = seed*1664525 + 1013904223
			from[i] = byte(seed >> 24)
		}
		from = from[len(from)-n:]
		at := rapid.IntRange(0, 64).Draw(t, "destination")
		memory := bytes.Repeat([]byte{0xa5}, at+n+64)
		want := bytes.Clone(memory)
		copy(want[at:], from)
		if got, want := copyChecksum(start, memory[at:], from), crc32.Update(start, castagnoli, from); got != want {
			t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
		}
		if !bytes.Equal(memory, want) {
			t.Fatalf("%d bytes: another copy", n)
		}
	})
}

// Rule: the destination has room for the block.
func TestCopyChecksumRefuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a block was copied beyond its memory")
		}
	}()
	copyChecksum(0, make([]byte, 999), make([]byte, 1000))
}

// A block into a frame, by length: copied and summed at once, and one after the other.
func BenchmarkCopyChecksum(b *testing.B) {
	for _, n := range []int{256, 1408, 3728, 8912, 65440} {
		from, to := make([]byte, n), make([]byte, n)
		b.Run(fmt.Sprintf("fused/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				copyChecksum(0, to, from)
			}
		})
		b.Run(fmt.Sprintf("separate/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				copy(to, from)
				addChecksum(0, to)
			}
		})
		b.Run(fmt.Sprintf("copy/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				copy(to, from)
			}
		})
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{24, 62, 128, 200, 256, 300, 512, 1024, 1442, 3442, 8942} {
		data := make([]byte, n)
		b.Run(fmt.Sprintf("folded/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				addChecksum(0, data)
			}
		})
		b.Run(fmt.Sprintf("library/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				crc32.Update(0, castagnoli, data)
			}
		})
	}
}
