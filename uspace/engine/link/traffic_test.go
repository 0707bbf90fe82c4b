package link_test

// This file is traffic for the test bed: messages at both levels between pairs of cards.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// lane is the messages of one level from an owner to a card.
type lane struct {
	from  *owner
	to    int
	level arctic.Level
	sent  []*message
}

type traffic struct {
	b        *bed
	messages int // of a lane
	words    int // of each, 1 to 21
	burst    int // that a lane sends at once
	// bytes; each fourth message has such a block, up to maxBlocks of them; 0: none has
	block int
	lanes []*lane
}

// newTraffic makes traffic between the own owners of the given pairs of cards, all when none is
// given.
func newTraffic(b *bed, messages int, pairs ...[2]int) *traffic {
	t := &traffic{b: b, messages: messages, words: 2, burst: 4}
	if len(pairs) == 0 {
		for from := range b.cards {
			for to := range b.cards {
				if from != to {
					pairs = append(pairs, [2]int{from, to})
				}
			}
		}
	}
	for _, p := range pairs {
		for l := range arctic.Level(arctic.Levels) {
			t.lanes = append(t.lanes, &lane{from: b.own[p[0]], to: p[1], level: l})
		}
	}
	return t
}

// pump sends what can be sent now, and reports whether everything has been, and has come back.
func (t *traffic) pump() bool {
	t.b.t.Helper()
	done := true
	for _, n := range t.lanes {
		if n.from.card < 0 {
			continue
		}
		for k := 0; k < t.burst && len(n.sent) < t.messages; k++ {
			var block []byte
			if t.block > 0 && len(n.sent)%4 == 0 && len(t.b.blocks) < maxBlocks {
				block = pattern(t.block, len(t.b.messages))
			}
			m := t.b.put(n.from, n.to, uint16(n.to), n.level, t.words, block)
			if m == nil {
				break
			}
			n.sent = append(n.sent, m)
		}
		done = done && len(n.sent) == t.messages && n.from.out == 0
	}
	return done
}

// totals counts messages that were delivered, and that came back.
func (t *traffic) totals() (delivered, back int) {
	for _, n := range t.lanes {
		for _, m := range n.sent {
			switch {
			case m.back && m.settled == link.Delivered:
				delivered++
			case m.back:
				back++
			}
		}
	}
	return delivered, back
}

// pattern is data of a block that no other has.
func pattern(size, seed int) []byte {
	b := make([]byte, size)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// exactlyOnce runs the traffic to its end: each message is delivered, once.
func exactlyOnce(b *bed, tr *traffic) {
	b.t.Helper()
	b.until(5*time.Minute, "all messages delivered", tr.pump)
	b.pass(200 * time.Millisecond) // what the network held back comes too late
	if got, back := tr.totals(); got != len(tr.lanes)*tr.messages || back != 0 {
		b.t.Fatalf("%d messages: %d delivered, %d came back", len(tr.lanes)*tr.messages, got, back)
	}
	b.checked()
}
