package engine_test

// This file holds the rules of XFER (thesis 3.2.4, 5.2.2, 5.2.3): every mode,
// alignment, every violation, and DRAIN.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Segments of every node of a transfer bed: both reads and writes memory at area;
// nothing else is registered but a source-only and a destination-only segment.
const (
	area      = 0x10000
	areaSize  = 1 << 16
	readOnly  = 0x40000
	writeOnly = 0x50000
	small     = 64
)

// memory is the registered memory of a node.
type memory struct {
	area, readOnly, writeOnly []byte
}

// transferBed is a bed whose nodes have segments.
func transferBed(t testing.TB, s setup) (*bed, []memory) {
	b := newBed(t, s)
	m := make([]memory, s.cards)
	for i := range m {
		m[i] = memory{make([]byte, areaSize), make([]byte, small), make([]byte, small)}
		fill(m[i].area, uint32(i+1))
		fill(m[i].readOnly, uint32(i+101))
		for _, g := range []funi.Segment{
			{Base: area, Memory: m[i].area, Rights: funi.Source | funi.Destination},
			{Base: readOnly, Memory: m[i].readOnly, Rights: funi.Source},
			{Base: writeOnly, Memory: m[i].writeOnly, Rights: funi.Destination},
		} {
			if err := b.ctx[i].Register(g); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b, m
}

// fill writes bytes that differ everywhere and between seeds.
func fill(b []byte, seed uint32) {
	x := seed*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}

// request puts an XFER request of type 5 with data into a send queue.
func request(p *funi.Interface, l funi.Level, to int, x funi.Transfer, data ...uint32) bool {
	s := p.Reserve(l)
	if s == nil {
		return false
	}
	s.SetTransfer(uint16(to), 5, x)
	copy(s[funi.DataWord:], data)
	p.Commit(l)
	return true
}

// receives waits for one packet.
func (b *bed) receives(node int, l funi.Level) (s funi.Slot) {
	b.t.Helper()
	b.until(time.Second, "a packet arrives", func() (ok bool) { s, ok = take(b.proc[node], l); return ok })
	return s
}

// notice checks the notice block of a slot (thesis 3.2.4).
func notice(t testing.TB, s *funi.Slot, from, at int, many bool, want funi.Notice) {
	t.Helper()
	h := s.Header()
	if !h.Transfer() || h.Many() != many || h.Type() != 5 || int(h.Node()) != at || s[1] != 0 ||
		int(s.Source()) != from || s.Notice() != want {
		t.Fatalf("notice %#x with %+v, want from node %d to %d: %+v", s[:5], s.Notice(), from, at, want)
	}
}

// words reads little-endian words.
func words(b []byte) []uint32 {
	w := make([]uint32, len(b)/4)
	arctic.Words(w, b)
	return w
}

// each runs a test for both levels, over the wire and within a card.
func each(t *testing.T, f func(t *testing.T, b *bed, m []memory, l funi.Level, to int)) {
	for l := range funi.Level(2) {
		for _, to := range []int{0, 1} {
			t.Run(fmt.Sprintf("%v to node %d", l, to), func(t *testing.T) {
				b, m := transferBed(t, setup{cards: 2, slots: 16, net: near})
				f(t, b, m, l, to)
				b.idle(time.Second)
				for i, c := range b.cards {
					if err := c.Check(); err != nil {
						t.Errorf("card %d: %v", i, err)
					}
				}
			})
		}
	}
}

// Rule: from memory to memory the data goes straight to the destination, and a notice
// block of header, 0, destination and argument into the queue (3.2.4, Case 2).
func TestTransferMemoryToMemory(t *testing.T) {
	each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
		for n := 0; n <= arctic.MaxSingleWords; n += 4 {
			from, at := uint32(0x100), uint32(0x8000)
			want := bytes.Clone(m[to].area)
			copy(want[at:], m[0].area[from:from+4*uint32(n)])
			request(b.proc[0], l, to, funi.Transfer{Source: area + from, Destination: area + at,
				Argument: uint32(n), Words: n})
			s := b.receives(to, l)
			notice(t, &s, 0, to, false, funi.Notice{Address: area + at, Argument: uint32(n), Words: n})
			if !bytes.Equal(m[to].area, want) {
				t.Fatalf("%d words: memory differs", n)
			}
			fill(m[0].area, uint32(n+7))
		}
	})
}

// Rule: with source 0 the data comes from the slot, after the request block (Case 3).
func TestTransferQueueToMemory(t *testing.T) {
	each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
		for n := 4; n <= arctic.MaxSingleWords; n += 4 {
			data := words(m[0].readOnly[:4*n])
			request(b.proc[0], l, to, funi.Transfer{Destination: writeOnly, Argument: 9, Words: n}, data...)
			s := b.receives(to, l)
			notice(t, &s, 0, to, false, funi.Notice{Address: writeOnly, Argument: 9, Words: n})
			if !bytes.Equal(m[to].writeOnly[:4*n], m[0].readOnly[:4*n]) {
				t.Fatalf("%d words: memory differs", n)
			}
		}
	})
}

// Rule: with destination 0 a message-passing packet emerges, of the argument and the
// data (Case 4); with source 0 too, the data comes from the slot.
func TestTransferToQueue(t *testing.T) {
	each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
		for _, source := range []uint32{readOnly, 0} {
			for n := 0; n <= arctic.MaxSingleWords; n += 4 {
				data := words(m[0].readOnly[:4*n])
				request(b.proc[0], l, to, funi.Transfer{Source: source, Argument: 77, Words: n}, data...)
				s := b.receives(to, l)
				want := append([]uint32{77}, data...)
				if h := s.Header(); h.Transfer() || h.Length() != n+1 || h.Type() != 5 || int(h.Node()) != to ||
					s.Source() != 0 || fmt.Sprint(s.Payload()) != fmt.Sprint(want) {
					t.Fatalf("source %#x: got %#x, want a message of %#x", source, s[:], want)
				}
			}
		}
	})
}

// Rule: misaligned addresses are truncated to four words (3.2.4). Only the word 0 is
// no address: one that truncates to 0 is in no segment.
func TestTransferAlignment(t *testing.T) {
	each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
		for _, words := range []int{4, 20} { // one packet; many
			for low := range uint32(16) {
				fill(m[0].area[:1024], low)
				want := bytes.Clone(m[to].area)
				copy(want[0x400:], m[0].area[0x20:0x20+4*words])
				request(b.proc[0], l, to, funi.Transfer{Source: area + 0x20 + low,
					Destination: area + 0x400 + 15 - low, Words: words})
				s := b.receives(to, l)
				notice(t, &s, 0, to, words > 16, funi.Notice{Address: area + 0x400, Words: words})
				if !bytes.Equal(m[to].area, want) {
					t.Fatalf("low bits %d: memory differs", low)
				}
			}
		}
		request(b.proc[0], l, to, funi.Transfer{Source: 4, Destination: area, Argument: 1, Words: 4})
		b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonSource, Level: l,
			Header: funi.NewTransferHeader(uint16(to), 5, 4), Word: 1})
	})
}

// violation is a request that must come back.
type violation struct {
	name   string
	x      funi.Transfer
	reason arctic.Reason
	edit   func(s *funi.Slot)
}

var violations = []violation{
	{"source in no segment", funi.Transfer{Source: 0x100, Destination: area, Words: 4}, arctic.ReasonSource, nil},
	{"source runs out of its segment", funi.Transfer{Source: readOnly + small - 16, Destination: area, Words: 8},
		arctic.ReasonSource, nil},
	{"source just below", funi.Transfer{Source: area - 16, Destination: area, Words: 8}, arctic.ReasonSource, nil},
	{"source not readable", funi.Transfer{Source: writeOnly, Destination: area, Words: 4}, arctic.ReasonSource, nil},
	{"source at the end of the space", funi.Transfer{Source: 0xfffffff0, Destination: area, Words: 16},
		arctic.ReasonSource, nil},
	{"source to queue in no segment", funi.Transfer{Source: 0x100, Words: 4}, arctic.ReasonSource, nil},
	{"destination in no segment", funi.Transfer{Source: area, Destination: 0x100, Words: 4},
		arctic.ReasonDestination, nil},
	{"destination runs out of its segment", funi.Transfer{Source: area, Destination: writeOnly + small - 16, Words: 8},
		arctic.ReasonDestination, nil},
	{"destination not writable", funi.Transfer{Source: area, Destination: readOnly, Words: 4},
		arctic.ReasonDestination, nil},
	{"destination at the end of the space", funi.Transfer{Source: area, Destination: 0xfffffff0, Words: 16},
		arctic.ReasonDestination, nil},
	{"length not a multiple", funi.Transfer{Source: area, Destination: area, Words: 5},
		arctic.ReasonTransferLength, nil},
	{"length above 16", funi.Transfer{Source: area, Destination: area, Words: 16}, arctic.ReasonTransferLength,
		func(s *funi.Slot) { s[0] += 4 << 16 }},
	{"longest length", funi.Transfer{Source: area, Destination: area, Words: 4}, arctic.ReasonTransferLength,
		func(s *funi.Slot) { s[0] |= 31 << 16 }},
	{"long: source in no segment", funi.Transfer{Source: 0x100, Destination: area, Words: 100},
		arctic.ReasonSource, nil},
	{"long: source runs out of its segment", funi.Transfer{Source: area + 16, Destination: area, Words: areaSize / 4},
		arctic.ReasonSource, nil},
	{"long: source at the end of the space", funi.Transfer{Source: 0xfffffff0, Destination: area, Words: 1 << 24},
		arctic.ReasonSource, nil},
	{"long: destination runs out of the space", funi.Transfer{Source: area, Destination: 0xffffff00, Words: 128},
		arctic.ReasonDestination, nil},
	{"long: destination runs out of its segment", funi.Transfer{Source: area, Destination: area + areaSize - 160,
		Words: 100}, arctic.ReasonDestination, nil},
	{"long: only the end runs out", funi.Transfer{Source: area, Destination: area + areaSize - 160, Words: 44},
		arctic.ReasonDestination, nil},
	{"long: a later block runs out of its segment", funi.Transfer{Source: area, Destination: area + areaSize - 2048,
		Words: 1000}, arctic.ReasonDestination, nil},
	{"long: destination in no segment", funi.Transfer{Source: area, Destination: 0x100, Words: 100},
		arctic.ReasonDestination, nil},
	{"long: destination truncates to 0", funi.Transfer{Source: area, Destination: 15, Words: 100},
		arctic.ReasonDestination, nil},
	{"long: to queue", funi.Transfer{Source: area, Words: 100}, arctic.ReasonDestination, nil},
	{"long: from queue", funi.Transfer{Destination: area, Words: 100}, arctic.ReasonTransferLength, nil},
	{"long: no words", funi.Transfer{Source: area, Destination: area, Words: 100}, arctic.ReasonTransferLength,
		func(s *funi.Slot) { s[funi.LengthWord] = 0 }},
	{"long: not a multiple", funi.Transfer{Source: area, Destination: area, Words: 102},
		arctic.ReasonTransferLength, nil},
	{"long: above 2^24", funi.Transfer{Source: area, Destination: area, Words: 1<<24 + 4},
		arctic.ReasonTransferLength, nil},
	{"long: 2^32 - 4", funi.Transfer{Source: area, Destination: area, Words: 1<<32 - 4},
		arctic.ReasonTransferLength, nil},
}

// Rule: a violation comes back with its reason, the header as the process wrote it
// and the argument. If the sender's own card finds it, it sets the sender's MERR; a
// destination that the receiver refuses is the sender's fault as well, and the
// receiver counts it (design idea 3). Nobody else notices, and what follows arrives.
func TestTransferViolations(t *testing.T) {
	for _, v := range violations {
		t.Run(v.name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
				before := [2][]byte{bytes.Clone(m[0].readOnly), bytes.Clone(m[1].readOnly)}
				v.x.Argument = 5
				s := b.proc[0].Reserve(l)
				s.SetTransfer(uint16(to), 5, v.x)
				if v.edit != nil {
					v.edit(s)
				}
				h := s.Header()
				b.proc[0].Commit(l)
				b.mustSend(0, l, to, 1, 2, 3)
				b.comesBack(5*time.Second, b.proc[0], funi.Returned{Reason: v.reason, Level: l, Header: h, Word: 5})
				got := b.receives(to, l)
				if got.Header().Transfer() || got.Payload()[2] != 3 {
					t.Fatalf("got %#x", got[:])
				}
				b.idle(5 * time.Second)
				if _, ok := take(b.proc[to], l); ok {
					t.Error("a notice of what was refused")
				}
				if _, ok := b.proc[0].NextReturn(); ok {
					t.Error("a second return")
				}
				local := b.cards[0].Counters().MemoryErrors == 1
				if refused := b.cards[to].Counters().DestinationRefused > 0; local == refused {
					t.Errorf("found at the sender: %v, at the receiver: %v", local, refused)
				}
				if local != (b.ctx[0].Fault() == v.reason) || b.ctx[1].Fault() != arctic.ReasonNone {
					t.Errorf("memory errors %v and %v", b.ctx[0].Fault(), b.ctx[1].Fault())
				}
				if !bytes.Equal(m[0].readOnly, before[0]) || !bytes.Equal(m[1].readOnly, before[1]) {
					t.Error("memory without the right was written")
				}
			})
		})
	}
}

// Rule: without any segment every XFER that needs one comes back.
func TestTransferWithoutSegments(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	for _, words := range []int{4, 100} {
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: words})
		var r funi.Returned
		b.until(time.Second, "back", func() (ok bool) { r, ok = b.proc[0].NextReturn(); return ok })
		if r.Reason != arctic.ReasonSource {
			t.Errorf("%d words: %v", words, r.Reason)
		}
	}
}

// Rule: an unregistered segment is neither read nor written; it cannot be
// unregistered while the card uses it.
func TestUnregister(t *testing.T) {
	b, m := transferBed(t, setup{cards: 2, slots: 2, net: near, tune: func(c *engine.Config) {
		c.Lines, c.ReplyLines = 8, 4
	}})
	for i := range uint32(4) { // one in the queue of node 1, the others in its FIFO
		b.until(time.Second, "room", func() bool {
			return request(b.proc[0], funi.Request, 1,
				funi.Transfer{Source: readOnly, Destination: writeOnly, Argument: i, Words: 4})
		})
	}
	b.pass(time.Millisecond)
	wantBusy := func(x *engine.Context, base uint32) {
		t.Helper()
		if err := x.Unregister(base); err == nil {
			t.Fatal("unregistered a segment in use")
		}
	}
	wantBusy(b.ctx[1], writeOnly)
	for range 4 {
		b.receives(1, funi.Request)
	}
	if !bytes.Equal(m[1].writeOnly[:16], m[0].readOnly[:16]) {
		t.Error("memory differs")
	}
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Words: 4096})
	b.step(b.now)
	wantBusy(b.ctx[0], area)
	b.receives(1, funi.Request)
	if err := b.ctx[0].Unregister(area); err != nil {
		t.Fatal(err)
	}
	if err := b.ctx[1].Unregister(writeOnly); err != nil {
		t.Fatal(err)
	}
	for _, x := range []funi.Transfer{{Source: area, Destination: area, Words: 4},
		{Source: readOnly, Destination: writeOnly, Words: 4}} {
		request(b.proc[0], funi.Request, 1, x)
		b.until(time.Second, "back", func() bool { _, ok := b.proc[0].NextReturn(); return ok })
	}
}

// Rule: in DRAIN mode the data follows the notice block in the receive queue and
// memory is untouched (thesis 3.1.2, 5.2.3). What comes out is a request block that
// has, when it is sent, the effect that the packet would have had.
func TestTransferDrain(t *testing.T) {
	each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
		untouched := bytes.Clone(m[to].area)
		b.ctx[to].SetDrain(true)
		request(b.proc[0], l, to, funi.Transfer{Source: readOnly, Destination: area, Argument: 1, Words: 8})
		request(b.proc[0], l, to, funi.Transfer{Source: area + 0x1000, Destination: area + 0x100, Argument: 2,
			Words: 20 + 20 + 12})
		b.mustSend(0, l, to, 9)
		var drained []funi.Slot
		b.until(time.Second, "five packets", func() bool {
			for s, ok := take(b.proc[to], l); ok; s, ok = take(b.proc[to], l) {
				drained = append(drained, s)
			}
			return len(drained) == 5
		})
		if !bytes.Equal(m[to].area, untouched) {
			t.Fatal("memory was written in DRAIN mode")
		}
		if s := drained[0]; s.Header().Words() != 8 || !bytes.Equal(funi.Bytes(s[4:12]), m[0].readOnly[:32]) {
			t.Fatalf("notice with data: %#x", s)
		} else {
			notice(t, &s, 0, to, false, funi.Notice{Address: area, Argument: 1, Words: 8})
		}
		b.ctx[to].SetDrain(false)
		want := bytes.Clone(m[to].area)
		copy(want, m[0].readOnly[:32])
		copy(want[0x100:], m[0].area[0x1000:0x1000+4*52])
		many := 0
		for _, d := range drained {
			if !d.Header().Transfer() {
				continue
			}
			b.until(time.Second, "room", func() bool {
				s := b.proc[0].Reserve(l)
				if s != nil {
					*s = d
					s[0] = s[0]&^0xffff | uint32(to)
					b.proc[0].Commit(l)
				}
				return s != nil
			})
		}
		b.until(time.Second, "two notices", func() bool {
			for s, ok := take(b.proc[to], l); ok; s, ok = take(b.proc[to], l) {
				if s.Header().Many() {
					notice(t, &s, 0, to, true, funi.Notice{Address: area + 0x100, Argument: 2, Words: 52})
				} else {
					notice(t, &s, 0, to, false, funi.Notice{Address: area, Argument: 1, Words: 8})
				}
				many++
			}
			return many == 2
		})
		b.idle(time.Second)
		if !bytes.Equal(m[to].area, want) {
			t.Error("memory differs")
		}
	})
}
