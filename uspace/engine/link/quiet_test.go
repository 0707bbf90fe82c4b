package link_test

// This file holds the rules of quiet peers: what is parked comes back as it was, and a card that
// sleeps is not woken for it for ever (park.go).

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Rule (park.go): when all have spoken to all, every flow is parked, with at most three wake-ups
// for each peer, and then no card asks to be stepped again.
func TestQuietPeersAreParked(t *testing.T) {
	const cards = 16
	b := newBed(t, setup{cards: cards, net: near})
	for range 2 {
		b.until(time.Minute, "all messages delivered", newTraffic(b, 10).pump)
		if n := b.flows(); n != 2*cards*(cards-1) {
			t.Errorf("%d flows are in use, want those of all levels of all peers", n)
		}
		if n := b.resting(); n > 3*cards*(cards-1)+cards*cards {
			t.Errorf("%d wake-ups of quiet cards", n)
		}
		if n := b.flows(); n != 0 {
			t.Errorf("%d flows of quiet cards are in use", n)
		}
	}
}

// Rule (Retime): a card that is about to sleep is not woken for the retransmission of a frame that
// was answered, but still for one that was not, and later for the looks at its flows.
func TestRetime(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	b.idle(time.Second)
	// longer than any retransmission, and than a pause between two looks at a card that is awake
	const soon = int64(100 * time.Millisecond)
	stale := false
	for _, c := range b.cards {
		stale = stale || c.Next() < b.now+soon
		c.Retime()
		if next := c.Next(); next == link.Never || next < b.now+soon {
			t.Errorf("wants to run after %v, want about a second", time.Duration(next-b.now))
		}
	}
	if !stale {
		t.Error("no timer was for something that had happened, so nothing was tested")
	}
	if b.resting(); b.flows() != 0 {
		t.Errorf("%d flows of quiet cards are in use", b.flows())
	}
	b.stop(1)
	b.send(0, arctic.Request, 1)
	b.step(b.now + 1)
	due := b.cards[0].Next()
	b.cards[0].Retime()
	if next := b.cards[0].Next(); next != due || next >= b.now+soon {
		t.Errorf("with a frame that nobody answers it wants to run after %v, before Retime after %v",
			time.Duration(next-b.now), time.Duration(due-b.now))
	}
}

// Rule (park.go): a frame that the network kept back while its flow was parked is a duplicate, and
// what it takes up is parked again; sequences go on where they were.
func TestLateDuplicateOfAParkedFlow(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 3))
	b.resting()
	before := b.cards[0].Sequence(1, arctic.Request)
	for _, f := range withPackets(frames) {
		b.inject(f) // the bed fails if a message is accepted again
	}
	b.resting()
	if b.cards[1].Counters.Duplicates == 0 {
		t.Error("no duplicates, so nothing was tested")
	}
	if n := b.flows(); n != 0 {
		t.Errorf("%d flows are in use", n)
	}
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	if n := b.cards[0].Sequence(1, arctic.Request); n != before+1 {
		t.Errorf("the sequence went from %d to %d, want one more", before, n)
	}
}

// Rule (EachReached): how far a card has come with a peer's frames is known of flows in use and of
// parked ones, and never goes back, not even where the peer begins another life.
func TestReachedSurvivesParkingAndRestart(t *testing.T) {
	b := newBed(t, setup{cards: 3, net: near, tune: quick})
	reached := func() map[uint16]int64 {
		r := map[uint16]int64{}
		b.cards[0].EachReached(func(card uint16, l arctic.Level, n int64) {
			if l == arctic.Request {
				r[card] = n
			}
		})
		return r
	}
	exactlyOnce(b, newTraffic(b, 5, [2]int{1, 0}))
	in := reached()
	b.resting()
	if parked := reached(); len(in) != 1 || in[1] != int64(b.cards[1].Sequence(0, arctic.Request)) ||
		parked[1] != in[1] {
		t.Errorf("reached %v, parked %v", in, parked)
	}
	b.start(1)
	b.meet()
	exactlyOnce(b, newTraffic(b, 5, [2]int{1, 0}))
	if now := reached(); now[1] <= 1<<32 || now[1] > 1<<32+20 {
		t.Errorf("reached %v after %v in the peer's earlier life", now, in)
	}
	if n := b.cards[0].Cards(); n != 3 {
		t.Errorf("cards are below %d, want 3", n)
	}
}

// Rule (park.go): a peer that was quiet and starts again is met as any other: its sequences start
// from 0, and what was remembered of its earlier life is forgotten.
func TestQuietPeerRestarts(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: quick})
	exactlyOnce(b, newTraffic(b, 20))
	b.judge = func(int, *message) arctic.Reason { return arctic.ReasonNoContext }
	b.send(0, arctic.Request, 1)
	b.resting()
	b.judge = nil
	if n := b.cards[1].Flows(); n != 1 {
		t.Fatalf("%d flows are in use, want the one that remembers", n)
	}
	b.start(0)
	b.cards[0].Introduce(0)
	b.touched = true
	b.resting()
	if n := b.flows(); n != 0 || !b.cards[1].Established(0) {
		t.Errorf("%d flows are in use, established: %v", n, b.cards[1].Established(0))
	}
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	if n := b.cards[0].Sequence(1, arctic.Request); n != 1 {
		t.Errorf("its next frame is %d, want 1", n)
	}
	exactlyOnce(b, newTraffic(b, 20))
}

// Rule (park.go): lines of an owner that is halted keep their flow, without a timer; when it goes
// on they are delivered, and when they are given up the flow is parked.
func TestFlowOfAHaltedOwnerWaits(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		b := newBed(t, setup{cards: 2, net: near})
		exactlyOnce(b, newTraffic(b, 5))
		b.own[0].Halted = true
		m := b.send(0, arctic.Request, 1)
		b.resting()
		if n := b.cards[0].Flows(); n != 1 || m.back || m.at != 0 {
			t.Fatalf("%d flows are in use, back %v", n, m.back)
		}
		b.checked()
		b.own[0].Halted = false
		if giveUp {
			b.cards[0].GiveUp(&b.own[0].Owner, nil, b.givenUp)
		} else {
			b.cards[0].Resume(&b.own[0].Owner)
		}
		b.touched = true
		if !giveUp {
			b.arrives(time.Second, m)
		}
		b.resting()
		if n := b.flows(); n != 0 || !m.back || giveUp != (m.at == 0) {
			t.Errorf("given up %v: %d flows are in use, back %v", giveUp, n, m.back)
		}
	}
}

// givenUp takes a line back that GiveUp returned.
func (b *bed) givenUp(ln *link.Line) {
	was := b.reasons
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	ln.Settled, ln.Reason = link.Returned, arctic.ReasonDeparted
	b.takeBack(ln)
	b.reasons = was
}

// Rule (park.go): the room for a window goes back at the next look at which little is in flight,
// also when the flow is used all the time.
func TestRoomForAWindowGoesBack(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { single(c); c.Lines = 2000 }})
	for range 2000 {
		b.send(0, arctic.Request, 1)
	}
	b.until(time.Minute, "many are in flight", func() bool { return b.cards[0].Room(1, arctic.Request) == link.Window })
	b.idle(time.Minute)
	for end := b.now + int64(50*time.Millisecond); b.now < end; {
		b.arrives(time.Second, b.send(0, arctic.Request, 1))
		b.pass(time.Millisecond)
	}
	if n := b.cards[0].Room(1, arctic.Request); n == 0 || n >= link.Window {
		t.Errorf("room for %d frames with one in flight", n)
	}
}
