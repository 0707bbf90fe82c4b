package engine_test

// This file holds the rules of long transfers that a second reading of blocks found
// nobody had stated: steps that are asked for, frames that can be said, what is given up.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// checked fails the test unless the books of all cards balance.
func (b *bed) checked() {
	b.t.Helper()
	for i, c := range b.cards {
		if c == nil {
			continue
		}
		if err := c.Check(); err != nil {
			b.t.Fatalf("card %d: %v\n%s", i, err, b.counters())
		}
	}
}

// Rule: a transfer of more packets than a step retrieves goes on without another event:
// the time that Step returns is honest (Step), to the own card and to a peer.
func TestTransferLongerThanAStep(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		for _, to := range []int{0, 1} {
			t.Run(fmt.Sprintf("blocks %v, to node %d", blocks, to), func(t *testing.T) {
				b := newBed(t, setup{cards: 2, slots: 2, net: near, tune: func(c *engine.Config) { c.Blocks = blocks }})
				const words = 512 * 1408 / 4 // more than 256 blocks
				from, into := make([]byte, 4*words), make([]byte, 4*words)
				fill(from, 3)
				for _, g := range []struct {
					x *engine.Context
					s funi.Segment
				}{{b.ctx[0], funi.Segment{Base: 16, Memory: from, Rights: funi.Source}},
					{b.ctx[to], funi.Segment{Base: 1 << 24, Memory: into, Rights: funi.Destination}}} {
					if err := g.x.Register(g.s); err != nil {
						t.Fatal(err)
					}
				}
				request(b.proc[0], funi.Request, to, funi.Transfer{Source: 16, Destination: 1 << 24, Words: words})
				b.receives(to, funi.Request)
				b.idle(time.Second)
				quietTransfers(t, b)
				if !bytes.Equal(from, into) {
					t.Error("memory differs")
				}
			})
		}
	}
}

// Rule: a frame is no longer than its length field can say, whatever its port could
// send: rejects that do not fit beside a block travel in another frame (link/transmit.go).
func TestFramesEndWhereTheirLengthSays(t *testing.T) {
	large, riding := 0, 0
	see := func(b []byte) bool {
		f, err := arctic.Parse(b)
		if err != nil {
			t.Fatalf("a frame of %d bytes: %v", len(b), err)
		}
		if len(f.Block()) == arctic.MaxBlock(math.MaxInt) {
			large++
		} else if f.Packets() > 0 && f.Rejects() > 0 {
			riding++
		}
		return true
	}
	b, _ := transferBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: 10 * time.Microsecond, MTU: 70000},
		wrap: func(_ int, p *wire.Port) port.Port { return &tap{Port: p, see: see} },
		tune: func(c *engine.Config) { c.MaxHold = c.MinHold }})
	exactlyOnce(b, newTraffic(b, 3, 3))
	for i := range 1000 {
		for b.send(1, funi.Request, 0, 1) { // node 0 does not receive them: its card rejects
		}
		if i%7 == 0 {
			request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: uint32(i),
				Words: areaSize / 4})
		}
		take(b.proc[1], funi.Request)
		b.step(b.now + 10000)
	}
	if large < 100 || riding == 0 {
		t.Errorf("%d frames as long as can be, %d with rejects: nothing was tested", large, riding)
	}
}

// stuck is a bed on which node 0 has a long transfer half done: some of its packets wait
// in the cache, rejected by node 1, which is switched out. Node 0 is in context-switch
// mode with CTXR1.
func stuck(t *testing.T, blocks bool) (*bed, []memory, *engine.Saved) {
	b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
		quick(c)
		c.Blocks = blocks
	}})
	exactlyOnce(b, newTraffic(b, 3, 3))
	s := b.switchOut(1)
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 7,
		Words: areaSize / 4})
	b.mustSend(0, funi.Request, 0, 3)
	b.pass(time.Millisecond)
	if err := b.ctx[0].Store(funi.Control, funi.CTXM); err != nil {
		t.Fatal(err)
	}
	b.until(time.Second, "CTXR1", func() bool { return b.ctx[0].Load(funi.Control)&funi.CTXR1 != 0 })
	return b, m, s
}

// Rule: an owner that resets TICKET gives up the packets in the cache (thesis 3.1.2), and with them
// the transfers that they are part of. Each transfer comes back once, and no notice tells of data
// that was not sent. The slots are retired, and the segments are free.
func TestTicketGivesUpTransfers(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		b, m, s := stuck(t, blocks)
		if err := b.ctx[0].Store(funi.GID, gid+1); !errors.Is(err, engine.ErrCached) {
			t.Fatalf("changing the group of a transfer: %v, want ErrCached", err)
		}
		if err := b.ctx[0].Store(funi.Ticket, 0xffffffff); err != nil {
			t.Fatal(err)
		}
		b.checked()
		if err := b.ctx[0].Unregister(area); err != nil {
			t.Error(err)
		}
		if err := b.ctx[0].Store(funi.Control, 0); err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(m[1].area)
		b.switchIn(1, s)
		b.until(time.Second, "retired", func() bool { return b.proc[0].Unsent(funi.Request) == 0 })
		b.until(time.Second, "what was behind it", func() bool { _, ok := take(b.proc[0], funi.Request); return ok })
		b.pass(time.Second)
		if s, ok := take(b.proc[1], funi.Request); ok || !bytes.Equal(m[1].area, before) {
			t.Errorf("blocks %v: notice %v of what was given up", blocks, s)
		}
		if r, ok := b.proc[0].NextReturn(); !ok || r.Reason != arctic.ReasonGivenUp || !r.Header.Many() || r.Word != 7 {
			t.Errorf("blocks %v: came back %v: %+v, want the transfer", blocks, ok, r)
		}
		quietTransfers(t, b)
		exactlyOnce(b, newTraffic(b, 30, 3))
	}
}

// Rule: the group of a context does not change while a transfer of the old one is under
// way, also if none of its packets is in the cache (Store, ErrCached): its data would go
// to the new one.
func TestGroupStaysWhileATransferWaits(t *testing.T) {
	b, _ := transferBed(t, setup{cards: 2, slots: 16, net: near})
	exactlyOnce(b, newTraffic(b, 3, 3))
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: 300})
	b.step(b.now)
	if err := b.ctx[0].Store(funi.Control, funi.CTXM); err != nil {
		t.Fatal(err)
	}
	b.pass(10 * time.Millisecond) // blocks are delivered; the last packet is not sent
	if free := b.ctx[0].Load(funi.Ticket); free != 0xffffffff {
		t.Fatalf("TICKET is %#x, so nothing is tested", free)
	}
	if err := b.ctx[0].Store(funi.GID, gid+1); !errors.Is(err, engine.ErrCached) {
		t.Fatalf("changing the group: %v, want ErrCached", err)
	}
	if err := b.ctx[0].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.wake[0] = 0
	b.receives(1, funi.Request)
	b.idle(time.Second)
}

// Rule: the registers of send queues do not change while a slot in them is a transfer's
// (Store, ErrNotReady): retiring it would move the tail of another queue.
func TestSendQueuesStayWhileATransferHasASlot(t *testing.T) {
	b, m, s := stuck(t, true)
	for _, r := range []funi.Register{funi.QMask, funi.RQSQBase, funi.RPSQBase, funi.RQSQHead, funi.RPSQTail} {
		if err := b.ctx[0].Store(r, 0); !errors.Is(err, engine.ErrNotReady) {
			t.Errorf("writing register %d: %v, want ErrNotReady", r, err)
		}
	}
	if err := b.ctx[0].Store(funi.RQRQTail, b.mem[0].Page.Load(funi.RQRQTail)); err != nil {
		t.Errorf("a receive queue: %v", err)
	}
	if err := b.ctx[0].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.switchIn(1, s)
	b.receives(1, funi.Request)
	if !bytes.Equal(m[0].area, m[1].area) {
		t.Error("memory differs")
	}
	// Retired or given up, the queues are the owner's to change.
	b, _, _ = stuck(t, true)
	if err := b.ctx[0].Store(funi.Ticket, 0xffffffff); err != nil {
		t.Fatal(err)
	}
	if err := b.ctx[0].Store(funi.RQSQBase, b.mem[0].Page.Load(funi.RQSQBase)); err != nil {
		t.Fatal(err)
	}
	if err := b.ctx[0].Store(funi.Control, 0); err != nil {
		t.Fatal(err)
	}
	b.wake[0] = 0
	b.pass(10 * time.Millisecond)
	if head, tail := b.mem[0].Page.Load(funi.RQSQHead), b.mem[0].Page.Load(funi.RQSQTail); head != 0 || tail != 0 {
		t.Errorf("HD %d, TL %d of a queue that was set anew", head, tail)
	}
	b.checked()
}

// Rule: a process that takes HD back hurts nobody but itself (design idea 3): a transfer
// that has begun goes on to its end, its slot is retired, and CSQR comes.
func TestHeadTakenBack(t *testing.T) {
	for _, lines := range []int{8, 1024} { // the rest of the transfer is in the cache, or not
		b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
			c.Lines, c.ReplyLines = lines, 2
		}})
		exactlyOnce(b, newTraffic(b, 3, 3))
		page := b.mem[0].Page
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: areaSize / 4})
		b.step(b.now)
		page.Store(funi.RQSQHead, page.Load(funi.RQSQTail))
		page.Store(funi.Control, funi.CSQM)
		b.wake[0] = 0
		b.until(time.Second, "CSQR", func() bool { return page.Load(funi.Control) == funi.CSQM|funi.CSQR })
		b.receives(1, funi.Request)
		if !bytes.Equal(m[0].area, m[1].area) {
			t.Error("memory differs")
		}
		if err := b.ctx[0].Unregister(area); err != nil {
			t.Error(err)
		}
		b.checked()
	}
}

// Rule: slots that could be retired while MERR keeps the queues halted are retired when
// the owner clears it (thesis 3.1.2), not forgotten: none is retrieved again.
func TestRetiredAfterMemoryError(t *testing.T) {
	b, m := transferBed(t, setup{cards: 2, slots: 16, net: near})
	exactlyOnce(b, newTraffic(b, 3, 3))
	page := b.mem[0].Page
	mask := page.Load(funi.QMask)
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: 600})
	b.step(b.now)
	owner := func(v uint32) {
		t.Helper()
		if err := b.ctx[0].Store(funi.Control, v); err != nil {
			t.Fatal(err)
		}
		b.wake[0] = 0
		b.pass(time.Millisecond)
	}
	owner(funi.CTXM) // and all but the last packet is acknowledged
	page.Store(funi.QMask, 5)
	owner(0)
	if page.Load(funi.Control) != funi.MERR || b.proc[0].Unsent(funi.Request) != 1 {
		t.Fatalf("CNTL %#x, %d slots not retired: nothing is tested", page.Load(funi.Control),
			b.proc[0].Unsent(funi.Request))
	}
	page.Store(funi.QMask, mask)
	owner(0)
	b.receives(1, funi.Request)
	b.idle(time.Second)
	if s, ok := take(b.proc[1], funi.Request); ok {
		t.Errorf("once more: %#x", s[:5])
	}
	if n := b.proc[0].Unsent(funi.Request); n != 0 || !bytes.Equal(m[0].area[:2400], m[1].area[:2400]) {
		t.Errorf("%d slots not retired, or memory differs", n)
	}
	quietTransfers(t, b)
}
