package engine_test

// This file holds the rules of the context switch (thesis 4.2, appendix B, 5.3).

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// switchOut switches the context of a card out as appendix B does, stepping the bed
// while packets are in flight.
func (b *bed) switchOut(card int) (s *engine.Saved) {
	b.t.Helper()
	b.until(time.Second, "CTXR1", func() bool {
		var err error
		s, err = b.cards[card].SwitchOut(b.ctx[card], false)
		if err != nil && !errors.Is(err, engine.ErrNotReady) {
			b.t.Fatal(err)
		}
		return err == nil
	})
	return s
}

func (b *bed) switchIn(card int, s *engine.Saved) {
	b.t.Helper()
	if err := b.cards[card].SwitchIn(s); err != nil {
		b.t.Fatal(err)
	}
	b.wake[card] = 0
}

// Rule: packets for a context that is out are rejected for a transient reason, come
// again, and are delivered once it is back, exactly once; the card does not touch its
// memory meanwhile (thesis 3.1.2 CTXM, 4.2; doc.go).
func TestPeersOfASwitchedOutContext(t *testing.T) { onEach(t, peersOfASwitchedOutContext) }

func peersOfASwitchedOutContext(t *testing.T, on machine) {
	var rejects []arctic.Reject
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: on.on(quick), wrap: watchRejects(0, &rejects)})
	exactlyOnce(b, newTraffic(b, 50, 3))
	s := b.switchOut(0)
	page, queues := *b.mem[0].Page, append([]uint32{}, b.mem[0].Queues...)
	rejects = nil
	tr := newTraffic(b, 40, 3, [2]int{1, 0})
	tr.burst = 40
	tr.stalled = func(node int) bool { return node == 0 }
	b.alarm = b.now + int64(50*time.Millisecond)
	end := b.alarm
	b.until(time.Second, "peers try", func() bool { tr.pump(); return b.now >= end })
	if *b.mem[0].Page != page {
		t.Error("the card wrote into the register page of a context that is out")
	}
	for i := range queues {
		if b.mem[0].Queues[i] != queues[i] {
			t.Fatal("the card wrote into the queues of a context that is out")
		}
	}
	if len(rejects) == 0 {
		t.Fatal("nothing was rejected")
	}
	for _, r := range rejects {
		if r.Reason != arctic.ReasonSwitching {
			t.Fatalf("rejected as %v", r.Reason)
		}
	}
	if got, back := tr.totals(); got != 0 || back != 0 {
		t.Fatalf("%d delivered and %d came back while out", got, back)
	}
	b.switchIn(0, s)
	tr.stalled = func(int) bool { return false }
	exactlyOnce(b, tr)
}

// Rule: what the receive FIFOs hold is drained into a pair of queues of the saved state, whether
// the receive queues are full or the process has set CRQM. It is returned before anything else when
// the context is back (thesis 4.2, appendix B).
func TestDrainedPacketsReturn(t *testing.T) { onEach(t, drainedPacketsReturn) }

func drainedPacketsReturn(t *testing.T, on machine) {
	for _, crqm := range []bool{false, true} {
		t.Run(fmt.Sprintf("CRQM %v", crqm), func(t *testing.T) {
			b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: on.on(quick)})
			if crqm {
				b.mem[0].Page.Store(funi.Control, funi.CRQM)
			}
			for l := range funi.Level(2) {
				for i := range uint32(12) {
					b.until(time.Second, "room", func() bool { return b.send(1, l, 0, i, 7, uint32(l)) })
				}
			}
			b.pass(10 * time.Millisecond)
			s := b.switchOut(0)
			want, inOrder := 9, 12 // 3 are in the queue of 4 slots
			if crqm {
				want, inOrder = 10, 10 // as many as the FIFO holds
			}
			if len(s.Drained[0]) != want || len(s.Drained[1]) != want {
				t.Fatalf("drained %d and %d packets, want %d each", len(s.Drained[0]), len(s.Drained[1]), want)
			}
			if first := s.Drained[0][0]; first.Source() != 1 || first.Header() != funi.NewHeader(0, 5, 3) ||
				first.Payload()[0] != uint32(12-want)*b2u(!crqm) {
				t.Errorf("first drained packet: %v", first)
			}
			if v := s.Registers[funi.Control]; v != b2u(crqm)*funi.CRQM {
				t.Errorf("CNTL was saved as %#x", v)
			}
			b.pass(5 * time.Millisecond)
			b.switchIn(0, s)
			if crqm {
				b.mem[0].Page.Store(funi.Control, 0)
			}
			var got [2][]uint32
			b.until(time.Second, "all arrive", func() bool {
				for l := range funi.Level(2) {
					for m, ok := take(b.proc[0], l); ok; m, ok = take(b.proc[0], l) {
						got[l] = append(got[l], m.Payload()[0])
					}
				}
				return len(got[0])+len(got[1]) == 24
			})
			for l := range got {
				for i := range inOrder {
					if got[l][i] != uint32(i) {
						t.Errorf("level %d arrived in the order %v", l, got[l])
						break
					}
				}
			}
			b.idle(time.Second)
		})
	}
}

func b2u(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// Rule: CTXR1 waits for every acknowledgment, CTXR1' does not. With CTXR1' alone the context can be
// switched out of a network that is cut. Every packet is still delivered once or comes back, here
// both: the cut heals for some (thesis 3.1.2, 4.2; switch.go).
func TestSwitchOutAfterLostAcknowledgments(t *testing.T) {
	onEach(t, switchOutAfterLostAcknowledgments)
}

func switchOutAfterLostAcknowledgments(t *testing.T, on machine) {
	for _, heals := range []bool{true, false} {
		t.Run(fmt.Sprintf("heals %v", heals), func(t *testing.T) {
			b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: on.on(quick)})
			exactlyOnce(b, newTraffic(b, 10, 2))
			for range 20 { // answers after which as many frames may leave at once
				b.mustSend(0, funi.Request, 1, 1)
				b.until(time.Second, "it arrives", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
				b.idle(time.Second)
			}
			// only what comes back is lost
			b.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
			for i := range uint32(20) {
				b.mustSend(0, funi.Request, 1, i)
			}
			b.pass(2 * time.Millisecond)
			x := b.ctx[0]
			if _, err := b.cards[0].SwitchOut(x, false); !errors.Is(err, engine.ErrNotReady) {
				t.Fatalf("with packets in flight: %v, want ErrNotReady", err)
			}
			b.pass(2 * time.Millisecond)
			if v := x.Load(funi.Control); v != funi.CTXM|funi.CTXR1Prime|funi.CTXR2 {
				t.Fatalf("CNTL is %#x, want CTXM, CTXR1' and CTXR2", v)
			}
			if v := b.mem[0].Page.Load(funi.Control); v != funi.CTXM|funi.CTXR1Prime|funi.CTXR2 {
				t.Fatalf("CNTL in the page is %#x", v)
			}
			s, err := b.cards[0].SwitchOut(x, true)
			if err != nil {
				t.Fatal(err)
			}
			if heals {
				b.net.Cut(nil)
			}
			b.pass(time.Second) // more than PeerTimeout
			b.switchIn(0, s)
			got, back := 0, 0
			b.until(time.Second, "each accounted for", func() bool {
				for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
					got++
				}
				for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
					if r.Reason != arctic.ReasonSilent {
						t.Fatalf("came back: %v", r.Reason)
					}
					back++
				}
				return x.Idle() && got >= 20
			})
			if want := 20 * int(b2u(!heals)); got != 20 || back != want {
				t.Errorf("%d delivered and %d came back, want 20 and %d", got, back, want)
			}
		})
	}
}

// Rule: the cache has a limited number of sets (thesis 5.3: 32). A set whose context is
// out stays as it is as long as it holds packets, and is another's otherwise.
func TestSetsOfThePacketCache(t *testing.T) { onEach(t, setsOfThePacketCache) }

func setsOfThePacketCache(t *testing.T, on machine) {
	const sets = 32
	b := newBed(t, setup{cards: 2, slots: 4, net: near,
		tune: on.on(func(c *engine.Config) { quick(c); thesis(c); c.Sets = sets })})
	card := b.cards[0]
	var ctx []*engine.Context
	var proc []*funi.Interface
	for n := range uint16(sets - 1) {
		p, x := b.join(0, gid+1, n)
		proc, ctx = append(proc, p), append(ctx, x)
	}
	mem, _ := funi.NewMemory(4)
	if _, err := funi.Initialize(mem); err != nil {
		t.Fatal(err)
	}
	if _, err := card.Attach(mem, gid+2, 0, jobTag); !errors.Is(err, engine.ErrNoSet) {
		t.Fatalf("context number 33: %v, want ErrNoSet", err)
	}
	// Node 0 of group gid+1 sends to card 1, where its group is switched out: the
	// packet is rejected again and again and stays in the cache.
	peer, far := b.join(1, gid+1, 1000)
	if err := card.SetGroupRoutes(gid+1, append(make([]uint32, 1000), 1)); err != nil {
		t.Fatal(err)
	}
	away, err := b.cards[1].SwitchOut(far, false)
	if err != nil {
		t.Fatal(err)
	}
	if !put(proc[0], funi.Request, 1000, 42) {
		t.Fatal("no room")
	}
	b.pass(5 * time.Millisecond)
	out := func(x *engine.Context) (s *engine.Saved) {
		b.until(time.Second, "CTXR1", func() bool { s, err = card.SwitchOut(x, false); return err == nil })
		return s
	}
	full := out(ctx[0])
	if full.Registers[funi.Ticket] == 0xff {
		t.Fatal("the packet is not in the cache")
	}
	if _, err := card.Attach(mem, gid+2, 0, jobTag); !errors.Is(err, engine.ErrNoSet) {
		t.Fatalf("with an occupied set out: %v, want ErrNoSet", err)
	}
	empty := out(ctx[1])
	if empty.Registers[funi.Ticket] != 0xff {
		t.Fatalf("TICKET of an empty cache is %#x", empty.Registers[funi.Ticket])
	}
	third, err := card.Attach(mem, gid+2, 0, jobTag)
	if err != nil {
		t.Fatalf("with an empty set out: %v", err)
	}
	if err := card.SwitchIn(empty); !errors.Is(err, engine.ErrNoSet) {
		t.Fatalf("in again with no set: %v, want ErrNoSet", err)
	}
	card.Detach(third)
	for _, s := range []*engine.Saved{empty, full} {
		if err := card.SwitchIn(s); err != nil {
			t.Fatal(err)
		}
		if err := card.SwitchIn(s); !errors.Is(err, engine.ErrAway) {
			t.Fatalf("in twice: %v, want ErrAway", err)
		}
	}
	b.switchIn(1, away)
	b.until(time.Second, "the packet arrives", func() bool {
		m, ok := take(peer, funi.Request)
		return ok && m.Payload()[0] == 42
	})
}

// Rule: exactly once while contexts are switched out and in at random, over a network
// with every fault (design idea 4, thesis 4.2).
func TestExactlyOnceWithContextSwitches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBed(t, setup{cards: 3, slots: rapid.SampledFrom([]int{2, 16}).Draw(rt, "slots"),
			tune: cardConfigs[rapid.SampledFrom([]string{"native", "thesis", "tiny", "timed", "units",
				"stepped"}).Draw(rt, "card")],
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks["all"]}})
		tr := newTraffic(b, 60, rapid.SampledFrom([]int{2, 21}).Draw(rt, "words"))
		saved := make([]*engine.Saved, 3)
		tr.stalled = func(node int) bool { return saved[node] != nil }
		next := b.now
		gap := rapid.Int64Range(20e3, 2e6).Draw(rt, "gap")
		lossy := rapid.Bool().Draw(rt, "lossy")
		for turn := 0; turn < 30; turn++ {
			node := turn % 3
			next = b.now + gap
			b.alarm = next
			done := false
			b.until(time.Minute, "the next switch", func() bool {
				done = tr.pumpOn(saved)
				return done || b.now >= next
			})
			if done {
				break
			}
			if saved[node] != nil {
				b.switchIn(node, saved[node])
				saved[node] = nil
			} else if s, err := b.cards[node].SwitchOut(b.ctx[node], lossy); err == nil {
				saved[node] = s
			}
			for _, c := range b.cards {
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.alarm = 0
		for node, s := range saved {
			if s != nil {
				b.switchIn(node, s)
				saved[node] = nil
			} else if b.ctx[node].Load(funi.Control)&funi.CTXM != 0 {
				if err := b.ctx[node].Store(funi.Control, 0); err != nil {
					t.Fatal(err)
				}
				b.wake[node] = 0
			}
		}
		exactlyOnce(b, tr)
	})
}

// pumpOn is pump while some nodes are out, whose processes do not run.
func (t *traffic) pumpOn(out []*engine.Saved) bool {
	lanes := t.lanes
	defer func() { t.lanes = lanes }()
	t.lanes = nil
	var resting []*lane
	for _, n := range lanes {
		if out[n.from] == nil {
			t.lanes = append(t.lanes, n)
		} else {
			resting = append(resting, n)
		}
	}
	for _, n := range t.lanes {
		for range t.burst {
			if n.sent == t.messages || !t.b.send(n.from, n.level, n.to, payload(t.words, n, n.sent)...) {
				break
			}
			n.sent++
		}
	}
	t.lanes = lanes
	for node, p := range t.b.proc {
		for l := range funi.Level(2) {
			for out[node] == nil {
				s, ok := take(p, l)
				if !ok {
					break
				}
				t.delivered(node, l, &s)
			}
		}
	}
	got, back := t.totals()
	return len(resting) == 0 && got+back == len(lanes)*t.messages
}

// Rule: in context-switch mode nothing of the cache is dispatched, whether it waits for the peer to
// be greeted or for the end of a back-off; after it everything is (thesis 3.1.2 CTXM, 4.2).
func TestNothingIsDispatchedInContextSwitchMode(t *testing.T) {
	onEach(t, nothingIsDispatchedInContextSwitchMode)
}

func nothingIsDispatchedInContextSwitchMode(t *testing.T, on machine) {
	const total = 40
	b := newBed(t, setup{cards: 2, slots: 16, net: near,
		tune: on.on(func(c *engine.Config) { quick(c); c.Train, c.FirstWindow, c.FIFO = 1, 1, 1 })})
	mode := func(v uint32) {
		if err := b.ctx[0].Store(funi.Control, v); err != nil {
			t.Fatal(err)
		}
		b.wake[0] = 0
	}
	got := 0
	receive := func() bool {
		for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
			got++
		}
		return got >= total
	}
	// At once, when the cards have not met; and when the receiver is full and rejects.
	for _, before := range []time.Duration{1, 5 * time.Millisecond} {
		put := 0
		fill := func() bool {
			for put < total && b.send(0, funi.Request, 1, 1) {
				put++
			}
			return put == total
		}
		fill()
		b.pass(before)
		if before > time.Millisecond {
			b.until(time.Second, "all are sent", fill)
			b.pass(before)
		}
		mode(funi.CTXM)
		b.pass(20 * time.Millisecond)
		receive()
		b.pass(time.Millisecond) // what the receiver's FIFO holds
		receive()
		arrived, sent := got, b.cards[0].Counters().PacketsSent
		if b.ctx[0].Load(funi.Control) != funi.CTXM|funi.CTXR1|funi.CTXR1Prime|funi.CTXR2 || arrived >= put ||
			b.ctx[0].Idle() {
			t.Fatalf("after %v: CNTL %#x, %d of %d arrived", before, b.ctx[0].Load(funi.Control), arrived, put)
		}
		b.pass(50 * time.Millisecond)
		if receive(); got != arrived || b.cards[0].Counters().PacketsSent != sent {
			t.Fatalf("after %v: %d more arrived in the mode", before, got-arrived)
		}
		mode(0)
		b.until(time.Second, "the rest arrives", func() bool { fill(); return receive() })
		if b.idle(time.Second); got != total {
			t.Fatalf("after %v: %d of %d arrived", before, got, total)
		}
		got = 0
	}
}

// Rule: a context that is out is not idle while its saved state holds packets: committed
// ones in the send queues, of a process that goes on or does not, or drained ones (Context.Idle).
func TestIdleWhileOut(t *testing.T) {
	for _, live := range []bool{false, true} {
		b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: quick})
		x := b.ctx[0]
		check := func(what string, s *engine.Saved, idle bool) {
			t.Helper()
			if s.Live = live; x.Idle() != idle || s.Waits() == idle {
				t.Errorf("live %v, %s: idle %v, waits %v", live, what, x.Idle(), s.Waits())
			}
		}
		s := b.switchOut(0)
		check("with nothing", s, true)
		if live {
			b.mustSend(0, funi.Reply, 1, 1)
			check("with a packet committed since", s, false)
		}
		b.switchIn(0, s)
		b.idle(time.Second)
		if err := x.Store(funi.Control, funi.CTXM); err != nil {
			t.Fatal(err)
		}
		b.mustSend(0, funi.Request, 1, 1)
		b.step(b.now + 1)
		s = b.switchOut(0)
		check("with a packet committed before", s, false)
		b.mem[0].Page.Store(funi.Control, funi.CSQM)
		s.Registers[funi.Control] |= funi.CSQM
		if !x.Idle() {
			t.Errorf("live %v: a process that has halted its queues has nothing to send", live)
		}
		b.mem[0].Page.Store(funi.Control, 0)
		s.Registers[funi.Control] &^= funi.CSQM
		b.switchIn(0, s)
		for range 5 {
			b.until(time.Second, "room", func() bool { return b.send(1, funi.Request, 0, 1) })
		}
		b.pass(10 * time.Millisecond)
		s = b.switchOut(0)
		check("with drained packets", s, false)
		b.cards[0].Detach(x)
		if !x.Idle() {
			t.Errorf("live %v: a context that is detached waits", live)
		}
	}
}

// Rule: a context that comes back tries at once what was refused before: else two cards whose
// groups take turns might go on trying when the other's are not the same (link/hold.go).
func TestBackOffEndsWhenAContextComesBack(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	for i := range 5 {
		to := b.switchOut(1)
		b.mustSend(0, funi.Request, 1, 1)
		b.pass(time.Second)
		from := b.switchOut(0)
		b.switchIn(1, to)
		b.switchIn(0, from)
		back := b.now
		b.until(time.Second, "it arrives", func() bool { return b.proc[1].Arrived(funi.Request) == i+1 })
		if waited := b.now - back; waited > int64(time.Millisecond) {
			t.Errorf("it was tried %d ns after the context was back", waited)
		}
	}
}

// Rule: a context that comes back uses no more of its account's tries than it makes, so nobody who
// switches a context with many refused packets puts off the account's other contexts
// (link/hold.go).
func TestBackOffThatBeginsAnewBooksNoMoreThanItTries(t *testing.T) {
	const nodes = 200
	b := newBed(t, setup{cards: 2, slots: 1024, net: near})
	for n := range nodes + 2 {
		for c := range 2 {
			if err := b.cards[c].SetRoute(uint16(200+n), 1); err != nil {
				t.Fatal(err)
			}
		}
		b.cards[1].Expect(gid, uint16(200+n), jobTag, true)
	}
	for c := range 2 {
		if err := b.cards[c].SetRoute(2, 0); err != nil {
			t.Fatal(err)
		}
	}
	procs, _ := b.others(0, gid, 2, 1, 7)
	b.cards[0].Account(b.ctx[0], 7)
	for n := range nodes {
		b.mustSend(0, funi.Request, 200+n, 1)
	}
	b.pass(time.Second)
	for range 40 {
		b.switchIn(0, b.switchOut(0))
	}
	put(procs[0], funi.Request, 200+nodes, 1)
	b.pass(time.Millisecond) // it is refused once
	p, _ := b.join(1, gid, 200+nodes)
	come := b.now
	b.until(time.Second, "it arrives", func() bool { return p.Arrived(funi.Request) == 1 })
	if waited := time.Duration(b.now - come); waited > 20*time.Millisecond {
		t.Errorf("another context of the account waited %v for its next try, of %d refused nodes", waited, nodes)
	}
}
