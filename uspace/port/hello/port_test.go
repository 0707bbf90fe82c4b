package hello

// This file tests what a port sifts out.

import (
	"slices"
	"testing"
)

// Rule: frames that are no hellos pass in their order, hellos among them are kept, and what is too
// much or too short is dropped.
func TestSift(t *testing.T) {
	var in [][]byte
	other, short := make([]byte, 80), make([]byte, 40)
	short[versionAt] = Version
	good := make([]byte, Size)
	(&Message{Kind: Question}).Put(good, broadcast, [6]byte{2})
	for i := range 100 {
		o := slices.Clone(other)
		o[20] = byte(i)
		in = append(in, o, good)
	}
	in = append(in, short)
	p := NewPort(&frames{in: in})
	list := make([][]byte, len(in))
	if n := p.Receive(list); n != 100 {
		t.Fatalf("%d frames", n)
	}
	for i, b := range list[:100] {
		if b[20] != byte(i) {
			t.Fatalf("frame %d is %d", i, b[20])
		}
	}
	if p.n != kept || p.dropped != 100-kept+1 {
		t.Errorf("%d kept, %d dropped", p.n, p.dropped)
	}
}

type frames struct {
	sink
	in [][]byte
}

func (f *frames) Receive(frames [][]byte) int { return copy(frames, f.in) }
