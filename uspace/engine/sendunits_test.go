package engine_test

// This file tests the time that the units of the network's side take (thesis 5.2.4, 5.6.2,
// 5.6.3), and what the modes do to a unit that has a packet under way (3.1.2, 4.2).

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// departures steps the bed until card 0 has sent n more frames, and returns when they left
// and which of them were acknowledgments alone.
func (b *bed) departures(n int) (at []int64, acks []bool) {
	b.t.Helper()
	for end := b.now + int64(time.Second); len(at) < n; {
		before := b.cards[0].Counters()
		b.step(b.next())
		after := b.cards[0].Counters()
		if sent := int(after.FramesSent - before.FramesSent); sent > 1 {
			b.t.Fatalf("%d frames left at once", sent)
		} else if sent == 1 {
			at, acks = append(at, b.now), append(acks, after.AcksSent > before.AcksSent)
		}
		if b.now > end {
			b.t.Fatalf("%d of %d frames left", len(at), n)
		}
	}
	return at, acks
}

// Rule: a packet is on the link when the Dispatch Unit has worked on it (5.2.4), and after it the
// Transmit Scheduler (5.6.3). It is accepted when the Preprocessor has worked on it (5.6.2). Its
// acknowledgment, a frame without packets, takes the Transmit Scheduler of the other card and no
// Preprocessor.
func TestUnitsOfTheNetworkTakeTheirTime(t *testing.T) {
	for _, c := range []struct{ dispatch, transmit, preprocess time.Duration }{
		{}, {dispatch: 300}, {transmit: 500}, {preprocess: 700}, {300, 500, 700},
	} {
		b, _, _ := timedBed(t, func(cfg *engine.Config) {
			cfg.Timing.Dispatch, cfg.Timing.Transmit, cfg.Timing.Preprocess = c.dispatch, c.transmit, c.preprocess
		})
		b.mustSend(0, funi.Request, 1, 1)
		begin := b.watch(0, funi.RQSQTail)
		for _, sent := b.net.Next(); !sent; _, sent = b.net.Next() {
			b.step(b.next())
		}
		if took, want := b.now-begin, int64(c.dispatch+c.transmit); took != want {
			t.Errorf("%+v: the packet left after %d ns, want %d", c, took, want)
		}
		arrival, _ := b.net.Next()
		accepted := arrival + int64(c.preprocess)
		if took := b.watch(1, funi.RQRQHead) - accepted; took != four+one {
			t.Errorf("%+v: the packet was delivered %d ns after it was accepted, want %d", c, took, four+one)
		}
		// The acknowledgment leaves in the step after, a nanosecond later on this bed.
		returned := accepted + 1 + int64(c.transmit) + int64(near.Delay)
		b.until(time.Second, "the acknowledgment", b.ctx[0].Idle)
		if b.now != returned {
			t.Errorf("%+v: acknowledged after %d ns, want %d", c, b.now-arrival, returned-arrival)
		}
	}
}

// Rule: a unit works on one packet at a time, and two units on two: frames leave as far
// apart as the slowest unit takes, and replies before requests (5.2.4, 5.6.3).
func TestUnitsOfTheNetworkOverlap(t *testing.T) {
	for _, c := range []struct{ dispatch, transmit time.Duration }{
		{dispatch: 5000}, {transmit: 5000}, {3000, 5000}, {5000, 3000},
	} {
		b, _, _ := timedBed(t, func(cfg *engine.Config) {
			cfg.Timing.Dispatch, cfg.Timing.Transmit = c.dispatch, c.transmit
		})
		b.net.Cut(isolate(1)) // no answer is in the way
		for range 2 {
			b.mustSend(0, funi.Request, 1, 1)
			b.mustSend(0, funi.Reply, 1, 1)
		}
		begin := b.watch(0, funi.RPSQTail)
		at, _ := b.departures(4)
		for i, left := range at {
			if want := begin + int64(c.dispatch+c.transmit) + int64(i)*5000; left != want {
				t.Errorf("%+v: frame %d left after %d ns, want %d", c, i, left-begin, want-begin)
			}
		}
		if sent := b.cards[0].Link().Sequence(1, 1); sent != b.cards[0].Link().Sequence(1, 0) {
			t.Errorf("%+v: %d replies and %d requests", c, sent, b.cards[0].Link().Sequence(1, 0))
		}
	}
}

// Rule: acknowledgments go before data at the first opportunity (5.6.3): behind the frame that is
// being transmitted, before those of the Send Queue. The Send Queue holds as many frames as the
// cache has lines (5.5), and fills and empties meanwhile.
func TestAcknowledgmentsPassTheSendQueue(t *testing.T) {
	b := newBed(t, setup{cards: 3, slots: 64, net: near, tune: func(c *engine.Config) {
		timed(c)
		c.Timing.Transmit, c.FirstWindow = 20*time.Microsecond, 32
	}})
	for range 8 { // answers after which as many frames may be in flight
		b.mustSend(0, funi.Request, 2, 1)
		b.mustSend(1, funi.Request, 0, 1)
		b.idle(time.Second)
		take(b.proc[2], funi.Request)
		take(b.proc[0], funi.Request)
	}
	for range 12 {
		b.mustSend(0, funi.Request, 2, 1)
	}
	b.departures(1)
	b.mustSend(1, funi.Request, 0, 1)
	b.until(time.Second, "it arrives", func() bool { _, ok := take(b.proc[0], funi.Request); return ok })
	if _, acks := b.departures(3); !slices.Equal(acks, []bool{false, true, false}) {
		t.Errorf("acknowledgments are %v of the next frames", acks)
	}
	got := 0
	b.until(time.Second, "all arrive", func() bool {
		for _, ok := take(b.proc[2], funi.Request); ok; _, ok = take(b.proc[2], funi.Request) {
			got++
		}
		return got == 12
	})
	b.idle(time.Second)
}

// Rule: what is in the Send Queue is outstanding (5.2.4): it counts towards the window.
func TestSendQueueCountsTowardsTheWindow(t *testing.T) {
	b, _, _ := timedBed(t, func(c *engine.Config) { c.Timing.Transmit = 50 * time.Microsecond })
	other, _ := b.join(0, gid, 5)
	for _, c := range b.cards {
		if err := c.SetGroupRoutes(gid, []uint32{0, 1, engine.NoRoute, engine.NoRoute, engine.NoRoute, 0}); err != nil {
			t.Fatal(err)
		}
	}
	before := b.cards[0].Link().Sequence(1, 0)
	for range 2 {
		b.mustSend(0, funi.Request, 1, 1)
		put(other, funi.Request, 1, 2)
	}
	b.pass(40 * time.Microsecond)
	// one frame, and one for that which was answered
	if n := b.cards[0].Link().Sequence(1, 0) - before; n != 2 {
		t.Errorf("%d frames are under way, want 2", n)
	}
	for range 4 {
		b.until(time.Second, "all arrive", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	}
	b.idle(time.Second)
}

// Rule: before the Preprocessor is done with a packet it is neither accepted nor rejected,
// and the verdict is that of then: CTXM that is set meanwhile rejects it (5.6.2).
func TestVerdictWhenPreprocessed(t *testing.T) {
	b, _, _ := timedBed(t, func(c *engine.Config) { c.Timing.Preprocess = 5 * time.Microsecond })
	b.mustSend(0, funi.Request, 1, 1)
	b.until(time.Second, "the packet leaves", func() bool { _, sent := b.net.Next(); return sent })
	arrival, _ := b.net.Next()
	before := b.cards[1].Counters()
	b.step(arrival)
	b.step(arrival + 4999)
	if now := b.cards[1].Counters(); now != before {
		t.Fatalf("a packet that is being preprocessed was counted: %+v", now)
	}
	if err := b.ctx[1].Store(funi.Control, funi.CTXM); err != nil {
		t.Fatal(err)
	}
	b.step(arrival + 5000)
	if n := b.cards[1].Counters().RejectsSent - before.RejectsSent; n != 1 {
		t.Fatalf("%d packets were rejected, want 1", n)
	}
	if err := b.ctx[1].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.wake[1] = 0
	b.until(time.Second, "it comes again", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	b.idle(time.Second)
}

// Rule: CTXR1' and CTXR1 wait for the packet that retrieval or dispatch works on (3.1.2,
// 4.2): it is in the cache then, its slot is retired, and it leaves after the mode. Until
// then the owner must not write GID, and the context cannot be switched out.
func TestReadyBitsWaitForTheUnitsOut(t *testing.T) {
	for _, dispatching := range []bool{false, true} {
		b, _, _ := timedBed(t, func(c *engine.Config) { c.Timing.Dispatch = 3 * time.Microsecond })
		x, page := b.ctx[0], b.mem[0].Page
		b.mustSend(0, funi.Request, 1, 7)
		b.mustSend(0, funi.Request, 1, 8)
		b.step(b.now)
		over := b.now + four
		if dispatching {
			over = b.watch(0, funi.RQSQTail) + 3000
		}
		tail := page.Load(funi.RQSQTail)
		if err := x.Store(funi.Control, funi.CTXM); err != nil {
			t.Fatal(err)
		}
		for at := b.now + 1; at < over; at += 50 {
			b.step(at)
			if v := x.Load(funi.Control); v != funi.CTXM|funi.CTXR2 {
				t.Fatalf("dispatching %v: %d ns before the unit is done CNTL is %#x", dispatching, over-at, v)
			}
			if err := x.Store(funi.GID, gid+1); !errors.Is(err, engine.ErrNotReady) {
				t.Fatalf("dispatching %v: writing GID: %v", dispatching, err)
			}
			if _, err := b.cards[0].SwitchOut(x, true); !errors.Is(err, engine.ErrNotReady) {
				t.Fatalf("dispatching %v: switching out: %v", dispatching, err)
			}
		}
		b.step(over + four) // of dispatching: the second packet, whose retrieval had begun
		if v := page.Load(funi.Control); v != funi.CTXM|funi.CTXR1|funi.CTXR1Prime|funi.CTXR2 {
			t.Fatalf("dispatching %v: CNTL is %#x", dispatching, v)
		}
		if got := page.Load(funi.RQSQTail); got != tail+1 {
			t.Errorf("dispatching %v: TL went from %d to %d", dispatching, tail, got)
		}
		sent := b.cards[0].Counters().FramesSent
		b.pass(time.Millisecond)
		if b.cards[0].Counters().FramesSent != sent {
			t.Errorf("dispatching %v: a packet left in the mode", dispatching)
		}
		s, err := b.cards[0].SwitchOut(x, false)
		if err != nil {
			t.Fatal(err)
		}
		b.switchIn(0, s)
		for want := uint32(7); want <= 8; want++ {
			b.until(time.Second, "the packets arrive", func() bool {
				m, ok := take(b.proc[1], funi.Request)
				return ok && m.Payload()[0] == want
			})
		}
		b.idle(time.Second)
	}
}

// Rule: CSQR and CRQR wait for the packet that the unit works on, which is the last (3.1.2
// CSQM, CRQM).
func TestQueueModesWaitForTheUnits(t *testing.T) {
	b, _, _ := timedBed(t, nil)
	page, tail, head := b.mem[0].Page, b.mem[0].Page.Load(funi.RQSQTail), b.mem[1].Page.Load(funi.RQRQHead)
	for range 3 {
		b.mustSend(0, funi.Request, 1, 7)
	}
	begin := b.now + 1
	b.step(begin)
	page.Store(funi.Control, funi.CSQM)
	b.step(begin + four - 1)
	if v := page.Load(funi.Control); v != funi.CSQM {
		t.Fatalf("CNTL is %#x while a packet is retrieved", v)
	}
	b.step(begin + four)
	if v := page.Load(funi.Control); v != funi.CSQM|funi.CSQR || page.Load(funi.RQSQTail) != tail+1 {
		t.Fatalf("CNTL is %#x, TL went from %d to %d", v, tail, page.Load(funi.RQSQTail))
	}
	page.Store(funi.Control, 0)
	b.wake[0] = 0
	arrival, _ := b.net.Next()
	page = b.mem[1].Page
	b.step(arrival)
	page.Store(funi.Control, funi.CRQM)
	b.step(arrival + four + one - 1)
	if v := page.Load(funi.Control); v != funi.CRQM {
		t.Fatalf("CNTL is %#x while a packet is delivered", v)
	}
	b.step(arrival + four + one)
	b.pass(100 * time.Microsecond)
	if v := page.Load(funi.Control); v != funi.CRQM|funi.CRQR || page.Load(funi.RQRQHead) != head+1 {
		t.Fatalf("CNTL is %#x, HD went from %d to %d", v, head, page.Load(funi.RQRQHead))
	}
}

// Rule: a context is not switched out while a packet of it is delivered, not even one whose
// process has set CRQM meanwhile (4.2): it is delivered, and not drained as well.
func TestSwitchOutWaitsForDelivery(t *testing.T) {
	b, _, _ := timedBed(t, nil)
	head := b.mem[1].Page.Load(funi.RQRQHead)
	b.mustSend(0, funi.Request, 1, 7)
	b.until(time.Second, "the packet leaves", func() bool { _, sent := b.net.Next(); return sent })
	arrival, _ := b.net.Next()
	b.step(arrival)
	b.mem[1].Page.Store(funi.Control, funi.CRQM)
	b.step(arrival + 100)
	if _, err := b.cards[1].SwitchOut(b.ctx[1], true); !errors.Is(err, engine.ErrNotReady) {
		t.Fatalf("switching out: %v, want ErrNotReady", err)
	}
	b.wake[1] = 0
	s := b.switchOut(1)
	if b.now < arrival+four+one || len(s.Drained[funi.Request]) != 0 || s.Registers[funi.RQRQHead] != head+1 {
		t.Errorf("out %d ns after the arrival, %d packets drained, HD went from %d to %d", b.now-arrival,
			len(s.Drained[funi.Request]), head, s.Registers[funi.RQRQHead])
	}
}

// Rule: RESET and Detach take its packet from a unit (3.1.2 RESET): nothing of it is seen
// later, and the unit serves others.
func TestUnitsForgetWhoLeaves(t *testing.T) {
	for _, detach := range []bool{false, true} {
		b, _, _ := timedBed(t, nil)
		other, _ := b.join(0, gid+1, 0)
		if err := b.cards[0].SetGroupRoutes(gid+1, []uint32{0}); err != nil {
			t.Fatal(err)
		}
		b.mustSend(1, funi.Request, 0, 1, 2, 3, 4, 5)
		b.until(time.Second, "it has left", func() bool { _, sent := b.net.Next(); return sent })
		arrival, _ := b.net.Next()
		b.step(arrival) // delivery begins
		b.mustSend(0, funi.Request, 1, 1, 2, 3, 4, 5)
		b.step(b.now)
		if detach {
			b.cards[0].Detach(b.ctx[0])
		} else if err := b.ctx[0].Store(funi.Control, funi.RESET); err != nil {
			t.Fatal(err)
		}
		page := *b.mem[0].Page
		put(other, funi.Request, 0, 9)
		b.until(time.Second, "another context is served", func() bool { _, ok := take(other, funi.Request); return ok })
		b.pass(time.Millisecond)
		if now := *b.mem[0].Page; detach && now != page {
			t.Error("a detached context's page was written")
		}
		if _, ok := take(b.proc[1], funi.Request); ok {
			t.Errorf("detach %v: the packet that was being retrieved arrived", detach)
		}
	}
}
