package engine_test

// This file holds what ways that carry less than the port sends mean to long transfers; all else
// about them is package link's (link/limit_test.go).

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// narrowBed is two cards whose frames get lost without a word when they are longer than the way of
// the card that sends them.
type narrowBed struct {
	*bed
	memory []memory
	ways   [2]int // bytes of a frame
}

func newNarrowBed(t testing.TB, net wire.Config, tune func(*engine.Config)) *narrowBed {
	n := &narrowBed{ways: [2]int{1 << 17, 1 << 17}}
	n.bed, n.memory = transferBed(t, setup{cards: 2, slots: 64, net: net, tune: tune,
		wrap: func(card int, p *wire.Port) port.Port {
			return &tap{Port: p, see: func(b []byte) bool { return len(b) <= n.ways[card] }}
		}})
	return n
}

// Rule (transfer.go): a long transfer whose blocks travel in pieces, because what the ways carry
// changes at any time and to any length that FUNet works with, arrives once and whole, and its
// notice then.
func TestTransfersOverWaysThatChange(t *testing.T) {
	voids := uint64(0)
	for seed := range uint64(20) {
		x := rand.New(rand.NewPCG(seed, 1))
		net := wire.Config{Seed: seed, Delay: 10 * time.Microsecond, MTU: []int{1500, 9000, 65535}[seed%3]}
		if seed%2 == 1 {
			net.Faults = networks["all"]
		}
		n := newNarrowBed(t, net, func(c *engine.Config) {
			c.RaiseAfter, c.MaxRTO = time.Duration(1+x.IntN(20))*time.Millisecond, 20*time.Millisecond
			if seed%5 == 0 {
				c.Lines, c.ReplyLines = 8, 2
			}
		})
		change, sent, noticed := int64(0), [2]uint32{}, [2]uint32{}
		const transfers = 40
		reset := [2]bool{true, true}
		n.until(time.Minute, "all arrives", func() bool {
			if n.now >= change {
				change = n.now + x.Int64N(int64(4*time.Millisecond))
				card := x.IntN(2)
				n.ways[card] = 688 + x.IntN(10000)
				if n.alarm = change; x.IntN(3) > 0 {
					n.cards[card].SetLimit(uint16(1-card), []int{n.ways[card], x.IntN(12000)}[x.IntN(2)])
					n.wake[card] = n.now
				}
			}
			done := true
			for from := range 2 {
				to := 1 - from
				if reset[from] && sent[from] < transfers {
					// Half of an area goes one way and half the other.
					if request(n.proc[from], funi.Reply, to,
						funi.Transfer{Source: area + uint32(from)*areaSize/2,
							Destination: area + uint32(from)*areaSize/2,
							Argument:    sent[from], Words: areaSize / 8}) {
						sent[from]++
						reset[from] = false
					}
				}
				done = done && noticed[from] == transfers
			}
			for node, p := range n.proc {
				for l := range funi.Level(2) {
					for s, ok := take(p, l); ok; s, ok = take(p, l) {
						from := 1 - node
						a, b := from*areaSize/2, (from+1)*areaSize/2
						if s.Notice().Argument != noticed[from] ||
							!bytes.Equal(n.memory[node].area[a:b], n.memory[from].area[a:b]) {
							t.Fatalf("seed %d: transfer %d arrived as %+v, or with other data", seed,
								noticed[from], s.Notice())
						}
						noticed[from]++
						reset[from] = true
						fill(n.memory[from].area[a:b], uint32(n.now))
					}
				}
			}
			return done
		})
		n.alarm = 0
		n.idle(20 * time.Second)
		n.checked()
		for _, c := range n.cards {
			voids += c.Counters().TooLong
		}
	}
	if voids < 300 {
		t.Errorf("%d frames were too long: nothing was tested", voids)
	}
}
