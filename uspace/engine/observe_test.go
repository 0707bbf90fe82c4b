package engine_test

// This file tests what an observer of a card sees: every frame, once, with the fate that the
// counters count.

import (
	"bytes"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

// observer counts the fates of a card's frames.
type observer struct {
	card *engine.Card
	n    [engine.Outcomes]uint64
	sent [][]byte
	odd  []engine.Fate // with a reason where none is, or none where one is
}

func observe(c *engine.Card) *observer {
	o := &observer{card: c}
	c.Observe(func(_ int, frame []byte, fate engine.Fate) {
		o.n[fate.Outcome]++
		if fate.Outcome == engine.Sent {
			o.sent = append(o.sent, bytes.Clone(frame))
		}
		if (fate.Outcome == engine.Rejected) != (fate.Reason != arctic.ReasonNone) {
			o.odd = append(o.odd, fate)
		}
	})
	return o
}

// agree compares with the counters, for a card that was observed from its start.
func (o *observer) agree(t *testing.T) {
	t.Helper()
	c := o.card.Counters()
	received := uint64(0)
	for _, n := range o.n[engine.Accepted:] {
		received += n
	}
	for what, v := range map[string][2]uint64{
		"sent": {o.n[engine.Sent], c.FramesSent}, "received": {received, c.FramesReceived},
		"duplicates": {o.n[link.Duplicate], c.Duplicates}, "out of window": {o.n[link.OutOfWindow], c.OutOfWindow},
		"stale": {o.n[link.Stale], c.Stale}, "foreign group": {o.n[link.ForeignGroup], c.DroppedGroup},
		"strangers": {o.n[link.Stranger], c.DroppedStranger},
		"misrouted": {o.n[link.Misrouted], c.DroppedMisrouted},
		"not FUNet": {o.n[link.NotFUNet], c.DroppedForeign}, "short": {o.n[link.CutShort], c.DroppedShort},
		"version": {o.n[link.OtherVersion], c.DroppedVersion}, "length": {o.n[link.BadLength], c.DroppedLength},
		"checksum": {o.n[engine.BadChecksum], c.DroppedChecksum},
		"reserved": {o.n[link.BadReserved], c.DroppedReserved},
		"train":    {o.n[link.BadTrain], c.DroppedPacket},
	} {
		if v[0] != v[1] {
			t.Errorf("%s: %d were seen, %d counted", what, v[0], v[1])
		}
	}
	if len(o.odd) > 0 {
		t.Errorf("fates %+v", o.odd)
	}
}

// Rule (Observe): on a network that loses, repeats, reorders and damages frames, and with receivers
// that are full, each frame is seen once, as it is counted; and those that are sent as they travel.
func TestObserve(t *testing.T) {
	var all engine.Counters
	rejected := uint64(0)
	for seed := range uint64(4) {
		var travelled [2][][]byte
		b := newBed(t, setup{cards: 2, slots: 8, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond,
			Faults: networks["all"]},
			tune: func(c *engine.Config) { quick(c); c.FIFO = 2 },
			wrap: func(card int, p *wire.Port) port.Port {
				return &tap{Port: p, see: func(f []byte) bool {
					travelled[card] = append(travelled[card], bytes.Clone(f))
					return true
				}}
			}})
		seen := [2]*observer{observe(b.cards[0]), observe(b.cards[1])}
		exactlyOnce(b, newTraffic(b, 300, 3))
		for i, o := range seen {
			o.agree(t)
			if len(o.sent) != len(travelled[i]) {
				t.Fatalf("%d frames seen, %d travelled", len(o.sent), len(travelled[i]))
			}
			for n := range o.sent {
				if !bytes.Equal(o.sent[n], travelled[i][n]) {
					t.Fatalf("frame %d is not what travelled", n)
				}
			}
			c := b.cards[i].Counters()
			all.Duplicates += c.Duplicates
			all.DroppedChecksum += c.DroppedChecksum
			rejected += o.n[engine.Rejected]
		}
	}
	if all.Duplicates == 0 || all.DroppedChecksum == 0 || rejected == 0 {
		t.Errorf("the networks were too good: %+v, %d rejected", all, rejected)
	}
}

// Rule (Observe): nil ends it, and every outcome has words.
func TestObserveEnds(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	o := observe(b.cards[0])
	exactlyOnce(b, newTraffic(b, 5, 2))
	b.cards[0].Observe(nil)
	n := o.n
	exactlyOnce(b, newTraffic(b, 5, 2))
	if o.n != n || n[engine.Sent] == 0 {
		t.Errorf("%v, then %v", n, o.n)
	}
	words := map[string]bool{}
	for i := range engine.Outcomes + 1 {
		words[i.String()] = true
	}
	if len(words) != int(engine.Outcomes)+1 || words[""] {
		t.Errorf("%v", words)
	}
}
