package arctic

// This file compares the checksum with the standard library's.

import (
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
		b := make([]byte, rapid.IntRange(0, 10_000).Draw(t, "length")+7)
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

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{256, 1024, 1442, 3442, 8942} {
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
