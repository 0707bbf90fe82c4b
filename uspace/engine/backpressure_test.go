package engine_test

// This file holds the rules of full queues: receive queue, receive FIFO, transmit
// ring, undelivered packet cache.

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a receiver whose queue and FIFO are full rejects packets (thesis 5.5, 5.6.2; design idea
// 4). They stay in the sender's cache and are tried again after a back-off. Nothing is lost or
// comes twice, and the receiver is not swamped. With a back-off of up to MaxHold between tries of
// one frame, a stalled millisecond costs each level at most one train once the back-off has grown.
func TestStalledReceiverIsNotSwamped(t *testing.T) {
	for kind, tune := range cardConfigs {
		t.Run(kind, func(t *testing.T) {
			for _, start := range []time.Duration{0, 50 * time.Microsecond, 300 * time.Microsecond,
				2 * time.Millisecond} {
				if testing.Short() && start > 0 {
					break
				}
				b := newBed(t, setup{cards: 2, slots: 16, tune: tune, net: wire.Config{Delay: 10 * time.Microsecond}})
				tr := newTraffic(b, 2000, 2, [2]int{0, 1})
				stop, end := b.now+int64(start), b.now+int64(start+200*time.Millisecond)
				tr.stalled = func(node int) bool { return node == 1 && b.now >= stop && b.now < end }
				var settled, before uint64
				b.alarm = end - int64(100*time.Millisecond)
				b.until(5*time.Minute, "all messages delivered", func() bool {
					rejected := b.cards[0].Counters().RejectsReceived
					if b.now <= end-int64(100*time.Millisecond) {
						settled = rejected
					}
					if b.now < end {
						before = rejected
					} else {
						b.alarm = 0
					}
					if b.now >= end-int64(100*time.Millisecond) && b.now < end {
						b.alarm = end
					}
					return tr.pump()
				})
				if got, back := tr.totals(); got != 4000 || back != 0 {
					t.Fatalf("%d delivered, %d came back, want 4000 and 0", got, back)
				}
				perMillisecond := float64(before-settled) / 100
				if most := float64(arctic.Levels * arctic.MaxTrain); perMillisecond == 0 || perMillisecond > most {
					t.Errorf("stall after %v: %.1f packets rejected per stalled millisecond, want some and at most %v",
						start, perMillisecond, most)
				}
			}
		})
	}
}

// Rule: the same when receivers stall at random moments on a network with faults.
func TestReceiversStallAtRandom(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBed(t, setup{cards: 3, slots: 8, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond,
			Faults: networks["all"]},
			tune: func(c *engine.Config) { c.FIFO = 2 }})
		tr := newTraffic(b, 200, 3)
		var until [3]int64
		tr.stalled = func(node int) bool {
			if b.now >= until[node] && random.IntN(300) == 0 {
				until[node] = b.now + int64(200*time.Millisecond)
				b.alarm = max(b.alarm, until[node])
			}
			return b.now < until[node]
		}
		exactlyOnce(b, tr)
	}
}

// Rule: one slow process never holds up the sequence that others share (doc.go;
// design idea 4: back-off is by stream). Nodes 1 and 2 live on card 1,
// nodes 0 and 3 on card 0; node 1 receives nothing, and what node 3 sends to node
// 2 arrives all the same, soon and without many tries.
func TestStalledProcessDoesNotHoldUpAnother(t *testing.T) {
	for kind, tune := range cardConfigs {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, setup{cards: 2, slots: 16, tune: tune, route: []uint32{0, 1, 1, 0},
				net: wire.Config{Delay: 10 * time.Microsecond}})
			receiver, _ := b.join(1, 9, 2)
			sender, _ := b.join(0, 9, 3)
			stuck := 0
			const messages = 2000
			sent, got := 0, 0
			flood := func() {
				for b.send(0, funi.Request, 1, uint32(stuck)) {
					stuck++
				}
			}
			b.alarm = b.now + int64(20*time.Millisecond)
			b.until(time.Second, "node 1 is full", func() bool { flood(); return b.now >= b.alarm })
			b.alarm = 0
			begin := b.now
			b.until(10*time.Second, "node 2 has got everything", func() bool {
				flood()
				for sent < messages && put(sender, funi.Request, 2, uint32(sent)) {
					sent++
				}
				for _, ok := take(receiver, funi.Request); ok; _, ok = take(receiver, funi.Request) {
					got++
				}
				return got == messages
			})
			took := time.Duration(b.now - begin)
			// The slowest card has one line for requests: a round trip of 20 us and
			// AckDelay for each.
			if limit := messages * 100 * time.Microsecond; took > limit {
				t.Errorf("%d messages beside a stalled process took %v, want at most %v", messages, took, limit)
			}
			t.Logf("%v; %s", took, b.counters())
		})
	}
}

// Rule: packets between contexts of one card use the same queues and arrive exactly once, too. A
// packet for which a full receive queue has no room waits in its line. Packets for which there was
// no line go on when the lines are free again (retrieval.go). Step returns Never only if a frame or
// a process can give it work.
func TestOwnCard(t *testing.T) {
	for kind, tune := range cardConfigs {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, setup{cards: 1, slots: 64, tune: tune})
			const messages = 1000
			var sent, got [2]uint32
			b.until(time.Second, "all messages delivered", func() bool {
				for l := range funi.Level(2) {
					for sent[l] < messages && b.send(0, l, 0, sent[l]) {
						sent[l]++
					}
					for s, ok := take(b.proc[0], l); ok; s, ok = take(b.proc[0], l) {
						if s.Payload()[0] != got[l] || s.Source() != 0 {
							t.Fatalf("level %v: got %d from %d, want %d from 0", l, s.Payload()[0], s.Source(), got[l])
						}
						got[l]++
					}
				}
				return got == [2]uint32{messages, messages}
			})
			b.idle(time.Second)
			if c := b.cards[0].Counters(); c.FramesSent != 0 || c.LoopedToOwnCard != 2*messages {
				t.Errorf("%d frames sent and %d packets looped, want 0 and %d", c.FramesSent,
					c.LoopedToOwnCard, 2*messages)
			}
		})
	}
}

// Rule: Step returns a time not after now while work is left over: packets that
// found no line, when delivery to the own card has just freed all lines, are work.
func TestOwnCardNeedsNoSecondCall(t *testing.T) {
	b := newBed(t, setup{cards: 1, slots: 64, tune: thesis})
	for i := range uint32(50) {
		b.mustSend(0, funi.Request, 0, i)
	}
	for b.step(b.now); b.wake[0] != engine.Never; {
		b.step(b.wake[0])
	}
	if n := b.cards[0].Counters().PacketsDelivered; n != 50 {
		t.Fatalf("the card sleeps after %d of 50 packets", n)
	}
}

// Rule: a card that can do nothing before an answer comes does not ask to be
// stepped at once (Step): a send queue that waits for lines is not work.
func TestWaitingForLinesIsNotWork(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 1024, tune: thesis, net: wire.Config{Delay: time.Millisecond}})
	for i := range uint32(1000) {
		b.mustSend(0, funi.Request, 1, i)
	}
	again := 0
	for range 100 {
		b.step(b.next())
		if b.wake[0] > b.now {
			again = 0
		} else if again++; again > 1 { // once is for what the answer called for
			t.Fatalf("at %v card 0 wants to run again at once\n%s", time.Duration(b.now), b.counters())
		}
	}
}
