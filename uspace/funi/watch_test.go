package funi_test

// This file tests the words that C compares in place of a poll.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

// A watch is still exactly while all bits that matter have their values, from Arm to the next
// Begin. One without words, or with too many, never is.
func TestWatchedWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.Uint32(), 0, funi.WatchWords+2).Draw(t, "words")
		masks := rapid.SliceOfN(rapid.SampledFrom([]uint32{0, 1, 0x3ff, 1 << 31, ^uint32(0)}), len(words),
			len(words)).Draw(t, "masks")
		var w funi.Watch
		w.Begin()
		for i := range words {
			w.Add(&words[i], words[i], masks[i])
		}
		if w.Still() {
			t.Fatal("it is still before Arm")
		}
		fits := len(words) > 0 && len(words) <= funi.WatchWords
		if got := w.Arm(); got != fits || w.Still() != fits {
			t.Fatalf("with %d words Arm is %v, and it is still: %v", len(words), got, w.Still())
		}
		if !fits {
			return
		}
		i := rapid.IntRange(0, len(words)-1).Draw(t, "which")
		change := rapid.Uint32().Draw(t, "change")
		words[i] ^= change
		if want := change&masks[i] == 0; w.Still() != want {
			t.Fatalf("after a change by %#x of a word with mask %#x it is still: %v", change, masks[i], !want)
		}
		words[i] ^= change
		if !w.Still() {
			t.Fatal("it is not still when the word is again as it was")
		}
		if w.Begin(); w.Still() {
			t.Fatal("it is still after Begin")
		}
	})
}
