package engine_test

// This file is the part of the conformance table about transfers of many packets, whose
// slots are not retired when they are read (thesis 3.2.4).

import (
	"bytes"
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

var transferRules = []rule{
	{sendIndices, funi.CSQM | funi.CSQR, "3.1.2, 3.2.4",
		"the slot of a transfer is the process's again, and CSQR comes, when the card needs its source no more: all of it is acknowledged, or is certain not to be", func(t *testing.T, on machine) {
			for _, silent := range []bool{false, true} {
				b := newBench(t, on)
				source, destination := make([]byte, 8192), make([]byte, 8192)
				fill(source, 8)
				want := bytes.Clone(source)
				b.registered(source, destination)
				b.net.Cut(isolate(1))
				request(b.proc[0], funi.Request, 1, funi.Transfer{Source: 0x100, Destination: 0x100, Words: 2048})
				b.run()
				b.user(funi.Control, funi.CSQM)
				b.cntl(funi.CSQM)
				b.want("slots of the transfer", uint32(b.proc[0].Unsent(funi.Request)), 1)
				if silent {
					b.pass(time.Second)
				} else {
					b.net.Cut(nil)
					b.pass(100 * time.Millisecond)
				}
				b.cntl(funi.CSQM | funi.CSQR)
				b.want("slots of the transfer", uint32(b.proc[0].Unsent(funi.Request)), 0)
				clear(source)
				b.net.Cut(nil)
				b.user(funi.Control, 0)
				b.run()
				_, arrived := take(b.proc[1], funi.Request)
				_, back := b.proc[0].NextReturn()
				if arrived == silent || back != silent || arrived && !bytes.Equal(destination, want) {
					t.Errorf("silent %v: arrived %v, came back %v", silent, arrived, back)
				}
			}
		}},
	{nil, funi.CTXM | funi.CTXR1, "3.1.2, 3.2.4, 4.2",
		"a transfer that context-switch mode interrupts goes on after it, and its slot is not the process's before its end", func(t *testing.T, on machine) {
			b := newBench(t, on)
			source, destination := make([]byte, 8192), make([]byte, 8192)
			fill(source, 8)
			b.registered(source, destination)
			s, err := b.cards[1].SwitchOut(b.ctx[1], false) // it will reject
			if err != nil {
				t.Fatal(err)
			}
			request(b.proc[0], funi.Request, 1, funi.Transfer{Source: 0x100, Destination: 0x100, Words: 2048})
			b.run()
			b.owner(funi.Control, funi.CTXM)
			b.cntl(funi.CTXM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2)
			for _, r := range append([]funi.Register{funi.QMask}, sendIndices...) {
				b.refused(r, b.page.Load(r), engine.ErrNotReady)
			}
			b.refused(funi.GID, gid+1, engine.ErrCached)
			b.want("slots of the transfer", uint32(b.proc[0].Unsent(funi.Request)), 1)
			b.owner(funi.Control, 0)
			b.switchIn(1, s)
			b.receives(1, funi.Request)
			b.want("slots of the transfer", uint32(b.proc[0].Unsent(funi.Request)), 0)
			if !bytes.Equal(source, destination) {
				t.Error("memory differs")
			}
		}},
	{nil, funi.DRAIN, "3.1.2, 3.2.4, 5.2.3",
		"of a transfer that is longer than the receive queue, parts come out in DRAIN mode whole or not at all, and memory is as it was", func(t *testing.T, on machine) {
			b := newBench(t, on)
			source, destination := make([]byte, 8192), make([]byte, 8192)
			fill(source, 8)
			b.registered(source, destination)
			if err := b.ctx[1].Store(funi.Control, funi.DRAIN); err != nil {
				t.Fatal(err)
			}
			request(b.proc[0], funi.Request, 1, funi.Transfer{Source: 0x100, Destination: 0x100, Words: 2048})
			b.pass(50 * time.Millisecond)
			for s, ok := take(b.proc[1], funi.Request); ok; s, ok = take(b.proc[1], funi.Request) {
				at := s[funi.DestinationAddressWord] - 0x100
				if words := s.Header().Words(); !s.Header().Many() || words == 0 ||
					!bytes.Equal(funi.Bytes(s[funi.DataWord:funi.DataWord+words]), source[at:at+4*uint32(words)]) {
					t.Errorf("drained %#x", s[:])
				}
			}
			if !bytes.Equal(destination, make([]byte, len(destination))) {
				t.Error("memory was written in DRAIN mode")
			}
			b.want("slots of the transfer", uint32(b.proc[0].Unsent(funi.Request)), 1)
			if err := b.ctx[1].Store(funi.Control, 0); err != nil {
				t.Fatal(err)
			}
			b.wake[1] = 0
			b.pass(50 * time.Millisecond)
			b.want("slots of the transfer", uint32(b.proc[0].Unsent(funi.Request)), 0)
		}},
}
