package link_test

// This file holds the rules of rejects, and of the back-off after them.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Rule (doc.go): an answer to a frame is final. A packet that was rejected for now travels again in
// another frame with another number, and is delivered once.
func TestRejectedForNowTravelsInAnotherFrame(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 5))
	frames = nil
	b.judge = func(_ int, m *message) arctic.Reason {
		if m.rejected < 3 {
			return arctic.ReasonSwitching
		}
		return arctic.ReasonNone
	}
	before := b.cards[0].Counters
	m := b.send(0, arctic.Request, 1)
	b.arrives(time.Second, m)
	seen := map[uint32]bool{}
	for _, f := range withPackets(frames) {
		if seen[f.Header().Sequence] {
			t.Errorf("frame %d was sent again", f.Header().Sequence)
		}
		seen[f.Header().Sequence] = true
	}
	if c := b.cards[0].Counters; len(seen) != 4 || c.RejectsReceived-before.RejectsReceived != 3 ||
		m.owner.Retried != 3 || c.Retransmitted != before.Retransmitted {
		t.Errorf("%d frames, %d rejects received, %d retried by the owner, want 4, 3 and 3", len(seen),
			c.RejectsReceived-before.RejectsReceived, m.owner.Retried)
	}
	by := map[arctic.Reason]uint64{}
	b.cards[0].ByPeers.Each(func(r arctic.Reason, n uint64) { by[r] = n })
	if by[arctic.ReasonSwitching] != 3 {
		t.Errorf("counted by reason: %v", by)
	}
}

// Rule (doc.go): of a train each packet has its own answer: accepted, rejected for now, or for
// good; only those that were rejected for good come back, with their reason, and only those
// rejected for now travel again.
func TestEachPacketOfATrainIsAnswered(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 5))
	var sent []*message
	tried := map[*message]int{}
	b.judge = func(_ int, m *message) arctic.Reason {
		tried[m]++
		switch {
		case m.id%3 == 1:
			return arctic.ReasonNoContext
		case m.id%3 == 2 && m.rejected == 0:
			return arctic.ReasonQueueFull
		}
		return arctic.ReasonNone
	}
	before := b.cards[0].Counters.TrainsSent
	for range 60 {
		sent = append(sent, b.send(0, arctic.Request, 1))
	}
	b.idle(time.Second)
	if n := b.cards[0].Counters.TrainsSent - before; n > 4 {
		t.Fatalf("%d trains of 60 packets, so little is tested", n)
	}
	for _, m := range sent {
		good := m.settled == link.Delivered && m.reason == arctic.ReasonNone
		if bad := m.settled == link.Returned && m.reason == arctic.ReasonNoContext; good != (m.id%3 != 1) ||
			bad != (m.id%3 == 1) {
			t.Errorf("message %d is settled as %d, %v", m.id, m.settled, m.reason)
		}
		if want := map[int]int{0: 1, 1: 1, 2: 2}[m.id%3]; tried[m] != want {
			t.Errorf("message %d came %d times, want %d", m.id, tried[m], want)
		}
	}
}

// Rule (Verdict.Note): a packet with a second permanent reason comes again, and back with its own.
func TestTwoPermanentReasonsInATrain(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 5))
	reasons := []arctic.Reason{arctic.ReasonJob, arctic.ReasonNoContext, arctic.ReasonUnknownKind, arctic.ReasonNone}
	b.judge = func(_ int, m *message) arctic.Reason { return reasons[m.id%4] }
	var sent []*message
	for range 40 {
		sent = append(sent, b.send(0, arctic.Reply, 1))
	}
	b.idle(time.Second)
	for _, m := range sent {
		if m.reason != reasons[m.id%4] {
			t.Errorf("message %d: %v, want %v", m.id, m.reason, reasons[m.id%4])
		}
	}
}

// Rule (rejects.go): a repeated frame gets the same answer each time it comes, and is not judged
// again: also when its reject was lost, the receiver has room by now, and the packets have gone on
// elsewhere.
func TestRepeatedFrameGetsTheSameAnswer(t *testing.T) {
	loseAnswers := 2
	b := newBed(t, setup{cards: 2, net: near, wrap: tapped(func(card int, f arctic.Frame) bool {
		if card == 1 && f.Rejects() > 0 && loseAnswers > 0 {
			loseAnswers--
			return false
		}
		return true
	})})
	exactlyOnce(b, newTraffic(b, 5))
	for _, reason := range []arctic.Reason{arctic.ReasonQueueFull, arctic.ReasonNoContext} {
		judged := 0
		b.judge = func(_ int, m *message) arctic.Reason {
			if judged++; judged == 1 {
				return reason
			}
			return arctic.ReasonNone
		}
		before := b.cards[1].Counters
		loseAnswers = 2
		m := b.send(0, arctic.Request, 1)
		b.until(time.Second, "an answer", func() bool { return m.back })
		c := &b.cards[1].Counters
		if n := c.RepeatedRejects - before.RepeatedRejects; n != 2 || c.RejectsSent-before.RejectsSent != 1 {
			t.Errorf("%v: answered anew %d times and as before %d times, want 1 and 2", reason,
				c.RejectsSent-before.RejectsSent, n)
		}
		if permanent := reason.Permanent(); m.accepted() == permanent || judged == 1 != permanent ||
			(m.settled == link.Returned) != permanent {
			t.Errorf("%v: judged %d times, settled as %d", reason, judged, m.settled)
		}
	}
}

// Rule (Owner.Ended): what is rejected for now of an owner that has ended is not tried again.
func TestOwnerThatEndedDoesNotTryAgain(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 5))
	b.judge = func(int, *message) arctic.Reason { return arctic.ReasonQueueFull }
	m := b.send(0, arctic.Request, 1)
	b.step(b.now)
	b.own[0].Ended = true
	b.idle(time.Second)
	if m.settled != link.Discarded || m.rejected != 1 {
		t.Errorf("settled as %d after %d rejects", m.settled, m.rejected)
	}
}

// Rule (doc.go): only what goes to the same node from the same owner waits with a packet that was
// rejected for now: other owners, other nodes of the card, the other level, and blocks go on.
func TestOnlyTheSameStreamWaits(t *testing.T) {
	for kind, tune := range cardConfigs {
		if kind == "tiny" {
			continue // has no line for the others
		}
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, setup{cards: 2, net: near, tune: tune})
			exactlyOnce(b, newTraffic(b, 20))
			other := b.join(0, new(link.Account))
			full := true
			stalled := b.own[0]
			b.judge = func(_ int, m *message) arctic.Reason {
				if full && m.owner == stalled && m.node == 1 && m.level == arctic.Request && m.block == nil {
					return arctic.ReasonQueueFull
				}
				return arctic.ReasonNone
			}
			var waits []*message
			for range 3 {
				waits = append(waits, b.send(0, arctic.Request, 1))
			}
			b.pass(20 * time.Millisecond) // it backs off
			begin := b.now
			others := []*message{
				b.put(stalled, 1, 2, arctic.Request, 2, nil),
				b.put(stalled, 1, 1, arctic.Reply, 2, nil),
				b.put(other, 1, 1, arctic.Request, 2, nil),
			}
			if kind != "timed" {
				others = append(others, b.put(stalled, 1, 1, arctic.Request, 0, pattern(512, 3)))
			}
			for _, m := range others {
				b.arrives(10*time.Millisecond, m)
			}
			if took := time.Duration(b.now - begin); took > time.Millisecond {
				t.Errorf("the others took %v", took)
			}
			for _, m := range waits {
				if m.back || m.at != 0 {
					t.Fatal("a message came through though its node was full")
				}
			}
			full = false
			for _, m := range waits {
				b.arrives(200*time.Millisecond, m)
			}
			b.checked()
		})
	}
}

// tries returns when the judge rejected the packets of owners that are full for a time.
func (b *bed) tries(d time.Duration) (at []int64) {
	b.t.Helper()
	was := b.judge
	b.judge = func(_ int, m *message) arctic.Reason {
		if len(at) == 0 || at[len(at)-1] != b.now {
			at = append(at, b.now)
		}
		return arctic.ReasonQueueFull
	}
	b.pass(d)
	b.judge = was
	return at
}

// Rule (hold.go): the back-off after rejects is MinHold at first, doubles up to a millisecond, then
// grows by a quarter, and is MaxHold in the end, each a quarter longer at most by chance; what is
// accepted ends it.
func TestBackOffGrows(t *testing.T) {
	const least, most = 20 * time.Microsecond, 50 * time.Millisecond
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { c.MinHold, c.MaxHold = least, most }})
	exactlyOnce(b, newTraffic(b, 5))
	for range 2 {
		m := b.send(0, arctic.Request, 1)
		at := b.tries(2 * time.Second)
		if len(at) < 20 {
			t.Fatalf("%d tries", len(at))
		}
		backoff := least
		for i := range at[1:] {
			gap := time.Duration(at[i+1] - at[i])
			// A round trip, the account's gap between tries, and what the bed's clock adds.
			if over := 22*time.Microsecond + 100*time.Nanosecond; gap < backoff || gap > backoff+backoff/4+over {
				t.Fatalf("try %d came after %v, with a back-off of %v", i+1, gap, backoff)
			}
			if backoff >= time.Millisecond {
				backoff += backoff / 4
			} else {
				backoff *= 2
			}
			backoff = min(backoff, most)
		}
		if last := time.Duration(at[len(at)-1] - at[len(at)-2]); last < most {
			t.Errorf("after %d tries the back-off is %v, not MaxHold", len(at), last)
		}
		b.arrives(2*most, m) // and so the back-off ends
	}
}

// Rule (hold.go): the tries of one account after rejects follow each other no faster than one each
// 50 us, beside others 400 us, after a burst, however many streams and owners it has; and those of
// one stream become few. A node that has room gets what waits.
func TestTriesOfAnAccountAreBounded(t *testing.T) {
	for _, k := range []struct {
		owners, nodes int
		beside        bool
		most          uint64 // in a second, once they are settled
	}{{1, 1, false, 11}, {1, 50, false, 550}, {16, 400, false, 20_000}, {16, 400, true, 2_500}} {
		b := newBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond}})
		room := map[uint16]bool{}
		b.judge = func(_ int, m *message) arctic.Reason {
			if m.owner == b.own[0] || room[m.node] {
				return arctic.ReasonNone
			}
			return arctic.ReasonQueueFull
		}
		account := new(link.Account)
		var waits []*message
		for range k.owners {
			o := b.join(0, account)
			for n := range k.nodes {
				if m := b.put(o, 1, uint16(200+n), arctic.Request, 1, nil); n == 0 {
					waits = append(waits, m)
				}
			}
		}
		second := func() {
			for range 20 {
				b.cards[0].Uses(account, 0)
				if k.beside {
					b.cards[0].Uses(b.own[0].Account, 0)
				}
				b.pass(time.Second / 20)
			}
		}
		second()
		before := b.cards[0].Counters.RejectsReceived
		second()
		if n := b.cards[0].Counters.RejectsReceived - before; n == 0 || n > k.most {
			t.Errorf("%d owners to %d nodes, beside others %v: %d tries in a second, want some and at most %d",
				k.owners, k.nodes, k.beside, n, k.most)
		}
		if b.cards[0].Contended() != k.beside {
			t.Errorf("contended: %v", !k.beside)
		}
		if t.Failed() {
			return
		}
		within := time.Second
		if k.beside {
			within = 4 * time.Second
		}
		room[200] = true
		b.until(within, "what waited arrives", func() bool {
			for _, m := range waits {
				if !m.back {
					return false
				}
			}
			return true
		})
	}
}

// Rule (TryAnew): an owner that is back tries anew at once, however long its back-off was. It books
// no more of its account's tries than it makes, so however often it comes back with many streams
// that back off, it does not put off others of the account.
func TestTryAnew(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 5))
	m := b.send(0, arctic.Request, 1)
	b.tries(3 * time.Second) // until the back-off is MaxHold
	b.cards[0].TryAnew(&b.own[0].Owner)
	b.touched = true
	begin := b.now
	b.arrives(time.Second, m)
	if took := time.Duration(b.now - begin); took > 200*time.Microsecond {
		t.Errorf("tried after %v", took)
	}
	const nodes = 200
	for n := range uint16(nodes) {
		b.put(b.own[0], 1, 200+n, arctic.Request, 1, nil)
	}
	b.tries(time.Second)
	b.judge = func(_ int, m *message) arctic.Reason {
		if m.node >= 200 || m.rejected == 0 {
			return arctic.ReasonQueueFull
		}
		return arctic.ReasonNone
	}
	for range 40 {
		b.cards[0].TryAnew(&b.own[0].Owner)
	}
	b.touched = true
	other := b.put(b.join(0, b.own[0].Account), 1, 1, arctic.Request, 1, nil)
	begin = b.now
	b.arrives(time.Second, other) // it is rejected once
	if took := time.Duration(b.now - begin); took > 20*time.Millisecond {
		t.Errorf("another owner of the account waited %v for its next try, beside %d streams that back off",
			took, nodes)
	}
}

// Rule (park.go): rejects are remembered as long as the peer may ask for them, however long it is
// silent, and no timer runs for it; its next frame ends it.
func TestRememberedRejectsOutlastQuiet(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 5))
	b.resting()
	frames = nil
	b.judge = func(int, *message) arctic.Reason { return arctic.ReasonNoContext }
	b.send(0, arctic.Request, 1)
	b.idle(time.Second)
	b.judge = nil
	refused := withPackets(frames)[0]
	b.resting()
	b.now += int64(time.Hour)
	b.resting()
	if a, z := b.cards[0].Flows(), b.cards[1].Flows(); a != 0 || z != 1 {
		t.Fatalf("%d and %d flows are in use, want none and the one that remembers", a, z)
	}
	before := b.cards[1].Counters
	b.inject(refused)
	b.pass(time.Millisecond)
	after := &b.cards[1].Counters
	if after.RepeatedRejects != before.RepeatedRejects+1 || after.RejectsSent != before.RejectsSent {
		t.Errorf("the frame that came again was answered %d times as before, and %d times anew",
			after.RepeatedRejects-before.RepeatedRejects, after.RejectsSent-before.RejectsSent)
	}
	exactlyOnce(b, newTraffic(b, 5))
	b.resting()
	if n := b.flows(); n != 0 {
		t.Errorf("%d flows are in use after the peer knew", n)
	}
}

// flows returns how many flows all cards have.
func (b *bed) flows() (n int) {
	for _, c := range b.cards {
		if c != nil {
			n += c.Flows()
		}
	}
	return n
}

// Rule (transmit.go, arctic.MaxRejects): more rejects than a frame has room for leave in several,
// in one step.
func TestManyRejectsAtOnce(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, tune: single, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 300, [2]int{0, 1}))
	b.judge = func(_ int, m *message) arctic.Reason {
		if m.rejected == 0 {
			return arctic.ReasonQueueFull
		}
		return arctic.ReasonNone
	}
	frames = nil
	for i := range uint16(100) {
		b.put(b.own[0], 1, i, arctic.Request, 1, nil)
	}
	b.idle(time.Second)
	most := 0
	for _, f := range frames {
		most = max(most, f.Rejects())
	}
	if n := b.cards[1].Counters.RejectsSent; most > arctic.MaxRejects || most < arctic.MaxRejects/2 || n != 100 {
		t.Errorf("%d packets rejected, at most %d rejects in a frame", n, most)
	}
}
