package engine

// This file holds the arithmetic of life.go.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: of a transfer that began at any place of the sequence, up to 2^32 frames ago, a Last
// is torn if a frame from there on was handled before the life of its receiver; if it is all
// that the transfer has it never is. So also within a card, where lives are counted.
func TestTorn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(1, 1<<40).Draw(t, "now")
		began := rapid.Int64Range(max(0, now-1<<32+1), now-1).Draw(t, "began")
		born := rapid.OneOf(rapid.Int64Range(0, now), rapid.Int64Range(max(0, began-2), min(began+2, now))).Draw(t, "born")
		last := arctic.Transfer{Form: arctic.Last, Total: 20, First: uint32(began), Data: make([]byte, 64)}
		c := &Card{lives: 5}
		f := &flow{peer: &peer{Peer: Peer{Card: 1}}, level: arctic.Reply, reached: now}
		x := &Context{life: 5, born: [][arctic.Levels]int64{{}, {arctic.Reply: born}}}
		if rapid.Bool().Draw(t, "within a card") {
			c.lives, x.life, x.born, f = now, born, nil, nil
		} else if born == 0 && rapid.Bool().Draw(t, "nothing had come") {
			x.born = nil
		}
		if got := c.torn(x, f, &last); got != (began < born) {
			t.Fatalf("torn: %v", got)
		}
		last.Total = 16
		if c.torn(x, f, &last) {
			t.Fatal("a transfer of one packet is torn")
		}
	})
}

// Rule: reached is one more than the highest sequence that was handled, through any number
// of turns.
func TestReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &flow{reached: rapid.Int64Range(0, 1<<40).Draw(t, "reached")}
		want := f.reached
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			at := max(0, want+rapid.OneOf(rapid.Int64Range(-Window, Window), rapid.Int64Range(0, 1<<31-1)).Draw(t, "ahead"))
			if f.reach(uint32(at)); f.reached != max(want, at+1) {
				t.Fatalf("%d after %d and frame %d", f.reached, want, at)
			}
			want = f.reached
		}
		if n := nextTurn(f.reached); uint32(n) != 0 || n < f.reached || n-f.reached >= 1<<32 {
			t.Fatalf("the turn after %d is %d", f.reached, n)
		}
	})
}
