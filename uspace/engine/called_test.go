package engine_test

// This file holds the rules of whom the owner of a card has to wake (Card.TakeCalled) for
// what is published between two steps, where no step reports it.

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// called takes who is to be woken on a card and fails the test unless that is as said.
func (b *bed) called(card int, what string, want ...*engine.Context) {
	b.t.Helper()
	if got := b.cards[card].TakeCalled(); !slices.Equal(got, want) {
		b.t.Errorf("%s: %d contexts are called, want %d", what, len(got), len(want))
	}
}

// Rule: a process that asked to be woken is, for what came back or was drained while its
// context was switched out, when it is back; steps that follow before the owner asks take
// nothing away (switch.go, wake.go).
func TestCalledAfterSwitchIn(t *testing.T) {
	for _, what := range []string{"a return", "a drained packet"} {
		for _, steps := range []int{0, 1, 5} {
			b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: quick})
			exactlyOnce(b, newTraffic(b, 10, 2))
			page := b.mem[0].Page
			var s *engine.Saved
			if what == "a return" { // by a cut that outlasts PeerTimeout
				b.net.Cut(isolate(1))
				b.mustSend(0, funi.Request, 1, 1)
				b.step(b.now + 1)
				var err error
				b.until(time.Second, "CTXR1'", func() bool {
					s, err = b.cards[0].SwitchOut(b.ctx[0], true)
					return err == nil
				})
				b.pass(time.Second)
			} else { // by a process that takes nothing
				for range 6 {
					b.until(time.Second, "room", func() bool { return b.send(1, funi.Request, 0, 1) })
				}
				b.pass(10 * time.Millisecond)
				s = b.switchOut(0)
			}
			s.Live = true
			if !s.Waits() {
				t.Errorf("%s does not wait for the context's return", what)
			}
			b.cards[0].TakeCalled()
			for what != "a return" && b.proc[0].Receive(funi.Request) != nil {
				b.proc[0].Release(funi.Request) // it makes room
			}
			page.Arm()
			b.switchIn(0, s)
			for range steps {
				b.step(b.now + 1)
			}
			b.called(0, what, b.ctx[0])
			b.called(0, "twice", []*engine.Context{}...)
		}
	}
}

// Rule: a process that asked to be woken is when what it gets arrives with the switch out
// itself: nothing else tells it before the context is back, which may be never.
func TestCalledAtSwitchOut(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: quick})
	for range 6 {
		b.until(time.Second, "room", func() bool { return b.send(1, funi.Request, 0, 1) })
	}
	b.pass(10 * time.Millisecond)
	b.ctx[0].Store(funi.Control, funi.CTXM) // a step would take its status bits for news
	b.until(time.Second, "CTXR1", func() bool { return b.ctx[0].Load(funi.Control)&funi.CTXR1 != 0 })
	b.step(b.now + 1)
	b.cards[0].TakeCalled()
	for range 2 { // two slots give room back to the card
		if _, ok := take(b.proc[0], funi.Request); !ok {
			t.Fatal("the queue is empty")
		}
	}
	page := b.mem[0].Page
	page.Arm()
	before := page.Published()
	if _, err := b.cards[0].SwitchOut(b.ctx[0], false); err != nil {
		t.Fatal(err)
	}
	if page.Published().Delivered == before.Delivered {
		t.Fatal("the switch delivered nothing")
	}
	b.called(0, "a packet that the switch delivered", b.ctx[0])
}

// Rule: what the owner stores between two steps is news for a process that waits, also for
// one of many whose context is about to sleep.
func TestCalledAfterStore(t *testing.T) {
	c := newCouple(t, 16)
	c.crowd(t, 50)
	mem, err := funi.NewMemory(4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := funi.Initialize(mem); err != nil {
		t.Fatal(err)
	}
	x, err := c.cards[0].Attach(mem, 99, 0, jobTag)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c.step()
	}
	for i := range 200 { // at each step between two naps
		c.cards[0].TakeCalled()
		mem.Page.Arm()
		if err := x.Store(funi.Control, 0); err != nil {
			t.Fatal(err)
		}
		c.step()
		if got := c.cards[0].TakeCalled(); len(got) != 1 || got[0] != x {
			t.Fatalf("store %d: %d contexts are called", i, len(got))
		}
	}
}

// Rule: who is detached is on no list, and who takes its bell is not woken for it.
func TestDetachedIsNotCalled(t *testing.T) {
	b := newBed(t, setup{cards: 1, slots: 4, net: near, route: []uint32{0, 0}})
	_, other := b.join(0, gid, 1)
	for _, m := range b.mem {
		m.Page.Arm()
	}
	b.mustSend(0, funi.Request, 0, 1)
	put(b.proc[0], funi.Request, 1, 1)
	b.step(b.now + 1)
	b.cards[0].Detach(b.ctx[0])
	_, next := b.join(0, gid, 0)
	if next.Bell() != b.ctx[0].Bell() {
		t.Fatalf("bell %d, the one before had %d", next.Bell(), b.ctx[0].Bell())
	}
	b.called(0, "after one was detached", other)
}

// Rule: a process is never left waiting beside news, whatever the order of steps, switches,
// its own looks and its owner's: as in the daemon, it looks only when it is woken.
func TestNoWakeIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBed(t, setup{cards: 2, slots: rapid.SampledFrom([]int{2, 4}).Draw(rt, "slots"), net: near, tune: quick})
		page, x := b.mem[0].Page, b.ctx[0]
		var saved *engine.Saved
		sent, got := 0, 0
		seen := page.Published()
		page.Arm()
		owner := func() {
			for _, y := range b.cards[0].TakeCalled() {
				if y != x {
					rt.Fatal("somebody else is called")
				}
				for l := range arctic.Level(arctic.Levels) {
					for _, ok := take(b.proc[0], l); ok; _, ok = take(b.proc[0], l) {
						got++
					}
				}
				page.Arm()
				if seen = page.Published(); b.proc[0].Waiting() {
					rt.Fatal("there is more at once")
				}
			}
			if page.Published() != seen {
				rt.Fatalf("nobody wakes the process for %+v after %+v", page.Published(), seen)
			}
		}
		for _, do := range rapid.SliceOfN(rapid.IntRange(0, 9), 20, 200).Draw(rt, "script") {
			switch {
			case do < 4:
				if b.send(1, funi.Level(do&1), 0, uint32(sent)) {
					sent++
				}
			case do < 7:
				b.step(b.now + int64(1)<<(4*do))
			case do == 7 && saved == nil:
				if s, err := b.cards[0].SwitchOut(x, true); err == nil {
					s.Live, saved = true, s
				}
			case do == 8 && saved != nil:
				b.switchIn(0, saved)
				saved = nil
			case do == 9:
				owner()
			}
		}
		if saved != nil {
			b.switchIn(0, saved)
		}
		_ = x.Store(funi.Control, 0) // ends a switch that was begun
		b.wake[0] = 0
		b.until(time.Minute, "all have arrived", func() bool { owner(); return got == sent })
	})
}
