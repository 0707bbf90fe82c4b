package engine_test

// This file is the conformance table: each of the sixteen registers and each bit of CNTL
// with the rules that the thesis gives for it. It goes on in conformance2_test.go.

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

type rule struct {
	of      []funi.Register // registers that it is about
	bits    uint32          // bits of CNTL
	section string
	text    string
	try     func(*testing.T, machine)
}

// One rule for each index register pair or base of both directions.
var (
	sendIndices    = []funi.Register{funi.RPSQHead, funi.RPSQTail, funi.RQSQHead, funi.RQSQTail}
	receiveIndices = []funi.Register{funi.RPRQHead, funi.RPRQTail, funi.RQRQHead, funi.RQRQTail}
	allBases       = []funi.Register{funi.RPSQBase, funi.RQSQBase, funi.RPRQBase, funi.RQRQBase}
)

var rules = []rule{
	{[]funi.Register{funi.QMask}, 0, "3.1.2, 3.1.1",
		"2^N-1 slots, 2 to 64K; anything else is a memory error of this context", func(t *testing.T, on machine) {
			for _, mask := range []uint32{0, 2, 6, 0x1ffff, 0xffffffff} {
				b := newBench(t, on)
				b.user(funi.Control, funi.UserModes)
				b.user(funi.QMask, mask)
				b.user(funi.Control, 0)
				b.cntl(funi.MERR)
				b.want("the reason", uint32(b.page.Fault()), uint32(arctic.ReasonQueueSize))
			}
		}},
	{allBases, 0, "3.1.2", "misaligned bases are truncated to 32 words; a queue outside the memory is a memory error",
		func(t *testing.T, on machine) {
			for _, r := range allBases {
				b := newBench(t, on)
				b.user(funi.Control, funi.UserModes)
				b.user(r, b.page.Load(r)+127)
				b.user(funi.Control, 0)
				b.cntl(0)
				b.wantFlows(true, true)
				b.user(funi.Control, funi.UserModes)
				b.user(r, 3*queueBytes+128)
				b.user(funi.Control, 0)
				b.cntl(funi.MERR)
				b.want("the reason", uint32(b.page.Fault()), uint32(arctic.ReasonQueueLayout))
			}
		}},
	{append(append([]funi.Register{}, allBases...), append(sendIndices, receiveIndices...)...), 0, "3.1.2",
		"writing a BASE zeroes HD and TL", func(t *testing.T, on machine) {
			for i, r := range allBases {
				b := newBench(t, on)
				b.mustSend(0, funi.Request, 1)
				b.mustSend(0, funi.Reply, 1)
				b.mustSend(1, funi.Request, 0)
				b.mustSend(1, funi.Reply, 0)
				b.run()
				b.owner(funi.Control, funi.CTXM)
				head := funi.RPSQHead + funi.Register(2*i)
				for _, at := range []funi.Register{head, head + 1} {
					if at != funi.RPRQTail && at != funi.RQRQTail { // tails are stored lazily
						if b.page.Load(at) == 0 {
							t.Fatalf("register %d is 0 before", at)
						}
					}
				}
				b.owner(r, b.page.Load(r))
				b.want("HD", b.page.Load(head), 0)
				b.want("TL", b.page.Load(head+1), 0)
			}
		}},
	{sendIndices, 0, "3.1.2", "the card retrieves from TL up to HD and publishes TL; empty when equal",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			for l, tail := range []funi.Register{funi.RQSQTail, funi.RPSQTail} {
				before := b.page.Load(tail)
				for range 3 {
					b.mustSend(0, funi.Level(l), 1, 1)
				}
				b.want("HD", b.page.Load(tail-1), before+3)
				b.run()
				b.want("TL", b.page.Load(tail), before+3)
			}
		}},
	{receiveIndices, 0, "3.1.2", "the card delivers at HD as long as HD+1 is not TL, which the process stores",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			for l, head := range []funi.Register{funi.RQRQHead, funi.RPRQHead} {
				tail := b.page.Load(head)
				b.user(head+1, tail)
				for i := range uint32(17) {
					b.until(time.Second, "room", func() bool { return b.send(1, funi.Level(l), 0, i) })
				}
				b.run()
				b.want("HD", b.page.Load(head), (tail+15)&15)
				b.user(head+1, (tail+1)&15)
				b.want("HD", b.page.Load(head), tail)
			}
		}},
	{[]funi.Register{funi.Control}, funi.PrivilegedModes, "3.1.2, 4.1.2",
		"privileged bits and status bits written by the user are ignored", func(t *testing.T, on machine) {
			b := newBench(t, on)
			for bit := range 32 {
				v := uint32(1) << bit
				if v&funi.UserModes != 0 {
					continue
				}
				b.user(funi.Control, v)
				b.cntl(0)
			}
			b.wantFlows(true, true)
			b.owner(funi.Control, funi.CTXM|funi.DRAIN)
			b.user(funi.Control, 0)
			b.want("CTXM and DRAIN", b.x.Load(funi.Control)&(funi.CTXM|funi.DRAIN), funi.CTXM|funi.DRAIN)
			b.want("CTXM and DRAIN in the page", b.page.Load(funi.Control)&(funi.CTXM|funi.DRAIN), funi.CTXM|funi.DRAIN)
		}},
	{nil, funi.MERR, "3.1.2, 5.1",
		"MERR suspends the context's queues until the owner clears it, then the operation is tried again; others go on",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			other, _ := b.join(0, gid+1, 1)
			if err := b.cards[0].SetGroupRoutes(gid+1, []uint32{0, 0}); err != nil {
				t.Fatal(err)
			}
			good := b.page.Load(funi.RQSQBase)
			b.user(funi.Control, funi.UserModes)
			b.user(funi.RQSQBase, 1<<30)
			b.user(funi.Control, 0)
			b.cntl(funi.MERR)
			b.wantFlows(false, false)
			put(other, funi.Request, 1, 6) // to itself
			b.until(time.Second, "another context goes on", func() bool {
				_, ok := take(other, funi.Request)
				return ok
			})
			b.owner(funi.Control, 0)
			b.cntl(funi.MERR) // the registers are as they were
			b.page.Store(funi.RQSQBase, good)
			b.owner(funi.Control, 0)
			b.cntl(0)
			b.want("the reason", uint32(b.page.Fault()), 0)
			b.run()
			if _, ok := take(b.proc[1], funi.Request); !ok {
				t.Error("what waited in the send queue was not sent")
			}
			if _, ok := take(b.proc[0], funi.Request); !ok {
				t.Error("what waited for the receive queue was not delivered")
			}
			b.owner(funi.Control, funi.MERR)
			b.cntl(0) // the owner can clear it only
		}},
	{nil, funi.RESET, "3.1.2", "in reset mode everything ceases; after it the context is as at power-up",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.inFlight(1)
			b.mustSend(0, funi.Request, 1, 2)
			b.owner(funi.Control, funi.RESET)
			b.cntl(funi.RESET)
			b.mustSend(1, funi.Reply, 0, 9)
			b.comesBack(time.Second, b.proc[1], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Reply,
				Header: funi.NewHeader(0, 5, 1), Word: 9})
			b.owner(funi.Control, funi.RESET|funi.CTXM)
			b.owner(funi.Control, 0)
			ready :=
				uint32(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2 | funi.CRQM | funi.CRQR | funi.CSQM | funi.CSQR)
			b.cntl(ready)
			b.owner(funi.Control, 0)
			b.want("CTXM without a group", b.x.Load(funi.Control)&funi.CTXM, funi.CTXM)
			got := 0
			for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
				got++
			}
			if got != 1 {
				t.Errorf("%d packets of before arrived, want the one that was in flight", got)
			}
			b.started(8)
			exactlyOnce(b.bed, newTraffic(b.bed, 20, 3))
		}},
	{nil, funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2, "3.1.2, 3.2.1",
		"at power-up the context is in context-switch mode, ready, and its peers' packets are rejected",
		func(t *testing.T, on machine) {
			b := powered(t, on)
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2 | funi.CRQM | funi.CRQR | funi.CSQM | funi.CSQR)
			b.refused(funi.GID, arctic.MaxGID+1, engine.ErrRegister)
			b.owner(funi.GID, gid)
			b.mustSend(1, funi.Request, 0, 4)
			b.run()
			b.started(8) // with CSQM and CRQM left to the process
			b.until(time.Second, "the packet arrives", func() bool {
				m, ok := take(b.proc[0], funi.Request)
				return ok && m.Payload()[0] == 4
			})
			exactlyOnce(b.bed, newTraffic(b.bed, 20, 3))
		}},
	{nil, funi.CTXM, "3.1.2", "retrieval, delivery and dispatch halt, inbound packets are rejected and come again",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.owner(funi.Control, funi.CTXM)
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2)
			rejects := b.cards[0].Counters().RejectsSent
			b.wantFlows(false, false)
			if b.cards[0].Counters().RejectsSent == rejects {
				t.Error("nothing was rejected")
			}
			b.owner(funi.Control, 0)
			b.cntl(0)
			b.until(time.Second, "both arrive", func() bool {
				_, a := take(b.proc[1], funi.Request)
				_, c := take(b.proc[0], funi.Request)
				return a || c
			})
			b.idle(time.Second)
		}},
	{nil, funi.CTXR1 | funi.CTXR1Prime, "3.1.2",
		"CTXR1' is set when retrieval and dispatch have halted, CTXR1 when nothing is outstanding as well; before it GID and TICKET do not change", func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
			b.inFlight(1)
			b.owner(funi.Control, funi.CTXM)
			b.cntl(funi.CTXM | funi.CTXR1Prime | funi.CTXR2)
			b.refused(funi.GID, gid+1, engine.ErrNotReady)
			b.refused(funi.Ticket, 0xffffffff, engine.ErrNotReady)
			b.net.Cut(nil)
			b.pass(100 * time.Millisecond)
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2)
		}},
	{nil, funi.CTXR2 | funi.CRQM, "3.1.2, 4.2",
		"CTXR2 is set when the receive buffers are empty; delivery goes on until then if it can",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.user(funi.Control, funi.CRQM)
			for i := range uint32(2) {
				b.mustSend(1, funi.Request, 0, i)
			}
			b.run()
			b.owner(funi.Control, funi.CTXM|funi.CRQM)
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CRQM | funi.CRQR)
			s, err := b.cards[0].SwitchOut(b.x, false)
			if err != nil || len(s.Drained[funi.Request]) != 2 {
				t.Fatalf("drained %v: %v", s, err)
			}
		}},
	{nil, funi.CTXR2, "4.2", "in context-switch mode delivery goes on into receive queues that have room again",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			for i := range uint32(17) { // they fill the queue and the FIFO
				b.until(time.Second, "room", func() bool { return b.send(1, funi.Request, 0, i) })
			}
			b.run()
			b.owner(funi.Control, funi.CTXM)
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime)
			next := uint32(0)
			for _, ok := take(b.proc[0], funi.Request); ok; _, ok = take(b.proc[0], funi.Request) {
				next++
			}
			b.user(funi.RQRQTail, b.page.Load(funi.RQRQHead))
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2)
			for i := range uint32(2) {
				if m, ok := take(b.proc[0], funi.Request); !ok || m.Payload()[0] != next+i {
					t.Fatalf("packet %d of the FIFO: %v", i, m)
				}
			}
		}},
	{nil, funi.DRAIN, "3.1.2, 5.2.3", "transfers go into the receive queue, messages as always",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			memory := make([]byte, 64)
			if err := b.x.Register(funi.Segment{Base: 0x100, Memory: memory, Rights: funi.Destination}); err != nil {
				t.Fatal(err)
			}
			b.owner(funi.Control, funi.DRAIN)
			b.cntl(funi.DRAIN)
			s := b.proc[1].Reserve(funi.Request)
			s.SetTransfer(0, 3, funi.Transfer{Destination: 0x100, Argument: 8, Words: 4})
			copy(s[funi.DataWord:], []uint32{1, 2, 3, 4})
			b.proc[1].Commit(funi.Request)
			b.run()
			m, ok := take(b.proc[0], funi.Request)
			if !ok || !m.Header().Transfer() || m[funi.DataWord+3] != 4 || memory[0] != 0 {
				t.Fatalf("got %v, memory %v", m, memory)
			}
			b.wantFlows(true, true)
			b.owner(funi.Control, 0)
			b.cntl(0)
		}},
	{nil, funi.CRQM | funi.CRQR, "3.1.2",
		"CRQM halts delivery, CRQR says that it has; packets wait, then are rejected, and none is lost",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.user(funi.Control, funi.CRQM)
			b.cntl(funi.CRQM | funi.CRQR)
			b.wantFlows(true, false)
			b.user(funi.Control, 0)
			b.cntl(0)
			if _, ok := take(b.proc[0], funi.Request); !ok {
				t.Error("what came in the mode was not delivered after it")
			}
		}},
	{nil, funi.CSQM | funi.CSQR, "3.1.2", "CSQM halts retrieval, CSQR says that it has; the rest goes on",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.user(funi.Control, funi.CSQM)
			b.cntl(funi.CSQM | funi.CSQR)
			b.wantFlows(false, true)
			b.user(funi.Control, 0)
			b.cntl(0)
			if _, ok := take(b.proc[1], funi.Request); !ok {
				t.Error("what was sent in the mode did not leave after it")
			}
		}},
	{[]funi.Register{funi.QMask}, funi.CRQM | funi.CSQM, "3.1.2, 4.2",
		"queue registers are written only when their queues have halted, Q_MASK when all have",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			for _, r := range append(append([]funi.Register{funi.QMask}, allBases...),
				append(sendIndices, receiveIndices...)...) {
				b.refused(r, 0, engine.ErrNotReady)
			}
			b.user(funi.Control, funi.CSQM)
			b.refused(funi.QMask, 15, engine.ErrNotReady)
			b.refused(funi.RPRQBase, 0, engine.ErrNotReady)
			b.owner(funi.RQSQBase, b.page.Load(funi.RQSQBase))
			b.user(funi.Control, funi.CSQM|funi.CRQM)
			b.owner(funi.QMask, 15)
		}},
	{[]funi.Register{funi.GID}, 0, "3.1.2, 4.1.1",
		"11 bits; only the owner writes it; it tags what is sent and says what is received",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.want("GID", b.page.Load(funi.GID), gid)
			b.user(funi.GID, gid+1)
			b.want("GID for the owner", b.x.Load(funi.GID), gid)
			b.wantFlows(true, true)
			b.refused(funi.GID, gid+1, engine.ErrNotReady)
			b.owner(funi.Control, funi.CTXM)
			b.refused(funi.GID, arctic.MaxGID+1, engine.ErrRegister)
			b.join(0, gid+2, 0)
			b.refused(funi.GID, gid+2, engine.ErrAttached)
			b.owner(funi.GID, gid+1)
			b.want("GID in the page", b.page.Load(funi.GID), gid+1)
			b.owner(funi.Control, 0)
			b.mustSend(0, funi.Request, 1, 1)
			b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
				Header: funi.NewHeader(1, 5, 1), Word: 1})
			b.mustSend(1, funi.Request, 0, 2)
			b.comesBack(time.Second, b.proc[1], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
				Header: funi.NewHeader(0, 5, 1), Word: 2})
		}},
	{[]funi.Register{funi.Ticket}, 0, "3.1.2, 5.2.4",
		"a bit is clear while its line holds a packet; only the owner resets it, which gives the packets back",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.want("TICKET", b.page.Load(funi.Ticket), 0xffffffff)
			b.user(funi.Ticket, 0)
			b.want("TICKET for the owner", b.x.Load(funi.Ticket), 0xffffffff)
			if _, err := b.cards[1].SwitchOut(b.ctx[1], false); err != nil { // it will reject
				t.Fatal(err)
			}
			b.mustSend(0, funi.Request, 1, 1)
			b.run()
			b.want("TICKET", b.page.Load(funi.Ticket), 0xfffffffe)
			b.owner(funi.Control, funi.CTXM)
			b.refused(funi.GID, gid+1, engine.ErrCached)
			b.refused(funi.Ticket, 0, engine.ErrRegister)
			b.owner(funi.Ticket, 0xffffffff)
			b.want("TICKET", b.page.Load(funi.Ticket), 0xffffffff)
			b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonGivenUp, Level: funi.Request,
				Header: funi.NewHeader(1, 5, 1), Word: 1})
			if !b.x.Idle() {
				t.Error("the context is not idle")
			}
		}},
	{nil, funi.CSQM | funi.CRQM | funi.CSQR | funi.CRQR, "3.2.1",
		"user start-up and change of size while traffic flows", func(t *testing.T, on machine) {
			b := newBench(t, on)
			tr := newTraffic(b.bed, 400, 3)
			slots := []int{2, 8, 4, 16}
			changed := 0
			for n := range 40 {
				for range 3 {
					tr.pump()
					b.step(b.now + int64(5*time.Microsecond))
				}
				err := b.proc[0].Resize(slots[n%4], func() error { b.step(b.now); return nil })
				if err != nil && !errors.Is(err, funi.ErrTooSmall) {
					t.Fatal(err)
				}
				if err == nil {
					changed++
				}
			}
			if got, _ := tr.totals(); changed < 8 || got == 0 || tr.pump() {
				t.Fatalf("%d of 40 changes were made, %d messages meanwhile", changed, got)
			}
			exactlyOnce(b.bed, tr)
			b.cntl(0)
		}},
}

// TestConformance tries every rule, on a card that takes no time and on one whose units do.
func TestConformance(t *testing.T) {
	for name, on := range machines {
		for i, r := range slices.Concat(rules, transferRules, moreRules) {
			t.Run(fmt.Sprintf("%s/%d §%s", name, i, r.section), func(t *testing.T) {
				t.Log(r.text)
				r.try(t, on)
			})
		}
	}
}

// TestConformanceIsComplete: the table has a rule for each register and each bit.
func TestConformanceIsComplete(t *testing.T) {
	bits := uint32(0)
	var registers [funi.Registers]bool
	for _, r := range append(rules, moreRules...) {
		bits |= r.bits
		for _, at := range r.of {
			registers[at] = true
		}
	}
	if bits != 1<<11-1 {
		t.Errorf("bits of CNTL with a rule: %#x", bits)
	}
	for r, has := range registers {
		if !has {
			t.Errorf("no rule for register %d", r)
		}
	}
}
