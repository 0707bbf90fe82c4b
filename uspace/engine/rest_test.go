package engine_test

// This file holds the rules of quiet peers: what is put away comes back as it was, and
// a card that sleeps is not woken for it for ever (link/park.go).

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: exactly once (design idea 4) also when flows are put away and taken up again
// in the middle of a conversation, at any step, over any network, on any card, among
// rejects, and after pauses in which cards do it by themselves.
func TestExactlyOnceThroughRest(t *testing.T) {
	forced, byThemselves := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]string{"native", "thesis", "train 1", "tiny"}).Draw(rt, "card")
		fault := rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "all"}).Draw(rt, "network")
		b := newBed(t, setup{cards: rapid.IntRange(2, 4).Draw(rt, "cards"), slots: rapid.SampledFrom([]int{2, 16}).Draw(rt, "slots"), tune: cardConfigs[kind],
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond, Faults: networks[fault]}})
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "when"), 0))
		every := rapid.SampledFrom([]int{1, 3, 20}).Draw(rt, "every")
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			tr := newTraffic(b, rapid.IntRange(1, 40).Draw(rt, "messages"), 3)
			tr.burst = rapid.SampledFrom([]int{1, 4}).Draw(rt, "burst")
			end := b.now + int64(rapid.SampledFrom([]time.Duration{0, 3 * time.Millisecond}).Draw(rt, "stall"))
			tr.stalled = func(node int) bool { return node == 1 && b.now < end }
			b.alarm = end
			b.until(5*time.Minute, "all messages delivered", func() bool {
				for i, c := range b.cards {
					if random.IntN(every) == 0 {
						forced += c.Link().ParkQuiet()
					}
					if err := c.Check(); err != nil {
						t.Fatalf("card %d: %v", i, err)
					}
				}
				return tr.pump()
			})
			before := flows(b)
			exactlyOnce(b, tr) // pauses for longer than two looks take
			byThemselves += before - flows(b)
		}
	})
	if forced == 0 || byThemselves <= 0 {
		t.Errorf("put away: %d when told, %d by themselves, so little was tested", forced, byThemselves)
	}
}

// flows returns how many flows all cards have.
func flows(b *bed) (n int) {
	for _, c := range b.cards {
		if c != nil {
			n += c.Link().Flows()
		}
	}
	return n
}

// settled lets the cards run until none asks to be stepped again, and returns how
// often they asked.
func (b *bed) settled() (wakes int) {
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

// Rule: when all have spoken to all, every flow is put away, with at most three
// wake-ups for each peer, and then no card asks to be stepped again.
func TestQuietPeersArePutAway(t *testing.T) {
	const cards = 16
	b := newBed(t, setup{cards: cards, slots: 64, net: near})
	for range 2 {
		tr := newTraffic(b, 10, 2)
		b.until(time.Minute, "all messages delivered", tr.pump)
		if n := flows(b); n != 2*cards*(cards-1) {
			t.Errorf("%d flows are in use, want those of all levels of all peers", n)
		}
		if n := b.settled(); n > 3*cards*(cards-1)+cards*cards {
			t.Errorf("%d wake-ups of quiet cards", n)
		}
		if n := flows(b); n != 0 {
			t.Errorf("%d flows of quiet cards are in use", n)
		}
	}
}

// Rule: rejects are remembered as long as the peer may ask for them, however long it
// is silent, and no timer runs for it; the next frame of the peer ends it (link/park.go).
func TestRememberedRejectsOutlastQuiet(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: near, route: []uint32{0, 1, 1}, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 5, 2))
	b.settled()
	frames = nil
	b.mustSend(0, funi.Request, 2, 7) // there is no node 2
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request, Header: funi.NewHeader(2, 5, 1), Word: 7})
	refused := frames[0]
	b.settled()
	b.now += int64(time.Hour)
	b.settled()
	if a, z := b.cards[0].Link().Flows(), b.cards[1].Link().Flows(); a != 0 || z != 1 {
		t.Fatalf("%d and %d flows are in use, want none and the one that remembers", a, z)
	}
	before := b.cards[1].Counters()
	b.inject(refused)
	b.pass(time.Millisecond)
	after := b.cards[1].Counters()
	if after.RepeatedRejects != before.RepeatedRejects+1 || after.RejectsSent != before.RejectsSent {
		t.Errorf("the frame that came again was answered %d times as before, and %d times anew", after.RepeatedRejects-before.RepeatedRejects, after.RejectsSent-before.RejectsSent)
	}
	exactlyOnce(b, newTraffic(b, 5, 2))
	b.settled()
	if n := flows(b); n != 0 {
		t.Errorf("%d flows are in use after the peer knew", n)
	}
}

// Rule: a frame that the network kept back while its flow was put away is a duplicate,
// and what it takes up is put away again.
func TestLateDuplicateAfterRest(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: near, wrap: capture(&frames)})
	b.mustSend(0, funi.Request, 1, 7)
	b.pass(10 * time.Millisecond)
	if s, ok := take(b.proc[1], funi.Request); !ok || s.Payload()[0] != 7 {
		t.Fatal("nothing arrived")
	}
	b.settled()
	for _, raw := range frames {
		if f, err := arctic.Parse(raw); err == nil && f.Packets() > 0 {
			b.inject(raw)
		}
	}
	b.settled()
	if _, ok := take(b.proc[1], funi.Request); ok || b.cards[1].Counters().Duplicates == 0 {
		t.Errorf("delivered again: %v; duplicates: %d", ok, b.cards[1].Counters().Duplicates)
	}
	if n := flows(b); n != 0 {
		t.Errorf("%d flows are in use", n)
	}
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
		b.settled()
		if n := b.cards[0].Link().Flows(); n != 1 || b.ctx[0].Idle() {
			t.Fatalf("%d flows are in use, nothing waits: %v", n, b.ctx[0].Idle())
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
		b.settled()
		// Nobody has told card 1 that it need not remember what it rejected last.
		if n := b.cards[0].Link().Flows(); n != 0 {
			t.Errorf("detached: %v: %d flows are in use", detach, n)
		}
	}
}

// Rule: a peer that was quiet and starts again, as another incarnation, is met as any
// other: its sequences start from 0, and rejects of the earlier life are forgotten.
func TestQuietPeerRestarts(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: quick, route: []uint32{0, 1, 1}})
	exactlyOnce(b, newTraffic(b, 20, 2))
	b.mustSend(0, funi.Request, 2, 7) // there is no node 2
	b.settled()
	if n := b.cards[1].Link().Flows(); n != 1 {
		t.Fatalf("%d flows are in use, want the one that remembers", n)
	}
	b.start(0)
	brief, x := b.join(0, gid, 3)
	put(brief, funi.Reply, 1, 6)
	b.step(b.now)
	b.cards[0].Detach(x) // the card greets, and then has nothing to send
	b.settled()
	if n := flows(b); n != 0 || !b.cards[1].Established(0) {
		t.Errorf("%d flows are in use, established: %v", n, b.cards[1].Established(0))
	}
	b.start(0)
	b.mustSend(0, funi.Reply, 1, 7)
	b.settled()
	if s, ok := take(b.proc[1], funi.Reply); !ok || s.Payload()[0] != 7 {
		t.Error("the first frame of the new life was not delivered")
	}
	exactlyOnce(b, newTraffic(b, 20, 2))
}

// Rule: every frame carries the acknowledgments of both levels, also of one whose flow
// is put away (link/transmit.go).
func TestAcknowledgmentsOfQuietLevels(t *testing.T) {
	var frames [][]byte
	b := newBed(t, setup{cards: 2, slots: 64, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 20, 2, [2]int{0, 1}))
	b.settled()
	frames = nil
	b.mustSend(1, funi.Reply, 0, 1)
	b.step(b.now)
	f, err := arctic.Parse(frames[0])
	if err != nil {
		t.Fatal(err)
	}
	for l, ack := range f.Header().Acks {
		if want := b.cards[0].Link().Sequence(1, arctic.Level(l)); want == 0 || ack != want {
			t.Errorf("level %v: acknowledges %d, want %d", arctic.Level(l), ack, want)
		}
	}
}

// Rule: the room for a window goes back to the card at the next look at which little is
// in flight, also when the flow is used all the time.
func TestRoomForAWindowGoesBack(t *testing.T) {
	c := newCouple(t, 1024, func(c *engine.Config) { c.Train = 1 })
	c.flood(1000)
	if n := c.cards[0].Link().Room(1, arctic.Request); n != engine.Window {
		t.Fatalf("room for %d frames in a flood", n)
	}
	for end := c.now + int64(50*time.Millisecond); c.now < end; {
		c.roundTrip()
		c.now += int64(time.Millisecond)
	}
	if n := c.cards[0].Link().Room(1, arctic.Request); n >= engine.Window {
		t.Errorf("room for %d frames with one in flight", n)
	}
}

// Rule: the same stream is found however many a flow has, before and after rest, and the
// streams of a context that ended are gone (link/stream.go).
func TestManyStreams(t *testing.T) {
	const nodes = 40
	route := make([]uint32, nodes)
	for i := range route[1:] {
		route[i+1] = 1
	}
	b := newBed(t, setup{cards: 2, slots: 64, net: near, route: route})
	procs := []*funi.Interface{nil, b.proc[1]}
	for i := 2; i < nodes; i++ {
		p, _ := b.join(1, gid, uint16(i))
		procs = append(procs, p)
	}
	all := func(streams int, from *funi.Interface, ctx *engine.Context, group bool) {
		t.Helper()
		for round := range uint32(3) {
			for i := 1; i < nodes; i++ {
				put(from, funi.Request, i, round)
			}
			b.pass(time.Millisecond)
			for i := 1; group && i < nodes; i++ {
				if s, ok := take(procs[i], funi.Request); !ok || s.Payload()[0] != round {
					t.Fatalf("node %d did not get message %d", i, round)
				}
			}
		}
		if n := b.cards[0].Streams(ctx); n != streams {
			t.Errorf("%d streams, want %d", n, streams)
		}
		if err := b.cards[0].Check(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		all(nodes-1, b.proc[0], b.ctx[0], true)
		other, x := b.join(0, gid+1, 0)
		all(nodes-1, other, x, false) // its group has no other nodes: all comes back
		b.cards[0].Detach(x)
		b.step(b.now)
		if n := b.cards[0].Streams(x); n != 0 {
			t.Errorf("%d streams of a context that ended", n)
		}
		b.settled()
		if n := b.cards[0].Streams(b.ctx[0]); n != 0 {
			t.Errorf("%d streams of a quiet context", n)
		}
	}
}

// Rule: putting away and taking up again does not allocate (doc.go), nor do rejects.
func TestRestDoesNotAllocate(t *testing.T) {
	c := newCouple(t, 64)
	c.flood(10000)
	put := 0
	overrun := func() {
		for range 3 { // more than the receive queue and the FIFO hold
			c.fill(63)
			for range 20 {
				c.step()
			}
		}
		for got := 0; got < 3*63; c.step() {
			for c.proc[1].Receive(funi.Request) != nil {
				c.proc[1].Release(funi.Request)
				got++
			}
		}
	}
	round := func() {
		c.roundTrip()
		c.flood(300)
		overrun()
		for range 200 { // the last acknowledgments
			c.step()
		}
		put += c.cards[0].Link().ParkQuiet() + c.cards[1].Link().ParkQuiet()
	}
	for range 5 {
		round()
	}
	if c.cards[1].Counters().RejectsSent == 0 {
		t.Error("nothing was rejected")
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("a round trip, a flood and a rest allocate %v times", n)
	}
	if put < 4*100 {
		t.Errorf("%d flows were put away in 106 rounds", put)
	}
}

// fill sends n messages to process 1, which does not receive.
func (c *couple) fill(n int) {
	for range n {
		put(c.proc[0], funi.Request, 1, 1, 2, 3, 4)
	}
}
