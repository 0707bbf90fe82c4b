package engine

// This file holds what a peer costs (doc.go).

import (
	"testing"
	"unsafe"
)

// Rule: an idle peer costs at most 256 bytes, with its places in the table of card
// numbers and in the timers' heap; and what doc.go says of a flow in use is so.
func TestWhatAPeerCosts(t *testing.T) {
	place := unsafe.Sizeof((*peer)(nil))
	if n := unsafe.Sizeof(peer{}) + 2*place; n > 256 {
		t.Errorf("an idle peer costs %d bytes, want at most 256", n)
	}
	for _, c := range []struct {
		what string
		got  uintptr
		most uintptr
	}{
		{"flow", unsafe.Sizeof(flow{}), 416},
		{"window of frames", unsafe.Sizeof([Window]frame{}), 6 << 10},
		{"rejected", unsafe.Sizeof(rejected{}), 32},
		{"stream", unsafe.Sizeof(stream{}), 96},
	} {
		if c.got > c.most {
			t.Errorf("a %s costs %d bytes, want at most %d", c.what, c.got, c.most)
		}
	}
}
