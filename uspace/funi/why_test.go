package funi_test

// This file tests how a process learns why its context has ended.

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

// Rule (doc.go, 0x500): a process reads why its context ended as the card wrote it, up to 255
// bytes, and nothing of it before the context has ended; whatever it writes there itself is text at
// most.
func TestWhy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p funi.Page
		why := strings.ReplaceAll(rapid.String().Draw(t, "why"), "\x00", "")
		p.PutWhy(strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "before")))
		p.PutWhy(why)
		if p.Err() != nil {
			t.Fatal("it ended before it was told")
		}
		p.PutGone()
		want := why[:min(len(why), 255)]
		if p.Why() != want {
			t.Fatalf("%q became %q", why, p.Why())
		}
		if err := p.Err(); !errors.Is(err, funi.ErrDetached) || !strings.Contains(err.Error(), want) {
			t.Fatal(err)
		}
		for i := 0x500 / 4; i < 0x600/4; i++ {
			p[i] = rapid.Uint32().Draw(t, "word")
		}
		if len(p.Why()) > 255 {
			t.Fatalf("%d bytes", len(p.Why()))
		}
	})
}
