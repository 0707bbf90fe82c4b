package engine_test

// This file is the second half of the conformance table: what modes leave alone, what the
// process may write that it should not, and every size of the queues.

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

var moreRules = []rule{
	{[]funi.Register{funi.QMask}, funi.CSQM | funi.CSQR | funi.CRQM | funi.CRQR, "3.1.1, 3.1.2",
		"every size from 2 to 64K slots, changed at run time while traffic flows, up and down",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.cards[0].Detach(b.x)
			mem, err := funi.NewMemory(funi.MaxSlots)
			if err != nil {
				t.Fatal(err)
			}
			if b.proc[0], err = funi.InitializeSlots(mem, 4); err != nil {
				t.Fatal(err)
			}
			if b.x, err = b.cards[0].Attach(mem, gid, 0, jobTag); err != nil {
				t.Fatal(err)
			}
			b.mem[0], b.ctx[0], b.page = mem, b.x, mem.Page
			tr := newTraffic(b.bed, 2000, 3)
			drive := func() error { b.step(b.now); return nil }
			for n := range 32 {
				slots := 2 << min(n, 31-n)
				for tries := 0; ; tries++ {
					if tr.pump() {
						t.Fatalf("%d slots: the traffic is over", slots)
					}
					if tries == 4000 {
						t.Fatalf("%d slots never fit", slots)
					}
					b.step(b.now + int64(5*time.Microsecond))
					err := b.proc[0].Resize(slots, drive)
					if err == nil {
						break
					}
					if !errors.Is(err, funi.ErrTooSmall) {
						t.Fatal(err)
					}
					tr.burst = 0 // until what the queues hold would fit
				}
				tr.burst = 4
				b.want("Q_MASK", b.page.Load(funi.QMask), uint32(slots-1))
				if got, _ := tr.totals(); n == 31 && got == 0 {
					t.Error("no traffic flowed")
				}
			}
			for _, slots := range []int{0, 1, 3, funi.MaxSlots + 1, 2 * funi.MaxSlots} {
				if err := b.proc[0].Resize(slots, drive); !errors.Is(err, funi.ErrSlots) {
					t.Errorf("%d slots: %v, want ErrSlots", slots, err)
				}
			}
			exactlyOnce(b.bed, tr)
			b.cntl(0)
		}},
	{append(append([]funi.Register{}, allBases...), append(sendIndices, receiveIndices...)...), 0, "3.1.2, 3.2.1",
		"a BASE that the process writes zeroes HD and TL too (funi does it for it)", func(t *testing.T, on machine) {
			b := newBench(t, on)
			exactlyOnce(b.bed, newTraffic(b.bed, 5, 2))
			indices := append(append([]funi.Register{}, sendIndices...), receiveIndices...)
			for _, r := range indices {
				if b.page.Load(r) == 0 {
					t.Fatalf("register %d is 0 before", r)
				}
			}
			if err := b.proc[0].Resize(16, func() error { b.step(b.now); return nil }); err != nil {
				t.Fatal(err)
			}
			for _, r := range indices {
				b.want("an index", b.page.Load(r), 0)
			}
			b.run()
			b.wantFlows(true, true)
		}},
	{append(append([]funi.Register{}, sendIndices...), receiveIndices...), 0, "3.1.2, 3.2.2",
		"indices wrap at the size of the queue: bits above Q_MASK mean nothing", func(t *testing.T, on machine) {
			b := newBench(t, on)
			for l, head := range []funi.Register{funi.RQSQHead, funi.RPSQHead} {
				s := b.proc[0].Reserve(funi.Level(l))
				s.SetHeader(funi.NewHeader(1, 5, 1))
				s[funi.PayloadWord] = 77
				b.user(head, b.page.Load(head)+1|0xabcd0000)
				if m, ok := take(b.proc[1], funi.Level(l)); !ok || m.Payload()[0] != 77 {
					t.Fatalf("level %d: got %v, %v", l, m, ok)
				}
				if m, ok := take(b.proc[1], funi.Level(l)); ok {
					t.Fatalf("level %d: %v as well", l, m)
				}
				b.proc[0].Commit(funi.Level(l))
				tail := head - funi.RPSQHead + funi.RPRQTail
				b.user(tail, b.page.Load(tail)|0x12340000)
			}
			b.cntl(0)
			exactlyOnce(b.bed, newTraffic(b.bed, 50, 3))
		}},
	{nil, funi.MERR, "3.1.2", "the process cannot clear MERR, nor go on while it is set",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.user(funi.Control, funi.UserModes)
			b.user(funi.QMask, 6)
			b.user(funi.Control, 0)
			b.user(funi.QMask, 15)
			for _, v := range []uint32{0, funi.MERR, ^uint32(funi.UserModes)} {
				b.user(funi.Control, v)
				b.cntl(funi.MERR)
			}
			b.wantFlows(false, false)
			b.owner(funi.Control, 0)
			b.cntl(0)
		}},
	{[]funi.Register{funi.GID, funi.Ticket}, funi.RESET | funi.CTXM, "3.1.2",
		"RESET forgets GID and TICKET at once, also of packets in flight, and has no ready bits",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
			b.inFlight(1)
			b.want("TICKET before", b.x.Load(funi.Ticket), 0xfffffffe)
			b.owner(funi.Control, funi.RESET|funi.CTXM)
			b.cntl(funi.RESET | funi.CTXM)
			b.want("TICKET", b.x.Load(funi.Ticket), 0xffffffff)
			b.want("GID", b.x.Load(funi.GID), 0)
			b.refused(funi.GID, gid, engine.ErrNotReady)
			b.net.Cut(nil)
			b.pass(50 * time.Millisecond)
			if m, ok := take(b.proc[1], funi.Request); !ok || m.Payload()[0] != 1 {
				t.Error("what was in flight was not sent again")
			}
			b.owner(funi.Control, 0)
			b.started(8)
			exactlyOnce(b.bed, newTraffic(b.bed, 20, 3))
		}},
	{nil,
		funi.CTXM | funi.DRAIN | funi.CRQM | funi.CSQM | funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2 | funi.CRQR | funi.CSQR, "3.1.2", "the modes can be set independently of one another, and each has its ready bits", func(t *testing.T, on machine) {
			modes := []uint32{funi.CTXM, funi.DRAIN, funi.CRQM, funi.CSQM}
			for set := range 1 << len(modes) {
				b := newBench(t, on)
				v := uint32(0)
				for i, mode := range modes {
					if set>>i&1 != 0 {
						v |= mode
					}
				}
				want := v | v&funi.UserModes<<1
				if v&funi.CTXM != 0 {
					want |= funi.CTXR1 | funi.CTXR1Prime | funi.CTXR2
				}
				b.owner(funi.Control, v)
				b.cntl(want)
				b.wantFlows(v&(funi.CTXM|funi.CSQM) == 0, v&(funi.CTXM|funi.CRQM) == 0)
				b.owner(funi.Control, 0)
				b.cntl(0)
				if !b.x.Idle() {
					b.run()
				}
			}
		}},
	{nil, funi.CSQM | funi.CSQR, "3.1.2",
		"CSQM halts retrieval alone: what the cache holds is sent again and acknowledged",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.net.Cut(func(from, _ [6]byte) bool { return from == address(0) })
			b.inFlight(6)
			b.user(funi.Control, funi.CSQM)
			b.cntl(funi.CSQM | funi.CSQR)
			b.want("TICKET", b.x.Load(funi.Ticket), 0xfffffffe)
			b.net.Cut(nil)
			b.pass(100 * time.Millisecond)
			if m, ok := take(b.proc[1], funi.Request); !ok || m.Payload()[0] != 6 {
				t.Error("it did not arrive")
			}
			b.want("TICKET", b.x.Load(funi.Ticket), 0xffffffff)
		}},
	{[]funi.Register{funi.GID, funi.Ticket}, funi.CSQM | funi.CSQR | funi.CRQM | funi.CRQR, "3.2.1",
		"between the owner's start-up and the user's the card touches no queue, whatever the registers hold",
		func(t *testing.T, on machine) {
			b := powered(t, on)
			b.owner(funi.GID, gid)
			b.owner(funi.Ticket, b.x.Load(funi.Ticket))
			b.owner(funi.Control, funi.UserModes)
			b.cntl(funi.UserModes | funi.CSQR | funi.CRQR)
			for i := range uint32(2) { // what comes waits in the FIFO
				b.mustSend(1, funi.Request, 0, i)
			}
			b.run()
			for r := funi.QMask; r < funi.Control; r++ {
				b.want("a queue register", b.page.Load(r), 0xdeadbeef)
			}
			for i, w := range b.mem[0].Queues {
				if w != 0 {
					t.Fatalf("word %d of the queues was written", i)
				}
			}
			p, err := funi.Start(b.mem[0], 8, func() error { b.step(b.now); return nil })
			if err != nil {
				t.Fatal(err)
			}
			b.run()
			for i := range uint32(2) {
				if m, ok := take(p, funi.Request); !ok || m.Payload()[0] != i {
					t.Fatalf("packet %d: %v, %v", i, m, ok)
				}
			}
		}},
	{nil, funi.CTXM, "3.1.2, 4.2",
		"nobody but the owner ends the mode, and the process's modes of before are there after it",
		func(t *testing.T, on machine) {
			b := newBench(t, on)
			b.user(funi.Control, funi.CRQM)
			s, err := b.cards[0].SwitchOut(b.x, false)
			if err != nil {
				t.Fatal(err)
			}
			b.want("CNTL as saved", s.Registers[funi.Control], funi.CRQM)
			b.page.Store(funi.Control, 0) // the process does not run, but could be hostile
			b.page.Store(funi.GID, 3)
			b.run()
			b.mustSend(1, funi.Request, 0, 3)
			b.run()
			if err := b.cards[0].SwitchIn(s); err != nil {
				t.Fatal(err)
			}
			b.wake[0] = 0
			b.run()
			b.cntl(funi.CRQM | funi.CRQR)
			b.want("GID", b.page.Load(funi.GID), gid)
			b.user(funi.Control, 0)
			if m, ok := take(b.proc[0], funi.Request); !ok || m.Payload()[0] != 3 {
				t.Errorf("got %v, %v", m, ok)
			}
		}},
	{[]funi.Register{funi.GID}, 0, "4.1.1, 3.3.1",
		"what is sent carries the owner's GID and the context's node, whatever the process writes",
		func(t *testing.T, on machine) {
			var frames [][]byte
			b := newBed(t, setup{cards: 2, slots: 16, net: near, wrap: capture(&frames)})
			b.mem[0].Page.Store(funi.GID, gid+1)
			b.mustSend(0, funi.Request, 1, 1)
			b.idle(time.Second)
			seen := false
			for _, raw := range frames {
				f, err := arctic.Parse(raw)
				if err != nil || f.Packets() == 0 {
					continue
				}
				p, _ := arctic.Next(f.Train())
				h := p.Header()
				if seen = true; f.Header().GID != gid || h.GID != gid || h.Source != 0 {
					t.Errorf("a packet of group %d, node %d", h.GID, h.Source)
				}
			}
			if !seen {
				t.Error("nothing was sent")
			}
		}},
}
