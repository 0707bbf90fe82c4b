package funi_test

// This file tests segments: which address memory has.

import (
	"testing"

	"github.com/funet/funet/uspace/funi"
)

// TestAddressOfMemory: memory that lies in a segment has the address at which the segment gives it
// back; what does not, or not wholly, or in one without the right, has none.
func TestAddressOfMemory(t *testing.T) {
	all := make([]byte, 256)
	var s funi.Segments
	for base, g := range map[uint32]funi.Segment{
		0x100: {Memory: all[32:96:96], Rights: funi.Source},
		0x400: {Memory: all[96:160:160], Rights: funi.Source | funi.Destination},
		0x800: {Memory: all[160:224:224], Rights: funi.Destination},
	} {
		g.Base = base
		if err := s.Register(g); err != nil {
			t.Fatal(err)
		}
	}
	for at := range all {
		for size := range min(70, len(all)-at) {
			b := all[at : at+size]
			address, ok := s.Address(b, funi.Source)
			want := at >= 32 && at+size <= 96 && at < 96 || at >= 96 && at+size <= 160 && at < 160
			if ok != want {
				t.Fatalf("%d bytes at %d: %v, want %v", size, at, ok, want)
			}
			if !ok || size == 0 {
				continue
			}
			if m := s.Memory(address, size, funi.Source); m == nil || &m[0] != &b[0] {
				t.Fatalf("%d bytes at %d are said to be at %#x", size, at, address)
			}
		}
	}
}
