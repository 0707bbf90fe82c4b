package engine_test

// This file holds the rule of quiet cards whose contexts do not run; those of quiet peers are in
// package link.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// untilQuiet lets the cards run until none asks to be stepped again, and returns how
// often they asked.
func (b *bed) untilQuiet() (wakes int) {
	b.t.Helper()
	b.step(b.now)
	for at := b.next(); at != engine.Never; at = b.next() {
		for _, w := range b.wake {
			if w <= at {
				wakes++
			}
		}
		b.step(at)
		if wakes > 1e6 {
			b.t.Fatal("quiet cards wake up for ever")
		}
	}
	return wakes
}

// Rule: packets of a context that does not run keep their flow, without a timer; when
// it runs again they are delivered, and when it ends the flow is put away.
func TestFlowOfAHaltedContextWaits(t *testing.T) {
	for _, detach := range []bool{false, true} {
		b := newBed(t, setup{cards: 2, slots: 16, net: near})
		exactlyOnce(b, newTraffic(b, 5, 2))
		for i := range uint32(16) { // more than there is room for
			b.mustSend(0, funi.Request, 1, i)
			b.pass(time.Millisecond)
		}
		for i := range uint32(15) {
			b.mustSend(0, funi.Request, 1, 16+i)
		}
		b.pass(time.Millisecond)
		s := b.switchOut(0)
		b.untilQuiet()
		if n := b.cards[0].Link().Streams(nil); n != 1 || b.ctx[0].Idle() {
			t.Fatalf("%d streams are in use, nothing waits: %v", n, b.ctx[0].Idle())
		}
		got := uint32(0)
		receive := func() {
			for m, ok := take(b.proc[1], funi.Request); ok; m, ok = take(b.proc[1], funi.Request) {
				if m.Payload()[0] != got {
					t.Fatalf("message %d, want %d", m.Payload()[0], got)
				}
				got++
			}
		}
		receive()
		if detach {
			b.cards[0].Detach(s.Context())
			b.step(b.now)
		} else {
			b.switchIn(0, s)
			b.until(time.Second, "the rest arrives", func() bool { receive(); return got == 31 })
		}
		b.untilQuiet()
		// Nobody has told card 1 that it need not remember what it rejected last.
		if n := b.cards[0].Link().Streams(nil); n != 0 {
			t.Errorf("detached: %v: %d streams are in use", detach, n)
		}
	}
}
