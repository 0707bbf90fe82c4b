package link

// This file holds what a peer costs (doc.go), and what is parked of a flow.

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port"
)

// Rule: an idle peer costs at most 304 bytes, with its places in the table of card
// numbers and in the timers' heap; and what doc.go says of a flow in use is so.
func TestWhatAPeerCosts(t *testing.T) {
	place := unsafe.Sizeof((*peer)(nil))
	if n := unsafe.Sizeof(peer{}) + 2*place; n > 304 {
		t.Errorf("an idle peer has %d bytes, want at most 304", n)
	}
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	e := unplugged(t, 64<<10-1)
	if n := float64(heap()-before) / float64(len(e.peers)); n > 306 {
		t.Errorf("an idle peer costs %.1f bytes, want at most 304 and two of what there is once", n)
	} else {
		t.Logf("an idle peer costs %.1f bytes", n)
	}
	runtime.KeepAlive(e)
	for _, c := range []struct {
		what string
		got  uintptr
		most uintptr
	}{
		{"flow", unsafe.Sizeof(flow{}), 736},
		{"window of frames", unsafe.Sizeof([Window]frame{}), 6 << 10},
		{"rejected", unsafe.Sizeof(rejected{}), 32},
		{"stream", unsafe.Sizeof(stream{}), 144},
	} {
		if c.got > c.most {
			t.Errorf("a %s costs %d bytes, want at most %d", c.what, c.got, c.most)
		}
	}
}

// unplugged is a card whose port leads nowhere, with peers from number 1.
func unplugged(t *testing.T, peers int) *End {
	t.Helper()
	cfg := native()
	cfg.Ports = []port.Port{wire.New(wire.Config{}).Plug([6]byte{2})}
	for i := range peers {
		cfg.Peers = append(cfg.Peers, Peer{Card: uint16(i + 1)})
	}
	e := New(cfg)
	e.now = 1e9
	return e
}

// lonely is one with one peer, a flow and an owner.
func lonely(t *testing.T) (*End, *peer, *flow, *Owner) {
	t.Helper()
	e := unplugged(t, 1)
	p := e.peer(1)
	return e, p, e.flow(p, arctic.Request), &Owner{Account: new(Account)}
}

// Rule: a card that speaks to very many peers has no more than manyFlows flows beside
// those that wait for an answer; a flow that waits is never taken from its peer.
func TestManyPeersShareFlows(t *testing.T) {
	const peers = 4 * manyFlows
	e := unplugged(t, peers)
	o := &Owner{Account: new(Account)}
	for round := range 3 {
		for i := range uint16(peers) {
			f := e.flow(e.peer(i+1), arctic.Request)
			if f.sndNext != uint32(round) || f.peer != e.peer(i+1) {
				t.Fatalf("round %d: flow of peer %d comes back at %d", round, i+1, f.sndNext)
			}
			e.stream(f, o, i, packets)
			f.sndNext, f.sndUna = f.sndNext+1, f.sndUna+1
			if e.spare.used > manyFlows {
				t.Fatalf("%d flows are in use, all of them quiet", e.spare.used)
			}
		}
	}
	if len(o.streams) != e.spare.used {
		t.Errorf("%d streams of %d flows", len(o.streams), e.spare.used)
	}
	for i := range uint16(peers) {
		f := e.flow(e.peer(i+1), arctic.Request)
		f.sndNext++ // in flight
	}
	if e.spare.used != peers {
		t.Errorf("%d flows of %d that wait are in use", e.spare.used, peers)
	}
}

// Rule: what was learnt of the path, and the limit of the stream that was used last, survive rest.
func TestRestKeepsThePath(t *testing.T) {
	e, p, f, o := lonely(t)
	f.sndNext, f.sndUna, f.rcvNext, f.reached = 70, 70, 90, 1<<32+90
	f.srtt, f.rttvar, f.window, f.threshold, f.growth = 1, 2, 3, 4, 5
	e.stream(f, o, 8, packets).limit = 6
	last := e.stream(f, o, 9, packets)
	last.limit, last.met = 7, true
	e.park(f)
	if p.flows[arctic.Request] != nil || len(o.streams) != 0 {
		t.Fatal("not put away")
	}
	f = e.flow(p, arctic.Request)
	if f.sndNext != 70 || f.sndUna != 70 || f.rcvNext != 90 || f.reached != 1<<32+90 || f.srtt != 1 || f.rttvar != 2 ||
		f.window != 3 || f.threshold != 4 || f.growth != 5 {
		t.Errorf("came back as %+v", f)
	}
	other := &Owner{Account: o.Account, GID: 1} // a group that the node's card may not have
	if s := e.stream(f, other, 9, packets); s.limit != 1 || s.met {
		t.Errorf("another group's: limit %d, met %t", s.limit, s.met)
	}
	a, z := e.stream(f, o, 8, packets), e.stream(f, o, 9, packets)
	if a.limit != 1 || a.met || z.limit != 7 || !z.met {
		t.Errorf("limits %d and %d, want 1 and 7", a.limit, z.limit)
	}
	e.park(f)
	e.lose(p, arctic.ReasonSilent)
	f = e.flow(p, arctic.Request)
	if n := e.stream(f, o, 9, packets).limit; f.sndNext != 70 || f.rcvNext != 90 || f.window != e.cfg.FirstWindow ||
		f.growth != 0 || n != 1 {
		t.Errorf("came back as %+v after the peer was lost, limit %d", f, n)
	}
}

// Rule: a flow that backs off from a node, or is on a list of the card, is not put away.
func TestNotQuiet(t *testing.T) {
	e, p, f, o := lonely(t)
	s := e.stream(f, o, 8, packets)
	if !e.quiet(f) {
		t.Fatal("a fresh flow is not quiet")
	}
	for what, set := range map[string]func(on bool){
		"backing off":  func(on bool) { s.hold = map[bool]int64{true: e.now + 1, false: e.now}[on] },
		"ready":        func(on bool) { f.inReady = on },
		"owed":         func(on bool) { p.ackAt = map[bool]int64{true: e.now, false: 0}[on] },
		"acknowledged": func(on bool) { p.inAckNow = on },
	} {
		set(true)
		if e.quiet(f) {
			t.Errorf("%s: is quiet", what)
		}
		set(false)
		if !e.quiet(f) {
			t.Errorf("%s no more: is not quiet", what)
		}
	}
}

// Rule: rejects of a window can be remembered, are settled in any order, also before
// they were sent, and then nothing is left of them.
func TestRejectsAreSettled(t *testing.T) {
	e, _, f, _ := lonely(t)
	f.rcvNext = 1<<32 - 100
	first := f.rcvNext
	for i := range uint32(Window) {
		seq := first + i*37%Window // not in order
		e.remember(f, Verdict{sequence: seq, Retry: 1})
		e.answerAgain(f, seq)
	}
	if f.answers != Window {
		t.Errorf("%d to be sent, want %d", f.answers, Window)
	}
	f.rejects.head.asked = false
	f.answers--
	for i := uint32(1); i <= Window; i++ {
		e.known(f, first+i)
		if err := f.check(map[uint32]int{}); err != nil || f.refused.has(first+i-1) {
			t.Fatalf("after %d are settled: %v", i, err)
		}
	}
	if f.answers != 0 || f.rejects != (rejects{}) || f.waits() {
		t.Errorf("%d to be sent, remembered %v, waits %v", f.answers, f.rejects, f.waits())
	}
	e.remember(f, Verdict{sequence: f.rcvNext + 3, Fail: 1})
	e.forgetReceived(f)
	if f.rcvNext != 0 || f.answers != 0 || f.waits() {
		t.Errorf("rcvNext %d, %d to be sent, waits %v", f.rcvNext, f.answers, f.waits())
	}
}
