package link_test

// This file holds the rules of acknowledgments and of the order in which frames leave.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Rule (doc.go, acknowledgment before data): an acknowledgment rides on data: two cards that answer
// each other within AckDelay send no frame that carries only one, and one frame for each message.
func TestAcknowledgmentsRideOnData(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	roundTrips := func(n int) {
		for range n {
			ask := b.send(0, arctic.Request, 1)
			b.until(time.Second, "the request", func() bool { return ask.at != 0 })
			answer := b.send(1, arctic.Reply, 0)
			b.until(time.Second, "the reply", func() bool { return answer.at != 0 })
		}
	}
	roundTrips(50)
	b.idle(time.Second)
	before := [2]link.Counters{b.cards[0].Counters, b.cards[1].Counters}
	roundTrips(300)
	for i, c := range b.cards {
		n := &c.Counters
		if d := n.AcksSent - before[i].AcksSent; d != 0 {
			t.Errorf("card %d sent %d frames with only an acknowledgment in 300 round trips", i, d)
		}
		if d := n.FramesSent - before[i].FramesSent; d != 300 {
			t.Errorf("card %d sent %d frames in 300 round trips, want one each", i, d)
		}
	}
	b.idle(time.Second)
	if d := b.cards[0].Counters.AcksSent - before[0].AcksSent; d != 1 {
		t.Errorf("the last reply was acknowledged %d times, want once", d)
	}
}

// Rule (Config.AckDelay): an acknowledgment that nothing takes along leaves after AckDelay, and not
// before.
func TestAcknowledgmentWaitsForAckDelay(t *testing.T) {
	for _, delay := range []time.Duration{time.Microsecond, 50 * time.Microsecond, time.Millisecond} {
		b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { c.AckDelay = delay }})
		exactlyOnce(b, newTraffic(b, 3))
		m := b.send(0, arctic.Request, 1)
		b.until(time.Second, "it arrives", func() bool { return m.at != 0 })
		arrived, sent := b.now, b.cards[1].Counters.AcksSent
		b.until(time.Second, "it is acknowledged", func() bool { return b.cards[1].Counters.AcksSent > sent })
		if took := time.Duration(b.now - arrived); took < delay || took > delay+2 {
			t.Errorf("acknowledged after %v, want %v", took, delay)
		}
	}
}

// Rule (Config.AckEvery): after the given number of frames with trains, and four times as many with
// blocks, an acknowledgment leaves at once. So does one of a frame of which the receiver says so
// (Answer), and one of a frame before which another is missing.
func TestAcknowledgmentsThatDoNotWait(t *testing.T) {
	for _, c := range []struct {
		every  int
		block  bool
		frames int // for one acknowledgment
	}{{1, false, 1}, {4, false, 4}, {1, true, 4}, {4, true, 16}} {
		b := newBed(t, setup{cards: 2, net: near, tune: func(cfg *link.Config) {
			cfg.Train, cfg.AckEvery, cfg.AckDelay = 1, c.every, 4*time.Millisecond
		}})
		// after which a stream may have many frames in flight
		warm := newTraffic(b, 400, [2]int{0, 1})
		warm.block = 64
		b.until(10*time.Second, "all arrive", warm.pump)
		b.pass(5 * time.Millisecond)
		before := b.cards[1].Counters.AcksSent
		const times = 3
		for range times * c.frames {
			var block []byte
			if c.block {
				block = pattern(64, 1)
			}
			b.put(b.own[0], 1, 1, arctic.Request, 2, block)
			b.pass(time.Microsecond)
		}
		b.pass(time.Millisecond)
		if n := b.cards[1].Counters.AcksSent - before; n != times {
			t.Errorf("every %d, blocks %v: %d acknowledgments of %d frames, want %d", c.every, c.block, n,
				times*c.frames, times)
		}
	}
	lose := false
	b := newBed(t, setup{cards: 2, net: near, tune: func(cfg *link.Config) {
		cfg.Train, cfg.AckDelay = 1, 4*time.Millisecond
	}, wrap: tapped(func(card int, f arctic.Frame) bool {
		return card != 0 || f.Packets() == 0 || !lose
	})})
	b.until(10*time.Second, "all arrive", newTraffic(b, 50).pump)
	b.pass(5 * time.Millisecond)
	before := b.cards[1].Counters.AcksSent
	b.send(0, arctic.Request, 1)
	b.pass(time.Millisecond)
	if n := b.cards[1].Counters.AcksSent - before; n != 0 {
		t.Fatalf("%d acknowledgments at once of a frame in order", n)
	}
	b.atOnce = true
	b.send(0, arctic.Request, 1)
	b.pass(time.Millisecond)
	if n := b.cards[1].Counters.AcksSent - before; n != 1 {
		t.Fatalf("%d acknowledgments of a frame whose sender waits, want 1", n)
	}
	b.atOnce, lose = false, true
	b.send(0, arctic.Request, 1)
	b.pass(time.Microsecond)
	lose = false
	b.send(0, arctic.Request, 1)
	b.pass(time.Millisecond)
	if n := b.cards[1].Counters.AcksSent - before; n != 2 {
		t.Fatalf("%d acknowledgments of frames before which one is missing, want 1", n-1)
	}
	b.idle(time.Second)
}

// Rule (transmit.go, acknowledge): an acknowledgment that is due at once rides on the data that
// leaves in the same step.
func TestAcknowledgmentDueAtOnceRidesToo(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { c.AckEvery = 1 }})
	exactlyOnce(b, newTraffic(b, 10))
	before := b.cards[1].Counters
	b.send(0, arctic.Request, 1)
	b.step(b.now)
	at, _ := b.net.Next()
	b.step(at) // the frame arrives
	b.send(1, arctic.Request, 0)
	b.step(b.now)
	after := &b.cards[1].Counters
	if after.FramesReceived != before.FramesReceived+1 || after.PacketsSent != before.PacketsSent+1 ||
		after.AcksSent != before.AcksSent {
		t.Errorf("%d frames received, %d packets and %d bare acknowledgments sent, want 1, 1 and 0",
			after.FramesReceived-before.FramesReceived, after.PacketsSent-before.PacketsSent,
			after.AcksSent-before.AcksSent)
	}
}

// Rule (doc.go, acknowledgment before data): an acknowledgment that is due at once leaves before
// the data for other cards.
func TestAcknowledgmentsGoBeforeData(t *testing.T) {
	var order []arctic.Frame
	b := newBed(t, setup{cards: 3, net: near, wrap: capture(&order), tune: func(c *link.Config) { c.AckEvery = 1 }})
	exactlyOnce(b, newTraffic(b, 10))
	b.send(1, arctic.Request, 0)
	b.step(b.now)
	at, _ := b.net.Next()
	b.step(at) // the frame arrives, and is acknowledged in the next step
	for range 5 {
		b.send(0, arctic.Reply, 2)
	}
	order = nil
	b.step(b.now)
	if len(order) < 2 || order[0].Header().DestinationCard != 1 || order[0].Packets() != 0 || order[1].Packets() == 0 {
		t.Errorf("%d frames left, the first not the acknowledgment", len(order))
	}
	b.idle(time.Second)
}

// Rule (doc.go, reply before request): replies leave before requests, whatever was queued first, to
// whichever card.
func TestRepliesGoFirst(t *testing.T) {
	for kind, tune := range map[string]func(*link.Config){
		"native": single, "timed": func(c *link.Config) { timed(c); c.Lines, c.FirstWindow = 64, 32 }} {
		var frames []arctic.Frame
		b := newBed(t, setup{cards: 3, net: near, tune: tune, wrap: capture(&frames)})
		exactlyOnce(b, newTraffic(b, 40))
		b.pass(time.Second)
		frames = nil
		for _, l := range []arctic.Level{arctic.Request, arctic.Reply} {
			for i := range 8 {
				b.send(0, l, 1+i%2)
			}
		}
		b.idle(time.Second)
		data, replies := 0, 0
		for _, f := range withPackets(frames) {
			data++
			if f.Header().Level == arctic.Reply {
				if replies++; replies != data {
					t.Fatalf("%s: a request left before the %d replies that were ready", kind, 8)
				}
			}
		}
		if data != 16 || replies != 8 {
			t.Errorf("%s: %d frames with packets, %d replies", kind, data, replies)
		}
	}
}

// Rule (transmit.go): every frame carries the acknowledgments of both levels, also of one whose
// flow is parked.
func TestAcknowledgmentsOfBothLevels(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 20, [2]int{0, 1}))
	b.resting()
	frames = nil
	m := b.send(1, arctic.Reply, 0)
	b.step(b.now)
	for l, ack := range frames[0].Header().Acks {
		if want := b.cards[0].Sequence(1, arctic.Level(l)); want == 0 || ack != want {
			t.Errorf("level %v: acknowledges %d, want %d", arctic.Level(l), ack, want)
		}
	}
	b.arrives(time.Second, m)
}

// Rule (acknowledge.go; RFC 9293 section 3.10.7.4): an acknowledgment of what was never sent is
// ignored, in the cumulative number as in the selective bits, so what is in flight keeps its line
// and is sent again until it is answered.
func TestAcknowledgmentOfWhatWasNeverSent(t *testing.T) {
	for _, c := range []struct {
		ahead     uint32 // of what has been sent
		selective uint64
	}{{1, 0}, {link.Window - 1, 0}, {1 << 16, ^uint64(0)}, {1 << 30, 0}, {0, ^uint64(0)}, {^uint32(0), ^uint64(1)}} {
		var frames []arctic.Frame
		b := newBed(t, setup{cards: 2, net: near, wrap: capture(&frames)})
		exactlyOnce(b, newTraffic(b, 3))
		var bare arctic.Frame // of card 1, in this life
		for _, f := range frames {
			if h := f.Header(); !h.Hello && h.SourceCard == 1 && f.Packets() == 0 {
				bare = f
			}
		}
		b.net.Cut(func(from, _ [6]byte) bool { return from == address(0) })
		m := b.send(0, arctic.Request, 1)
		b.step(b.now)
		b.inject(edited(bare, func(h *arctic.Header) {
			next := b.cards[0].Sequence(1, arctic.Request)
			if h.Acks[arctic.Request], h.Selective[arctic.Request] = next+c.ahead, c.selective; c.ahead == 0 ||
				c.ahead == ^uint32(0) {
				// it acknowledges nothing, but its bits do
				h.Acks[arctic.Request] = next + c.ahead - 1
				h.Selective[arctic.Request] = c.selective &^ 1
			}
		}))
		b.pass(100 * time.Microsecond) // the bed fails if the line comes back as delivered
		if m.back {
			t.Fatalf("%d ahead, selective %#x: the frame counts as answered", c.ahead, c.selective)
		}
		b.checked()
		b.net.Cut(nil)
		b.arrives(time.Second, m)
	}
}
