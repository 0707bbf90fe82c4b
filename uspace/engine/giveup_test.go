package engine_test

// This file holds the rules of packets that the owner of the card gives up: by TICKET
// and by RESET.

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a context whose packets were given up before its card had met their peer goes
// on when the peer is there (thesis 3.1.2 TICKET, RESET).
func TestGivenUpBeforeTheCardsMeet(t *testing.T) {
	for _, mode := range []uint32{funi.CTXM, funi.RESET} {
		b := newBench(t, machines["native"])
		b.start(0)
		b.start(1)
		b.x, b.page = b.ctx[0], b.mem[0].Page
		store := func(r funi.Register, v uint32) {
			t.Helper()
			if err := b.x.Store(r, v); err != nil {
				t.Fatal(err)
			}
		}
		there := b.cards[1]
		b.cards[1] = nil
		b.mustSend(0, funi.Request, 1, 1)
		b.step(b.now)
		if b.x.Idle() {
			t.Fatal("nothing waits")
		}
		store(funi.Control, mode)
		if mode == funi.RESET {
			store(funi.Control, 0)
			b.x.SetTag(jobTag)
			store(funi.GID, gid)
		}
		store(funi.Ticket, ^uint32(0))
		store(funi.Control, funi.UserModes)
		p, err := funi.Start(b.mem[0], 16, func() error { b.step(b.now); return nil })
		if err != nil {
			t.Fatal(err)
		}
		b.proc[0], b.cards[1], b.wake[1] = p, there, 0
		for _, ok := p.NextReturn(); ok; _, ok = p.NextReturn() {
		}
		b.run()
		if _, ok := take(b.proc[1], funi.Request); ok {
			t.Error("the packet that was given up arrived")
		}
		exactlyOnce(b.bed, newTraffic(b.bed, 20, 3))
	}
}

// Rule: what a TICKET reset gives up comes back to the process with ReasonGivenUp (thesis 3.1.2
// TICKET, 3.2.4; design idea 4). A long transfer whose packets it gives up comes back once. It
// makes no notice, because its data did not all arrive.
func TestTicketGivesATransferUp(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
			quick(c)
			c.Blocks = blocks
		}})
		exactlyOnce(b, newTraffic(b, 3, 2))
		for i := range 2 {
			if err := b.ctx[i].Register(funi.Segment{Base: 0x1000, Memory: make([]byte, 8000),
				Rights: funi.Source | funi.Destination}); err != nil {
				t.Fatal(err)
			}
		}
		far := b.switchOut(1) // it rejects
		s := b.proc[0].Reserve(funi.Request)
		s.SetTransfer(1, 3, funi.Transfer{Source: 0x1000, Destination: 0x1000, Argument: 77, Words: 2000})
		header := s.Header()
		b.proc[0].Commit(funi.Request)
		b.mustSend(0, funi.Reply, 1, 5)
		b.pass(5 * time.Millisecond)
		x := b.ctx[0]
		if err := x.Store(funi.Control, funi.CTXM); err != nil {
			t.Fatal(err)
		}
		b.wake[0] = 0
		b.pass(5 * time.Millisecond)
		for _, w := range []struct {
			r funi.Register
			v uint32
		}{{funi.Ticket, 0xffffffff}, {funi.Control, 0}} {
			if err := x.Store(w.r, w.v); err != nil {
				t.Fatal(err)
			}
		}
		b.wake[0] = 0
		b.switchIn(1, far)
		back := map[funi.Returned]int{}
		b.until(time.Second, "all that was given up comes back", func() bool {
			for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
				back[r]++
			}
			return x.Idle() && b.proc[0].Unsent(funi.Request) == 0
		})
		message := funi.Returned{Reason: arctic.ReasonGivenUp, Level: funi.Reply,
			Header: funi.NewHeader(1, 5, 1), Word: 5}
		transfer := funi.Returned{Reason: arctic.ReasonGivenUp, Level: funi.Request, Header: header, Word: 77}
		if len(back) != 2 || back[message] != 1 || back[transfer] != 1 {
			t.Errorf("blocks %v: came back: %+v", blocks, back)
		}
		b.pass(50 * time.Millisecond)
		for l := range funi.Level(2) {
			if m, ok := take(b.proc[1], l); ok {
				t.Errorf("blocks %v: %v arrived", blocks, m)
			}
		}
		if err := b.cards[0].Check(); err != nil {
			t.Error(err)
		}
		exactlyOnce(b, newTraffic(b, 20, 3))
	}
}

// Rule: a long transfer under way is of the group that it began in. GID does not change until the
// transfer is delivered or given up, also while none of its packets is in the cache. A TICKET reset
// gives the transfer up, and then GID may change (thesis 4.1.1; ErrCached).
func TestTransferStaysInItsGroup(t *testing.T) {
	// before anything left; with the cache full
	for _, wait := range []time.Duration{0, 5 * time.Millisecond} {
		b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
			quick(c)
			c.Lines, c.ReplyLines, c.Blocks = 2, 1, false
		}})
		exactlyOnce(b, newTraffic(b, 3, 2))
		for i := range 2 {
			if err := b.ctx[i].Register(funi.Segment{Base: 0x1000, Memory: make([]byte, 8000),
				Rights: funi.Source | funi.Destination}); err != nil {
				t.Fatal(err)
			}
		}
		x := b.ctx[0]
		far := b.switchOut(1)
		if wait == 0 {
			b.mustSend(0, funi.Request, 1, 9) // takes the only line for requests
		}
		s := b.proc[0].Reserve(funi.Request)
		s.SetTransfer(1, 3, funi.Transfer{Source: 0x1000, Destination: 0x1000, Argument: 77, Words: 2000})
		header := s.Header()
		b.proc[0].Commit(funi.Request)
		b.pass(wait + time.Microsecond)
		if err := x.Store(funi.Control, funi.CTXM); err != nil {
			t.Fatal(err)
		}
		b.wake[0] = 0
		b.pass(5 * time.Millisecond)
		if err := x.Store(funi.GID, gid+1); !errors.Is(err, engine.ErrCached) {
			t.Fatalf("with the transfer under way: %v, want ErrCached", err)
		}
		if err := x.Store(funi.Ticket, 3); err != nil {
			t.Fatal(err)
		}
		if err := x.Store(funi.GID, gid+1); err != nil {
			t.Fatal(err)
		}
		if err := x.Store(funi.GID, gid); err != nil {
			t.Fatal(err)
		}
		if err := x.Store(funi.Control, 0); err != nil {
			t.Fatal(err)
		}
		b.wake[0] = 0
		b.switchIn(1, far)
		transfers := 0
		b.until(time.Second, "it comes back", func() bool {
			for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
				if r == (funi.Returned{Reason: arctic.ReasonGivenUp, Level: funi.Request, Header: header, Word: 77}) {
					transfers++
				}
			}
			return x.Idle() && b.proc[0].Unsent(funi.Request) == 0
		})
		if transfers != 1 {
			t.Errorf("the transfer came back %d times", transfers)
		}
		if err := b.cards[0].Check(); err != nil {
			t.Error(err)
		}
		b.pass(10 * time.Millisecond)
		if m, ok := take(b.proc[1], funi.Request); ok {
			t.Errorf("%v arrived", m)
		}
		exactlyOnce(b, newTraffic(b, 20, 3))
	}
}
