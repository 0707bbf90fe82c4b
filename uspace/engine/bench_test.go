package engine_test

// This file holds the bench on which each rule of the conformance table is tried.

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// bench has two cards; the registers under test are those of
// context 0, a process of card 0.
type bench struct {
	*bed
	t    *testing.T
	x    *engine.Context
	page *funi.Page
}

// machine makes a card's units take the time that they take on it.
type machine func(*engine.Config)

// The machines that rules and context switches are tried on: what a mode halts, what is in
// flight and what is drained may be under way in a unit of the timed one.
var machines = map[string]machine{
	"native":   func(*engine.Config) {},
	"followed": followed,
	"timed": func(c *engine.Config) {
		c.Blocks = false
		c.Timing = &engine.Timing{Bus: sbus(), Bursts: []int{1, 4, 8}, Retrieval: 400 * time.Nanosecond,
			Delivery: 800 * time.Nanosecond,
			Dispatch: 500 * time.Nanosecond, Transmit: 300 * time.Nanosecond, Preprocess: 700 * time.Nanosecond}
	},
}

// on is the card with the machine's times besides.
func (m machine) on(tune func(*engine.Config)) func(*engine.Config) {
	return func(c *engine.Config) {
		if tune != nil {
			tune(c)
		}
		m(c)
	}
}

// onEach tries a rule on each machine.
func onEach(t *testing.T, try func(*testing.T, machine)) {
	for name, on := range machines {
		t.Run(name, func(t *testing.T) { try(t, on) })
	}
}

func newBench(t *testing.T, on machine) *bench {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: on.on(func(c *engine.Config) { quick(c); c.FIFO = 2 })})
	exactlyOnce(b, newTraffic(b, 3, 2))
	return &bench{b, t, b.ctx[0], b.mem[0].Page}
}

func (b *bench) want(what string, got, want uint32) {
	b.t.Helper()
	if got != want {
		b.t.Fatalf("%s is %#x, want %#x", what, got, want)
	}
}

// registered gives node 0 a segment to send from and node 1 one to receive into.
func (b *bench) registered(source, destination []byte) {
	b.t.Helper()
	if err := b.ctx[0].Register(funi.Segment{Base: 0x100, Memory: source, Rights: funi.Source}); err != nil {
		b.t.Fatal(err)
	}
	if err := b.ctx[1].Register(funi.Segment{Base: 0x100, Memory: destination, Rights: funi.Destination}); err != nil {
		b.t.Fatal(err)
	}
}

// run lets the cards run for a while, long enough for everything that can end to end.
func (b *bench) run() { b.pass(5 * time.Millisecond) }

// user writes a register as the process.
func (b *bench) user(r funi.Register, v uint32) {
	b.page.Store(r, v)
	b.wake[0] = 0
	b.run()
}

// owner writes a register through the privileged page.
func (b *bench) owner(r funi.Register, v uint32) {
	b.t.Helper()
	if r == funi.GID {
		b.x.SetTag(jobTag)
	}
	if err := b.x.Store(r, v); err != nil {
		b.t.Fatal(err)
	}
	b.wake[0] = 0
	b.run()
}

// inFlight sends a request of one word to node 1 and steps the cards until its frame has
// left.
func (b *bench) inFlight(word uint32) {
	b.t.Helper()
	sent := b.cards[0].Counters().FramesSent
	b.mustSend(0, funi.Request, 1, word)
	b.until(time.Second, "the packet leaves", func() bool { return b.cards[0].Counters().FramesSent > sent })
}

func (b *bench) refused(r funi.Register, v uint32, want error) {
	b.t.Helper()
	if err := b.x.Store(r, v); !errors.Is(err, want) {
		b.t.Fatalf("writing %#x to register %d: %v, want %v", v, r, err, want)
	}
}

// cntl checks CNTL as process and owner see it.
func (b *bench) cntl(want uint32) {
	b.t.Helper()
	b.want("CNTL in the page", b.page.Load(funi.Control), want)
	b.want("CNTL for the owner", b.x.Load(funi.Control), want)
}

// flows sends a packet each way and reports which arrived, leaving nothing behind.
func (b *bench) flows() (out, in bool) {
	b.t.Helper()
	b.mustSend(0, funi.Request, 1, 1)
	b.mustSend(1, funi.Request, 0, 2)
	b.run()
	_, out = take(b.proc[1], funi.Request)
	_, in = take(b.proc[0], funi.Request)
	return out, in
}

func (b *bench) wantFlows(wantOut, wantIn bool) {
	b.t.Helper()
	if out, in := b.flows(); out != wantOut || in != wantIn {
		b.t.Fatalf("packets go out: %v, in: %v; want %v, %v", out, in, wantOut, wantIn)
	}
}

// slots of 128 bytes; the queues of newBench have 16.
const queueBytes = 16 * 128

// powered is a bench whose context 0 is one that has just been powered up.
func powered(t *testing.T, on machine) *bench {
	b := newBench(t, on)
	b.cards[0].Detach(b.ctx[0])
	b.mem[0], _ = funi.NewMemory(16)
	for r := funi.QMask; r < funi.Registers; r++ {
		b.mem[0].Page.Store(r, 0xdeadbeef)
	}
	x, err := b.cards[0].PowerUp(b.mem[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	b.x, b.ctx[0], b.page = x, x, b.mem[0].Page
	return b
}

// started takes a powered bench through the owner's and the user's start-up.
func (b *bench) started(slots int) {
	b.t.Helper()
	b.owner(funi.GID, gid)
	b.owner(funi.Ticket, b.x.Load(funi.Ticket))
	b.owner(funi.Control, funi.UserModes)
	p, err := funi.Start(b.mem[0], slots, func() error { b.step(b.now); return nil })
	if err != nil {
		b.t.Fatal(err)
	}
	b.proc[0] = p
	b.run()
}
