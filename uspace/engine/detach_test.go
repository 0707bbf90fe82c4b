package engine_test

// This file holds the rules of contexts that end.

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: after Detach the card does not touch the process's memory, packets for it come
// back for good with ReasonNoContext, its own in flight are delivered at most once, and
// nothing of it stays (Detach).
func TestDetach(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: quick})
	exactlyOnce(b, newTraffic(b, 10, 2))
	other, x := b.join(0, gid+3, 9)
	for i := range uint32(30) {
		b.mustSend(0, funi.Request, 1, i)
		put(other, funi.Request, 5, i)
	}
	b.step(b.now) // in flight
	b.cards[0].Detach(b.ctx[0])
	b.cards[0].Detach(b.ctx[0])
	if err := b.ctx[0].Store(funi.Control, 0); !errors.Is(err, engine.ErrAway) {
		t.Errorf("writing a register of it: %v, want ErrAway", err)
	}
	if _, err := b.cards[0].SwitchOut(b.ctx[0], true); !errors.Is(err, engine.ErrAway) {
		t.Errorf("switching it out: %v, want ErrAway", err)
	}
	page := *b.mem[0].Page
	b.mustSend(1, funi.Reply, 0, 77)
	b.comesBack(time.Second, b.proc[1], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Reply,
		Header: funi.NewHeader(0, 5, 1), Word: 77})
	got := 0
	b.until(time.Second, "in flight are answered", func() bool {
		for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
			got++
		}
		return b.ctx[0].Idle()
	})
	if got > 30 || *b.mem[0].Page != page {
		t.Errorf("%d delivered of 30; register page written: %v", got, *b.mem[0].Page != page)
	}
	b.pass(time.Millisecond)
	if n := b.cards[0].Streams(b.ctx[0]); n != 0 {
		t.Errorf("%d streams of it are left", n)
	}
	b.cards[0].Detach(x)
	b.proc[0], b.ctx[0], b.mem[0] = b.attach(0, gid, 0) // its place is free
	exactlyOnce(b, newTraffic(b, 50, 3))
}

// Rule: a card without contexts goes on: it greets nobody and answers its peers.
func TestDetachTheLast(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
	b.net.Cut(func(from, _ [6]byte) bool { return from == address(0) })
	b.mustSend(0, funi.Request, 1, 1)
	b.step(b.now)
	b.cards[0].Detach(b.ctx[0])
	b.pass(time.Second)
	if err := b.cards[0].Check(); err != nil {
		t.Error(err)
	}
}

// Rule: what a detached context has in flight is forgotten whatever becomes of it,
// rejected, lost, or silent, and its memory is not touched (Detach).
func TestDetachWithPacketsInFlight(t *testing.T) {
	for _, silent := range []bool{false, true} {
		b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: quick})
		exactlyOnce(b, newTraffic(b, 10, 2))
		if silent {
			b.net.Cut(isolate(1))
		} else if _, err := b.cards[1].SwitchOut(b.ctx[1], false); err != nil {
			t.Fatal(err)
		}
		for i := range uint32(30) {
			b.mustSend(0, funi.Request, 1, i)
		}
		b.step(b.now)
		x := b.ctx[0]
		if x.Idle() {
			t.Fatal("nothing is in flight")
		}
		b.cards[0].Detach(x)
		page := *b.mem[0].Page
		b.pass(time.Second)
		if *b.mem[0].Page != page || !x.Idle() || b.cards[0].Streams(x) != 0 {
			t.Errorf("silent %v: page written %v, idle %v, %d streams left", silent, *b.mem[0].Page != page, x.Idle(),
				b.cards[0].Streams(x))
		}
		if err := b.cards[0].Check(); err != nil {
			t.Error(err)
		}
	}
}

// Rule: RESET gives up what waits to be sent (thesis 3.1.2), also what waits because
// packets of other processes fill the window, and the context can be used again.
func TestResetWhileOthersFillTheWindow(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: quick})
	other, x := b.join(0, gid, 9)
	exactlyOnce(b, newTraffic(b, 10, 2))
	b.net.Cut(isolate(1))
	b.mustSend(0, funi.Request, 1, 1)
	b.pass(50 * time.Millisecond) // the window is one frame now
	put(other, funi.Request, 1, 2)
	b.step(b.now)
	for _, v := range []uint32{funi.RESET, 0} {
		if err := x.Store(funi.Control, v); err != nil {
			t.Fatal(err)
		}
		b.step(b.now)
	}
	x.SetTag(jobTag)
	if err := x.Store(funi.GID, gid); err != nil {
		t.Fatal(err)
	}
	if err := x.Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.step(b.now)
	b.net.Cut(nil)
	b.pass(50 * time.Millisecond)
	if s, ok := take(b.proc[1], funi.Request); !ok || s.Payload()[0] != 1 {
		t.Error("the packet that filled the window was not delivered")
	}
	if s, ok := take(b.proc[1], funi.Request); ok {
		t.Errorf("delivered although it was given up: %d", s.Payload()[0])
	}
}

// Rule: the set of the cache of a detached context is free for another when its last packet in
// flight is answered or given up, not before. So contexts that come and go cannot make the card
// hold more sets than it has (thesis 5.3).
func TestSetOfADetachedContext(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: func(c *engine.Config) { quick(c); c.Sets = 1 }})
	exactlyOnce(b, newTraffic(b, 10, 2))
	attach := func() error {
		mem, _ := funi.NewMemory(4)
		if _, err := funi.Initialize(mem); err != nil {
			t.Fatal(err)
		}
		x, err := b.cards[0].Attach(mem, gid, 0, jobTag)
		if err == nil {
			b.cards[0].Detach(x)
		}
		return err
	}
	b.net.Cut(isolate(1))
	b.mustSend(0, funi.Request, 1, 1)
	b.step(b.now)
	before := b.cards[0].Counters()
	b.cards[0].Detach(b.ctx[0])
	b.pass(100 * time.Millisecond)
	if err := attach(); !errors.Is(err, engine.ErrNoSet) {
		t.Fatalf("with a packet in flight: %v, want ErrNoSet", err)
	}
	b.pass(200 * time.Millisecond) // PeerTimeout
	if err := attach(); err != nil {
		t.Fatalf("after it: %v", err)
	}
	after := b.cards[0].Counters()
	if after.Discarded != before.Discarded+1 || after.Returned != before.Returned {
		t.Errorf("%d packets discarded and %d returned, want 1 and none: nobody is there to take it",
			after.Discarded-before.Discarded, after.Returned-before.Returned)
	}
	if err := attach(); err != nil { // nothing in flight: at once
		t.Fatal(err)
	}
}

// Rule: what was drained of a context that is detached while it is out is counted, like
// all that is dropped (counters.go).
func TestDetachCountsWhatWasDrained(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: quick})
	for i := range uint32(8) {
		b.until(time.Second, "room", func() bool { return b.send(1, funi.Request, 0, i) })
	}
	b.pass(10 * time.Millisecond)
	s := b.switchOut(0)
	n := len(s.Drained[funi.Request])
	before := b.cards[0].Counters().Discarded
	b.cards[0].Detach(b.ctx[0])
	if got := b.cards[0].Counters().Discarded - before; n == 0 || got != uint64(n) {
		t.Errorf("%d packets counted, %d were drained", got, n)
	}
}

// Rule: a process that spoke to very many nodes costs the card no more when it ends than
// when it spoke (forget).
func TestDetachWithManyStreams(t *testing.T) {
	const nodes, lines = 30000, 4096 // as many streams are kept (thin)
	route := make([]uint32, nodes)
	for i := range route {
		route[i] = 1
	}
	route[0] = 0
	b := newBed(t, setup{cards: 2, slots: 256, net: near, route: route,
		tune: func(c *engine.Config) { quick(c); c.Lines, c.ReplyLines = lines, lines/4 }})
	other, x := b.join(0, gid+1, 0) // no such group on card 1: all comes back
	for n := 1; n < nodes; {
		b.until(time.Second, "room", func() bool {
			for ; n < nodes && put(other, funi.Request, n); n++ {
			}
			return true
		})
		b.step(b.next())
	}
	b.until(time.Second, "all is answered", x.Idle)
	if n := b.cards[0].Streams(x); n < lines {
		t.Fatalf("%d streams: nothing is tested", n)
	}
	b.mustSend(0, funi.Request, 1, 1)
	b.cards[0].Detach(x)
	b.step(b.now)
	b.until(time.Second, "others go on", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	if n := b.cards[0].Streams(x); n != 0 {
		t.Errorf("%d streams of it are left", n)
	}
	if err := b.cards[0].Check(); err != nil {
		t.Error(err)
	}
	exactlyOnce(b, newTraffic(b, 20, 2, [2]int{0, 1}))
}

// Rule: a context comes onto the card when the last step served more contexts than the card has
// now, since the others have been detached since.
func TestAttachAfterMany(t *testing.T) {
	b := newBed(t, setup{cards: 1, slots: 16, net: near, tune: quick})
	all := []*engine.Context{b.ctx[0]}
	for node := range uint16(5) {
		other, x := b.join(0, gid+1, node)
		put(other, funi.Request, int(node+1)%5, 1)
		all = append(all, x)
	}
	b.cards[0].Step(b.now) // serves them all
	for _, x := range all {
		b.cards[0].Detach(x)
	}
	b.proc[0], b.ctx[0], b.mem[0] = b.attach(0, gid, 0)
	exactlyOnce(b, newTraffic(b, 10, 1))
}
