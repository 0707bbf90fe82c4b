package link_test

// This file holds the rules of the greeting: what a card believes of a peer's life, and which
// frames it takes.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Rule (greeting.go): a frame that the network held back since an earlier life of a peer is never
// accepted, and does not make the card forget the present life. Nor is any frame of a whole run
// accepted that is sent again (doc.go).
func TestReplayedFramesAreNotAccepted(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	replay := func(what string) {
		t.Helper()
		old := frames
		before := []link.Counters{b.cards[0].Counters, b.cards[1].Counters}
		for i, f := range old {
			b.inject(f) // the bed fails if a message is accepted again
			if i%16 == 15 {
				b.pass(50 * time.Microsecond)
			}
		}
		b.pass(time.Second)
		for i, c := range b.cards {
			if n := c.Counters; n.PeersRestarted != before[i].PeersRestarted || n.PeersLost != before[i].PeersLost {
				t.Errorf("%s: %d frames sent again made card %d forget its peer\n%s", what, len(old), i, b.counters())
			}
		}
	}
	exactlyOnce(b, newTraffic(b, 100))
	replay("same life")
	exactlyOnce(b, newTraffic(b, 100))
	b.start(1)
	b.meet()
	exactlyOnce(b, newTraffic(b, 100))
	replay("both lives of card 1")
	exactlyOnce(b, newTraffic(b, 100))
	b.start(0)
	b.meet()
	exactlyOnce(b, newTraffic(b, 100))
	replay("all lives")
	// In the middle of traffic.
	old := frames
	next := 0
	tr := newTraffic(b, 1000)
	b.until(time.Minute, "all messages delivered beside frames sent again", func() bool {
		for range 3 {
			b.inject(old[next%len(old)])
			next++
		}
		return tr.pump()
	})
	exactlyOnce(b, tr)
}

// Rule (greeting.go): frames of the peer's earlier life that arrive while it is being greeted anew
// are not accepted either: it is believed only with a fresh nonce.
func TestHeldBackFramesDuringGreeting(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 50))
	old := frames
	b.start(0)
	b.start(1)
	m := b.send(0, arctic.Request, 1)
	// the answers of its present life are lost
	b.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
	for range 20 {
		for _, f := range old {
			b.net.Cut(nil)
			b.inject(f)
			b.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
		}
		b.pass(time.Millisecond)
	}
	if m.at != 0 || b.cards[0].Established(1) {
		t.Errorf("believed by frames of an earlier life: established %v", b.cards[0].Established(1))
	}
	for i, c := range b.cards {
		if c.Counters.Stale == 0 {
			t.Errorf("card %d: no frame counted as stale", i)
		}
	}
	b.net.Cut(nil)
	b.arrives(time.Second, m)
	exactlyOnce(b, newTraffic(b, 50))
}

// Rule (greeting.go): nothing of a frame is taken before its sender has been greeted, also if all
// else is right: here one that was recorded in this very life of the peer, for an earlier one of
// the card.
func TestFramesForAnEarlierLife(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 5, [2]int{1, 0}))
	old := withPackets(frames)
	b.start(0)
	for _, f := range old {
		b.inject(f)
	}
	b.pass(time.Millisecond)
	if n := b.cards[0].Counters; n.Stale == 0 || n.Greetings == 0 {
		t.Errorf("%d frames counted as stale, %d greetings", n.Stale, n.Greetings)
	}
}

// Rule (Introduce): a card that introduces itself when it begins another life is met before lines
// wait for it. So no line that is sent to it afterwards comes back for the earlier life's sake. To
// cards that it has met it does not introduce itself again.
func TestIntroduction(t *testing.T) {
	for seed := range uint64(2) {
		b := newBed(t, setup{cards: 80, tune: quick, net: wire.Config{Seed: seed, Delay: 100 * time.Microsecond}})
		var pairs [][2]int
		for i := range 80 {
			if i != 1 {
				pairs = append(pairs, [2]int{i, 1}, [2]int{1, i})
			}
		}
		exactlyOnce(b, newTraffic(b, 2, pairs...))
		b.start(1)
		calls := 0
		for at := 0; at >= 0; calls++ {
			before := b.cards[1].Counters.Greetings
			if at = b.cards[1].Introduce(at); calls > 100 {
				t.Fatal("it does not end")
			}
			if n := b.cards[1].Counters.Greetings - before; n > 64 {
				t.Errorf("%d greetings in one call", n)
			}
			b.touched = true
			b.pass(time.Microsecond)
		}
		b.pass(time.Millisecond)
		for i, c := range b.cards {
			if i != 1 && (c.Counters.PeersRestarted != 1 || len(c.restarted) != 1) {
				t.Errorf("card %d has noticed %d restarts", i, c.Counters.PeersRestarted)
			}
		}
		exactlyOnce(b, newTraffic(b, 2, pairs...))
		before := b.cards[1].Counters.Greetings
		for at := 0; at >= 0; {
			at = b.cards[1].Introduce(at)
		}
		if n := b.cards[1].Counters.Greetings - before; n != 0 {
			t.Errorf("to those that it has met it introduces itself again: %d times", n)
		}
	}
}

// Rule (greeting.go): frames of unknown lives are answered with greetings at a bounded rate,
// however many come.
func TestStaleFramesAreAnsweredAtABoundedRate(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 5, [2]int{1, 0}))
	old := withPackets(frames)[0]
	b.start(0)
	b.stop(1) // who answers nothing
	begin := b.now
	for range 2000 {
		b.inject(old)
		b.pass(5 * time.Microsecond)
	}
	c := &b.cards[0].Counters
	if most := uint64(b.now-begin)/100e3 + 5; c.Stale < 1900 || c.Greetings == 0 || c.Greetings > most {
		t.Errorf("%d stale frames in %v were answered with %d greetings, want at most %d", c.Stale,
			time.Duration(b.now-begin), c.Greetings, most)
	}
}

// Rule (doc.go): when a known peer greets again, nothing that is owed to it is lost. An old
// greeting makes the cards exchange nonces, and the acknowledgment that waits to ride on data is
// sent all the same.
func TestGreetingLosesNoAcknowledgment(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 3))
	b.start(1)
	b.meet()
	exactlyOnce(b, newTraffic(b, 3))
	b.pass(10 * time.Millisecond)
	before := []link.Counters{b.cards[0].Counters, b.cards[1].Counters}
	m := b.send(1, arctic.Request, 0)
	b.pass(12 * time.Microsecond) // it has arrived
	for _, f := range frames {
		if h := f.Header(); h.Hello && h.SourceCard == 1 {
			b.inject(f)
		}
	}
	b.arrives(100*time.Millisecond, m)
	if b.cards[0].Counters.Greetings == before[0].Greetings {
		t.Fatal("no nonces were exchanged, so nothing is tested")
	}
	if n := b.cards[1].Counters; n.Retransmitted != before[1].Retransmitted ||
		n.PeersRestarted != before[1].PeersRestarted {
		t.Errorf("%d frames were sent again", n.Retransmitted-before[1].Retransmitted)
	}
}

// Rule (arrive.go): cards whose groups differ never meet: the frames are dropped and counted, and
// the lines come back after ConnectTimeout. With AnyGroup they meet.
func TestCardsOfDifferentGroups(t *testing.T) {
	for _, any := range []bool{false, true} {
		b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { quick(c); c.AnyGroup = any }})
		b.cards[1].SetGroup(gid, false, false)
		b.cards[1].SetGroup(gid+1, true, true)
		m := b.send(0, arctic.Request, 1)
		if any {
			b.arrives(time.Second, m)
			continue
		}
		b.comesBack(time.Second, m, arctic.ReasonSilent)
		if c := b.cards[1].Counters; c.DroppedGroup == 0 || c.FramesSent != 0 {
			t.Errorf("%d frames of the group dropped, %d sent", c.DroppedGroup, c.FramesSent)
		}
	}
}

// Rule (greeting.go): each greeting names the next of the groups that are here, so that one which
// the peer has not cannot keep the others from meeting it.
func TestGreetingsNameEachGroup(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: quick})
	for _, g := range []uint16{1, 9, 1000} {
		b.cards[0].SetGroup(g, true, true)
	}
	o := b.join(0, new(link.Account))
	o.GID = 9 // which card 1 has not
	m := b.put(o, 1, 1, arctic.Request, 1, nil)
	b.until(100*time.Millisecond, "the cards meet", func() bool { return b.cards[0].Established(1) })
	b.arrives(time.Second, m) // what it carries is the receiver's to judge
}

// Rule (doc.go): a data frame of a greeted peer is answered, whatever its group is: without an
// answer it would hold up what the two cards share.
func TestFramesOfAnAbsentGroupAreAnswered(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 5))
	o := b.join(0, new(link.Account))
	o.GID = 9
	before := b.cards[1].Counters
	m := b.put(o, 1, 1, arctic.Request, 1, nil)
	b.arrives(time.Millisecond, m)
	if n := b.cards[1].Counters; n.DroppedGroup != before.DroppedGroup+1 {
		t.Errorf("%d frames counted", n.DroppedGroup-before.DroppedGroup)
	}
}
