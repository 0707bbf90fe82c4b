package engine_test

// This file holds the rules of peers that are silent, restart, leave, or are cut
// off: nothing hangs for ever, nothing is dropped in silence (design idea 4).

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

// meet lets all cards greet each other anew after a restart: what was sent to the
// earlier life comes back.
func meet(b *bed) {
	b.t.Helper()
	tr := newTraffic(b, 1, 2)
	tr.reasons = []arctic.Reason{arctic.ReasonRestarted}
	b.until(time.Minute, "the cards meet", tr.pump)
	b.idle(time.Minute)
}

func isolate(card int) func(from, to [6]byte) bool {
	return func(from, to [6]byte) bool { return from == address(card) || to == address(card) }
}

// Rule: a peer that was never heard ends in ReasonSilent after ConnectTimeout, not
// before, for every packet exactly once, and the lines are free again; a later
// packet gets a new try.
func TestNeverHeardPeer(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, tune: quick, net: wire.Config{Delay: 10 * time.Microsecond}})
	b.cards[1] = nil
	tr := newTraffic(b, 20, 3, [2]int{0, 1}) // fewer than there are lines
	tr.reasons = []arctic.Reason{arctic.ReasonSilent}
	begin := b.now
	b.until(10*time.Second, "all packets come back", tr.pump)
	if took := time.Duration(b.now - begin); took < 500*time.Millisecond || took > 800*time.Millisecond {
		t.Errorf("given up after %v, want ConnectTimeout and at most a greeting gap more", took)
	}
	if _, back := tr.totals(); back != 40 || b.cards[0].Counters().Returned != 40 || b.proc[0].ReturnsLost() != 0 {
		t.Errorf("%d packets came back, want 40", back)
	}
	b.start(1)
	exactlyOnce(b, newTraffic(b, 40, 3))
}

// Rule: a peer that falls silent ends in ReasonSilent after PeerTimeout for every
// packet that it has not acknowledged, once each; what came back is not delivered
// twice when the peer is heard again, and new packets arrive.
func TestPeerFallsSilentAndReturns(t *testing.T) {
	for seed := range uint64(10) {
		b := newBed(t, setup{cards: 2, slots: 32, tune: quick, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
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

// Rule: a partition that heals before PeerTimeout loses nothing and returns
// nothing.
func TestPartitionHealsInTime(t *testing.T) {
	for seed := range uint64(10) {
		b := newBed(t, setup{cards: 3, slots: 32, tune: quick, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
		tr := newTraffic(b, 2000, 3)
		end := b.now + int64(2*time.Millisecond)
		b.alarm = end
		b.until(time.Second, "traffic", func() bool { tr.pump(); return b.now >= end })
		b.net.Cut(isolate(1))
		end = b.now + int64(100*time.Millisecond)
		b.alarm = end
		b.until(time.Second, "partition", func() bool { tr.pump(); return b.now >= end })
		b.net.Cut(nil)
		b.alarm = 0
		exactlyOnce(b, tr)
	}
}

// Rule: with one direction cut, both sides give up within their time, each packet
// is delivered or comes back, and none is delivered twice. The side that hears
// acknowledgments but whose packets do not arrive is no exception.
func TestOneDirectionCut(t *testing.T) {
	for _, from := range []int{0, 1} {
		b := newBed(t, setup{cards: 2, slots: 32, tune: quick, net: wire.Config{Delay: 10 * time.Microsecond}})
		warm := newTraffic(b, 50, 3)
		exactlyOnce(b, warm)
		b.net.Cut(func(a, _ [6]byte) bool { return a == address(from) })
		tr := newTraffic(b, 200, 3)
		tr.reasons = []arctic.Reason{arctic.ReasonSilent}
		begin := b.now
		b.until(30*time.Second, "all packets delivered or back", tr.pump)
		b.idle(time.Second)
		if took := time.Duration(b.now - begin); took > 10*time.Second {
			t.Errorf("cut from %d: took %v", from, took)
		}
		b.net.Cut(nil)
		exactlyOnce(b, newTraffic(b, 50, 3))
	}
}

// Rule: a restarted peer has a new incarnation; what it had not acknowledged comes
// back with ReasonRestarted, and what was never sent goes to its new life.
func TestPeerRestarts(t *testing.T) {
	for seed := range uint64(10) {
		b := newBed(t, setup{cards: 2, slots: 64, tune: quick, net: wire.Config{Seed: seed, Delay: 100 * time.Microsecond}})
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

// Rule: a card that introduces itself when it begins another life is met before packets wait for it, so none that is sent
// to it afterwards comes back for the earlier life's sake; it introduces itself to as many peers as the ring has room for.
func TestIntroduction(t *testing.T) {
	for seed := range uint64(10) {
		b := newBed(t, setup{cards: 5, slots: 64, tune: quick, net: wire.Config{Seed: seed, Delay: 100 * time.Microsecond}})
		exactlyOnce(b, newTraffic(b, 100, 3))
		b.start(1)
		calls := 0
		for at := 0; at >= 0; calls++ {
			if at = b.cards[1].Introduce(at); calls > 100 {
				t.Fatal("it does not end")
			}
			b.pass(time.Microsecond)
		}
		b.pass(time.Millisecond)
		for i, c := range b.cards {
			if i != 1 && c.Counters().PeersRestarted != 1 {
				t.Errorf("card %d has noticed %d restarts", i, c.Counters().PeersRestarted)
			}
		}
		exactlyOnce(b, newTraffic(b, 100, 3))
		if at := b.cards[1].Introduce(0); at != -1 {
			t.Errorf("to those that it has met it introduces itself again: %d", at)
		}
	}
}

// Rule: a frame that the network held back since an earlier life of the peer is
// never accepted and does not make the card forget the present life
// (link/greeting.go); nor is any frame of a whole run, replayed, delivered again
// (doc.go).
func TestReplayedFramesAreNotDelivered(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: 10 * time.Microsecond}, wrap: capture(&frames)})
	replay := func(what string) {
		t.Helper()
		old := frames
		before := [2]engine.Counters{b.cards[0].Counters(), b.cards[1].Counters()}
		for i, f := range old {
			b.inject(f)
			if i%16 == 15 {
				b.pass(50 * time.Microsecond)
			}
		}
		b.pass(time.Second)
		for i, c := range b.cards {
			n := c.Counters()
			if d := n.PacketsDelivered - before[i].PacketsDelivered; d != 0 {
				t.Errorf("%s: card %d delivered %d packets of %d replayed frames", what, i, d, len(old))
			}
			if n.Returned != before[i].Returned || n.PeersRestarted != before[i].PeersRestarted || n.PeersLost != before[i].PeersLost {
				t.Errorf("%s: replay made card %d forget its peer\n%s", what, i, b.counters())
			}
		}
	}
	exactlyOnce(b, newTraffic(b, 300, 3))
	replay("same life")
	exactlyOnce(b, newTraffic(b, 300, 3))
	b.start(1)
	meet(b)
	exactlyOnce(b, newTraffic(b, 300, 3))
	replay("both lives of card 1")
	exactlyOnce(b, newTraffic(b, 300, 3))
	b.start(0)
	meet(b)
	exactlyOnce(b, newTraffic(b, 300, 3))
	replay("all lives")
	// Replayed into traffic.
	old := frames
	next := 0
	tr := newTraffic(b, 3000, 3)
	b.until(time.Minute, "all messages delivered beside replayed frames", func() bool {
		for range 3 {
			b.inject(old[next%len(old)])
			next++
		}
		return tr.pump()
	})
	exactlyOnce(b, tr)
}

// Rule: frames of the peer's earlier life that arrive while it is being greeted
// anew are not accepted either: its incarnation is believed only with a fresh nonce.
func TestHeldBackFramesDuringGreeting(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: 10 * time.Microsecond}, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 50, 3))
	old := frames
	b.start(0)
	b.start(1)
	for range 20 {
		for _, f := range old {
			b.inject(f)
		}
		b.pass(time.Millisecond)
	}
	for i, c := range b.cards {
		if n := c.Counters(); n.PacketsDelivered != 0 || n.Stale == 0 {
			t.Errorf("card %d: %d packets of an earlier life delivered, %d frames counted stale", i, n.PacketsDelivered, n.Stale)
		}
	}
	exactlyOnce(b, newTraffic(b, 50, 3))
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
	b.until(time.Second, "the peers know", func() bool { return !b.cards[0].Established(1) && !b.cards[2].Established(1) })
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

// Rule: a packet for a peer that has left is greeted for, and comes back as silent
// (Leave, PeerTimeout).
func TestSendAfterLeave(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, tune: quick, net: wire.Config{Delay: 10 * time.Microsecond}})
	exactlyOnce(b, newTraffic(b, 20, 3))
	b.mustSend(0, funi.Request, 1, 77)
	b.step(b.now)
	b.cards[1].Leave()
	b.step(b.now)
	b.cards[1] = nil
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonDeparted, Level: funi.Request, Header: funi.NewHeader(1, 5, 1), Word: 77})
	b.mustSend(0, funi.Reply, 1, 78)
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonSilent, Level: funi.Reply, Header: funi.NewHeader(1, 5, 1), Word: 78})
	b.idle(0)
}

// Rule: to be greeted again by a peer that is known costs nothing that is owed to it: a
// greeting that the network kept back from an earlier life makes the cards exchange
// nonces, and the acknowledgment that waits to ride on data is sent all the same.
func TestGreetingLosesNoAcknowledgment(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	exactlyOnce(b, newTraffic(b, 3, 2))
	b.pass(10 * time.Millisecond)
	before := b.cards[1].Counters()
	b.mustSend(1, funi.Request, 0, 5)
	b.pass(12 * time.Microsecond) // it has arrived
	b.inject(forgeGreeting(&arctic.Greeting{Nonce: 99, Incarnation: 77, Flags: arctic.Asks}))
	b.pass(100 * time.Millisecond)
	after := b.cards[1].Counters()
	if after.Greetings == before.Greetings {
		t.Fatal("no nonces were exchanged, so nothing is tested")
	}
	if after.Retransmitted != before.Retransmitted || after.PeersRestarted != 0 {
		t.Errorf("%d frames were sent again", after.Retransmitted-before.Retransmitted)
	}
}
