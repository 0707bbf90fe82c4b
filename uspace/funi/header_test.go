package funi_test

// This file holds the rules of the header word.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

// Rule: XFER is bit 31, type 29:21, length 20:16, node 15:0 (thesis 3.2.2), and
// what NewHeader composes, the accessors take apart again.
func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.Uint16().Draw(t, "node")
		typ := rapid.Uint16Range(0, funi.MaxType).Draw(t, "type")
		words := rapid.IntRange(0, funi.MaxPayloadWords).Draw(t, "words")
		h := funi.NewHeader(node, typ, words)
		if want := uint32(typ)<<21 | uint32(words)<<16 | uint32(node); uint32(h) != want {
			t.Fatalf("header %#x, want %#x", uint32(h), want)
		}
		if h.Transfer() || h.Type() != typ || h.Length() != words || h.Node() != node {
			t.Fatalf("header %#x came apart as transfer %v type %d length %d node %d", uint32(h), h.Transfer(),
				h.Type(), h.Length(), h.Node())
		}
	})
}

// Rule: any word is a header. Bit 30 is not used, and a length above 21 counts as
// 21 (thesis 3.2.2), so a payload never leaves its slot.
func TestAnyWordIsAHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.Uint32().Draw(t, "word")
		h := funi.Header(w)
		if h.Transfer() != (w>>31 == 1) || h.Type() != uint16(w>>21&0x1ff) || h.Node() != uint16(w) {
			t.Fatalf("header %#x came apart as transfer %v type %d node %d", w, h.Transfer(), h.Type(), h.Node())
		}
		if n, want := h.Length(), min(int(w>>16&31), 21); n != want {
			t.Fatalf("header %#x has length %d, want %d", w, n, want)
		}
		if g := funi.Header(w ^ 1<<30); g.Transfer() != h.Transfer() || g.Type() != h.Type() ||
			g.Length() != h.Length() || g.Node() != h.Node() {
			t.Fatalf("bit 30 of header %#x means something", w)
		}
		var s funi.Slot
		s.SetHeader(h)
		if s.Header() != h || len(s.Payload()) != h.Length() {
			t.Fatalf("slot with header %#x has %d words of payload", w, len(s.Payload()))
		}
	})
}

// Rule: a type above nine bits loses its upper bits and does not spill into XFER (NewHeader).
func TestTypeDoesNotSpill(t *testing.T) {
	if h := funi.NewHeader(1, 0xffff, 2); h.Transfer() || h.Type() != funi.MaxType || h.Length() != 2 || h.Node() != 1 {
		t.Fatalf("type 0xffff made header %#x", uint32(h))
	}
}
