package engine_test

// This file holds the rules of a card that serves processes of its own accord. Groups come and go,
// members come later, and threads and processes sleep. Processes go on while they are switched out,
// and their memory is gone when they are.

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: with AnyGroup a card meets peers whatever the group, so what is sent to a group that is
// not there comes back at once, not after a timeout (Config.AnyGroup).
func TestAnyGroup(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, group: []uint16{gid, gid + 1}, tune: func(c *engine.Config) {
		c.AnyGroup = true
	}})
	b.mustSend(0, funi.Request, 1, 5)
	b.comesBack(20*time.Millisecond, b.proc[0], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
		Header: funi.NewHeader(1, 5, 1), Word: 5})
}

// Rule: what is sent to a node that is expected waits until it is attached, from another
// card and from this one; one that is not expected any more is not there (Expect).
func TestExpectedNodes(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, route: []uint32{0, 1, 1, 1}})
	for _, node := range []uint16{2, 3} {
		b.cards[1].Expect(gid, node, jobTag, true)
		b.mustSend(0, funi.Request, int(node), 1)
		put(b.proc[1], funi.Request, int(node), 2)
	}
	b.pass(20 * time.Millisecond)
	for _, p := range b.proc {
		if r, ok := p.NextReturn(); ok {
			t.Fatalf("it came back: %+v", r)
		}
	}
	late, ctx := b.join(1, gid, 2)
	got := 0
	b.until(time.Second, "the late node gets both", func() bool {
		if _, ok := take(late, funi.Request); ok {
			got++
		}
		return got == 2
	})
	b.cards[1].Expect(gid, 3, jobTag, false)
	b.wake[1] = 0
	for i, p := range b.proc {
		b.comesBack(time.Second, p, funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
			Header: funi.NewHeader(3, 5, 1), Word: uint32(1 + i)})
	}
	b.cards[1].Expect(gid, 2, jobTag, true) // it is there: nothing changes
	b.cards[1].Detach(ctx)
	b.mustSend(0, funi.Request, 2, 7)
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
		Header: funi.NewHeader(2, 5, 1), Word: 7})
}

// Rule: no sender waits longer than ConnectTimeout for a node that is expected and does not come.
// The time begins with the first packet for the node, from this card and from another. The card
// wants to run when the time is over. A node that comes later is there for what is sent then.
func TestExpectedNodesThatDoNotCome(t *testing.T) {
	const timeout = 500 * time.Millisecond
	for _, from := range []int{0, 1} {
		// a ConnectTimeout of 500 ms
		b := newBed(t, setup{cards: 2, slots: 16, net: near, route: []uint32{0, 1, 1, 1}, tune: quick})
		exactlyOnce(b, newTraffic(b, 10, 2))
		b.cards[1].Expect(gid, 2, jobTag, true)
		b.cards[1].Expect(gid, 3, jobTag, true)
		b.pass(3 * timeout) // nobody asks
		begin := b.now
		b.mustSend(from, funi.Request, 2, 1)
		b.pass(timeout / 2)
		b.mustSend(from, funi.Request, 3, 2)
		for node := uint16(2); node < 4; node++ {
			b.comesBack(3*timeout, b.proc[from], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
				Header: funi.NewHeader(node, 5, 1), Word: uint32(node - 1)})
			// What waits behind another packet on the own card is looked at after that; and
			// each is tried again after a back-off, of 100 ms at most.
			if took := time.Duration(b.now - begin); took < timeout || took > 2*timeout+200*time.Millisecond {
				t.Errorf("from node %d: node %d was waited for for %v", from, node, took)
			}
		}
		p, _ := b.join(1, gid, 2)
		b.mustSend(from, funi.Request, 2, 3)
		b.until(timeout, "the late node is there", func() bool { _, ok := take(p, funi.Request); return ok })
	}
}

// Rule: between Doze and Rouse a process wakes the card's thread with what it stores, also
// one whose context sleeps or is woken meanwhile; outside it does not (Doze).
func TestProcessesWakeADozingCard(t *testing.T) {
	c := newCouple(t, 64)
	woken := 0
	var proc []*funi.Interface
	for node := range uint16(100) { // one of many sleeps
		m, err := funi.NewMemory(4)
		if err != nil {
			t.Fatal(err)
		}
		m.Wake = func() { woken++ }
		p, err := funi.Initialize(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.cards[0].Attach(m, 100, node, jobTag); err != nil {
			t.Fatal(err)
		}
		proc = append(proc, p)
	}
	for range 1000 {
		c.step()
	}
	send := func(n int, want int) {
		t.Helper()
		woken = 0
		put(proc[n], funi.Request, 9, 1)
		if woken != want {
			t.Errorf("context %d woke the thread %d times, want %d", n, woken, want)
		}
	}
	send(1, 0)
	c.cards[0].Doze()
	c.step() // wakes context 1, which goes on to doze
	if _, ok := proc[1].NextReturn(); !ok {
		t.Error("what was sent before Doze was not found by the step after it")
	}
	send(1, 1)
	send(2, 1)
	c.step()
	for _, n := range []int{1, 2} {
		if _, ok := proc[n].NextReturn(); !ok {
			t.Errorf("context %d was not seen", n)
		}
	}
	c.cards[0].Rouse()
	send(1, 0)
	send(3, 0)
	c.step()
	if _, ok := proc[3].NextReturn(); !ok {
		t.Error("a context that slept through Doze was not seen by its bell")
	}
}

// Rule: TakeCalled lists, once, the contexts whose processes asked to be woken and for which a
// step had something: a delivery, a return, a retired slot, a change of CNTL.
func TestCalled(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	p, x, page := b.proc[0], b.ctx[0], b.mem[0].Page
	quiet := func(what string) {
		t.Helper()
		for range 3 {
			b.step(b.now + 1e6)
			if n := len(b.cards[0].TakeCalled()); n != 0 {
				t.Errorf("%s: %d called", what, n)
			}
		}
	}
	called := func(what string) {
		t.Helper()
		b.until(time.Second, what, func() bool {
			list := b.cards[0].TakeCalled()
			if len(list) > 1 || len(list) == 1 && list[0] != x {
				t.Fatalf("%s: %v called", what, list)
			}
			return len(list) == 1
		})
		quiet("after " + what)
	}
	page.Arm()
	quiet("nothing happened")
	put(p, funi.Request, 1, 1)
	called("a retired slot")
	b.until(time.Second, "it is delivered", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	b.mustSend(1, funi.Request, 0, 1)
	quiet("not armed")
	page.Arm()
	quiet("armed after it was delivered")
	b.mustSend(1, funi.Request, 0, 1)
	called("a delivery")
	page.Disarm()
	put(p, funi.Request, 7, 1)
	b.step(b.now + 1)
	if _, ok := p.NextReturn(); !ok {
		t.Fatal("it did not come back")
	}
	b.pass(time.Millisecond)
	page.Arm()
	page.Store(funi.Control, funi.CSQM)
	called("a change of CNTL")
	if p.Gone() {
		t.Error("the context is gone")
	}
	if x.Dismiss(); !p.Gone() {
		t.Error("the process is not told that the context is gone")
	}
}

// Rule: contexts have different bells, below MaxContexts, and keep them until they are
// detached.
func TestBells(t *testing.T) {
	c := newCouple(t, 16)
	_, ctx := c.crowd(t, 50)
	seen := map[uint32]bool{}
	for _, x := range ctx {
		if seen[x.Bell()] || x.Bell() >= funi.MaxContexts {
			t.Errorf("bell %d", x.Bell())
		}
		seen[x.Bell()] = true
	}
}

// Rule: a process that goes on while its context is out loses nothing of what it does
// meanwhile: messages, room in its queues, modes (Saved.Live).
func TestProcessGoesOnWhileItIsOut(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
	tr := newTraffic(b, 400, 3)
	var saved *engine.Saved
	turns, next := 0, b.now
	b.until(time.Minute, "everything is delivered", func() bool {
		done := tr.pump()
		if b.alarm = next; b.now < next {
			return done
		}
		next = b.now + int64(300*time.Microsecond)
		if saved != nil {
			b.switchIn(0, saved)
			saved, turns = nil, turns+1
		} else if s, err := b.cards[0].SwitchOut(b.ctx[0], false); err == nil {
			s.Live = true
			saved = s
		} else {
			next = b.now + 1
		}
		return done
	})
	if turns < 3 {
		t.Errorf("only %d turns", turns)
	}
	if saved != nil {
		b.switchIn(0, saved)
	}
	b.alarm = 0
	saved = b.switchOut(0)
	saved.Live = true
	resized := false
	b.mem[0].Page.Store(funi.Control, funi.UserModes) // it wants to change its queues
	b.switchIn(0, saved)
	b.until(time.Second, "the queues halt", func() bool {
		resized = b.proc[0].Status()&(funi.CSQR|funi.CRQR) == funi.CSQR|funi.CRQR
		return resized
	})
}

// Rule: after Detach the card does not touch the memory of the process, not even to look,
// although packets of it are in flight; Quiet says when they are not any more.
func TestMemoryIsGoneAfterDetach(t *testing.T) {
	size, err := funi.SharedSize(64)
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(t, setup{cards: 2, slots: 64, net: near, route: []uint32{0, 1, 0}, tune: quick})
	for range 20 {
		mapped, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		m := &funi.Memory{Page: (*funi.Page)(unsafe.Pointer(&mapped[0])),
			Queues: unsafe.Slice((*uint32)(unsafe.Pointer(&mapped[4096])), (size-4096)/4)}
		p, err := funi.InitializeSlots(m, 64)
		if err != nil {
			t.Fatal(err)
		}
		x, err := b.cards[0].Attach(m, gid, 2, jobTag)
		if err != nil {
			t.Fatal(err)
		}
		source := make([]byte, 1<<20)
		if err := x.Register(funi.Segment{Base: 1 << 16, Memory: source,
			Rights: funi.Source | funi.Destination}); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			put(p, funi.Request, 1, uint32(i))
			put(p, funi.Reply, 0, uint32(i))
			b.mustSend(1, funi.Request, 2, uint32(i))
		}
		b.step(b.now + 1)
		b.cards[0].Detach(x)
		if err := unix.Munmap(mapped); err != nil {
			t.Fatal(err)
		}
		b.until(time.Second, "nothing is in flight", func() bool {
			for i := range b.proc {
				take(b.proc[i], funi.Request)
				take(b.proc[i], funi.Reply)
				b.proc[i].NextReturn()
			}
			return b.cards[0].Quiet() && b.ctx[1].Idle()
		})
	}
}
