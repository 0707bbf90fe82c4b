package daemon

// This file measures shared memory.

import (
	"fmt"
	"github.com/funet/funet/ctl/config"
	"testing"
)

// BenchmarkMemory measures making memory of each size in bytes and giving it back.
func BenchmarkMemory(b *testing.B) {
	for _, kind := range []config.MemoryKind{config.ImmutableMemory, config.WatchedMemory} {
		for _, size := range []int64{1 << 20, 256 << 20} {
			b.Run(fmt.Sprintf("%v/%d", kind, size), func(b *testing.B) {
				m, err := newMemory(kind)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(size)
				for b.Loop() {
					r, err := m.make("bench", size, nil)
					if err != nil {
						b.Fatal(err)
					}
					r.erase(0)
					r.close()
				}
			})
		}
	}
}
