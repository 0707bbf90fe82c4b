package am_test

// This file tests that the steady state allocates nothing: a garbage collection in the
// middle of an exchange would cost more than the exchange.

import (
	"testing"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// cable is one direction between two cards: a ring of frames that allocates nothing.
// When it is full Reserve returns nil, as a transmit ring does.
type cable struct {
	data        [64][1514]byte
	size        [64]int
	first, sent int
}

// plug is one end of a pair of cables.
type plug struct {
	in, out *cable
	lent    int
}

func (p *plug) FrameSize() int { return len(p.out.data[0]) }

func (p *plug) Receive(frames [][]byte) int {
	n := 0
	for ; n < len(frames) && p.in.first+n < p.in.sent; n++ {
		i := (p.in.first + n) % len(p.in.data)
		frames[n] = p.in.data[i][:p.in.size[i]]
	}
	p.lent = n
	return n
}

func (p *plug) Release() { p.in.first += p.lent; p.lent = 0 }

func (p *plug) Reserve() []byte {
	if p.out.sent-p.out.first == len(p.out.data) {
		return nil
	}
	return p.out.data[p.out.sent%len(p.out.data)][:]
}

func (p *plug) Commit(n int) {
	p.out.size[p.out.sent%len(p.out.data)] = n
	p.out.sent++
}

func (p *plug) Flush() {}

// pair makes two endpoints that are joined by cables; their time is a counter.
func pair(t *testing.T) (e [2]*am.Endpoint) {
	t.Helper()
	now := int64(1)
	cables := [2]*cable{new(cable), new(cable)}
	address := func(i int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(i)} }
	for i := range 2 {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Routes = uint16(i), uint32(i+1), []uint32{0, 1}
		cfg.Ports = []port.Port{&plug{in: cables[1-i], out: cables[i]}}
		cfg.Peers = []engine.Peer{{Card: uint16(1 - i), Address: address(1 - i), Local: address(i)}}
		card, err := engine.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := funi.NewMemory(64)
		if err != nil {
			t.Fatal(err)
		}
		iface, err := funi.Initialize(memory)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := card.Attach(memory, 1, uint16(i)); err != nil {
			t.Fatal(err)
		}
		if e[i], err = am.New(iface, i, 2, func() { now += 100; card.Step(now) }); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// TestNoAllocation: Request4, Request, Post4, Poll, Reply4 and Reply allocate nothing.
func TestNoAllocation(t *testing.T) {
	e := pair(t)
	answered := 0
	for i := range e {
		for number, h := range []am.Handler{
			func(m *am.Message) { _ = m.Reply4(2, m.Words[0], m.Words[1], m.Words[2], m.Words[3]) },
			func(m *am.Message) { _ = m.Reply(2, m.Words...) },
			func(*am.Message) { answered++ },
		} {
			if err := e[i].Handle(uint32(number), h); err != nil {
				t.Fatal(err)
			}
		}
	}
	words := make([]uint32, am.MaxWords)
	poll := func() {
		for i := range e {
			if _, err := e[i].Poll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange := func() {
		want := answered + 2 + 2*32
		for i := range e {
			send := e[i].Request4(1-i, 0, 1, 2, 3, 4)
			for range 31 {
				if err := e[i].Post4(1-i, 0, 1, 2, 3, 4); err != nil {
					t.Fatal(err)
				}
			}
			if err := e[i].Request(1-i, 1, words...); err != nil || send != nil {
				t.Fatal(send, err)
			}
		}
		for answered < want {
			poll()
		}
	}
	for range 100 { // flows and greetings come first
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n != 0 {
		t.Errorf("66 exchanges allocate %v times, want 0", n)
	}
}
