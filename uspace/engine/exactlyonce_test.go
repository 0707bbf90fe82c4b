package engine_test

// This file holds the first rule: exactly once, whatever the network does and
// however small the card is.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/timing"
)

// The faults of a network, alone and together.
var networks = wire.Networks

// thesis is the card of thesis 5.2.4: eight lines, two of them for replies,
// each packet its own frame with its own acknowledgment.
func thesis(c *engine.Config) {
	c.Lines, c.ReplyLines, c.Train, c.FirstWindow, c.AckEvery, c.Blocks = 8, 2, 1, 1, 1, false
}

// timed is the same with the units' times (thesis 6.1.5).
func timed(c *engine.Config) {
	thesis(c)
	c.Timing = &engine.Timing{Bus: sbus(), Bursts: []int{1, 4, 8}, Retrieval: 40 * time.Nanosecond,
		Delivery: 80 * time.Nanosecond}
}

// sbus is the thesis's bus: 15 cycles of 40 ns, and 2 for each word.
func sbus() *timing.Bus { return timing.NewBus(600, 80) }

// units is the same with every unit as slow as the bus.
func units(c *engine.Config) {
	thesis(c)
	machines["timed"](c)
}

// The cards.
var cardConfigs = map[string]func(*engine.Config){
	"native":  nil,
	"thesis":  thesis,
	"timed":   timed,
	"units":   units,
	"stepped": stepped,
	"train 1": func(c *engine.Config) { c.Train = 1 },
	"tiny":    func(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.FirstWindow = 2, 1, 1, 1 },
}

// Rule: exactly once over a network that loses, duplicates, reorders and damages
// frames, at both levels and in both directions at once (design idea 4), for
// queues from 2 slots (thesis 3.1.1), cards from 2 lines, and full payloads.
func TestExactlyOnceUnderFaults(t *testing.T) {
	for fault, faults := range networks {
		for kind, tune := range cardConfigs {
			t.Run(fault+"/"+kind, func(t *testing.T) {
				for seed := range uint64(4) {
					if testing.Short() && seed > 0 {
						break
					}
					for _, slots := range []int{2, 16} {
						words := []int{2, arctic.MaxPayloadWords}[seed%2]
						b := newBed(t, setup{cards: 2, slots: slots, tune: tune,
							net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: faults}})
						exactlyOnce(b, newTraffic(b, 300, words))
					}
				}
			})
		}
	}
}

// Rule: the same for eight nodes, all to all.
func TestExactlyOnceAllToAll(t *testing.T) {
	for kind, tune := range cardConfigs {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, setup{cards: 8, slots: 16, tune: tune,
				net: wire.Config{Seed: 1, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
			exactlyOnce(b, newTraffic(b, 60, 5))
		})
	}
}

// exactlyOnce runs the traffic to its end, and the cards until they are quiet.
func exactlyOnce(b *bed, tr *traffic) {
	b.t.Helper()
	b.until(5*time.Minute, "all messages delivered", tr.pump)
	b.idle(time.Minute)
	b.pass(200 * time.Millisecond) // what the network held back comes too late
	tr.pump()
	want := len(tr.lanes) * tr.messages
	if got, back := tr.totals(); got != want || back != 0 {
		b.t.Fatalf("%d messages: %d delivered, %d came back", want, got, back)
	}
}
