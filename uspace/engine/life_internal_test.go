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
		born := rapid.OneOf(rapid.Int64Range(0, now),
			rapid.Int64Range(max(0, began-2), min(began+2, now))).Draw(t, "born")
		if got := beganBefore(born, now, uint32(began)); got != (began < born) {
			t.Fatalf("torn: %v", got)
		}
		// Within a card lives are counted.
		last := arctic.Transfer{Form: arctic.Last, Total: 20, First: uint32(began), Data: make([]byte, 64)}
		c, x := &contexts{core: core{cfg: &Config{}}, lives: now}, &Context{life: born}
		if got := c.torn(x, nil, &last); got != (began < born) {
			t.Fatalf("torn within a card: %v", got)
		}
		last.Total = 16
		if c.torn(x, nil, &last) {
			t.Fatal("a transfer of one packet is torn")
		}
	})
}

// Rule: a context that comes back to a card takes what began since it was there first, also from a
// peer that has begun to count anew meanwhile and from one that the card has first heard of
// meanwhile.
func TestGoOn(t *testing.T) {
	sign := &Context{life: 7, born: []birth{{card: 3, reached: [arctic.Levels]int64{900, 2}}}}
	x := &Context{life: 9, bornElsewhere: true, born: []birth{{card: 3, reached: [arctic.Levels]int64{4, 5}},
		{card: 4, reached: [arctic.Levels]int64{6, 6}}}}
	x.goOn(sign)
	if x.life != 7 {
		t.Errorf("life %d", x.life)
	}
	for card, want := range map[uint16][arctic.Levels]int64{2: {-1, -1}, 3: {4, 2}, 4: {0, 0}} {
		for l, w := range want {
			if got := x.bornAt(card, arctic.Level(l)); got != w {
				t.Errorf("what begins from number %d of card %d on is taken at level %d, want %d", got, card, l, w)
			}
		}
	}
}
