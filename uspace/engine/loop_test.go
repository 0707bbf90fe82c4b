package engine_test

// This file holds the rules of packets between contexts of one card.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a packet that waits in its line for room in a receive FIFO of the same card goes on when
// there is room. It does so also if the process then takes all that it has and says nothing: the
// time that Step returns is honest.
func TestLoopGoesOnWhenTheFIFOIsDrained(t *testing.T) {
	for first := range uint32(64) { // where in its queue the process is when all is full
		b := newBed(t, setup{cards: 1, slots: 64, net: near, tune: func(c *engine.Config) {
			c.FIFO, c.Lines, c.ReplyLines = 2, 8, 2
		}})
		to, _ := b.join(0, gid, 1)
		if err := b.cards[0].SetRoute(1, 0); err != nil {
			t.Fatal(err)
		}
		sent, got := uint32(0), uint32(0)
		send := func(all uint32) {
			b.until(time.Second, "all are in the send queue", func() bool {
				for sent < all && b.send(0, funi.Request, 1, sent) {
					sent++
				}
				return sent == all
			})
			b.pass(time.Millisecond) // until everything is full
		}
		receive := func() {
			b.until(time.Second, "all arrive", func() bool {
				for s, ok := take(to, funi.Request); ok; s, ok = take(to, funi.Request) {
					if s[funi.PayloadWord] != got {
						t.Fatalf("%d instead of %d", s[funi.PayloadWord], got)
					}
					got++
				}
				return got == sent
			})
		}
		send(first)
		receive()
		send(first + 100)
		receive()
	}
}
