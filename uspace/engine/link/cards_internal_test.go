package link

// This file tests the table of peers by card number against a map.

import (
	"testing"

	"pgregory.net/rapid"
)

// Rule: the table returns for each number what was last entered for it, however far apart numbers
// are, and takes memory only for pages with a peer.
func TestCardsAreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cards
		want, pages := map[uint16]*peer{}, map[uint16]bool{}
		card := rapid.OneOf(rapid.Uint16(), rapid.Uint16Range(0, 100), rapid.Uint16Range(65_500, 65_535))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := card.Draw(t, "card")
			if int(n) >= c.size {
				c.grow(int(n) + 1)
			}
			want[n], pages[n/pagePeers] = &peer{Peer: Peer{Card: n}}, true
			c.set(n, want[n])
			for other, p := range want {
				if got := c.at(other); got != p {
					t.Fatalf("card %d is %p, want %p", other, got, p)
				}
			}
			if other := card.Draw(t, "other"); int(other) < c.size && c.at(other) != want[other] {
				t.Fatalf("card %d is %p, want %p", other, c.at(other), want[other])
			}
		}
		if got := len(c.pages) / pagePeers; got != len(pages)+1 {
			t.Fatalf("%d pages for peers on %d", got, len(pages))
		}
	})
}
