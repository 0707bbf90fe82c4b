package plug_test

import (
	"testing"

	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/plug"
)

// BenchmarkFrame measures a frame out and a look for one in, at a port that does nothing, and at
// the same one inside another.
func BenchmarkFrame(b *testing.B) {
	in := &inside{size: 1514}
	p := plug.New(1514)
	p.Plug(in)
	for name, p := range map[string]port.Port{"alone": in, "plugged": p} {
		b.Run(name, func(b *testing.B) {
			frames := make([][]byte, 64)
			for b.Loop() {
				p.Reserve()
				p.Commit(64)
				p.Flush()
				p.Release()
				p.Receive(frames)
			}
		})
	}
}
