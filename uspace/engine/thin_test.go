package engine_test

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: what a card remembers of a context's receivers is bounded by its lines, however
// many nodes the process sends to while the flow is in use.
func TestStreamsAreBounded(t *testing.T) {
	const lines, nodes = 32, 2000
	b := newBed(t, setup{cards: 2, slots: 256, net: near, tune: func(c *engine.Config) { c.Lines, c.ReplyLines = lines, 8 }})
	routes := make([]uint32, nodes)
	for n := range routes {
		routes[n] = uint32(min(n, 1)) // all but node 0 on card 1, where only node 1 is attached
	}
	if err := b.cards[0].SetGroupRoutes(gid, routes); err != nil {
		t.Fatal(err)
	}
	sent, back, most := 1, 0, 0
	b.until(time.Minute, "an answer of all nodes", func() bool {
		for sent < nodes && put(b.proc[0], funi.Request, sent, 1) {
			sent++
		}
		for {
			if _, ok := b.proc[0].NextReturn(); !ok {
				break
			}
			back++
		}
		take(b.proc[1], funi.Request)
		most = max(most, b.cards[0].Streams(b.ctx[0]))
		return back == nodes-2
	})
	if most > 3*lines {
		t.Errorf("%d streams for %d lines", most, lines)
	}
	b.mustSend(0, funi.Request, 1, 7)
	b.until(time.Second, "the message", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
}
