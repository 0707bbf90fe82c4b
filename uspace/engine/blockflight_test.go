package engine_test

// This file holds the rules of blocks that are in the card when something happens to their context
// (transfer.go; thesis 3.2.4, 4.2). The card reads the source until the slot is retired. After the
// context was given up the card does not read it.

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// flight is a bed on which node 0 sends all of its area to node 1 in blocks. All of the blocks
// are in the cache and none has arrived: the network is cut. It also returns the content of the
// area.
func flight(t *testing.T, tune func(*engine.Config)) (*bed, []memory, []byte) {
	t.Helper()
	b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: tune})
	exactlyOnce(b, newTraffic(b, 30, 3))
	b.net.Cut(func(from, _ [6]byte) bool { return from == address(0) })
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 77,
		Words: areaSize / 4})
	b.pass(time.Millisecond)
	if n := b.proc[0].Unsent(funi.Request); n != 1 {
		t.Fatalf("%d slots are not retired, want that of the transfer", n)
	}
	return b, m, bytes.Clone(m[0].area)
}

// scribble overwrites what the process gave up.
func scribble(m []memory) {
	for i := range m[0].area {
		m[0].area[i] ^= 0xff
	}
}

// onlyOld fails the test unless each block of the receiver's area is as before or as the
// source was before the scribbling, and reports how many are as the source.
func onlyOld(t *testing.T, got, before, source []byte) (arrived int) {
	t.Helper()
	for at := 0; at < len(got); at += 16 {
		switch at := got[at : at+16 : at+16]; {
		case bytes.Equal(at, source[:16]):
			arrived++
		case !bytes.Equal(at, before[:16]):
			t.Fatalf("% x is neither what was there, % x, nor what was sent, % x", at, before[:16], source[:16])
		}
		before, source = before[16:], source[16:]
	}
	return arrived
}

// Rule: once a context is switched out, the card does not touch its process's memory (thesis 4.2,
// appendix B). That holds also if the context left without CTXR1. Blocks in flight are repeated
// from what the card kept, and the transfer is completed after the return.
func TestSwitchedOutWithBlocksInFlight(t *testing.T) {
	b, m, old := flight(t, nil)
	s, err := b.cards[0].SwitchOut(b.ctx[0], true)
	if err != nil {
		t.Fatal(err)
	}
	b.checked()
	if err := b.ctx[0].Unregister(area); !errors.Is(err, engine.ErrSegmentBusy) {
		t.Errorf("unregistering what is needed after the return: %v", err)
	}
	scribble(m)
	before := bytes.Clone(m[1].area)
	b.net.Cut(nil)
	b.pass(time.Second)
	if onlyOld(t, m[1].area, before, old) == 0 {
		t.Error("nothing arrived while the context was out, so nothing was tested")
	}
	b.switchIn(0, s)
	got := b.receives(1, funi.Request)
	notice(t, &got, 0, 1, true, funi.Notice{Address: area, Argument: 77, Words: areaSize / 4})
	if !bytes.Equal(m[1].area, old) {
		t.Error("memory differs from what was sent")
	}
	b.idle(time.Second)
	quietTransfers(t, b)
	if n := b.proc[0].Unsent(funi.Request); n != 0 {
		t.Errorf("%d slots are not retired", n)
	}
}

// Rule: the same again and again, over a network with every fault: in each absence the
// memory holds something else, and in each presence what the process put there.
func TestSwitchesWithBlocksInFlight(t *testing.T) {
	b, m, old := flight(t, func(c *engine.Config) { c.Lines, c.ReplyLines = 16, 4 })
	b.net.Cut(nil)
	b.net.SetFaults(networks["all"])
	outs := 0
	for range 100 {
		s, err := b.cards[0].SwitchOut(b.ctx[0], true)
		if err != nil {
			t.Fatal(err)
		}
		if b.ctx[0].Load(funi.Ticket) != 0xffff {
			outs++
		}
		scribble(m)
		b.pass(200 * time.Microsecond)
		scribble(m)
		b.switchIn(0, s)
		b.pass(100 * time.Microsecond)
		b.checked()
	}
	b.until(time.Minute, "the notice", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	b.idle(time.Minute)
	if outs < 5 || !bytes.Equal(m[1].area, old) {
		t.Errorf("%d times out with packets in the cache; memory is what was sent: %v", outs,
			bytes.Equal(m[1].area, old))
	}
	quietTransfers(t, b)
}

// Rule: after Detach and after RESET (thesis 3.1.2) the card does not touch the memory, and copies
// none of it before. Blocks that were in flight and have to be sent again arrive without their
// data. Nothing tells the receiver that all data has arrived, and nothing stays in the card.
func TestGivenUpWithBlocksInFlight(t *testing.T) {
	for name, giveUp := range map[string]func(*testing.T, *bed){
		"Detach": func(_ *testing.T, b *bed) { b.cards[0].Detach(b.ctx[0]) },
		"Detach while out": func(t *testing.T, b *bed) {
			if _, err := b.cards[0].SwitchOut(b.ctx[0], true); err != nil {
				t.Fatal(err)
			}
			b.cards[0].Detach(b.ctx[0])
		},
		"RESET": func(t *testing.T, b *bed) {
			if err := b.ctx[0].Store(funi.Control, funi.RESET); err != nil {
				t.Fatal(err)
			}
			if err := b.ctx[0].Unregister(area); !errors.Is(err, funi.ErrNoSegment) {
				t.Errorf("a segment after RESET: %v", err)
			}
		},
	} {
		for _, silent := range []bool{false, true} {
			b, m, _ := flight(t, quick)
			giveUp(t, b)
			b.checked()
			scribble(m)
			page := *b.mem[0].Page
			before := bytes.Clone(m[1].area)
			if !silent {
				b.net.Cut(nil)
			}
			b.pass(time.Second)
			if !bytes.Equal(m[1].area, before) {
				t.Errorf("%s, silent %v: blocks arrived", name, silent)
			}
			if s, ok := take(b.proc[1], funi.Request); ok {
				t.Errorf("%s: notice %#x", name, s[:5])
			}
			if r, ok := b.proc[0].NextReturn(); ok || name != "RESET" && *b.mem[0].Page != page {
				t.Errorf("%s: the register page was written, return %+v", name, r)
			}
			b.checked()
			if !b.ctx[0].Idle() || b.cards[0].Streams(b.ctx[0]) != 0 {
				t.Errorf("%s: idle %v, %d streams", name, b.ctx[0].Idle(), b.cards[0].Streams(b.ctx[0]))
			}
		}
	}
}

// Rule: after RESET the context starts anew with memory of its own choice (thesis 3.1.2):
// nothing of the old transfer retires its slots.
func TestResetWithBlocksInFlightStartsAnew(t *testing.T) {
	b, m, _ := flight(t, quick)
	for _, v := range []uint32{funi.RESET, 0} {
		if err := b.ctx[0].Store(funi.Control, v); err != nil {
			t.Fatal(err)
		}
	}
	anew := &bench{b, t, b.ctx[0], b.mem[0].Page}
	b.wake[0] = 0
	b.pass(time.Millisecond)
	anew.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2 | funi.CRQM | funi.CRQR | funi.CSQM | funi.CSQR)
	b.net.Cut(nil)
	anew.started(16)
	if err := b.ctx[0].Register(funi.Segment{Base: area, Memory: m[0].area,
		Rights: funi.Source | funi.Destination}); err != nil {
		t.Fatal(err)
	}
	fill(m[0].area, 99)
	for i := range uint32(20) {
		b.until(time.Second, "room", func() bool {
			return request(b.proc[0], funi.Request, 1,
				funi.Transfer{Source: area, Destination: area, Argument: i, Words: 4096})
		})
		s := b.receives(1, funi.Request)
		notice(t, &s, 0, 1, true, funi.Notice{Address: area, Argument: i, Words: 4096})
		b.checked()
	}
	if !bytes.Equal(m[0].area[:4*4096], m[1].area[:4*4096]) {
		t.Error("memory differs")
	}
	b.idle(time.Second)
	quietTransfers(t, b)
}

// Rule: a segment cannot be unregistered before the slots of transfers are retired, as
// blocks are still read from it; and then it can (Unregister).
func TestUnregisterWithBlocksInFlight(t *testing.T) {
	b, m, old := flight(t, quick)
	for range 10 {
		if err := b.ctx[0].Unregister(area); !errors.Is(err, engine.ErrSegmentBusy) {
			t.Fatalf("unregistering the source of blocks in flight: %v", err)
		}
		b.pass(time.Millisecond)
	}
	if err := b.ctx[1].Unregister(readOnly); err != nil {
		t.Errorf("the receiver's: %v", err)
	}
	b.net.Cut(nil)
	b.until(time.Second, "retired", func() bool { return b.proc[0].Unsent(funi.Request) == 0 })
	if err := b.ctx[0].Unregister(area); err != nil {
		t.Errorf("unregistering the source of a transfer that is retired: %v", err)
	}
	scribble(m)
	b.receives(1, funi.Request)
	if !bytes.Equal(m[1].area, old) {
		t.Error("memory differs from what was sent")
	}
	// One that never arrives frees it with its return.
	b, _, _ = flight(t, quick)
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonSilent, Level: funi.Request,
		Header: 3<<30 | funi.NewHeader(1, 5, 0), Word: 77})
	b.until(time.Second, "retired", func() bool { return b.proc[0].Unsent(funi.Request) == 0 })
	if err := b.ctx[0].Unregister(area); err != nil {
		t.Errorf("unregistering after the return: %v", err)
	}
	quietTransfers(t, b)
}

// Rule: CSQR comes when the card needs no slot of the send queues (thesis 3.1.2, 3.2.4):
// not before all blocks are acknowledged, and if the peer is silent, when that is
// certain. What is behind the transfer and not retrieved stays.
func TestSendQueuesHaltAfterBlocks(t *testing.T) {
	for _, silent := range []bool{false, true} {
		b, m, old := flight(t, quick)
		page := b.mem[0].Page
		page.Store(funi.Control, funi.CSQM)
		b.wake[0] = 0
		b.pass(10 * time.Millisecond)
		b.mustSend(0, funi.Request, 1, 5)
		b.mustSend(0, funi.Reply, 1, 6)
		b.pass(10 * time.Millisecond)
		if v := page.Load(funi.Control); v != funi.CSQM {
			t.Fatalf("CNTL is %#x with blocks in flight", v)
		}
		if !silent {
			b.net.Cut(nil)
		}
		b.until(time.Second, "CSQR", func() bool { return page.Load(funi.Control) == funi.CSQM|funi.CSQR })
		if head, tail := page.Load(funi.RQSQHead), page.Load(funi.RQSQTail); (head-tail)&15 != 1 {
			t.Fatalf("silent %v: HD %d, TL %d, want what is behind the transfer to be left", silent, head, tail)
		}
		scribble(m)
		b.net.Cut(nil)
		page.Store(funi.Control, 0)
		b.wake[0] = 0
		got := b.receives(1, funi.Reply)
		if got.Payload()[0] != 6 {
			t.Errorf("got %#x", got[:3])
		}
		if silent {
			b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonSilent, Level: funi.Request,
				Header: 3<<30 | funi.NewHeader(1, 5, 0), Word: 77})
		} else {
			got = b.receives(1, funi.Request)
			notice(t, &got, 0, 1, true, funi.Notice{Address: area, Argument: 77, Words: areaSize / 4})
			if !bytes.Equal(m[1].area, old) {
				t.Error("memory differs from what was sent")
			}
		}
		if got = b.receives(1, funi.Request); got.Payload()[0] != 5 {
			t.Errorf("got %#x", got[:3])
		}
		b.idle(time.Second)
		quietTransfers(t, b)
	}
}

// Rule: CSQM that is set while context-switch mode is on waits for the transfer too: the
// queues are taken over again when the mode ends, until the slot is retired (obey). It is
// the same whether the transfer is retrieved to its end before or not.
func TestSendQueuesHaltAfterAContextSwitch(t *testing.T) {
	for _, lines := range []int{8, 1024} {
		b, m, old := flight(t, func(c *engine.Config) { c.Lines, c.ReplyLines = lines, 2 })
		page := b.mem[0].Page
		if err := b.ctx[0].Store(funi.Control, funi.CTXM); err != nil {
			t.Fatal(err)
		}
		page.Store(funi.Control, funi.CSQM)
		b.wake[0] = 0
		b.pass(time.Millisecond)
		if v := page.Load(funi.Control); v&(funi.CTXM|funi.CSQM|funi.CSQR) != funi.CTXM|funi.CSQM {
			t.Fatalf("CNTL is %#x in both modes with a transfer under way", v)
		}
		b.net.Cut(nil)
		if err := b.ctx[0].Store(funi.Control, funi.CSQM); err != nil {
			t.Fatal(err)
		}
		b.wake[0] = 0
		b.until(time.Second, "CSQR", func() bool { return page.Load(funi.Control) == funi.CSQM|funi.CSQR })
		if head, tail := page.Load(funi.RQSQHead), page.Load(funi.RQSQTail); head != tail {
			t.Fatalf("HD %d, TL %d", head, tail)
		}
		scribble(m)
		b.receives(1, funi.Request)
		if !bytes.Equal(m[1].area, old) {
			t.Error("memory differs from what was sent")
		}
		page.Store(funi.Control, 0)
		b.wake[0] = 0
		b.pass(time.Millisecond)
		exactlyOnce(b, newTraffic(b, 30, 3))
		quietTransfers(t, b)
	}
}

// Rule: in DRAIN mode a block goes into the receive queue as parts, all or none, and memory is not
// written (thesis 3.1.2, 5.2.3). A queue with too little room takes nothing of the block. The block
// arrives when there is room or the mode ends.
func TestDrainOfBlocks(t *testing.T) {
	const parts = (1408 + 79) / 80 // of a full block at an MTU of 1500
	for _, slots := range []int{16, 32, 64} {
		b, m := transferBed(t, setup{cards: 2, slots: slots, net: near})
		exactlyOnce(b, newTraffic(b, 3, 3))
		b.ctx[1].SetDrain(true)
		want, before := bytes.Clone(m[0].area[:4*1408]), bytes.Clone(m[1].area)
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: 1408})
		b.pass(20 * time.Millisecond)
		head := func() int { return int(b.mem[1].Page.Load(funi.RQRQHead)) }
		tail := int(b.mem[1].Page.Load(funi.RQRQTail))
		waiting := (head() - tail) & (slots - 1)
		if fit := (slots - 1) / parts * parts; waiting > slots-1 || waiting < fit-parts || waiting > fit+3 {
			t.Errorf("%d slots: %d parts wait", slots, waiting)
		}
		if slots == 16 && waiting > 3 { // the end of the transfer may be a short block
			t.Errorf("part of a block was taken: %d", waiting)
		}
		if !bytes.Equal(m[1].area, before) {
			t.Fatal("memory was written in DRAIN mode")
		}
		var pieces []funi.Slot
		taken := func() {
			for s, ok := take(b.proc[1], funi.Request); ok; s, ok = take(b.proc[1], funi.Request) {
				pieces = append(pieces, s)
			}
		}
		if slots > 16 {
			b.until(time.Second, "all of it as parts", func() bool { taken(); return b.ctx[0].Idle() })
			taken()
		}
		b.ctx[1].SetDrain(false)
		for _, p := range pieces { // the owner sends them to where they belong
			b.until(time.Second, "room", func() bool {
				s := b.proc[1].Reserve(funi.Request)
				if s != nil {
					*s = p
					b.proc[1].Commit(funi.Request)
				}
				return s != nil
			})
		}
		b.receives(1, funi.Request)
		if !bytes.Equal(m[1].area[:4*1408], want) || !bytes.Equal(m[1].area[4*1408:], before[4*1408:]) {
			t.Errorf("%d slots: memory differs", slots)
		}
		b.idle(time.Second)
		quietTransfers(t, b)
	}
}
