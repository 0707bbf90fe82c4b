package engine_test

// This file is the test bed: cards on a network in memory, stepped in virtual
// time. A card is stepped only when a frame arrived, when it asked for it, or when
// a process did something; so each test that completes also says that the time
// which Step returns is honest.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

const (
	gid = 7
	// jobTag is the tag of the job that all contexts of a bed are of, unless the test says
	// otherwise.
	jobTag = 0x8877665544332211
)

// setup describes a bed. Card i has one context of group gid, node i.
type setup struct {
	cards int
	slots int
	net   wire.Config
	tune  func(*engine.Config)
	// route says on which card a node lives; nil: node i on card i.
	route []uint32
	// group returns the group of a card's context; nil: gid.
	group []uint16
	// wrap puts something between a card and its port.
	wrap func(card int, p *wire.Port) port.Port
	// remote is how much remote memory each context can open.
	remote funi.RemoteSizes
}

type bed struct {
	setup
	t     testing.TB
	now   int64
	net   *wire.Network
	cards []*engine.Card // nil: switched off
	ctx   []*engine.Context
	proc  []*funi.Interface
	mem   []*funi.Memory // of the processes above, then of those that join added
	wake  []int64
	lives uint32
	alarm int64  // one more time to stop at; 0: none
	takes int64  // a step, in nanoseconds; 0: 1
	tag   uint64 // of the job of who is attached next
	// followed are the cards each of whose contexts a tracer follows (followed).
	followed []bool
}

// followedPort is the port of a card whose contexts are followed.
type followedPort struct{ port.Port }

// followed has a tracer follow the contexts of a card: a tune of a bed.
func followed(c *engine.Config) { c.Ports[0] = followedPort{c.Ports[0]} }

func address(card int) [6]byte { return [6]byte{2, 0, 0, 0, byte(card >> 8), byte(card)} }

func newBed(t testing.TB, s setup) *bed {
	t.Helper()
	b := &bed{setup: s, t: t, net: wire.New(s.net), now: 1, tag: jobTag}
	b.cards = make([]*engine.Card, s.cards)
	b.ctx = make([]*engine.Context, s.cards)
	b.proc = make([]*funi.Interface, s.cards)
	b.mem = make([]*funi.Memory, s.cards)
	b.wake, b.followed = make([]int64, s.cards), make([]bool, s.cards)
	if b.route == nil {
		for i := range s.cards {
			b.route = append(b.route, uint32(i))
		}
	}
	for i := range s.cards {
		b.start(i)
	}
	return b
}

// start makes card i anew, with a new incarnation.
func (b *bed) start(i int) {
	b.t.Helper()
	b.lives++
	cfg := engine.Native()
	cfg.Card, cfg.Incarnation, cfg.Seed, cfg.Routes = uint16(i), b.lives, uint64(i), b.route
	p := b.net.Plug(address(i))
	cfg.Ports = []port.Port{p}
	if b.wrap != nil {
		cfg.Ports[0] = b.wrap(i, p)
	}
	for j := range b.cards {
		if j != i {
			cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(j), Address: address(j), Local: address(i)})
		}
	}
	if b.tune != nil {
		b.tune(&cfg)
	}
	_, b.followed[i] = cfg.Ports[0].(followedPort)
	card, err := engine.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cards[i], b.wake[i] = card, 0
	group := uint16(gid)
	if b.group != nil {
		group = b.group[i]
	}
	b.proc[i], b.ctx[i], b.mem[i] = b.attach(i, group, uint16(i))
}

func (b *bed) attach(card int, group, node uint16) (*funi.Interface, *engine.Context, *funi.Memory) {
	b.t.Helper()
	mem, err := funi.NewMemory(b.slots)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := mem.AddRemote(b.remote); err != nil {
		b.t.Fatal(err)
	}
	proc, err := funi.Initialize(mem)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, err := b.cards[card].Attach(mem, group, node, b.tag)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.followed[card] {
		ctx.Follow(b.cards[card].NewTrail(engine.NewTracer(2)))
	}
	return proc, ctx, mem
}

// join attaches one more process to a card.
func (b *bed) join(card int, group, node uint16) (*funi.Interface, *engine.Context) {
	proc, ctx, mem := b.attach(card, group, node)
	b.mem = append(b.mem, mem)
	return proc, ctx
}

// step sets the time to at, or to just after now, and steps every card.
func (b *bed) step(at int64) {
	b.now = max(at, b.now+max(b.takes, 1))
	b.net.Advance(b.now)
	for i, c := range b.cards {
		if c != nil {
			b.wake[i] = c.Step(b.now)
		}
	}
}

// next returns when something happens next: a frame arrives or a card wants to run.
func (b *bed) next() int64 {
	at := int64(engine.Never)
	if n, ok := b.net.Next(); ok {
		at = n
	}
	for i, w := range b.wake {
		if b.cards[i] != nil {
			at = min(at, w)
		}
	}
	if b.alarm > b.now {
		at = min(at, b.alarm)
	}
	return at
}

// touched sums up everything that the processes store.
func (b *bed) touched() (sum uint32) {
	for _, m := range b.mem {
		for _, r := range []funi.Register{funi.RPSQHead, funi.RQSQHead, funi.RPRQTail, funi.RQRQTail} {
			sum = sum*31 + m.Page.Load(r)
		}
	}
	return sum
}

// until runs the processes, which are in done, and the cards until done, and
// fails the test after the given virtual time or when nothing can happen any more.
func (b *bed) until(limit time.Duration, what string, done func() bool) {
	b.t.Helper()
	end := b.now + int64(limit)
	for first := true; ; first = false {
		before := b.touched()
		if done() {
			return
		}
		at := b.now + 1
		if !first && b.touched() == before {
			at = b.next()
		}
		if at > end {
			b.t.Fatalf("not within %v of virtual time, at %v with the next event at %v: %s\n%s", limit,
				time.Duration(b.now), time.Duration(at), what, b.counters())
		}
		b.step(at)
	}
}

// pass lets the given virtual time pass.
func (b *bed) pass(d time.Duration) {
	b.t.Helper()
	end := b.now + int64(d)
	b.alarm = end
	b.until(d, "time passes", func() bool { return b.now >= end })
	b.alarm = 0
}

// idle lets the cards run until nothing waits in any of them.
func (b *bed) idle(limit time.Duration) {
	b.t.Helper()
	b.until(limit, "quiet cards reach zero in flight", func() bool {
		for i, x := range b.ctx {
			if b.cards[i] != nil && !x.Idle() {
				return false
			}
		}
		return true
	})
}

// put puts one message of type 5 into a send queue, or reports that it is full.
func put(p *funi.Interface, l funi.Level, to int, words ...uint32) bool {
	s := p.Reserve(l)
	if s == nil {
		return false
	}
	s.SetHeader(funi.NewHeader(uint16(to), 5, len(words)))
	copy(s[funi.PayloadWord:], words)
	p.Commit(l)
	return true
}

func (b *bed) send(from int, l funi.Level, to int, words ...uint32) bool {
	return put(b.proc[from], l, to, words...)
}

// mustSend is send where there is room.
func (b *bed) mustSend(from int, l funi.Level, to int, words ...uint32) {
	b.t.Helper()
	if !b.send(from, l, to, words...) {
		b.t.Fatalf("send queue of node %d is full", from)
	}
}

// take receives one message and returns a copy of its slot.
func take(p *funi.Interface, l funi.Level) (funi.Slot, bool) {
	s := p.Receive(l)
	if s == nil {
		return funi.Slot{}, false
	}
	c := *s
	p.Release(l)
	return c, true
}

// comesBack waits for one return and checks it.
func (b *bed) comesBack(limit time.Duration, p *funi.Interface, want funi.Returned) {
	b.t.Helper()
	var r funi.Returned
	b.until(limit, "a packet comes back", func() (ok bool) { r, ok = p.NextReturn(); return ok })
	if r != want {
		b.t.Fatalf("came back as %+v (%v), want %+v (%v)", r, r.Reason, want, want.Reason)
	}
}

// counters prints what all cards have counted.
func (b *bed) counters() string {
	s := ""
	for i, c := range b.cards {
		if c != nil {
			s += sprintNonzero(i, c.Counters())
		}
	}
	return s
}
