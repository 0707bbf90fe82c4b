package link_test

// This file holds the rules of a modelled machine: dispatch and transmission take time (timed.go;
// thesis 5.2.4, 5.6.3).

import (
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// departures lets the cards run until card 0 has sent n more frames, and returns when they left and
// which carried no packets.
func departures(b *bed, n int) (at []int64, bare []bool) {
	b.t.Helper()
	for end := b.now + int64(time.Second); len(at) < n; {
		before := b.cards[0].Counters
		next := b.now + 1
		if !b.touched {
			next = b.next()
		}
		b.step(next)
		after := &b.cards[0].Counters
		switch sent := after.FramesSent - before.FramesSent; {
		case sent > 1:
			b.t.Fatalf("%d frames left at once", sent)
		case sent == 1:
			at, bare = append(at, b.now), append(bare, after.AcksSent > before.AcksSent)
		}
		if b.now > end {
			b.t.Fatalf("%d of %d frames left", len(at), n)
		}
	}
	return at, bare
}

// newTimedBed is two cards that have met, whose units take so long, and which leave each packet its
// own frame.
func newTimedBed(t *testing.T, dispatch, transmit time.Duration, window int) *bed {
	b := newBed(t, setup{cards: 3, net: near, tune: func(c *link.Config) {
		thesis(c)
		c.Dispatch, c.Transmit, c.FirstWindow = dispatch, transmit, window
	}})
	exactlyOnce(b, newTraffic(b, 20))
	return b
}

// Rule (timed.go): a frame leaves when the Dispatch Unit has worked on each of its packets, and
// after that the Transmit Scheduler on the frame. Until then the Dispatch Unit says whose packet it
// works on.
func TestUnitsTakeTheirTime(t *testing.T) {
	for _, c := range []struct{ dispatch, transmit time.Duration }{{300, 0}, {0, 500}, {300, 500}} {
		b := newTimedBed(t, c.dispatch, c.transmit, 1)
		b.send(0, arctic.Request, 1)
		begin := b.now + 1
		b.step(begin)
		if works := b.cards[0].WorksFor() == &b.own[0].Owner; works != (c.dispatch > 0) {
			t.Errorf("%+v: works for the owner: %v", c, works)
		}
		if c.dispatch > 0 {
			b.step(begin + int64(c.dispatch) - 1)
			if b.cards[0].Sequence(1, arctic.Request) != 20 || b.cards[0].WorksFor() == nil {
				t.Errorf("%+v: dispatched before its time", c)
			}
		}
		at, _ := departures(b, 1)
		if took := at[0] - begin; took != int64(c.dispatch+c.transmit) {
			t.Errorf("%+v: left after %d ns", c, took)
		}
		b.idle(time.Second)
	}
	trains := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { c.Dispatch, c.Transmit = 100, 50 }})
	exactlyOnce(trains, newTraffic(trains, 20))
	for range 7 {
		trains.send(0, arctic.Request, 1)
	}
	begin := trains.now + 1
	trains.step(begin)
	if at, _ := departures(trains, 1); at[0]-begin != 7*100+50 {
		t.Errorf("a train of 7 packets left after %d ns, want 750", at[0]-begin)
	}
}

// Rule (timed.go): a unit works on one frame at a time, and two units on two: frames leave as far
// apart as the slower one takes, and replies before requests.
func TestUnitsOverlap(t *testing.T) {
	for _, c := range []struct{ dispatch, transmit time.Duration }{{5000, 0}, {0, 5000}, {3000, 5000}, {5000, 3000}} {
		b := newTimedBed(t, c.dispatch, c.transmit, 8)
		b.net.Cut(isolate(1)) // no answer is in the way
		for range 2 {
			b.send(0, arctic.Request, 1)
			b.send(0, arctic.Reply, 1)
		}
		begin := b.now + 1
		b.step(begin)
		at, _ := departures(b, 4)
		for i, left := range at {
			if want := begin + int64(c.dispatch+c.transmit) + int64(i)*5000; left != want {
				t.Errorf("%+v: frame %d left after %d ns, want %d", c, i, left-begin, want-begin)
			}
		}
		b.net.Cut(nil)
		b.idle(time.Second)
	}
}

// Rule (timed.go): acknowledgments go before data at the first opportunity: behind the frame that
// is being transmitted, before those of the Send Queue; one for the card that the next frame is for
// rides on that. The Send Queue holds as many frames as an owner has lines.
func TestAcknowledgmentsPassTheSendQueue(t *testing.T) {
	b := newTimedBed(t, 100, 20*time.Microsecond, 32)
	for range 8 { // answers after which as many frames may be in flight
		b.send(0, arctic.Request, 2)
		b.send(1, arctic.Request, 0)
		b.idle(time.Second)
	}
	other := b.join(0, new(link.Account))
	for range 6 {
		b.send(0, arctic.Request, 2)
		b.put(other, 2, 2, arctic.Request, 1, nil)
	}
	departures(b, 1)
	m := b.send(1, arctic.Request, 0)
	b.until(time.Second, "it arrives", func() bool { return m.at != 0 })
	if _, bare := departures(b, 3); !slices.Equal(bare, []bool{false, true, false}) {
		t.Errorf("bare acknowledgments are %v of the next frames", bare)
	}
	b.idle(time.Second)
}

// Rule (timed.go): what is in the Send Queue is outstanding: it counts towards the window.
func TestSendQueueCountsTowardsTheWindow(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) {
		thesis(c)
		c.Dispatch, c.Transmit = 100, 50*time.Microsecond
	}})
	// of one frame in the window, and one for that which was answered
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	other := b.join(0, new(link.Account))
	before := b.cards[0].Sequence(1, arctic.Request)
	for range 2 {
		b.send(0, arctic.Request, 1)
		b.put(other, 1, 1, arctic.Request, 1, nil)
	}
	b.pass(40 * time.Microsecond)
	if n := b.cards[0].Sequence(1, arctic.Request) - before; n != 2 {
		t.Errorf("%d frames are under way, want 2", n)
	}
	b.idle(time.Second)
	b.checked()
}

// Rule (timed.go): a frame that was answered or given up before it is transmitted is not sent; an
// owner that halts while the unit works on its packet sends nothing, and another takes the place.
func TestUnitsForgetWhatIsGone(t *testing.T) {
	b := newTimedBed(t, 2*time.Microsecond, time.Microsecond, 4)
	m := b.send(0, arctic.Request, 1)
	b.step(b.now + 1)
	if b.cards[0].WorksFor() == nil {
		t.Fatal("the unit does not work on it")
	}
	b.own[0].Halted = true
	other := b.put(b.join(0, new(link.Account)), 1, 1, arctic.Request, 1, nil)
	b.arrives(time.Second, other)
	if m.at != 0 {
		t.Error("a packet of a halted owner left")
	}
	b.own[0].Halted = false
	b.cards[0].Resume(&b.own[0].Owner)
	b.touched = true
	b.arrives(time.Second, m)
	// The peer is lost while frames are in the Send Queue.
	for range 3 {
		b.send(0, arctic.Request, 1)
	}
	b.step(b.now + 5000)
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	b.cards[0].RemovePeer(1)
	b.settle(b.cards[0])
	b.cards[0].SetPeer(peerOf(0, 1))
	b.touched = true
	b.idle(time.Second)
	b.pass(time.Millisecond)
	b.reasons = nil
	exactlyOnce(b, newTraffic(b, 10))
}

// Rule (timed.go): a full transmit ring stops the Transmit Scheduler with its frame, and a full
// Send Queue the Dispatch Unit; nothing is lost (exactly once on such machines is in
// exactlyonce_test.go).
func TestSendQueueIsBounded(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond}, tune: func(c *link.Config) {
		thesis(c)
		c.Dispatch, c.Transmit, c.FirstWindow = 10, 100*time.Microsecond, 64
	}})
	exactlyOnce(b, newTraffic(b, 100))
	before := b.cards[0].Sequence(1, arctic.Request)
	var owners []*owner
	for range 5 {
		o := b.join(0, new(link.Account))
		for range 8 {
			for n := uint16(0); n < 8 && b.put(o, 1, n, arctic.Request, 1, nil) != nil; n++ {
			}
		}
		owners = append(owners, o)
	}
	b.pass(90 * time.Microsecond)
	if n := b.cards[0].Sequence(1, arctic.Request) - before; n != 8 {
		t.Errorf("%d frames of %d lines are in the Send Queue, want as many as an owner has lines", n, 8*len(owners))
	}
	b.idle(time.Second)
}
