package engine

// This file holds the rule of who pays for guessed keys (keyslot.go).

import (
	"testing"

	"pgregory.net/rapid"
)

// Rule: whatever nodes guess, a node is held up only if it has itself brought a thousand wrong keys
// in this second, and none brings more than that: of a node without a count no wrong key is
// answered. In the next second all are free.
func TestWhoGuessesPays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g guesses
		told := map[uint16]int{}
		node := rapid.OneOf(rapid.SampledFrom([]uint16{7, 71, 135, 199, 263, 8, 72}), rapid.Uint16())
		now := int64(5)
		for range rapid.IntRange(1, 100).Draw(t, "turns") {
			if rapid.IntRange(0, 30).Draw(t, "later") == 0 && len(told) > 0 {
				now = g.until
				clear(told)
			}
			n := node.Draw(t, "node")
			for range rapid.SampledFrom([]int{1, 999, 1000, 1001}).Draw(t, "guesses") {
				if !g.tooMany(n, now) && g.note(n, now) {
					told[n]++
				}
			}
			for m, k := range told {
				if k > mostGuesses || g.tooMany(m, now) != (k == mostGuesses) {
					t.Fatalf("node %d was answered %d times, and is held up: %v", m, k, g.tooMany(m, now))
				}
			}
			if m := node.Draw(t, "other"); told[m] == 0 && g.tooMany(m, now) {
				t.Fatalf("node %d is held up, and has guessed nothing", m)
			}
		}
	})
}
