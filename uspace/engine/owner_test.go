package engine_test

// This file is the owner of a card at random: whatever it does with contexts and their
// registers, in whatever order, is refused or done, and others do not notice.

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// owned is a context whose owner does at random what an owner can do.
type owned struct {
	mem   *funi.Memory
	proc  *funi.Interface
	x     *engine.Context
	saved *engine.Saved
	node  uint16
}

func (o *owned) start(t testing.TB, c *engine.Card) {
	var err error
	if o.mem, err = funi.NewMemory(8); err != nil {
		t.Fatal(err)
	}
	if o.proc, err = funi.Initialize(o.mem); err != nil {
		t.Fatal(err)
	}
	o.saved = nil
	if o.x, err = c.Attach(o.mem, gid+1, o.node, jobTag); err != nil {
		o.x = nil // the node's context was given another GID, and comes back to this one
		return
	}
	segment := funi.Segment{Base: 0x1000, Memory: make([]byte, 4096), Rights: funi.Source | funi.Destination}
	if err := o.x.Register(segment); err != nil {
		t.Fatal(err)
	}
}

// send has the process send something, to memory or to a queue, near or far.
func (o *owned) send(v uint32) {
	l, to := funi.Level(v>>1&1), v>>2%5
	s := o.proc.Reserve(l)
	if s == nil || v&1 == 0 && !put(o.proc, l, int(to), v) {
		return
	}
	if v&1 != 0 {
		x := funi.Transfer{Source: 0x1000, Destination: 0x1000, Argument: v, Words: int(v>>5%256) * 4}
		s.SetTransfer(uint16(to), 3, x)
		o.proc.Commit(l)
	}
}

// do is one thing that the owner does.
func (o *owned) do(t testing.TB, c *engine.Card, what, v uint32) {
	switch what % 8 {
	case 0:
		_ = o.x.Store(funi.Control, v&(funi.RESET|funi.CTXM|funi.DRAIN|funi.UserModes|funi.MERR))
	case 1:
		_ = o.x.Store(funi.Control, 0)
	case 2:
		_ = o.x.Store(funi.Ticket, o.x.Load(funi.Ticket)|v)
		_ = o.x.Store(funi.Ticket, 0xffffffff)
		_ = o.x.Store(funi.Ticket, 0xff)
	case 3:
		o.x.SetTag(jobTag + uint64(v>>1%4/3))
		_ = o.x.Store(funi.GID, gid+1+v%2)
	case 4:
		if s, err := c.SwitchOut(o.x, v&1 != 0); err == nil {
			o.saved = s
		}
	case 5:
		if o.saved != nil && c.SwitchIn(o.saved) == nil {
			o.saved = nil
		}
	case 6:
		if v%4 == 0 {
			c.Detach(o.x)
			o.start(t, c)
		}
	case 7:
		_ = o.x.Store(funi.Register(v%20), v>>8)
	}
}

// action is one thing that the owner (kind 0), time (1) or the process (2) does.
type action struct {
	who, kind int
	what, v   uint32
}

var anAction = rapid.Custom(func(t *rapid.T) action {
	return action{rapid.IntRange(0, 3).Draw(t, "who"), rapid.IntRange(0, 2).Draw(t, "kind"),
		rapid.Uint32Range(0, 7).Draw(t, "what"), rapid.Uint32().Draw(t, "v")}
})

// Rule: no order of privileged writes, context switches and detaching makes a step
// panic, the books of the cards always balance, and each message of other contexts is
// delivered once or comes back (design ideas 3 and 4; control.go, switch.go).
func TestOwnerAtRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]string{"native", "thesis", "tiny"}).Draw(rt, "card")
		b := newBed(t, setup{cards: 2, slots: 8, route: []uint32{0, 1, 0, 1, 1},
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks["all"]},
			tune: func(c *engine.Config) {
				quick(c)
				if tune := cardConfigs[kind]; tune != nil {
					tune(c)
				}
			}})
		var all [4]owned
		for i := range all {
			all[i].node = uint16(i)
			all[i].start(t, b.cards[b.route[i]])
		}
		tr := newTraffic(b, 60, 3)
		tr.reasons = []arctic.Reason{arctic.ReasonSilent} // the network is cut now and then
		done := false
		for _, a := range rapid.SliceOfN(anAction, 0, 200).Draw(rt, "script") {
			o := &all[a.who]
			c := b.cards[b.route[o.node]]
			switch {
			case o.x == nil:
				o.start(t, c)
			case a.kind == 0:
				o.do(t, c, a.what, a.v)
			case a.kind == 1:
				done = done || tr.pump()
				switch a.what {
				case 0:
					b.net.Cut(isolate(1))
				case 1, 2:
					b.net.Cut(nil)
				}
				b.step(b.now + int64(1)<<(a.v%28))
			case o.saved == nil:
				o.send(a.v)
				for l := range funi.Level(2) {
					take(o.proc, l)
				}
			}
			for _, c := range b.cards {
				if err := c.Check(); err != nil {
					rt.Fatal(err)
				}
			}
		}
		b.net.Cut(nil)
		for i := range b.wake {
			b.wake[i] = 0
		}
		for i := range all {
			if all[i].x != nil {
				b.cards[b.route[i]].Detach(all[i].x)
			}
		}
		if !done {
			b.until(time.Minute, "all messages delivered or back", tr.pump)
		}
		b.pass(time.Second)
		for i, c := range b.cards {
			if err := c.Check(); err != nil {
				rt.Fatal(err)
			}
			for n := range all {
				if x := all[n].x; x != nil && c.Streams(x) != 0 {
					rt.Fatalf("card %d has streams of a detached context", i)
				}
			}
		}
	})
}
