package engine_test

// This file tests a card whose interface goes away and comes back (hello.Port).

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
	"github.com/funet/funet/uspace/port/hello"
)

// Rule (package port; design idea 4): a card without an interface rests between its
// retransmissions, which become rarer; what was sent meanwhile arrives once when there is an
// interface again, and everything after it.
func TestInterfaceTakenAway(t *testing.T) {
	var outlet *hello.Port
	var inside *wire.Port
	b := newBed(t, setup{cards: 2, slots: 64, net: wire.Config{Delay: 10 * time.Microsecond},
		wrap: func(card int, p *wire.Port) port.Port {
			if card != 0 {
				return p
			}
			outlet, inside = hello.NewPort(p), p
			return outlet
		},
		tune: func(c *engine.Config) { c.PeerTimeout, c.ConnectTimeout = time.Hour, time.Hour }})
	exactlyOnce(b, newTraffic(b, 100, 4))
	for away := range uint32(3) {
		outlet.Plug(nil)
		b.mustSend(0, funi.Request, 1, 100+away)
		b.mustSend(1, funi.Request, 0, 200+away)
		events, lost := 0, outlet.Lost()
		end := b.now + int64(time.Second)
		b.alarm = end
		b.until(time.Second, "a second passes", func() bool {
			if events++; events > 1000 {
				t.Fatal("the card spins")
			}
			return b.now >= end
		})
		b.alarm = 0
		// Retransmission of two cards, with back-off: not one a step of a spinning card.
		if sent := outlet.Lost() - lost; sent == 0 || sent > 200 {
			t.Errorf("%d frames went nowhere", sent)
		}
		outlet.Plug(inside)
		for node, want := range []uint32{200 + away, 100 + away} {
			b.until(time.Minute, "what was sent meanwhile arrives", func() bool {
				s, ok := take(b.proc[node], funi.Request)
				if ok && s.Payload()[0] != want {
					t.Errorf("node %d got %d, want %d", node, s.Payload()[0], want)
				}
				return ok
			})
		}
		exactlyOnce(b, newTraffic(b, 100, 4))
	}
}
