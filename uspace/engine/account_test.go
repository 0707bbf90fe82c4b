package engine_test

// This file tests that a step is bounded whatever a process, or a user with many of
// them, puts into the send queues (design ideas 3 and 10).

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// retrievedInStep steps a card of its own once and returns how many packets of the
// processes it has retrieved.
func retrievedInStep(c *engine.Card, unsent func() int) int {
	before := unsent()
	c.Step(1)
	return before - unsent()
}

// Rule: a request that is refused counts like a packet: a queue full of them does not make
// a step longer than a queue full of messages (retrieveBatch).
func TestRefusedRequestsAreBounded(t *testing.T) {
	c, err := engine.New(soleCard())
	if err != nil {
		t.Fatal(err)
	}
	const slots = 4096
	mem, err := funi.NewMemory(slots)
	if err != nil {
		t.Fatal(err)
	}
	proc, err := funi.Initialize(mem)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Attach(mem, 1, 0, jobTag); err != nil {
		t.Fatal(err)
	}
	for range slots - 1 {
		// of no segment
		proc.Reserve(funi.Request).SetTransfer(0, 0, funi.Transfer{Source: 16, Destination: 16, Words: 20})
		proc.Commit(funi.Request)
	}
	if n := retrievedInStep(c, func() int { return proc.Unsent(funi.Request) }); n != 256 {
		t.Errorf("a step looked at %d of %d refused requests, not at 256", n, slots-1)
	}
	for now := int64(2); proc.Unsent(funi.Request) > 0; now++ {
		if next := c.Step(now); proc.Unsent(funi.Request) > 0 && next > now {
			t.Fatalf("the card waits until %d with %d requests unseen", next, proc.Unsent(funi.Request))
		}
	}
}

// others attaches contexts of a group to a card, with nodes from the given one on, on an account.
func (b *bed) others(card int, group, first uint16, n int,
	account uint32) (procs []*funi.Interface, contexts []*engine.Context) {
	for i := range uint16(n) {
		p, x := b.join(card, group, first+i)
		b.cards[card].Account(x, account)
		procs, contexts = append(procs, p), append(contexts, x)
	}
	return procs, contexts
}

// stuff fills the send queue of a level with messages of 20 words.
func stuff(p *funi.Interface, l funi.Level, to int) (n int) {
	for put(p, l, to, make([]uint32, 20)...) {
		n++
	}
	return n
}

// Rule: contexts of one account share what a step retrieves and delivers, however many they are,
// and another account beside it has as much, also in the last step before a sleep. All that is sent
// arrives.
func TestAccountsShareAStep(t *testing.T) {
	for _, many := range []int{1, 2, 16, 64, 200} {
		b := newBed(t, setup{cards: 1, slots: 512, net: near})
		for n := range uint16(many + 2) {
			if err := b.cards[0].SetRoute(n, 0); err != nil {
				t.Fatal(err)
			}
		}
		crowd, _ := b.others(0, 8, 0, many, 7)
		b.cards[0].Account(b.ctx[0], 8)
		sent := 0
		for i, p := range crowd {
			sent += stuff(p, funi.Request, i) + stuff(p, funi.Reply, i) // to itself
		}
		arrived := func() (n int) {
			for _, p := range crowd {
				n += p.Arrived(funi.Request) + p.Arrived(funi.Reply)
			}
			return n
		}
		b.mustSend(0, funi.Request, 0, 0)
		b.step(b.now + 1)
		for i, way := range []string{"awake", "before a nap", "before a sleep"} {
			b.mustSend(0, funi.Request, 0, 1)
			before := arrived()
			switch way {
			case "before a nap":
				b.cards[0].Nap()
			case "before a sleep":
				b.cards[0].Doze()
			}
			b.step(b.now + 1)
			b.cards[0].Rouse()
			// A packet takes its bytes and 64 of 8 KiB; a context that is looked at costs some,
			// too.
			const most = 8<<10/(12+80+64) + 1
			if got := arrived() - before; got == 0 || got > most {
				t.Errorf("%d contexts beside another, %s: a step delivered %d packets, want some and at most %d",
					many, way, got, most)
			}
			if got := b.proc[0].Arrived(funi.Request); got != 2+i {
				t.Errorf("%d contexts, %s: the other's messages took more than a step each: %d arrived", many, way, got)
			}
		}
		b.until(time.Second, "all arrive", func() bool { return arrived() == sent })
	}
}

// Rule: a step that copies blocks is bounded in bytes, as one with packets is; what another
// account sends waits for no more of them.
func TestBlocksOfAStepAreBounded(t *testing.T) {
	b := newBed(t, setup{cards: 1, slots: 64, net: wire.Config{MTU: 9000}})
	for n := range uint16(2) {
		if err := b.cards[0].SetRoute(n, 0); err != nil {
			t.Fatal(err)
		}
	}
	procs, contexts := b.others(0, 8, 1, 1, 7)
	const size = 4 << 20
	memory := make([]byte, 2*size)
	rand.NewChaCha8([32]byte{}).Read(memory[:size])
	if err := contexts[0].Register(funi.Segment{Base: 16, Memory: memory,
		Rights: funi.Source | funi.Destination}); err != nil {
		t.Fatal(err)
	}
	b.cards[0].Account(b.ctx[0], 8)
	if !request(procs[0], funi.Request, 1, funi.Transfer{Source: 16, Destination: 16 + size, Words: size / 4}) {
		t.Fatal("no room")
	}
	copied := func() (n int) {
		for n = 0; n < size && memory[size+n] == memory[n]; n += 16 {
		}
		return n
	}
	before, last := 0, 0
	for i := range uint32(50) {
		b.mustSend(0, funi.Request, 0, i)
		b.step(b.now + 1)
		if s, ok := take(b.proc[0], funi.Request); !ok || s[funi.PayloadWord] != i {
			t.Fatalf("step %d: the other's message did not arrive", i)
		}
		now := copied()
		n := now - before
		if i > 0 && (n == 0 && last == 0 || n > 8<<10+9014) {
			t.Fatalf("step %d copied %d bytes beside another account, want some in two steps and at most 8 KiB and a block", i, n)
		}
		before, last = now, n
	}
	b.until(time.Second, "the notice", func() bool { _, ok := take(procs[0], funi.Request); return ok })
	if !bytes.Equal(memory[:size], memory[size:]) {
		t.Error("the memories differ")
	}
}

// crowded is two cards. Card 0 has a context of the victim's account, node 0 of
// group 7, and many of another's, of several groups, whose messages for card 1 wait in their
// send queues. It returns the bytes of the others' frames that leave before each of the victim's.
func crowded(t *testing.T, level funi.Level, contexts, groups int, to int, expected bool) (before func() int) {
	t.Helper()
	bytesBefore, found := 0, false
	shared := func(c *engine.Config) { c.AnyGroup = true }
	b := newBed(t, setup{cards: 2, slots: 1024, net: wire.Config{Delay: 10 * time.Microsecond}, tune: shared,
		wrap: func(card int, p *wire.Port) port.Port {
			if card != 0 {
				return p
			}
			return &tap{Port: p, see: func(raw []byte) bool {
				var h arctic.Header
				if f, err := arctic.Parse(raw); err == nil && f.Packets() > 0 {
					f.DecodeHeader(&h)
					switch {
					case h.GID == gid:
						found = true
					case !found:
						bytesBefore += len(raw)
					}
				}
				return true
			}}
		}})
	b.cards[0].Account(b.ctx[0], 8)
	b.cards[1].Account(b.ctx[1], 8)
	if expected {
		for g := range groups {
			b.cards[1].Expect(uint16(8+g), uint16(to), jobTag, true)
		}
	}
	for c := range 2 {
		if err := b.cards[c].SetRoute(uint16(to), 1); err != nil {
			t.Fatal(err)
		}
		for n := range contexts {
			if err := b.cards[c].SetRoute(uint16(100+n), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	var crowd []*funi.Interface
	for n := range contexts {
		p, _ := b.others(0, uint16(8+n%groups), uint16(100+n), 1, 7)
		crowd = append(crowd, p...)
	}
	if !expected { // a receiver that takes all
		for g := range groups {
			b.others(1, uint16(8+g), uint16(to), 1, 7)
		}
	}
	exchange := func() {
		b.mustSend(0, funi.Request, 1, 1)
		for end := b.now + int64(time.Second); ; b.step(b.now + 500) { // as long as a step takes
			for _, p := range crowd {
				stuff(p, level, to)
				for _, ok := p.NextReturn(); ok; _, ok = p.NextReturn() {
				}
			}
			if _, ok := take(b.proc[1], funi.Request); ok {
				return
			}
			if b.now > end {
				t.Fatal("the victim's message does not arrive")
			}
		}
	}
	exchange()
	return func() int {
		bytesBefore, found = 0, false
		exchange()
		return bytesBefore
	}
}

// Rule: a user's frames wait for a few kilobytes of another user's frames at the most, however many
// contexts, groups and nodes the other has. That holds also if the other's contexts send replies,
// or send to nodes that never come (design idea 10; more of it in link/turn_test.go).
func TestAccountsShareDispatch(t *testing.T) {
	for _, k := range []struct {
		name             string
		level            funi.Level
		contexts, groups int
		expected         bool
	}{
		{"64 senders of 16 groups", funi.Request, 64, 16, false},
		{"64 senders of replies to nodes that never come", funi.Reply, 64, 4, true},
	} {
		t.Run(k.name, func(t *testing.T) {
			next := crowded(t, k.level, k.contexts, k.groups, 50, k.expected)
			for i := range 20 {
				if n := next(); n > 2*(8<<10)+2*9014 {
					t.Fatalf("message %d waited for %d bytes of another account", i, n)
				}
			}
		})
	}
}

// soleCard is the configuration of a card without peers, on which node 0 is.
func soleCard() engine.Config {
	cfg := engine.Native()
	cfg.Incarnation, cfg.Routes = 1, []uint32{0}
	return cfg
}
