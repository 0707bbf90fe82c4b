package hello

// This file tests a port whose inside comes and goes.

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/port"
)

var _ port.Port = (*Port)(nil)

// inside counts what reaches a port.
type inside struct {
	size, sent int
	full       bool
	buffer     []byte
	waiting    [][]byte
	lent       bool
}

func (p *inside) FrameSize() int { return p.size }
func (p *inside) Receive(frames [][]byte) int {
	n := copy(frames, p.waiting)
	p.waiting = p.waiting[n:]
	p.lent = n > 0
	return n
}
func (p *inside) Release() { p.lent = false }
func (p *inside) Reserve() []byte {
	if p.full {
		return nil
	}
	if p.buffer == nil {
		p.buffer = make([]byte, p.size)
	}
	return p.buffer
}
func (p *inside) Commit(int) { p.sent++ }
func (p *inside) Flush()     {}

// Rule (package port: a port that has failed is a network that loses every frame): there is a
// buffer of the one frame size, unless a plugged-in port is full. Each frame goes to the plugged-in
// port or is counted as lost. Frames that a port has received come unchanged. All this holds
// whatever is plugged in and taken out in between.
func TestPlug(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 700
		in := &inside{size: size}
		p := NewPort(in)
		sent, lost := 0, uint64(0)
		frames := make([][]byte, 4)
		t.Repeat(map[string]func(*rapid.T){
			"plug in": func(t *rapid.T) {
				in = &inside{size: size}
				p.Plug(in)
				sent = 0
			},
			"take out": func(*rapid.T) { p.Plug(nil); in = nil },
			"full": func(*rapid.T) {
				if in != nil {
					in.full = !in.full
				}
			},
			"send": func(t *rapid.T) {
				b := p.Reserve()
				if in != nil && in.full {
					if b != nil {
						t.Fatal("a full port has a buffer")
					}
					return
				}
				if len(b) != size {
					t.Fatalf("a buffer of %d bytes", len(b))
				}
				p.Commit(rapid.IntRange(0, size).Draw(t, "bytes"))
				p.Flush()
				if in == nil {
					lost++
				} else {
					sent++
				}
			},
			"receive": func(t *rapid.T) {
				p.Release()
				// No hello.
				frame := rapid.SliceOfN(rapid.ByteMax(Version-1), 1, 20).Draw(t, "frame")
				if in == nil {
					if p.Receive(frames) != 0 {
						t.Fatal("a frame from nowhere")
					}
					return
				}
				if in.lent {
					t.Fatal("it still has frames that were given back")
				}
				in.waiting = append(in.waiting, frame)
				if n := p.Receive(frames); n != 1 || !bytes.Equal(frames[0], frame) {
					t.Fatalf("%d frames, %x", n, frames[0])
				}
			},
			"": func(t *rapid.T) {
				if p.FrameSize() != size || p.Lost() != lost || in != nil && in.sent != sent {
					t.Fatalf("size %d, lost %d of %d, sent of %d", p.FrameSize(), p.Lost(), lost, sent)
				}
			},
		})
	})
}

// Rule: a port for shorter frames makes those of the card shorter, also while nothing is plugged
// in, and one for longer ones lets them be as long again.
func TestPlugOfAnotherSize(t *testing.T) {
	p := NewPort(&inside{size: 700})
	for _, c := range []struct{ inner, want int }{{699, 699}, {0, 699}, {1, 1}, {700, 700}, {0, 700}} {
		if c.inner == 0 {
			p.Plug(nil)
		} else {
			p.Plug(&inside{size: c.inner})
		}
		if p.FrameSize() != c.want || len(p.Reserve()) != c.want {
			t.Errorf("a port of %d bytes: frames of %d, buffers of %d", c.inner, p.FrameSize(), len(p.Reserve()))
		}
	}
}
