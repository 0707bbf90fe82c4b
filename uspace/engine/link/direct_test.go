package link_test

// This file holds the rule of direct cards: those of one job, one of each node.

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

// direct makes a card one of the job with the bed's tag.
func direct(c *link.Config) {
	job := uint64(tag)
	c.Direct = &job
}

// Rule (Config.Direct): all frames of direct cards are of version 7 and have the tag of the job:
// greetings, acknowledgments and rejects, too. They deliver exactly once as others do.
func TestDirectCards(t *testing.T) {
	for name, faults := range networks {
		t.Run(name, func(t *testing.T) {
			var kinds [4]int // greetings, acknowledgments, rejects, packets
			b := newBed(t, setup{cards: 3, tune: direct,
				net: wire.Config{Seed: 5, Delay: 10 * time.Microsecond, Faults: faults},
				wrap: tapped(func(_ int, f arctic.Frame) bool {
					h := f.Header()
					if !f.Direct() || !h.Direct || h.Tag != tag {
						t.Errorf("a frame of version %d with tag %#x", f[arctic.EthernetSize], h.Tag)
					}
					switch {
					case h.Hello:
						kinds[0]++
					case f.Rejects() > 0:
						kinds[2]++
					case f.Packets() > 0:
						kinds[3]++
					default:
						kinds[1]++
					}
					return true
				})})
			first := true
			b.judge = func(int, *message) arctic.Reason {
				if first {
					first = false
					return arctic.ReasonQueueFull
				}
				return 0
			}
			exactlyOnce(b, newTraffic(b, 200))
			for i, n := range kinds {
				if n == 0 {
					t.Errorf("kind %d of frames was not sent: %v", i, kinds)
				}
			}
		})
	}
}

// Rule (Config.Direct): a direct card drops frames of the other version and of other jobs, whatever
// they carry, and a card of a host drops direct ones. Nothing of them is believed, and each is
// counted.
func TestDirectCardsAndOthersDoNotMeet(t *testing.T) {
	for name, c := range map[string]struct {
		tune    func(*link.Config) // of card 1
		changed func(f []byte)     // what makes its frames such as card 0 would take
		dropped func(c *link.Counters) uint64
	}{
		"another job": {
			func(c *link.Config) { other := uint64(tag + 1); c.Direct = &other },
			func(f []byte) { binary.LittleEndian.PutUint64(f[68:], tag) },
			func(c *link.Counters) uint64 { return c.DroppedStranger },
		},
		"a card of a host": {
			nil,
			func(f []byte) {
				f[arctic.EthernetSize] = arctic.VersionDirect
				binary.LittleEndian.PutUint64(f[68:], tag)
			},
			func(c *link.Counters) uint64 { return c.DroppedVersion },
		},
	} {
		t.Run(name, func(t *testing.T) {
			changes := false
			b := newBed(t, setup{cards: 2, net: near,
				tune: func(cfg *link.Config) {
					quick(cfg)
					if cfg.Card == 0 {
						direct(cfg)
					} else if c.tune != nil {
						c.tune(cfg)
					}
				},
				wrap: func(card int, p *wire.Port) port.Port {
					if card == 0 {
						return p
					}
					return tapped(func(_ int, f arctic.Frame) bool {
						if changes {
							c.changed(f)
							arctic.Seal(f, len(f))
						}
						return true
					})(card, p)
				}})
			b.reasons = []arctic.Reason{arctic.ReasonSilent}
			m := b.send(1, arctic.Request, 0)
			b.pass(100 * time.Millisecond)
			counters := &b.cards[0].Counters
			if b.cards[0].Established(1) || c.dropped(counters) == 0 || m.accepted() {
				t.Errorf("believed %v, dropped %d, accepted %v", b.cards[0].Established(1),
					c.dropped(counters), m.accepted())
			}
			before := c.dropped(counters)
			changes = true // this test can fail: with that alone frames are taken
			b.pass(5 * time.Millisecond)
			if counters = &b.cards[0].Counters; c.dropped(counters) != before {
				t.Errorf("%d frames dropped that look like those of the job", c.dropped(counters)-before)
			}
		})
	}
}
