package engine_test

// This file is the test bed: cards on a network in memory, stepped in virtual time.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/wire"
)

const gid = 7

// bed is n cards, each with one context of group gid whose node is its number.
type bed struct {
	t     testing.TB
	now   int64
	net   *wire.Network
	cards []*engine.Card
	ctx   []*engine.Context
	proc  []*funi.Interface
	mem   []*funi.Memory
	wake  []int64
	lives uint32
	tune  func(*engine.Config)
	slots int
}

func address(card int) [6]byte { return [6]byte{2, 0, 0, 0, byte(card >> 8), byte(card)} }

func newBed(t testing.TB, n, slots int, net wire.Config, tune func(*engine.Config)) *bed {
	b := &bed{t: t, net: wire.New(net), tune: tune, slots: slots, now: 1}
	b.cards = make([]*engine.Card, n)
	b.ctx = make([]*engine.Context, n)
	b.proc = make([]*funi.Interface, n)
	b.mem = make([]*funi.Memory, n)
	b.wake = make([]int64, n)
	for i := range n {
		b.start(i)
	}
	return b
}

// start makes card i anew, with a new incarnation.
func (b *bed) start(i int) {
	b.t.Helper()
	b.lives++
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Seed = uint16(i), b.lives, uint64(i)
	cfg.Ports = []port.Port{b.net.Plug(address(i))}
	for j := range b.cards {
		cfg.Routes = append(cfg.Routes, uint32(j))
		if j != i {
			cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(j), Address: address(j), Local: address(i)})
		}
	}
	if b.tune != nil {
		b.tune(&cfg)
	}
	card, err := engine.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	mem, err := funi.NewMemory(b.slots)
	if err != nil {
		b.t.Fatal(err)
	}
	proc, err := funi.Initialize(mem)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, err := card.Attach(mem, gid, uint16(i))
	if err != nil {
		b.t.Fatal(err)
	}
	b.cards[i], b.mem[i], b.proc[i], b.ctx[i], b.wake[i] = card, mem, proc, ctx, 0
}

// step advances time to the next thing that happens, at most by limit, and steps
// every card.
func (b *bed) step(limit time.Duration) {
	next := b.now + int64(limit)
	if at, ok := b.net.Next(); ok {
		next = min(next, at)
	}
	for _, w := range b.wake {
		next = min(next, w)
	}
	b.now = max(next, b.now+1)
	b.net.Advance(b.now)
	for i, c := range b.cards {
		if c != nil {
			b.wake[i] = c.Step(b.now)
		}
	}
}

// send puts one message into a send queue, or reports that it is full.
func (b *bed) send(from int, l funi.Level, to int, words ...uint32) bool {
	s := b.proc[from].Reserve(l)
	if s == nil {
		return false
	}
	s.SetHeader(funi.NewHeader(uint16(to), 5, len(words)))
	copy(s[funi.PayloadWord:], words)
	b.proc[from].Commit(l)
	return true
}

// until steps until done, and fails the test after the given virtual time.
func (b *bed) until(limit time.Duration, what string, done func() bool) {
	b.t.Helper()
	end := b.now + int64(limit)
	for !done() {
		if b.now > end {
			b.t.Fatalf("not within %v of virtual time: %s\n%+v\n%+v", limit, what, b.cards[0].Counters(), b.cards[len(b.cards)-1].Counters())
		}
		b.step(50 * time.Microsecond)
	}
}
