package engine_test

// This file tests what a card says of its traffic: by context, by reason and by peer.

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a context's traffic counts what its process sent and received, packet by packet and payload
// byte by payload byte, and the trains are the frames that carried it (Context.Traffic,
// Counters.TrainsSent).
func TestTrafficOfContexts(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near})
	want := engine.Traffic{}
	for i := range 20 {
		words := make([]uint32, i%5)
		b.mustSend(0, funi.Request, 1, words...)
		want.Sent++
		want.SentBytes += uint64(4 * len(words))
	}
	got := 0
	b.until(time.Second, "all arrive", func() bool {
		for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
			got++
		}
		return got == 20
	})
	b.idle(time.Second)
	if x := b.ctx[0].Traffic(); x != want {
		t.Errorf("the sender moved %+v, want %+v", x, want)
	}
	if x, w := b.ctx[1].Traffic(), (engine.Traffic{Received: want.Sent, ReceivedBytes: want.SentBytes}); x != w {
		t.Errorf("the receiver moved %+v, want %+v", x, w)
	}
	n, m := b.cards[0].Counters(), b.cards[1].Counters()
	if n.TrainsSent == 0 || n.TrainsSent > n.FramesSent || n.PacketsSent != 20 || n.TrainsSent >= 20 {
		t.Errorf("%d packets in %d trains, of %d frames", n.PacketsSent, n.TrainsSent, n.FramesSent)
	}
	if n.FrameBytesSent != m.FrameBytesReceived || n.FrameBytesSent <
		arctic.HeaderSize+20*arctic.PacketHeaderSize+want.SentBytes {
		t.Errorf("%d bytes sent and %d received", n.FrameBytesSent, m.FrameBytesReceived)
	}
}

// Rule: what is rejected is counted on both sides by its reason, each time (Card.Rejections).
func TestRejectionsByReason(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: func(c *engine.Config) { quick(c); c.FIFO = 1 }})
	sent := 0
	for range 4 {
		if b.send(0, funi.Request, 1, 1) {
			sent++
		}
	}
	b.mustSend(0, funi.Reply, 1, 1)
	b.pass(20 * time.Millisecond)
	for b.send(0, funi.Request, 1, 1) { // for which there is no room
	}
	b.pass(20 * time.Millisecond)
	b.mustSend(0, funi.Reply, 2, 1) // no such node: no route
	here, _ := b.cards[1].Rejections()
	_, there := b.cards[0].Rejections()
	seen := map[arctic.Reason]uint64{}
	here.Each(func(r arctic.Reason, n uint64) { seen[r] += n })
	there.Each(func(r arctic.Reason, n uint64) {
		if n > seen[r] {
			t.Errorf("%v: %d by the peer, of %d", r, n, seen[r])
		}
	})
	if n := b.cards[1].Counters(); seen[arctic.ReasonQueueFull] == 0 || seen[arctic.ReasonQueueFull] != n.RejectsSent {
		t.Errorf("%v, and %d were rejected", seen, n.RejectsSent)
	}
	if x := b.ctx[0].Traffic(); x.Retried == 0 || x.Retried != b.cards[0].Counters().RejectsReceived {
		t.Errorf("%+v", x)
	}
	if x := b.ctx[1].Traffic(); x.Refused != seen[arctic.ReasonQueueFull] {
		t.Errorf("%+v, %v", x, seen)
	}
}

// Rule: a peer's round trip is the smoothed one of its flows, in use or put away, at least what the
// network takes; the peers are seen all, however few a call sees (Card.PeerStates).
func TestPeerStates(t *testing.T) {
	const cards = 7
	b := newBed(t, setup{cards: cards, slots: 64, net: near})
	for range 8 {
		b.mustSend(0, funi.Request, 3, 1)
		b.idle(time.Second)
		take(b.proc[3], funi.Request)
	}
	look := func() map[uint16]engine.PeerState {
		seen := map[uint16]engine.PeerState{}
		for from := 0; ; {
			from = b.cards[0].PeerStates(from, 2, func(s engine.PeerState) {
				if _, twice := seen[s.Card]; twice {
					t.Errorf("card %d twice", s.Card)
				}
				seen[s.Card] = s
			})
			if from == 0 {
				return seen
			}
		}
	}
	for _, what := range []string{"in use", "put away"} {
		seen := look()
		if len(seen) != cards-1 {
			t.Errorf("%s: %d peers", what, len(seen))
		}
		for card, s := range seen {
			if talked := card == 3; s.Established != talked || (s.RoundTrip > 0) != talked {
				t.Errorf("%s: %+v", what, s)
			}
		}
		if s := seen[3]; s.RoundTrip < 2*near.Delay || s.RoundTrip > 2*near.Delay+time.Millisecond || s.InFlight != 0 {
			t.Errorf("%s: %+v, and the network takes %v", what, s, near.Delay)
		}
		b.pass(time.Second)
	}
}
