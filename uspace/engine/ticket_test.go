package engine

// This file holds the rule of TICKET, which is the card's own.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: the lowest free line is taken first; requests get none when only the lines
// reserved for replies are free (hi), nobody when none is (full) (thesis 5.2.4).
func TestTicketAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(2, 130), rapid.Just(maxLines)).Draw(t, "lines")
		reply := rapid.IntRange(1, n-1).Draw(t, "reply lines")
		var k ticket
		k.reset(n, reply)
		taken := map[int]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				l := arctic.Level(rapid.IntRange(0, 1).Draw(t, "level"))
				want := -1
				for i := range n {
					if !taken[i] {
						if l == arctic.Reply || i < n-reply {
							want = i
						}
						break
					}
				}
				if got := k.take(l); got != want {
					t.Fatalf("level %v got line %d, want %d", l, got, want)
				}
				if want >= 0 {
					taken[want] = true
				}
			},
			"give": func(t *rapid.T) {
				for i := range taken {
					k.give(i)
					delete(taken, i)
					break
				}
			},
			"": func(t *rapid.T) {
				if k.free() != n-len(taken) || k.used != len(taken) {
					t.Fatalf("%d free, want %d", k.free(), n-len(taken))
				}
			},
		})
	})
}
