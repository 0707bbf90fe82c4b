package am_test

// This file tests that the steady state allocates nothing: a garbage collection in the
// middle of an exchange would cost more than the exchange.

import (
	"errors"
	"iter"
	"testing"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// pair makes two endpoints that are joined by cables, and returns Register of their
// contexts; their time is a counter. Each step of a card is followed by after with its
// number, if that is not nil.
func pair(t testing.TB, after func(node int)) (e [2]*am.Endpoint, register [2]func(funi.Segment) error) {
	t.Helper()
	e, contexts := joined(t, after)
	for i, x := range contexts {
		register[i] = x.Register
	}
	return e, register
}

// joined is pair with the contexts themselves.
func joined(t testing.TB, after func(node int)) (e [2]*am.Endpoint, contexts [2]*engine.Context) {
	t.Helper()
	now := int64(1)
	ports := bed.Cables(64, 1514)
	address := func(i int) [6]byte { return [6]byte{2, 0, 0, 0, 0, byte(i)} }
	for i := range 2 {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Routes = uint16(i), uint32(i+1), []uint32{0, 1}
		cfg.Ports = []port.Port{ports[i]}
		cfg.Peers = []engine.Peer{{Card: uint16(1 - i), Address: address(1 - i), Local: address(i)}}
		card, err := engine.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := funi.NewMemory(64)
		if err != nil {
			t.Fatal(err)
		}
		iface, err := funi.Initialize(memory)
		if err != nil {
			t.Fatal(err)
		}
		x, err := card.Attach(memory, 1, uint16(i), 0)
		if err != nil {
			t.Fatal(err)
		}
		drive := func() {
			now += 100
			card.Step(now)
			if after != nil {
				after(i)
			}
		}
		if e[i], err = am.New(iface, i, 2, drive, uint64(i)); err != nil {
			t.Fatal(err)
		}
		contexts[i] = x
	}
	return e, contexts
}

// TestNoAllocation: Request4, Request, Post4, Poll, Reply4 and Reply allocate nothing, nor do
// SendBytes, PostBytes and ReplyBytes.
func TestNoAllocation(t *testing.T) {
	e, _ := pair(t, nil)
	answered := 0
	for i := range e {
		for number, h := range []am.Handler{
			func(m *am.Message) { _ = m.Reply4(2, m.Words[0], m.Words[1], m.Words[2], m.Words[3]) },
			func(m *am.Message) { _ = m.Reply(2, m.Words...) },
			func(*am.Message) { answered++ },
		} {
			if err := e[i].Handle(uint32(number), h); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range e {
		if err := errors.Join(e[i].HandleBytes(0, func(m *am.Message, b []byte) error { return m.ReplyBytes(1, b) }),
			e[i].HandleBytes(1, func(*am.Message, []byte) error { answered++; return nil })); err != nil {
			t.Fatal(err)
		}
	}
	words := make([]uint32, am.MaxWords)
	poll := func() {
		for i := range e {
			if _, err := e[i].Poll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange := func() {
		want := answered + 2 + 2*34
		for i := range e {
			send := e[i].Request4(1-i, 0, 1, 2, 3, 4)
			if err := errors.Join(e[i].SendBytes(1-i, 0, blank[:16]), e[i].PostBytes(1-i, 0, nil)); err != nil {
				t.Fatal(err)
			}
			for range 31 {
				if err := e[i].Post4(1-i, 0, 1, 2, 3, 4); err != nil {
					t.Fatal(err)
				}
			}
			if err := e[i].Request(1-i, 1, words...); err != nil || send != nil {
				t.Fatal(send, err)
			}
		}
		for answered < want {
			poll()
		}
	}
	for range 100 { // flows and greetings come first
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n != 0 {
		t.Errorf("70 exchanges allocate %v times, want 0", n)
	}
}

// TestNoAllocationInRemoteCalls: neither do short calls, at the caller and where they are answered.
func TestNoAllocationInRemoteCalls(t *testing.T) {
	e, _ := pair(t, nil)
	ended, right := 0, 0
	for i := range e {
		if err := e[i].HandleCall(0, func(_ *am.Message, b []byte) ([]byte, error) { return b, nil }); err != nil {
			t.Fatal(err)
		}
	}
	b := numbers(am.ShortCall)
	done := func(answer []byte, err error) {
		if ended++; err == nil && len(answer) > 0 && answer[len(answer)-1] == byte(len(answer)) {
			right++
		}
	}
	exchange := func() {
		want := ended + 2*am.ShortCall/4
		for size := 4; size <= am.ShortCall; size += 4 {
			for i := range e {
				if _, err := e[i].StartCall(1-i, 0, b[:size], done); err != nil {
					t.Fatal(err)
				}
			}
		}
		for ended < want {
			for i := range e {
				if _, err := e[i].Poll(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 100 {
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n != 0 {
		t.Errorf("38 calls allocate %v times, want 0", n)
	}
	if right != ended {
		t.Errorf("%d of %d calls brought back what was sent", right, ended)
	}
}

// TestNoAllocationInTags: neither do messages with tags, short and long.
func TestNoAllocationInTags(t *testing.T) {
	e, _ := pair(t, nil)
	sends, receives := 0, 0
	sent := func(err error) {
		if err == nil {
			sends++
		}
	}
	received := func(_ am.Received, err error) {
		if err == nil {
			receives++
		}
	}
	from, to := make([]byte, 5000), make([]byte, 5000)
	exchange := func() {
		want := sends + 40
		for k := range 20 {
			for i := range e {
				_, err1 := e[i].StartSendTag(1-i, 3, from[:k*k*10], sent)
				_, err2 := e[i].StartRecv(1-i, am.AnyTag, to, received)
				if err := first(err1, err2); err != nil {
					t.Fatal(err)
				}
			}
		}
		for sends < want || receives < want {
			for i := range e {
				if _, err := e[i].Poll(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 100 {
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n != 0 {
		t.Errorf("40 messages with tags allocate %v times, want 0", n)
	}
}

// TestNoAllocationInWide: neither do wide messages: short, in parts, long, received and unexpected,
// peeked at, claimed and discarded.
func TestNoAllocationInWide(t *testing.T) {
	e, _ := pair(t, nil)
	sends, receives := 0, 0
	sent := func(err error) {
		if err == nil {
			sends++
		}
	}
	received := func(_ am.Received, err error) {
		if err == nil {
			receives++
		}
	}
	from, to := make([]byte, 4000), make([]byte, 4000)
	poll := func(done func() bool) {
		for !done() {
			for i := range e {
				if _, err := e[i].Poll(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	all := func() bool { return sends == 60 && receives == 40 }
	ready := func() bool {
		_, ok0 := e[0].PeekWide(wide(1, 1, 9, 0))
		_, ok1 := e[1].PeekWide(wide(0, 1, 9, 0))
		return ok0 && ok1
	}
	exchange := func() {
		sends, receives = 0, 0
		for k := range 10 {
			for i := range e {
				w := am.Wide{Channel: 1, Tag: uint64(k), Data: 5, Flags: am.WideFlags(k & 3)}
				_, err1 := e[i].StartSendWide(1-i, w, from[:k*k*40], sent)
				_, err2 := e[i].StartSendWide(1-i, am.Wide{}, from[:k*8], sent)
				_, err3 := e[i].StartSendWide(1-i, am.Wide{Tag: 1}, from[:k*100], sent)
				_, err4 := e[i].StartRecvWide(wide(am.AnySource, 0, 0, 0), to, received)
				if err := first(err1, err2, err3, err4); err != nil {
					t.Fatal(err)
				}
			}
		}
		poll(ready)
		for k := 9; k >= 0; k-- {
			for i := range e {
				_, claim, ok := e[i].ClaimWide(wide(1-i, 0, 1, 0))
				if !ok {
					t.Fatal("no message to claim")
				}
				_, err := e[i].StartRecvWide(wide(1-i, 1, uint64(k)|1<<60, 1<<60), to, received)
				if err := first(err, claim.Discard()); err != nil {
					t.Fatal(err)
				}
			}
		}
		poll(all)
	}
	for range 100 {
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n != 0 {
		t.Errorf("60 wide messages allocate %v times, want 0", n)
	}
}

// TestNoAllocationInCalls: neither do indirect messages, segments, gets, puts, reads, writes
// exchanges and barriers, once each has been called.
func TestNoAllocationInCalls(t *testing.T) {
	var next func() (struct{}, bool)
	var yield func(struct{}) bool
	killed := errors.New("the test is over")
	e, register := pair(t, func(node int) { // node 1 is a coroutine
		if node == 0 {
			next()
		} else if !yield(struct{}{}) {
			panic(killed)
		}
	})
	received, completed := 0, 0
	count := func(*am.Message, any) { completed++ }
	var places [2]am.Place
	boxes := [2]*counting{{}, {}}
	var objects [2]uint32
	for i := range e {
		err := errors.Join(
			e[i].Share(register[i], funi.Segment{Base: segment, Memory: make([]byte, 1<<16),
				Rights: funi.Source | funi.Destination}),
			e[i].Handle(0, func(m *am.Message) {
				received++
				place := am.Place(m.Words[0])
				if err := errors.Join(m.ReplyXfer4(place, 1, 2, 3, 4), m.ReplyXfer(place, blank[:]),
					m.ReplyMfer(place, segment, segment+1024, 16),
					m.ReplyIndirect4(objects[0], 1, 2, 3, 4), m.ReplyIndirect(objects[0], m.Words...)); err != nil {
					t.Error(err)
				}
			}))
		if err != nil {
			t.Fatal(err)
		}
		if objects[i], err = e[i].AddObject(boxes[i]); err != nil {
			t.Fatal(err)
		}
	}
	var into [2][48]byte
	other := [2][]int{{1}, {0}}
	together := func(e *am.Endpoint) error {
		_, err := e.Exchange(1, other[e.Node()], blank[:], 1-e.Node(), into[e.Node()][:])
		return first(e.Barrier(), err)
	}
	next, stop := iter.Pull(func(y func(struct{}) bool) {
		yield = y
		defer func() {
			if r := recover(); r != nil && r != killed {
				panic(r)
			}
		}()
		for {
			if err := together(e[1]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer stop()
	var c am.Counter
	n := e[0]
	exchange := func() {
		var err error
		for i := range places {
			if places[i], err = e[i].OpenSegment(segment+1024, 16+48+64, count, nil); err != nil {
				t.Fatal(err)
			}
		}
		want := completed + 2
		_, err1 := n.ReadInt32(1, segment)
		_, err2 := n.ReadFloat64(1, segment)
		err = first(err1, err2, n.WriteInt32(1, segment, 1), n.WriteFloat64(1, segment, 1),
			n.Get(1, segment, segment, 1, &c), n.Get(1, segment+4, segment+8, 16, &c),
			n.Get(1, segment, segment+4096, 4003, &c),
			n.Put(1, segment, segment, 1, &c), n.Put(1, segment+4, segment+8, 16, &c),
			n.Put(1, segment+4, segment+4100, 4003, &c),
			n.PutInt32(1, segment, 1, &c), n.PutFloat64(1, segment, 1, &c), n.WaitCounter(&c, 8),
			n.Request4(1, 0, uint32(places[0]), 0, 0, 0),
			n.Xfer4(1, places[1], 1, 2, 3, 4), n.Xfer(1, places[1], blank[:]),
			n.Mfer(1, places[1], segment, segment+1024, 16),
			n.RequestIndirect4(1, objects[1], 1, 2, 3, 4), n.RequestIndirect(1, objects[1], words[:]...),
			n.WaitFor(1, func() bool { return completed == want }), together(n))
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n != 0 {
		t.Errorf("one of each call allocates %v times, want 0", n)
	}
	if boxes[0].n != boxes[1].n || boxes[0].n != 2*received || received == 0 {
		t.Errorf("%d and %d indirect messages for %d requests", boxes[0].n, boxes[1].n, received)
	}
}

// blank and words are data.
var (
	blank [48]byte
	words [20]uint32
)

// counting is an object that counts.
type counting struct{ n int }

func (c *counting) Receive(*am.Message) { c.n++ }

// first returns the first error, and allocates nothing.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
