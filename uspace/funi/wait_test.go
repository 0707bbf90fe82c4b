package funi_test

// This file holds the rules of sleeping: the card's thread (Doze, Memory.Wake) and the
// process (Arm, Awaited), and of memory that two processes map (shared.go).

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

// Rule: a process that stores something rings if its context sleeps, and wakes the card's
// thread once if that sleeps (doc.go, asleep).
func TestProcessWakesTheThread(t *testing.T) {
	i, c, m := pair(t, 64)
	woken := 0
	m.Wake = func() { woken++ }
	commit := func() {
		i.Reserve(funi.Request).SetHeader(funi.NewHeader(0, 0, 0))
		i.Commit(funi.Request)
	}
	stores := map[string]func(){
		"commit":  commit,
		"modes":   func() { i.Go(funi.CSQM) },
		"release": func() { deliver(t, i, c, 32) },
	}
	for name, store := range stores {
		for _, n := range []uint32{0, 65, funi.NearBells - 1} {
			c.Doze(n)
			woken, *m.Doorbells = 0, funi.Doorbells{}
			store()
			if name == "commit" {
				commit()
			}
			if woken != 1 || *m.Doorbells != rung(n) {
				t.Errorf("%s at a card that dozes, bell %d: %d wakes, bells %x", name, n, woken,
					m.Doorbells.Bells[n/64])
			}
			c.Sleep(n)
			woken, *m.Doorbells = 0, funi.Doorbells{}
			store()
			if rang := m.Doorbells.Summary != 0; woken != 0 || rang != (name != "release") {
				t.Errorf("%s at a context that sleeps: %d wakes, rang %v", name, woken, rang)
			}
			c.Wake()
			woken, *m.Doorbells = 0, funi.Doorbells{}
			store()
			if woken != 0 || m.Doorbells.Summary != 0 {
				t.Errorf("%s at a card that is awake: %d wakes, bells %x", name, woken, m.Doorbells.Summary)
			}
		}
	}
	m.Wake = nil // a card in the process itself: nobody to wake
	c.Doze(0)
	commit()
}

// rung returns the doorbells of which one has been rung.
func rung(n uint32) (d funi.Doorbells) {
	d.Summary, d.Bells[n/64] = 1<<(n/64), 1<<(n%64)
	return d
}

// awaited has the card store something, and reports whether the process is to be woken for it.
func awaited(c *funi.Card) bool {
	c.Store(funi.GID, 0)
	return c.Awaited()
}

// deliver has n messages delivered and released: half a queue of them gives slots back.
func deliver(t *testing.T, i *funi.Interface, c *funi.Card, n int) {
	t.Helper()
	for range n {
		c.Vacant(funi.Request).SetHeader(funi.NewHeader(0, 0, 0))
		c.Deliver(funi.Request)
	}
	c.Publish()
	for range n {
		if i.Receive(funi.Request) == nil {
			t.Fatal("nothing was delivered")
		}
		i.Release(funi.Request)
	}
}

// Rule: the process is woken once for each Arm, and what Published says changes with
// everything that the card does for it.
func TestCardWakesTheProcess(t *testing.T) {
	i, c, m := pair(t, 64)
	if awaited(c) {
		t.Error("a fresh context is awaited")
	}
	m.Page.Arm()
	if c.Awaited() {
		t.Error("a process is woken for nothing")
	}
	if !awaited(c) || awaited(c) {
		t.Error("the card is not told once of one Arm")
	}
	m.Page.Arm()
	m.Page.Disarm()
	if awaited(c) {
		t.Error("Disarm does not disarm")
	}
	for name, do := range map[string]func(){
		"delivery": func() { c.Vacant(funi.Reply); c.Deliver(funi.Reply); c.Publish() },
		"retiring": func() {
			i.Reserve(funi.Reply)
			i.Commit(funi.Reply)
			c.Retire(funi.Reply, 1)
			c.Publish()
		},
		"return": func() { c.Return(funi.Returned{}) },
		"a lost return": func() {
			for range funi.ReturnSlots + 1 {
				c.Return(funi.Returned{})
			}
		},
		"status": func() { c.PutControl(0, funi.CSQR) },
		"end":    c.PutGone,
	} {
		before := m.Page.Published()
		if before != m.Page.Published() {
			t.Error("Published changes by itself")
		}
		do()
		if before == m.Page.Published() {
			t.Errorf("%s does not change Published", name)
		}
	}
	if !i.Gone() || !m.Page.Published().Gone {
		t.Error("the process does not see that the context is gone")
	}
}

// Rule: Halted says whether the card has halted for every mode that is set, however often
// that comes to pass (doc.go, CNTL).
func TestHalted(t *testing.T) {
	m := memory(t, 8)
	for v, want := range map[uint32]bool{
		0: false, funi.CSQM: false, funi.CSQM | funi.CSQR: true, funi.CRQM | funi.CRQR: true, funi.CSQR: false,
		funi.UserModes: false, funi.UserModes | funi.CSQR: false, funi.UserModes | funi.CRQR: false,
		funi.UserModes | funi.CSQR | funi.CRQR: true, funi.CSQM | funi.CSQR | funi.CRQR | funi.MERR: true,
		funi.CSQM | funi.CRQR: false,
	} {
		if m.Page.Store(funi.Control, v); m.Page.Halted() != want {
			t.Errorf("CNTL %#x: halted is %v", v, !want)
		}
	}
}

// Rule: Waiting says whether a message of either level or a return is there.
func TestWaiting(t *testing.T) {
	for l := range funi.Level(2) {
		i, c, _ := pair(t, 8)
		if i.Waiting() {
			t.Error("a fresh context has something waiting")
		}
		c.Vacant(l)
		c.Deliver(l)
		c.Publish()
		if !i.Waiting() {
			t.Errorf("a message of level %v does not wait", l)
		}
		i.Receive(l)
		i.Release(l)
		if i.Waiting() {
			t.Errorf("a released message of level %v waits", l)
		}
		c.Return(funi.Returned{})
		if !i.Waiting() {
			t.Error("a return does not wait")
		}
		if i.NextReturn(); i.Waiting() {
			t.Error("a return that was taken waits")
		}
	}
}

// Rule: a card puts its version into the page, and what an earlier context left in the
// other words of life and death is not the next one's.
func TestPageAtTheStart(t *testing.T) {
	m := memory(t, 8)
	_, err := funi.Initialize(m)
	if err != nil || m.Page.Version() != 0 {
		t.Fatalf("version %d before there was a card: %v", m.Page.Version(), err)
	}
	c := funi.NewCard(m)
	if m.Page.Version() != funi.ABI {
		t.Errorf("version %d", m.Page.Version())
	}
	m.Page.Arm()
	m.Page.PutGone()
	if i, err := funi.Initialize(m); err != nil || i.Gone() || awaited(c) {
		t.Errorf("a new context is gone or awaited: %v", err)
	}
}

// Rule: shared memory is a register page and six queues, and the doorbells a page; both
// ends see the same words. Anything else is refused.
func TestSharedMemory(t *testing.T) {
	size, err := funi.SharedSize(64)
	if err != nil || size != 4096+6*64*128 {
		t.Fatalf("64 slots take %d bytes: %v", size, err)
	}
	for _, slots := range []int{-1, 0, 1, 3, 1 << 17} {
		if _, err := funi.SharedSize(slots); !errors.Is(err, funi.ErrSlots) {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
	context, bells := cacheLines(size), cacheLines(funi.DoorbellsSize)
	card, err := funi.SharedRemoteMemory(context, bells, funi.RemoteSizes{})
	if err != nil {
		t.Fatal(err)
	}
	process, err := funi.SharedRemoteMemory(context, bells, funi.RemoteSizes{})
	if err != nil {
		t.Fatal(err)
	}
	process.Page.Store(funi.Control, funi.UserModes)
	c := funi.NewCard(card)
	i, err := funi.Start(process, 64, func() error {
		if c.Load(funi.Control) == funi.UserModes {
			c.PutControl(funi.UserModes, funi.UserModes|funi.CSQR|funi.CRQR)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.LatchSend(), c.LatchReceive()); err != nil {
		t.Fatal(err)
	}
	for _, l := range []funi.Level{funi.Request, funi.Reply} { // room for both virtual queues
		if _, err := i.NewVirtualQueue(l); err != nil {
			t.Error(err)
		}
	}
	c.Sleep(3)
	i.Reserve(funi.Reply)[funi.PayloadWord] = 77
	i.Commit(funi.Reply)
	if c.Pending(funi.Reply) != 1 || c.Slot(funi.Reply, 0)[funi.PayloadWord] != 77 || card.Doorbells.Bells[0] != 8 {
		t.Error("the card does not see what the process stored")
	}
	for name, b := range map[string][2][]byte{
		"no context": {nil, bells}, "a page": {context[:4096], bells}, "a word more": {cacheLines(size + 4), bells},
		"no doorbells": {context, nil}, "half the doorbells": {context, bells[:2048]},
		"not aligned":       {cacheLines(size + 64)[4 : size+4], bells},
		"bells not aligned": {context, cacheLines(8192)[8 : 8+4096]},
	} {
		if _, err := funi.SharedRemoteMemory(b[0], b[1], funi.RemoteSizes{}); !errors.Is(err, funi.ErrShared) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// cacheLines returns n bytes that start on a cache line, as a mapping does.
func cacheLines(n int) []byte {
	b := make([]byte, n+64)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & 63
	return b[skip : skip+n : skip+n]
}

// Rule: a process of an earlier release does not look at Doorbells.Sleeps. When its context sleeps
// it is told to wake the card's thread in any case, once. Another wakes the thread if it sleeps.
func TestWhoLooksWhetherTheThreadSleeps(t *testing.T) {
	i, c, m := pair(t, 64)
	woken := 0
	m.Wake = func() { woken++ }
	for name, v := range map[string]struct{ looks, sleeps, want uint32 }{
		"an earlier release, which does not look": {0, 0, 1},
		"this one, the thread runs":               {1, 0, 0}, "this one, it sleeps": {1, 1, 1},
	} {
		m.Page[0x4f0/4], m.Doorbells.Sleeps, woken = v.looks, v.sleeps, 0
		c.Sleep(7)
		for range 2 {
			i.Reserve(funi.Request).SetHeader(funi.NewHeader(0, 0, 0))
			i.Commit(funi.Request)
		}
		if uint32(woken) != v.want {
			t.Errorf("%s: woken %d times, want %d", name, woken, v.want)
		}
	}
}
