package engine

// This file holds the arithmetic of life.go.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: of a transfer that began at any place of the sequence, up to 2^32 frames ago, a Last
// is torn if a frame from there on was handled before the life of its receiver.
func TestTorn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(1, 1<<40).Draw(t, "now")
		began := rapid.Int64Range(max(0, now-1<<32+1), now-1).Draw(t, "began")
		born := rapid.OneOf(rapid.Int64Range(0, now), rapid.Int64Range(max(0, began-2), min(began+2, now))).Draw(t, "born")
		if got := beganBefore(born, now, uint32(began)); got != (began < born) {
			t.Fatalf("torn: %v", got)
		}
		// Within a card lives are counted.
		last := arctic.Transfer{Form: arctic.Last, Total: 20, First: uint32(began), Data: make([]byte, 64)}
		c, x := &Card{lives: now}, &Context{life: born}
		if got := c.torn(x, nil, &last); got != (began < born) {
			t.Fatalf("torn within a card: %v", got)
		}
		last.Total = 16
		if c.torn(x, nil, &last) {
			t.Fatal("a transfer of one packet is torn")
		}
	})
}
