package engine_test

// This file holds the rules of peers that come and go while the card runs
// (membership.go): what waits returns at once, what was delivered is delivered once, and
// nobody else notices.

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// peerOf is where card j is for card i.
func peerOf(i, j int) engine.Peer {
	return engine.Peer{Card: uint16(j), Address: address(j), Local: address(i)}
}

// Rule: a card can be made without peers, and exchanges messages with those that it is told of
// later, as if it had always known them (SetPeer).
func TestPeersJoin(t *testing.T) {
	alone := func(c *engine.Config) { c.Peers, c.Routes = nil, []uint32{uint32(c.Card)}[:0] }
	b := newBed(t, setup{cards: 3, slots: 32, tune: alone, net: wire.Config{Delay: 10 * time.Microsecond}})
	for i, c := range b.cards {
		for j := range b.cards {
			if err := c.SetRoute(uint16(j), uint32(j)); i != j && !errors.Is(err, engine.ErrRoute) {
				t.Fatalf("a route to a card that is not a peer: %v", err)
			}
		}
	}
	for i, c := range b.cards {
		for j := range b.cards {
			if i == j {
				continue
			}
			for range 2 { // the second says nothing new
				if err := c.SetPeer(peerOf(i, j)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.SetRoute(uint16(j), uint32(j)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.SetRoute(uint16(i), uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	exactlyOnce(b, newTraffic(b, 100, 3))
}

// Rule: what cannot be a peer is refused, and nothing changes (SetPeer).
func TestPeersRefused(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 32, net: near})
	for what, p := range map[string]engine.Peer{
		"the card itself":        {Card: 0, Address: address(1), Local: address(0)},
		"a port that is not":     {Card: 1, Address: address(1), Local: address(0), Port: 1},
		"a port below the first": {Card: 1, Address: address(1), Local: address(0), Port: -1},
	} {
		if err := b.cards[0].SetPeer(p); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.cards[0].RemovePeer(0)
	b.cards[0].RemovePeer(77)
	exactlyOnce(b, newTraffic(b, 20, 3))
}

// Rule: what waits for a peer that is removed, and what is sent to it afterwards, comes back with
// ReasonDeparted, at once; the peer hears of it, and the others notice nothing. Told of
// it again, the cards go on where they were (RemovePeer, SetPeer).
func TestPeerRemoved(t *testing.T) {
	b := newBed(t, setup{cards: 3, slots: 16, net: wire.Config{Delay: 10 * time.Microsecond}})
	exactlyOnce(b, newTraffic(b, 20, 3))
	for i := range 16 - 1 + engine.Native().FIFO {
		b.until(time.Second, "room", func() bool { return b.send(0, funi.Request, 1, uint32(i)) })
	}
	b.pass(time.Millisecond)
	b.mustSend(0, funi.Request, 1, 77) // the receiver is full
	b.pass(time.Millisecond)
	gone := func(l funi.Level, word uint32) funi.Returned {
		return funi.Returned{Reason: arctic.ReasonDeparted, Level: l, Header: funi.NewHeader(1, 5, 1), Word: word}
	}
	b.cards[0].RemovePeer(1)
	b.comesBack(time.Millisecond, b.proc[0], gone(funi.Request, 77))
	b.mustSend(0, funi.Reply, 1, 78)
	b.comesBack(time.Millisecond, b.proc[0], gone(funi.Reply, 78))
	b.until(time.Millisecond, "the peer knows", func() bool { return !b.cards[1].Established(0) })
	if b.cards[0].Established(1) {
		t.Error("a card that was removed is established")
	}
	if err := b.cards[0].SetRoute(9, 1); !errors.Is(err, engine.ErrRoute) {
		t.Errorf("a route to a card that was removed: %v", err)
	}
	strangers := b.cards[0].Counters().DroppedStranger
	b.mustSend(1, funi.Request, 0, 79)
	b.pass(10 * time.Millisecond)
	if b.cards[0].Counters().DroppedStranger == strangers || b.proc[0].Arrived(funi.Request) != 0 {
		t.Error("a card that was removed was listened to")
	}
	others := newTraffic(b, 20, 3, [2]int{0, 2}, [2]int{2, 0})
	others.stalled = func(node int) bool { return node == 1 }
	exactlyOnceBesides(b, others)
	if err := b.cards[0].SetPeer(peerOf(0, 1)); err != nil {
		t.Fatal(err)
	}
	b.until(time.Second, "what waited at the other end arrives", func() bool {
		return b.proc[0].Arrived(funi.Request) == 1
	})
	take(b.proc[0], funi.Request)
	for n := 0; n < 16-1+engine.Native().FIFO; {
		if _, ok := take(b.proc[1], funi.Request); ok {
			n++
		} else {
			b.pass(time.Millisecond)
		}
	}
	exactlyOnce(b, newTraffic(b, 20, 3))
}

// Rule: a peer that has another address is spoken to there, and what comes from the old one
// is a stranger's (SetPeer).
func TestPeerMoves(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 32, net: wire.Config{Delay: 10 * time.Microsecond}})
	exactlyOnce(b, newTraffic(b, 20, 3))
	moved := [6]byte{2, 0, 0, 0, 9, 9}
	b.wrap = func(card int, _ *wire.Port) port.Port { return b.net.Plug(moved) }
	b.tune = func(c *engine.Config) {
		for i := range c.Peers {
			c.Peers[i].Local = moved
		}
	}
	b.start(1)
	p := peerOf(0, 1)
	p.Address = moved
	if err := b.cards[0].SetPeer(p); err != nil {
		t.Fatal(err)
	}
	exactlyOnce(b, newTraffic(b, 50, 3))
	strangers := b.cards[0].Counters().DroppedStranger
	b.inject(forge(nil, func(*arctic.Header) {})) // from the old address
	b.pass(time.Millisecond)
	if b.cards[0].Counters().DroppedStranger == strangers {
		t.Error("a frame from the old address was taken")
	}
}

// Rule: whatever the network does and whenever peers come and go, each message arrives once or
// comes back, unless its peer went while it was under way, when it may do both; lines and books
// balance.
func TestPeersComeAndGo(t *testing.T) {
	few := func(c *engine.Config) {
		quick(c)
		// several changes follow each other before a process looks
		c.Lines, c.ReplyLines = funi.ReturnSlots/8, funi.ReturnSlots/32
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBed(t, setup{cards: 3, slots: 32, tune: few,
			net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
		tr := newTraffic(b, 1500, 3)
		tr.reasons = []arctic.Reason{arctic.ReasonDeparted, arctic.ReasonSilent}
		changes := 0
		b.alarm = b.now + 1
		b.until(10*time.Minute, "all messages delivered or back", func() bool {
			if b.now >= b.alarm {
				i, j := random.IntN(3), random.IntN(3)
				if b.alarm += int64(random.IntN(2_000_000)); i != j && changes < 200 {
					changes++
					b.cards[i].RemovePeer(uint16(j))
					if random.IntN(2) == 0 {
						b.step(b.now)
					}
					if err := b.cards[i].SetPeer(peerOf(i, j)); err != nil {
						t.Fatal(err)
					}
				}
			}
			return tr.pump()
		})
		b.alarm = 0
		b.idle(time.Minute)
		if _, back := tr.totals(); back == 0 {
			t.Errorf("seed %d: nothing came back of %d changes, so nothing was tested", seed, changes)
		}
		for i, c := range b.cards {
			if err := c.Check(); err != nil {
				t.Errorf("seed %d, card %d: %v", seed, i, err)
			}
		}
		if t.Failed() {
			return
		}
		tr = newTraffic(b, 50, 3)
		exactlyOnce(b, tr)
	}
}
