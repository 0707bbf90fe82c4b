package engine_test

// This file holds what processes see of peers that are silent, restart, or leave: nothing hangs for
// ever, nothing is dropped in silence (design idea 4). The rules of links to such peers are in
// package link.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// quick shortens the time after which a peer counts as gone, and gives a context
// as many lines as the return ring holds, so that no return is only counted.
func quick(c *engine.Config) {
	c.PeerTimeout, c.ConnectTimeout, c.MaxRTO = 200*time.Millisecond, 500*time.Millisecond, 20*time.Millisecond
	c.Lines, c.ReplyLines = funi.ReturnSlots, funi.ReturnSlots/4
}

func isolate(card int) func(from, to [6]byte) bool {
	return func(from, to [6]byte) bool { return from == address(card) || to == address(card) }
}

// Rule: a peer that falls silent ends in ReasonSilent after PeerTimeout for every
// packet that it has not acknowledged, once each; what came back is not delivered
// twice when the peer is heard again, and new packets arrive.
func TestPeerFallsSilentAndReturns(t *testing.T) {
	for seed := range uint64(10) {
		b := newBed(t, setup{cards: 2, slots: 32, tune: quick,
			net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
		tr := newTraffic(b, 3000, 3)
		tr.reasons = []arctic.Reason{arctic.ReasonSilent}
		cutAt, healAt := b.now+int64(3*time.Millisecond), b.now+int64(600*time.Millisecond)
		b.alarm = cutAt
		b.until(5*time.Minute, "all packets delivered or back", func() bool {
			switch {
			case b.now >= healAt:
				b.net.Cut(nil)
				b.alarm = 0
			case b.now >= cutAt:
				b.net.Cut(isolate(1))
				b.alarm = healAt
			}
			return tr.pump()
		})
		b.idle(time.Minute)
		if _, back := tr.totals(); back == 0 || b.cards[0].Counters().PeersLost == 0 {
			t.Errorf("seed %d: nothing came back, so nothing was tested\n%s", seed, b.counters())
		}
		exactlyOnce(b, newTraffic(b, 100, 3))
	}
}

// Rule: a restarted peer has a new incarnation; what it had not acknowledged comes
// back with ReasonRestarted, and what was never sent goes to its new life.
func TestPeerRestarts(t *testing.T) {
	for seed := range uint64(10) {
		b := newBed(t, setup{cards: 2, slots: 64, tune: quick,
			net: wire.Config{Seed: seed, Delay: 100 * time.Microsecond}})
		tr := newTraffic(b, 2000, 3, [2]int{0, 1})
		tr.reasons = []arctic.Reason{arctic.ReasonRestarted}
		end := b.now + int64(1500*time.Microsecond)
		b.alarm = end
		b.until(time.Second, "traffic", func() bool { tr.pump(); return b.now >= end })
		b.alarm = 0
		b.start(1)
		b.until(time.Minute, "all packets delivered or back, or lost with the first life's queue", func() bool {
			tr.pump()
			return tr.lanes[0].sent == 2000 && tr.lanes[1].sent == 2000 && b.ctx[0].Idle()
		})
		b.pass(10 * time.Millisecond)
		tr.pump()
		c := b.cards[0].Counters()
		got, back := tr.totals()
		if back == 0 || uint64(back) != c.Returned || c.PeersRestarted != 1 || got+back > 4000+back {
			t.Errorf("%d delivered, %d came back, %d counted, %d restarts", got, back, c.Returned, c.PeersRestarted)
		}
		// What is missing was acknowledged and waited in the queue of the first life.
		if missing := 4000 - got - back; missing > 2*(64-1)+2*engine.Native().FIFO {
			t.Errorf("%d packets neither delivered nor back, more than the first life's queues held", missing)
		}
		exactlyOnce(b, newTraffic(b, 100, 3))
	}
}

// Rule: Leave tells the peers; what waits for the card that left comes back with
// ReasonDeparted at once, and nothing else does (Leave).
func TestLeave(t *testing.T) {
	b := newBed(t, setup{cards: 3, slots: 16, tune: quick, net: wire.Config{Delay: 10 * time.Microsecond}})
	exactlyOnce(b, newTraffic(b, 20, 3))
	stalled := newTraffic(b, 40, 3, [2]int{0, 1})
	stalled.stalled = func(node int) bool { return node == 1 }
	stalled.reasons = []arctic.Reason{arctic.ReasonDeparted}
	for range 40 {
		stalled.pump()
		b.pass(100 * time.Microsecond)
	}
	b.cards[1].Leave()
	b.step(b.now)
	b.cards[1] = nil
	begin := b.now
	b.until(time.Second, "the peers know", func() bool {
		return !b.cards[0].Established(1) && !b.cards[2].Established(1)
	})
	if took := time.Duration(b.now - begin); took > time.Millisecond {
		t.Errorf("known after %v", took)
	}
	stalled.pump()
	if !b.cards[0].Established(2) || b.cards[0].Established(0) || b.cards[0].Established(77) {
		t.Error("Established knows cards that it should not, or lost the one that stayed")
	}
	exactlyOnce(b, newTraffic(b, 20, 3, [2]int{0, 2}, [2]int{2, 0}))
	held := 2 * (16 - 1 + engine.Native().FIFO) // the queues and FIFOs of the card that left
	if _, back := stalled.totals(); back != 80-held {
		t.Errorf("%d of 80 packets came back, want all but the %d that were accepted", back, held)
	}
}
