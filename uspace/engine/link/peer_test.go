package link_test

// This file holds the rules of peers that are silent, restart, leave, move, or are cut off: each
// line comes back with the reason, and nothing hangs.

import (
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

func isolate(card int) func(from, to [6]byte) bool {
	return func(from, to [6]byte) bool { return from == address(card) || to == address(card) }
}

// comesBack waits for a message to come back for the reason.
func (b *bed) comesBack(limit time.Duration, m *message, want arctic.Reason) {
	b.t.Helper()
	b.reasons = append(b.reasons, want)
	b.until(limit, "a line comes back", func() bool { return m.back })
	b.reasons = b.reasons[:len(b.reasons)-1]
	if m.settled != link.Returned || m.reason != want {
		b.t.Fatalf("message %d is settled as %d, %v; want it returned, %v", m.id, m.settled, m.reason, want)
	}
}

// arrives waits for a message to be delivered.
func (b *bed) arrives(limit time.Duration, m *message) {
	b.t.Helper()
	b.until(limit, "a message is delivered", func() bool { return m.back })
	if m.settled != link.Delivered {
		b.t.Fatalf("message %d came back: %v", m.id, m.reason)
	}
}

// Rule (greeting.go): a peer that was never heard ends in ReasonSilent after ConnectTimeout, not
// before, for every line; a later line gets a new try. Greetings have growing gaps.
func TestNeverHeardPeer(t *testing.T) {
	b := newBed(t, setup{cards: 2, tune: quick, net: near})
	b.stop(1)
	begin := b.now
	var sent []*message
	for range 20 {
		sent = append(sent, b.send(0, arctic.Request, 1), b.send(0, arctic.Reply, 1))
	}
	b.reasons = []arctic.Reason{arctic.ReasonSilent}
	b.idle(10 * time.Second)
	if took := time.Duration(b.now - begin); took < 500*time.Millisecond || took > 800*time.Millisecond {
		t.Errorf("given up after %v, want ConnectTimeout and at most a greeting gap more", took)
	}
	for _, m := range sent {
		if m.settled != link.Returned || m.reason != arctic.ReasonSilent {
			t.Fatalf("a line came back as %d, %v", m.settled, m.reason)
		}
	}
	c := &b.cards[0].Counters
	if c.Greetings < 8 || c.Greetings > 20 || c.FramesSent != c.Greetings || c.PeersLost != 1 {
		t.Errorf("%d greetings of %d frames in 500 ms, %d peers lost", c.Greetings, c.FramesSent, c.PeersLost)
	}
	b.reasons = nil
	b.start(1)
	exactlyOnce(b, newTraffic(b, 40))
}

// Rule (doc.go): a peer that falls silent ends in ReasonSilent after PeerTimeout for every line
// that it has not answered; what came back is not delivered again when the peer is heard, and new
// lines arrive.
func TestPeerFallsSilentAndReturns(t *testing.T) {
	for seed := range uint64(6) {
		b := newBed(t, setup{cards: 2, tune: quick, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond,
			Faults: networks["all"]}})
		exactlyOnce(b, newTraffic(b, 20))
		b.reasons = []arctic.Reason{arctic.ReasonSilent}
		tr := newTraffic(b, 100)
		b.net.Cut(isolate(1))
		begin := b.now
		b.until(time.Minute, "all messages delivered or back", tr.pump)
		if took := time.Duration(b.now - begin); took < 200*time.Millisecond || took > time.Second {
			t.Errorf("seed %d: given up after %v", seed, took)
		}
		if _, back := tr.totals(); back != 400 || b.cards[0].Counters.PeersLost == 0 || b.cards[0].Established(1) {
			t.Errorf("seed %d: %d of 400 came back\n%s", seed, back, b.counters())
		}
		b.net.Cut(nil)
		b.reasons = nil
		exactlyOnce(b, newTraffic(b, 100))
	}
}

// Rule (doc.go): a partition that heals before PeerTimeout returns nothing.
func TestPartitionHealsInTime(t *testing.T) {
	for seed := range uint64(6) {
		b := newBed(t, setup{cards: 3, tune: func(c *link.Config) { quick(c); c.PeerTimeout = 500 * time.Millisecond },
			net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
		tr := newTraffic(b, 500)
		end := b.now + int64(2*time.Millisecond)
		b.until(time.Second, "traffic", func() bool { tr.pump(); return b.now >= end })
		b.net.Cut(isolate(1))
		b.pass(100 * time.Millisecond)
		b.net.Cut(nil)
		exactlyOnce(b, tr)
	}
}

// Rule (doc.go): with one direction cut both sides give up within their time, also the side that
// hears acknowledgments but whose frames do not arrive; none is delivered twice.
func TestOneDirectionCut(t *testing.T) {
	for from := range 2 {
		b := newBed(t, setup{cards: 2, tune: quick, net: near})
		exactlyOnce(b, newTraffic(b, 50))
		b.net.Cut(func(a, _ [6]byte) bool { return a == address(from) })
		b.reasons = []arctic.Reason{arctic.ReasonSilent}
		tr := newTraffic(b, 200)
		begin := b.now
		b.until(30*time.Second, "all messages delivered or back", tr.pump)
		if took := time.Duration(b.now - begin); took > 10*time.Second {
			t.Errorf("cut from %d: took %v", from, took)
		}
		b.net.Cut(nil)
		b.reasons = nil
		exactlyOnce(b, newTraffic(b, 50))
	}
}

// Rule (doc.go: a flow whose oldest frame is not answered for PeerTimeout gives its frames back):
// frames that something on the way drops for ever come back. Meanwhile the peer is heard all the
// time, and what the other level sends arrives. The receiver does not wait for the dropped frames:
// when the way is open again all goes on.
func TestFramesThatAreAlwaysDroppedComeBack(t *testing.T) {
	drop := false
	b := newBed(t, setup{cards: 2, tune: func(c *link.Config) {
		quick(c)
		single(c)
	}, net: near, wrap: tapped(func(card int, f arctic.Frame) bool {
		return card != 0 || f.Packets() == 0 || f.Header().Level != arctic.Request || !drop
	})})
	exactlyOnce(b, newTraffic(b, 20))
	drop = true
	begin := b.now
	doomed := []*message{b.send(0, arctic.Request, 1), b.send(0, arctic.Request, 1)}
	b.reasons = []arctic.Reason{arctic.ReasonSilent}
	b.until(time.Second, "they come back", func() bool {
		if b.own[0].out < 4 {
			b.send(0, arctic.Reply, 1)
		}
		return doomed[0].back && doomed[1].back
	})
	if took := time.Duration(b.now - begin); took < 200*time.Millisecond || took > 400*time.Millisecond {
		t.Errorf("came back after %v, want PeerTimeout and a little more", took)
	}
	if b.cards[0].Counters.PeersLost != 0 {
		t.Error("the peer was lost")
	}
	for _, m := range b.messages {
		if m.level == arctic.Reply && m.back && m.settled != link.Delivered {
			t.Fatalf("a reply came back: %v", m.reason)
		}
	}
	drop = false // the age of the next tells the peer that nobody will ask for those again
	b.reasons = nil
	exactlyOnce(b, newTraffic(b, 2*link.Window))
	if n := b.cards[0].Counters; n.Timeouts > 20 {
		t.Errorf("%d timeouts", n.Timeouts)
	}
}

// Rule (greeting.go): a peer that restarts has another incarnation; what its earlier life had not
// acknowledged comes back with ReasonRestarted, what was not sent goes to its new life, and the
// owner hears of it once.
func TestPeerRestarts(t *testing.T) {
	for seed := range uint64(6) {
		b := newBed(t, setup{cards: 3, tune: func(c *link.Config) {
			quick(c)
			single(c)
		}, net: wire.Config{Seed: seed, Delay: 100 * time.Microsecond}})
		exactlyOnce(b, newTraffic(b, 20))
		tr := newTraffic(b, 300, [2]int{0, 1})
		tr.burst = 300
		tr.pump()
		b.pass(150 * time.Microsecond) // some have arrived, and no answer has
		b.start(1)
		b.reasons = []arctic.Reason{arctic.ReasonRestarted}
		b.until(time.Minute, "all messages delivered or back", tr.pump)
		_, back := tr.totals()
		c := b.cards[0]
		if back == 0 || back > 2*link.Window || c.Counters.PeersRestarted != 1 || len(c.restarted) != 1 ||
			c.restarted[0] != 1 || len(b.cards[2].restarted) != 0 {
			t.Errorf("%d came back, %d restarts counted, told %v", back, c.Counters.PeersRestarted, c.restarted)
		}
		b.meet()
		exactlyOnce(b, newTraffic(b, 50))
	}
}

// Rule (NextAnew): the owner hears of each peer with which the card counts anew, once, and whether
// that was restarted; of both it hears the worse.
func TestCountingAnewIsTold(t *testing.T) {
	b := newBed(t, setup{cards: 2, tune: quick, net: near})
	exactlyOnce(b, newTraffic(b, 20))
	b.cards[0].Resynchronise(1)
	b.touched = true
	b.pass(10 * time.Millisecond)
	for i, c := range b.cards {
		if !slices.Equal(c.resynced, []uint16{uint16(1 - i)}) || len(c.restarted) != 0 ||
			c.Counters.Resynchronised != 1 {
			t.Errorf("card %d is told of %v, and of restarts of %v", i, c.resynced, c.restarted)
		}
	}
	exactlyOnce(b, newTraffic(b, 20))
	b.start(1)
	b.meet()
	if c := b.cards[0]; !slices.Equal(c.restarted, []uint16{1}) || len(c.resynced) != 1 {
		t.Errorf("after a restart it is told of %v, and of restarts of %v", c.resynced, c.restarted)
	}
}

// meet lets all cards greet each other anew after a restart: what was sent to an earlier life comes
// back.
func (b *bed) meet() {
	b.t.Helper()
	was := b.reasons
	b.reasons = []arctic.Reason{arctic.ReasonRestarted}
	b.until(time.Minute, "the cards meet", newTraffic(b, 1).pump)
	b.reasons = was
}

// Rule (Leave): the peers know at once; what waits for the card that left comes back with
// ReasonDeparted, and nothing else does. A line for a peer that has left is greeted for, and comes
// back as silent.
func TestLeave(t *testing.T) {
	b := newBed(t, setup{cards: 3, tune: quick, net: near})
	exactlyOnce(b, newTraffic(b, 20))
	b.judge = func(to int, _ *message) arctic.Reason {
		if to == 1 {
			return arctic.ReasonQueueFull
		}
		return arctic.ReasonNone
	}
	waits := []*message{b.send(0, arctic.Request, 1), b.send(0, arctic.Reply, 1)}
	other := b.send(0, arctic.Request, 2)
	b.pass(5 * time.Millisecond)
	b.cards[1].Leave()
	b.step(b.now)
	b.stop(1)
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	begin := b.now
	b.until(time.Second, "the peers know", func() bool {
		return !b.cards[0].Established(1) && !b.cards[2].Established(1)
	})
	if took := time.Duration(b.now - begin); took > time.Millisecond {
		t.Errorf("known after %v", took)
	}
	for _, m := range waits {
		if !m.back || m.reason != arctic.ReasonDeparted {
			t.Errorf("message %d: back %v, %v", m.id, m.back, m.reason)
		}
	}
	if !other.back || other.settled != link.Delivered || !b.cards[0].Established(2) {
		t.Error("a peer that stayed has suffered")
	}
	if b.cards[0].Established(0) || b.cards[0].Established(77) {
		t.Error("Established knows cards that are no peers")
	}
	b.reasons = nil
	b.comesBack(time.Second, b.send(0, arctic.Reply, 1), arctic.ReasonSilent)
	exactlyOnce(b, newTraffic(b, 20, [2]int{0, 2}, [2]int{2, 0}))
}

// Rule (membership.go): what waits for a peer that is removed, and what is queued for it
// afterwards, comes back with ReasonDeparted at once; the peer hears of it, its frames are a
// stranger's, and the others notice nothing. Added again, in the life that it had, both go on where
// they were.
func TestPeerRemoved(t *testing.T) {
	b := newBed(t, setup{cards: 3, net: near})
	exactlyOnce(b, newTraffic(b, 20))
	b.judge = func(to int, _ *message) arctic.Reason { return arctic.ReasonQueueFull }
	waits := b.send(0, arctic.Request, 1)
	b.pass(time.Millisecond)
	b.judge = nil
	before := b.cards[0].Sequence(1, arctic.Request)
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	b.cards[0].RemovePeer(1)
	b.settle(b.cards[0])
	b.touched = true
	b.comesBack(0, waits, arctic.ReasonDeparted)
	b.comesBack(time.Millisecond, b.send(0, arctic.Reply, 1), arctic.ReasonDeparted)
	b.until(time.Millisecond, "the peer knows", func() bool { return !b.cards[1].Established(0) })
	if b.cards[0].Established(1) || b.cards[0].IsPeer(1) || !b.cards[0].IsPeer(2) {
		t.Error("a card that was removed is a peer")
	}
	b.reasons = nil
	strangers := b.cards[0].Counters.DroppedStranger
	late := b.send(1, arctic.Request, 0)
	b.pass(10 * time.Millisecond)
	if b.cards[0].Counters.DroppedStranger == strangers || late.at != 0 {
		t.Error("a card that was removed was listened to")
	}
	exactlyOnceOf(b, newTraffic(b, 20, [2]int{0, 2}, [2]int{2, 0}))
	b.cards[0].SetPeer(peerOf(0, 1))
	b.arrives(time.Second, late)
	b.arrives(time.Second, b.send(0, arctic.Request, 1))
	if n := b.cards[0].Sequence(1, arctic.Request); n <= before {
		t.Errorf("the sequence went from %d to %d", before, n)
	}
	exactlyOnce(b, newTraffic(b, 20))
}

// exactlyOnceOf is exactlyOnce while others have lines out.
func exactlyOnceOf(b *bed, tr *traffic) {
	b.t.Helper()
	b.until(time.Minute, "all messages delivered", func() bool {
		tr.pump()
		got, _ := tr.totals()
		return got == tr.messages*len(tr.lanes)
	})
}

// Rule (SetPeer): a card can be made without peers, and exchanges messages with those that are
// added as if it had always known them; to be told again of one that is known changes nothing.
func TestPeersJoin(t *testing.T) {
	b := newBed(t, setup{cards: 3, alone: true, net: near})
	for i, c := range b.cards {
		for j := range b.cards {
			for k := 0; i != j && k < 2; k++ {
				c.SetPeer(peerOf(i, j))
			}
		}
	}
	exactlyOnce(b, newTraffic(b, 100))
	before := b.cards[0].Counters
	b.cards[0].SetPeer(peerOf(0, 1))
	b.cards[0].RemovePeer(0)
	b.cards[0].RemovePeer(77)
	exactlyOnce(b, newTraffic(b, 20))
	if c := b.cards[0].Counters; c.PeersLost != before.PeersLost || c.Greetings != before.Greetings {
		t.Errorf("%d peers lost, %d greetings", c.PeersLost-before.PeersLost, c.Greetings-before.Greetings)
	}
}

// Rule (SetPeer): a peer that has another address is spoken to there, what waits for it comes back
// with ReasonDeparted, and what comes from the old address is a stranger's.
func TestPeerMoves(t *testing.T) {
	var frames []arctic.Frame
	b := newBed(t, setup{cards: 2, tune: quick, net: near, wrap: capture(&frames)})
	exactlyOnce(b, newTraffic(b, 20))
	b.net.Cut(isolate(1))
	waits := b.send(0, arctic.Request, 1)
	b.pass(time.Millisecond)
	b.net.Cut(nil)
	moved := [6]byte{2, 0, 0, 0, 9, 9}
	p := peerOf(0, 1)
	p.Address = moved
	b.reasons = []arctic.Reason{arctic.ReasonDeparted}
	b.cards[0].SetPeer(p)
	b.settle(b.cards[0])
	b.comesBack(0, waits, arctic.ReasonDeparted)
	b.reasons = nil
	before := b.cards[0].Counters.DroppedStranger
	for _, f := range frames {
		if f.Header().SourceCard == 1 {
			b.inject(f)
		}
	}
	b.pass(time.Millisecond)
	if b.cards[0].Counters.DroppedStranger == before {
		t.Error("frames from the old address are no stranger's")
	}
	b.wrap = func(int, *wire.Port) port.Port { return b.net.Plug(moved) }
	b.tune = func(c *link.Config) { quick(c); c.Peers[0].Local = moved }
	b.start(1)
	b.meet()
	exactlyOnce(b, newTraffic(b, 40))
}

// Rule (Expire; RFC 6298 section 5): a card that was not stepped for long looks at what arrived
// meanwhile before it judges by the time: no retransmission, no peer lost, nothing comes back.
func TestLateStepIsNotTheOthersSilence(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 10))
	before := b.cards[0].Counters
	m := b.send(0, arctic.Request, 1)
	b.step(b.now)
	late := b.cards[0]
	b.cards[0] = nil // its acknowledgment waits in the port
	b.pass(time.Minute)
	b.cards[0] = late
	b.step(b.now)
	b.arrives(time.Second, m)
	if c := late.Counters; c.Timeouts != before.Timeouts || c.PeersLost != 0 ||
		c.Retransmitted != before.Retransmitted {
		t.Errorf("after a minute's pause: %s", b.counters())
	}
}

// Rule (PeerStates): an owner sees each peer once, whether it has been greeted, its round-trip
// time, and how many frames are in flight.
func TestPeerStates(t *testing.T) {
	b := newBed(t, setup{cards: 4, net: wire.Config{Delay: 100 * time.Microsecond}})
	exactlyOnce(b, newTraffic(b, 50, [2]int{0, 1}, [2]int{0, 2}))
	b.cards[0].RemovePeer(2)
	b.send(0, arctic.Request, 1)
	b.step(b.now)
	seen := map[uint16]link.PeerState{}
	calls := 0
	for from := 0; ; {
		calls++
		if from = b.cards[0].PeerStates(from, 2, func(s link.PeerState) { seen[s.Card] = s }); from == 0 {
			break
		}
	}
	if len(seen) != 2 || calls != 2 {
		t.Fatalf("saw %v in %d calls", seen, calls)
	}
	if s := seen[1]; !s.Established || s.InFlight != 1 || s.RoundTrip < 200*time.Microsecond ||
		s.RoundTrip > 300*time.Microsecond {
		t.Errorf("card 1 is %+v", s)
	}
	if s := seen[3]; s.Established || s.InFlight != 0 || s.RoundTrip != 0 {
		t.Errorf("card 3 is %+v", s)
	}
}
