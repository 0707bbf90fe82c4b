package main

// This file tests what `funet status --watch` puts on a terminal.

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Rule: whatever the status says, no line is longer than the terminal is wide, there are fewer
// lines than it has, so that it does not scroll, and what fits is there whole.
func TestScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide, high := rapid.IntRange(1, 120).Draw(t, "wide"), rapid.IntRange(2, 40).Draw(t, "high")
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-z ä]{0,150}`), 1, 60).Draw(t, "lines")
		out := screen(strings.Join(lines, "\n")+"\n", wide, high)
		if !strings.HasPrefix(out, home) || !strings.HasSuffix(out, restOfScreen) {
			t.Fatalf("%q", out)
		}
		got := strings.Split(strings.TrimSuffix(strings.TrimPrefix(out, home), restOfScreen), restOfLine+"\r\n")
		got = got[:len(got)-1]
		if len(got) >= high {
			t.Fatalf("%d lines on %d", len(got), high)
		}
		for i, l := range got {
			if utf8.RuneCountInString(l) > wide && !strings.Contains(l, "more lines") {
				t.Fatalf("line %q on %d columns", l, wide)
			}
			if len(lines) < high && utf8.RuneCountInString(lines[i]) <= wide && l != lines[i] {
				t.Fatalf("%q became %q", lines[i], l)
			}
		}
	})
}
