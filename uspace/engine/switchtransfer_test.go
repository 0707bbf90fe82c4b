package engine_test

// This file is long transfers whose context changes its queues or is switched out while
// they are under way.

import (
	"bytes"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// longTransfer starts a transfer of a number of words from node 0 to node 1 on a bed that
// is slow enough to interrupt it, and returns both memories.
func longTransfer(t *testing.T, on machine, words int, faults wire.Faults) (b *bed, from, to []byte) {
	t.Helper()
	b = newBed(t, setup{cards: 2, slots: 16, net: wire.Config{Seed: 5, Delay: 10 * time.Microsecond, Faults: faults},
		tune: on.on(func(c *engine.Config) { thesis(c); c.FIFO = 8 })})
	from, to = make([]byte, words*4), make([]byte, words*4)
	for i := range from {
		from[i] = byte(i*7 + i>>8)
	}
	for i, m := range [][]byte{from, to} {
		rights := []funi.Rights{funi.Source, funi.Destination}[i]
		if err := b.ctx[i].Register(funi.Segment{Base: 0x1000, Memory: m, Rights: rights}); err != nil {
			t.Fatal(err)
		}
	}
	s := b.proc[0].Reserve(funi.Request)
	s.SetTransfer(1, 3, funi.Transfer{Source: 0x1000, Destination: 0x1000, Argument: 77, Words: words})
	b.proc[0].Commit(funi.Request)
	return b, from, to
}

func (b *bed) transferred(from, to []byte) {
	b.t.Helper()
	b.until(time.Minute, "the notice", func() bool {
		m, ok := take(b.proc[1], funi.Request)
		return ok && m.Notice() == funi.Notice{Address: 0x1000, Argument: 77, Words: len(from) / 4}
	})
	b.idle(time.Second)
	if !bytes.Equal(from, to) {
		b.t.Fatal("the memories differ")
	}
}

// Rule: CSQR is set when retrieval has halted (thesis 3.1.2); a transfer that has begun
// is retrieved to its end before, because it is in the slot that the process would
// change, and nothing behind it is.
func TestSendQueuesHaltAfterALongTransfer(t *testing.T) { onEach(t, sendQueuesHaltAfterALongTransfer) }

func sendQueuesHaltAfterALongTransfer(t *testing.T, on machine) {
	b, from, to := longTransfer(t, on, 4000, wire.Faults{})
	b.pass(100 * time.Microsecond)
	b.mustSend(0, funi.Request, 1, 5)
	page := b.mem[0].Page
	page.Store(funi.Control, funi.CSQM)
	b.wake[0] = 0
	b.pass(100 * time.Microsecond)
	if v := page.Load(funi.Control); v != funi.CSQM || bytes.Equal(from, to) {
		t.Fatalf("CNTL is %#x with the transfer under way", v)
	}
	b.until(time.Minute, "CSQR", func() bool { return page.Load(funi.Control) == funi.CSQM|funi.CSQR })
	if head, tail := page.Load(funi.RQSQHead), page.Load(funi.RQSQTail); head != 2 || tail != 1 {
		t.Fatalf("HD %d, TL %d, want 2 and 1: the transfer is retired, what is behind it is not", head, tail)
	}
	b.transferred(from, to)
	page.Store(funi.Control, 0)
	b.wake[0] = 0
	b.until(time.Second, "what was behind it", func() bool {
		m, ok := take(b.proc[1], funi.Request)
		return ok && m.Payload()[0] == 5
	})
}

// Rule: a transfer survives that its sender and its receiver are switched out and in, at
// any time, over a network with every fault (thesis 4.2): its bytes are exact and its
// notice comes once.
func TestLongTransferSurvivesContextSwitches(t *testing.T) {
	onEach(t, longTransferSurvivesContextSwitches)
}

func longTransferSurvivesContextSwitches(t *testing.T, on machine) {
	for node := range 2 {
		b, from, to := longTransfer(t, on, 2000, networks["all"])
		for range 20 {
			b.pass(300 * time.Microsecond)
			s := b.switchOut(node)
			b.pass(500 * time.Microsecond)
			b.switchIn(node, s)
		}
		b.transferred(from, to)
		b.pass(100 * time.Millisecond)
		if m, ok := take(b.proc[1], funi.Request); ok {
			t.Fatalf("node %d: one more notice: %v", node, m)
		}
	}
}

// Rule: transfers that are drained go into the drain queues, their memory untouched, and
// reach it after the return (thesis 5.2.3 DRAIN, appendix B).
func TestDrainedTransfersReachMemory(t *testing.T) { onEach(t, drainedTransfersReachMemory) }

func drainedTransfersReachMemory(t *testing.T, on machine) {
	b, from, to := longTransfer(t, on, 0+16*4, wire.Faults{})
	b.transferred(from, to)
	clear(to)
	b.mem[1].Page.Store(funi.Control, funi.CRQM)
	b.wake[1] = 0
	b.pass(time.Millisecond)
	for i := range uint32(4) {
		s := b.proc[0].Reserve(funi.Request)
		s.SetTransfer(1, 3, funi.Transfer{Source: 0x1000 + i*64, Destination: 0x1000 + i*64, Argument: i, Words: 16})
		b.proc[0].Commit(funi.Request)
	}
	b.pass(5 * time.Millisecond)
	s := b.switchOut(1)
	if len(s.Drained[funi.Request]) != 4 || !bytes.Equal(to, make([]byte, len(to))) {
		t.Fatalf("drained %d transfers, memory %v", len(s.Drained[funi.Request]), to)
	}
	b.switchIn(1, s)
	b.mem[1].Page.Store(funi.Control, 0)
	b.wake[1] = 0
	for i := range uint32(4) {
		b.until(time.Second, "a notice", func() bool {
			m, ok := take(b.proc[1], funi.Request)
			if ok && m.Notice() != (funi.Notice{Address: 0x1000 + i*64, Argument: i, Words: 16}) {
				t.Fatalf("notice %d: %+v", i, m.Notice())
			}
			return ok
		})
	}
	if !bytes.Equal(from, to) {
		t.Error("the memories differ")
	}
}
