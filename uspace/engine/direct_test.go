package engine_test

// This file is two cards back to back through ports that do not allocate, for what
// the engine itself costs.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// direct is a ring of frame buffers into which one card writes and from which
// another reads; a port is two of them.
type direct struct {
	buffers    [256][1514]byte
	length     [256]int
	head, tail int
}

type directPort struct {
	out, in *direct
	lent    int
}

func (p *directPort) FrameSize() int { return len(p.out.buffers[0]) }

func (p *directPort) Receive(frames [][]byte) int {
	n := min(p.in.head-p.in.tail, len(frames))
	for i := range n {
		at := (p.in.tail + i) % len(p.in.buffers)
		frames[i] = p.in.buffers[at][:p.in.length[at]]
	}
	p.lent = n
	return n
}

func (p *directPort) Release() { p.in.tail += p.lent; p.lent = 0 }

func (p *directPort) Reserve() []byte {
	if p.out.head-p.out.tail == len(p.out.buffers) {
		return nil
	}
	return p.out.buffers[p.out.head%len(p.out.buffers)][:]
}

func (p *directPort) Commit(n int) {
	p.out.length[p.out.head%len(p.out.buffers)] = n
	p.out.head++
}

func (p *directPort) Flush() {}

// couple is two cards with a process each. One microsecond passes with each step.
type couple struct {
	cards [2]*engine.Card
	proc  [2]*funi.Interface
	ctx   [2]*engine.Context
	now   int64
}

func newCouple(t testing.TB, slots int, tune ...func(*engine.Config)) *couple {
	t.Helper()
	return newSizedCouple(t, slots, someRemote, tune...)
}

func newSizedCouple(t testing.TB, slots int, sizes funi.RemoteSizes, tune ...func(*engine.Config)) *couple {
	t.Helper()
	a, b := new(direct), new(direct)
	ports := [2]port.Port{&directPort{out: a, in: b}, &directPort{out: b, in: a}}
	c := &couple{}
	for i := range 2 {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Routes, cfg.Ports = uint16(i), uint32(i+1), []uint32{0, 1}, []port.Port{ports[i]}
		cfg.Peers = []engine.Peer{{Card: uint16(1 - i), Address: address(1 - i), Local: address(i)}}
		for _, f := range tune {
			f(&cfg)
		}
		card, err := engine.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		mem, err := funi.NewMemory(slots)
		if err != nil {
			t.Fatal(err)
		}
		if err := mem.AddRemote(sizes); err != nil {
			t.Fatal(err)
		}
		if c.proc[i], err = funi.Initialize(mem); err != nil {
			t.Fatal(err)
		}
		if c.ctx[i], err = card.Attach(mem, gid, uint16(i), jobTag); err != nil {
			t.Fatal(err)
		}
		c.cards[i] = card
	}
	return c
}

func (c *couple) step() {
	c.now += int64(time.Microsecond)
	c.cards[0].Step(c.now)
	c.cards[1].Step(c.now)
}

// roundTrip sends a request of four words to process 1 and waits for its reply.
func (c *couple) roundTrip() {
	put(c.proc[0], funi.Request, 1, 1, 2, 3, 4)
	for {
		c.step()
		if s := c.proc[1].Receive(funi.Request); s != nil {
			c.proc[1].Release(funi.Request)
			put(c.proc[1], funi.Reply, 0, 5, 6, 7, 8)
		}
		if s := c.proc[0].Receive(funi.Reply); s != nil {
			c.proc[0].Release(funi.Reply)
			return
		}
	}
}

// flood sends n messages of four words to process 1 and receives them.
func (c *couple) flood(n int) {
	for sent, got := 0, 0; got < n; {
		for sent < n && put(c.proc[0], funi.Request, 1, 1, 2, 3, 4) {
			sent++
		}
		c.step()
		for s := c.proc[1].Receive(funi.Request); s != nil; s = c.proc[1].Receive(funi.Request) {
			c.proc[1].Release(funi.Request)
			got++
		}
	}
}

// Rule: nothing on the data path allocates (doc.go), nor in the units of a modelled
// machine.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for name, on := range machines {
		t.Run(name, func(t *testing.T) { steadyState(t, newCouple(t, 1024, on)) })
	}
}

func steadyState(t *testing.T, c *couple) {
	c.flood(10000)
	for range 100 {
		c.roundTrip()
	}
	if n := testing.AllocsPerRun(100, c.roundTrip); n != 0 {
		t.Errorf("a round trip allocates %v times", n)
	}
	if n := testing.AllocsPerRun(10, func() { c.flood(5000) }); n != 0 {
		t.Errorf("a flood of 5000 messages allocates %v times", n)
	}
}

// BenchmarkPingPongStep is a round trip of four words each way, with both cards
// and both processes on one core.
func BenchmarkPingPongStep(b *testing.B) {
	c := newCouple(b, 1024)
	c.flood(1000)
	b.ReportAllocs()
	for b.Loop() {
		c.roundTrip()
	}
}

// BenchmarkFlood is one message of four words, in bursts as large as the queues.
func BenchmarkFlood(b *testing.B) {
	c := newCouple(b, 1024)
	c.flood(10000)
	b.ReportAllocs()
	const burst = 10000
	n := 0
	for b.Loop() {
		if n == 0 {
			c.flood(burst)
			n = burst
		}
		n--
	}
}

// BenchmarkIdleStep is a step of each of two cards that have nothing to do.
func BenchmarkIdleStep(b *testing.B) {
	c := newCouple(b, 1024)
	c.flood(1000)
	for b.Loop() {
		c.step()
	}
}
