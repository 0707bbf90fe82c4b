package link_test

// This file holds the rules of the window, of lost frames and of retransmission (RFC 5681, RFC
// 6298).

import (
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Rule (Config.FirstWindow, Window): as many frames of a flow are in flight as its window says:
// FirstWindow at first, one more for each that is answered (slow start), and never more than Window
// between the oldest unanswered and the newest.
func TestWindow(t *testing.T) {
	most, oldest, newest := 0, uint32(0), uint32(0)
	b := newBed(t, setup{cards: 2, net: wire.Config{Delay: time.Millisecond}, tune: func(c *link.Config) {
		single(c)
		c.Lines, c.FirstWindow = 4000, 5
	},
		wrap: tapped(func(card int, f arctic.Frame) bool {
			if h := f.Header(); card == 0 && f.Packets() > 0 {
				oldest, newest = h.Sequence-uint32(h.Age), h.Sequence
				most = max(most, int(newest-oldest)+1)
			}
			return true
		})})
	var sent []*message
	for i := range uint16(4000) { // a stream begins with one frame, so there are many
		sent = append(sent, b.put(b.own[0], 1, i%50, arctic.Request, 2, nil))
	}
	b.until(time.Second, "the first leave", func() bool { return b.cards[0].Sequence(1, arctic.Request) > 0 })
	b.pass(500 * time.Microsecond)
	if most != 5 {
		t.Errorf("%d frames in flight at first, want FirstWindow", most)
	}
	b.pass(2 * time.Millisecond)
	if most != 10 {
		t.Errorf("%d frames in flight when 5 are answered, want 10", most)
	}
	b.idle(time.Minute)
	if most != link.Window {
		t.Errorf("%d frames in flight, want Window in the end and no more", most)
	}
	for _, m := range sent {
		if m.settled != link.Delivered {
			t.Fatal("not all were delivered")
		}
	}
}

// Rule (doc.go, full queues): with the window full a flow waits for an answer: behind a frame that
// is not answered no more than Window are sent, also if all of those are answered, here with
// rejects.
func TestNoMoreThanTheWindowBehindALostFrame(t *testing.T) {
	const none = 1 << 31
	lost, newest := uint32(none), uint32(0)
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) {
		single(c)
		c.Lines, c.FirstWindow = 4000, link.Window
	},
		wrap: tapped(func(card int, f arctic.Frame) bool {
			if card != 0 || f.Packets() == 0 {
				return true
			}
			newest = max(newest, f.Header().Sequence)
			return f.Header().Sequence != lost
		})})
	exactlyOnce(b, newTraffic(b, 500, [2]int{0, 1}))
	lost = b.cards[0].Sequence(1, arctic.Request) + 3
	b.judge = func(_ int, m *message) arctic.Reason { return arctic.ReasonNoContext }
	for range 1000 {
		b.send(0, arctic.Request, 1)
	}
	b.pass(4 * time.Millisecond) // less than MinRTO
	if n := newest - lost + 1; n != link.Window {
		t.Errorf("%d frames from the lost one on, want Window", n)
	}
	b.checked()
	lost = none
	b.idle(time.Minute)
}

// Rule (arrive.go): a sender has at most Window frames unanswered. A frame whose age says that it
// has more is dropped and counted, whatever its sequence number; the largest age that is possible
// is taken.
func TestMoreUnansweredThanTheWindow(t *testing.T) {
	for _, c := range []struct {
		ahead   uint32
		age     uint16
		dropped uint64
	}{{0, 0, 0}, {0, link.Window - 1, 0}, {0, link.Window, 1}, {0, 0xffff, 1}, {link.Window, link.Window, 1}} {
		var frames []arctic.Frame
		b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
		exactlyOnce(b, newTraffic(b, 1, [2]int{1, 0}))
		b.liar = 1
		before := b.cards[0].Counters
		b.inject(edited(withPackets(frames)[0], func(h *arctic.Header) {
			h.Sequence, h.Age = b.cards[1].Sequence(0, h.Level)+c.ahead, c.age
		}))
		judged := 0
		b.judge = func(int, *message) arctic.Reason { judged++; return arctic.ReasonNone }
		b.pass(time.Millisecond)
		if dropped := b.cards[0].Counters.OutOfWindow - before.OutOfWindow; dropped != c.dropped ||
			judged != 1-int(c.dropped) {
			t.Errorf("%d ahead, of age %d: counted %d times as out of the window and judged %d times, want %d and %d",
				c.ahead, c.age, dropped, judged, c.dropped, 1-c.dropped)
		}
		b.checked()
	}
}

// attempts is a bed whose card 0 loses the first frames with packets after its bed is armed, and
// the times at which it sent each of them.
type attempts struct {
	*bed
	lose  int
	armed bool
	at    map[uint32][]int64 // by sequence
}

func newAttempts(t *testing.T, net wire.Config, tune func(*link.Config)) *attempts {
	a := &attempts{at: map[uint32][]int64{}}
	a.bed = newBed(t, setup{cards: 2, net: net, tune: tune, wrap: tapped(func(card int, f arctic.Frame) bool {
		if card != 0 || f.Packets() == 0 || !a.armed {
			return true
		}
		seq := f.Header().Sequence
		a.at[seq] = append(a.at[seq], a.now)
		if a.lose > 0 {
			a.lose--
			return false
		}
		return true
	})})
	return a
}

// Rule (RFC 6298 sections 2 and 5): before a round-trip time is known a frame is sent again after
// FirstRTO. Later the timeout is the smoothed time and four times its variation, and at least
// MinRTO. Each timeout doubles that, up to MaxRTO.
func TestRetransmissionTimeout(t *testing.T) {
	a := newAttempts(t, near, func(c *link.Config) { c.MaxRTO = 35 * time.Millisecond })
	m := a.send(0, arctic.Request, 1)
	a.armed, a.lose = true, 1
	a.arrives(time.Second, m)
	if at := a.at[0]; len(at) != 2 || at[1]-at[0] < int64(10*time.Millisecond) ||
		at[1]-at[0] > int64(10*time.Millisecond)+2 {
		t.Errorf("sent at %v, want twice, FirstRTO apart", at)
	}
	a.pass(time.Second)
	exactlyOnce(a.bed, newTraffic(a.bed, 100, [2]int{0, 1})) // 20 us and AckDelay
	a.pass(time.Second)
	a.at, a.lose = map[uint32][]int64{}, 6
	seq := a.cards[0].Sequence(1, arctic.Request)
	a.arrives(time.Second, a.send(0, arctic.Request, 1))
	var gaps []time.Duration
	for i, at := range a.at[seq][1:] {
		gaps = append(gaps, time.Duration(at-a.at[seq][i]).Round(time.Millisecond))
	}
	const ms = time.Millisecond
	if want := []time.Duration{5 * ms, 10 * ms, 20 * ms, 35 * ms, 35 * ms, 35 * ms}; !slices.Equal(gaps, want) {
		t.Fatalf("sent again after %v, want %v", gaps, want)
	}
	far := newAttempts(t, wire.Config{Delay: 20 * time.Millisecond}, func(c *link.Config) {
		c.MaxRTO, c.FirstRTO = time.Second, 200*time.Millisecond
	})
	for range 50 {
		far.arrives(time.Second, far.send(0, arctic.Request, 1))
	}
	far.armed, far.lose = true, 1
	seq = far.cards[0].Sequence(1, arctic.Request)
	far.arrives(time.Second, far.send(0, arctic.Request, 1))
	if at := far.at[seq]; len(at) != 2 || at[1]-at[0] < int64(40*time.Millisecond) ||
		at[1]-at[0] > int64(80*time.Millisecond) {
		t.Errorf("with a round trip of 40 ms sent at %v", at)
	}
	if n := far.cards[0].Counters.Timeouts; n != 1 {
		t.Errorf("%d timeouts with a round trip of 40 ms, want the one of the lost frame", n)
	}
}

// Rule (RFC 5681 section 3.2; acknowledge.go): a frame that three later ones have overtaken is sent
// again at once, and no sooner: two are not enough, because networks reorder. The window is halved.
func TestOvertakenFrameIsSentAgain(t *testing.T) {
	for after := 1; after <= 4; after++ {
		a := newAttempts(t, near, func(c *link.Config) { single(c); c.AckEvery = 1 })
		exactlyOnce(a.bed, newTraffic(a.bed, 200, [2]int{0, 1}))
		a.pass(time.Second)
		a.armed, a.lose = true, 1
		seq := a.cards[0].Sequence(1, arctic.Request)
		m := a.send(0, arctic.Request, 1)
		for range after {
			a.send(0, arctic.Request, 1)
		}
		a.arrives(time.Second, m)
		at := a.at[seq]
		if len(at) != 2 {
			t.Fatalf("%d frames behind it: sent %d times, want 2", after, len(at))
		}
		if quick := at[1]-at[0] < int64(time.Millisecond); quick != (after >= 3) {
			t.Errorf("%d frames behind it: sent again after %v", after, time.Duration(at[1]-at[0]))
		}
		if c := a.cards[0].Counters; c.Timeouts > 0 && after >= 3 || c.Retransmitted != 1 {
			t.Errorf("%d frames behind it: %d timeouts, %d frames sent again", after, c.Timeouts, c.Retransmitted)
		}
	}
}

// Rule (RFC 6298 section 5): a frame that is lost again after a retransmission is sent again after
// its own retransmission time, however busy the frames after it keep the flow.
func TestFrameLostTwiceIsNotForgotten(t *testing.T) {
	a := newAttempts(t, near, single)
	exactlyOnce(a.bed, newTraffic(a.bed, 100, [2]int{0, 1}))
	seq := a.cards[0].Sequence(1, arctic.Request)
	m := a.send(0, arctic.Request, 1)
	a.lose, a.armed = 1, true
	begin, next := a.now, a.now
	a.until(time.Second, "the message that is lost twice arrives", func() bool {
		if len(a.at[seq]) == 1 && a.lose == 0 {
			for n := range a.at { // only the first that is sent again
				if n != seq && len(a.at) > 3 {
					a.lose = 1
					break
				}
			}
		}
		if a.now >= next {
			a.send(0, arctic.Request, 1)
			next += int64(500 * time.Microsecond)
			a.alarm = next
		}
		return m.back
	})
	if took := time.Duration(a.now - begin); len(a.at[seq]) < 2 || took > 12*time.Millisecond {
		t.Errorf("arrived after %v and %d tries, with MinRTO 5ms", took, len(a.at[seq]))
	}
}

// Rule (RFC 6298 section 3, Karn): the round-trip time of a frame that was sent again is not
// measured, because nobody knows which one was answered.
func TestRoundTripTimeOfFramesSentOnce(t *testing.T) {
	lose := 0 // answers
	b := newBed(t, setup{cards: 2, net: near, wrap: tapped(func(card int, _ arctic.Frame) bool {
		if card == 1 && lose > 0 {
			lose--
			return false
		}
		return true
	})})
	for range 50 {
		b.arrives(time.Second, b.send(0, arctic.Request, 1))
	}
	trip := func() (d time.Duration) {
		b.cards[0].PeerStates(0, 1, func(s link.PeerState) { d = s.RoundTrip })
		return d
	}
	before := trip() // with AckDelay; a duplicate is answered at once
	for range 20 {
		lose = 2
		b.arrives(time.Second, b.send(0, arctic.Request, 1))
	}
	if after, n := trip(), b.cards[0].Counters.Retransmitted; before == 0 || after != before || n != 40 {
		t.Errorf("the round-trip time went from %v to %v with %d frames sent again", before, after, n)
	}
}

// Rule (doc.go, exactly once): a frame that was accepted behind one that is missing is taken once,
// however often it comes, before the missing one and after it; the missing one is still taken.
func TestFrameBehindAGapIsTakenOnce(t *testing.T) {
	for _, level := range arctic.ByPriority {
		lost, behind := []arctic.Frame(nil), []arctic.Frame(nil)
		gap := false
		b := newBed(t, setup{cards: 2, net: near, tune: single, wrap: tapped(func(card int, f arctic.Frame) bool {
			if card != 0 || f.Packets() == 0 || !gap {
				return true
			}
			if len(lost) == 0 {
				lost = append(lost, slices.Clone(f))
				return false
			}
			behind = append(behind, slices.Clone(f))
			return true
		})})
		exactlyOnce(b, newTraffic(b, 50, [2]int{0, 1}))
		gap = true
		var sent []*message
		for range 3 {
			sent = append(sent, b.send(0, level, 1))
		}
		b.until(time.Second, "those behind arrive", func() bool { return sent[1].at != 0 && sent[2].at != 0 })
		before := b.cards[1].Counters.Duplicates
		for range 3 {
			for _, f := range behind[:2] {
				b.inject(f) // the bed fails if it is taken
			}
			b.pass(20 * time.Microsecond)
		}
		if n := b.cards[1].Counters.Duplicates - before; n != 6 || sent[0].at != 0 {
			t.Errorf("%d duplicates, want 6; the gap is closed: %v", n, sent[0].at != 0)
		}
		b.inject(lost[0])
		b.until(time.Millisecond, "the missing one is taken", func() bool { return sent[0].at != 0 })
		b.inject(behind[0])
		b.idle(time.Second)
		b.pass(time.Millisecond)
	}
}
