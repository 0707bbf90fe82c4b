package link_test

// This file holds the first rule of doc.go: exactly once, whatever the network does and whatever
// the receiver rejects.

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/port"
)

// Rule (doc.go, exactly once): over a network that loses, duplicates, reorders and damages frames,
// at both levels and in both directions at once, messages and blocks, from any card.
func TestExactlyOnceUnderFaults(t *testing.T) {
	for fault, faults := range networks {
		for kind, tune := range cardConfigs {
			t.Run(fault+"/"+kind, func(t *testing.T) {
				for seed := range uint64(4) {
					b := newBed(t, setup{cards: 2, tune: tune,
						net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: faults}})
					tr := newTraffic(b, 200)
					tr.words = []int{2, arctic.MaxPayloadWords}[seed%2]
					if seed > 1 && kind != "timed" {
						tr.block = 4096
					}
					exactlyOnce(b, tr)
				}
			})
		}
	}
}

// Rule (doc.go, exactly once): the same among many cards, all to all.
func TestExactlyOnceAllToAll(t *testing.T) {
	for kind, tune := range cardConfigs {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, setup{cards: 6, tune: tune,
				net: wire.Config{Seed: 1, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
			exactlyOnce(b, newTraffic(b, 40))
		})
	}
}

// Rule (doc.go, exactly once): the same when the receive ring of the network interface is so small
// that most of a burst is lost.
func TestExactlyOnceThroughASmallReceiveRing(t *testing.T) {
	for _, ring := range []int{1, 2, 4} {
		b := newBed(t, setup{cards: 4, net: wire.Config{Delay: 10 * time.Microsecond, Ring: ring}, tune: single})
		tr := newTraffic(b, 200)
		tr.burst = 32
		exactlyOnce(b, tr)
		if b.net.Lost == 0 {
			t.Errorf("ring of %d frames: nothing was lost, so nothing was tested", ring)
		}
	}
}

// Rule (doc.go, full queues): with the transmit ring full lines stay with their streams, and
// nothing is lost, whichever frame finds it full: data, acknowledgment, reject, greeting.
func TestTransmitRingFull(t *testing.T) {
	for _, kind := range []string{"native", "timed"} {
		for seed := range uint64(4) {
			var ports []*full
			random := rand.New(rand.NewPCG(seed, 7))
			b := newBed(t, setup{cards: 3, tune: cardConfigs[kind],
				net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]},
				wrap: func(card int, p *wire.Port) port.Port {
					f := &full{Port: p, random: rand.New(rand.NewPCG(seed, uint64(card)))}
					ports = append(ports, f)
					return f
				}})
			b.judge = someRejected(random, 10, 0)
			exactlyOnce(b, newTraffic(b, 150))
			for i, p := range ports {
				if c := b.cards[i].Counters; p.denied == 0 || c.TransmitRingFull == 0 || c.RejectsSent == 0 {
					t.Errorf("card %d: %d buffers denied, %d counted, %d rejects", i, p.denied,
						c.TransmitRingFull, c.RejectsSent)
				}
			}
		}
	}
}

// someRejected is a judge that rejects about one packet in retry for now, and one in fail for good;
// 0: none.
func someRejected(random *rand.Rand, retry, fail int) func(int, *message) arctic.Reason {
	return func(_ int, m *message) arctic.Reason {
		switch {
		case retry > 0 && random.IntN(retry) == 0:
			return arctic.ReasonQueueFull
		case fail > 0 && random.IntN(fail) == 0:
			return []arctic.Reason{arctic.ReasonNoContext, arctic.ReasonJob, arctic.ReasonUnknownKind}[random.IntN(3)]
		}
		return arctic.ReasonNone
	}
}

// Rule (doc.go, exactly once): each message is accepted once, or comes back with a reason, once,
// and the books balance at any step. That holds whatever the network loses, repeats, reorders and
// damages, and however long frames may be. It holds whichever card is cut off, leaves the list and
// comes back, begins another life, parks its flows, or rejects for now or for good.
func TestExactlyOnceWhateverHappens(t *testing.T) {
	var total struct {
		back, parked, lives, rejects, voids uint64
	}
	rapid.Check(t, func(rt *rapid.T) {
		cards := rapid.IntRange(2, 4).Draw(rt, "cards")
		kind := rapid.SampledFrom([]string{"native", "thesis", "timed", "train 1", "tiny"}).Draw(rt, "card")
		fault := rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "all"}).Draw(rt, "network")
		when, seed := rapid.Uint64().Draw(rt, "when"), rapid.Uint64().Draw(rt, "seed")
		random := rand.New(rand.NewPCG(when, 0))
		retry, fail := rapid.SampledFrom([]int{0, 2, 20}).Draw(rt, "retry"),
			rapid.SampledFrom([]int{0, 0, 20}).Draw(rt, "fail")
		events := rapid.SliceOfN(rapid.SampledFrom([]string{"park", "park", "cut", "heal", "restart", "remove", "limit",
			"pause"}), 0, 12).Draw(rt, "events")
		block := rapid.SampledFrom([]int{0, 2048}).Draw(rt, "block")
		defer func() { // the bed fails t, so rapid shrinks nothing and keeps nothing
			if t.Failed() {
				t.Logf("%d cards, %s, network %s, when %d, seed %d, retry %d, fail %d, events %v, block %d", cards,
					kind, fault, when, seed, retry, fail, events, block)
			}
		}()
		b := newBed(t, setup{cards: cards,
			tune: func(c *link.Config) {
				if tune := cardConfigs[kind]; tune != nil {
					tune(c)
				}
				quick(c)
				c.RaiseAfter = 5 * time.Millisecond
			},
			net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks[fault]}})
		b.reasons = []arctic.Reason{arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted}
		b.judge = someRejected(random, retry, fail)
		count := func() {
			for _, c := range b.cards {
				total.rejects += c.Counters.RejectsSent
				total.voids += c.Counters.TooLong
			}
		}
		tr := newTraffic(b, 1<<20)
		if kind != "timed" {
			tr.block = block
		}
		for _, e := range events {
			end := b.now + 1 + random.Int64N(int64(2*time.Millisecond))
			b.alarm = end
			b.until(time.Second, "traffic", func() bool {
				b.checked()
				if random.IntN(4) == 0 {
					tr.pump()
				}
				return b.now >= end
			})
			i := random.IntN(cards)
			j := (i + 1) % cards
			switch e {
			case "park":
				for _, c := range b.cards {
					total.parked += uint64(c.ParkQuiet())
				}
			case "cut":
				b.net.Cut(func(from, to [6]byte) bool {
					return from == address(i) && (to == address(j) || random.IntN(2) == 0)
				})
			case "heal":
				b.net.Cut(nil)
			case "restart":
				total.rejects += b.cards[i].Counters.RejectsSent
				b.start(i)
				// A greeting that was on its way may have others begin with the dead life, or make
				// them and the new one begin twice.
				b.reasons = append(b.reasons, arctic.ReasonResynchronised)
				total.lives++
				tr = newTraffic(b, 1<<20)
				tr.block = 0
			case "remove":
				b.cards[i].RemovePeer(uint16(j))
				b.settle(b.cards[i])
				b.cards[i].SetPeer(peerOf(i, j))
				b.touched = true
				// The other, which may not have heard of it, begins to count anew with the same
				// life.
				b.reasons = append(b.reasons, arctic.ReasonResynchronised)
			case "limit":
				b.cards[i].SetLimit(uint16(j), 700+random.IntN(900))
				b.touched = true
			case "pause":
				b.alarm = 0
				b.pass(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
			}
		}
		b.alarm = 0
		b.net.Cut(nil)
		b.judge = nil
		b.idle(time.Minute)
		b.checked()
		for _, m := range b.messages {
			if m.back && m.settled != link.Delivered {
				total.back++
			}
		}
		// A greeting of a life that has ended may have had others begin with the dead: the first
		// frame finds that out (handshake.go).
		b.pass(time.Second)
		for i := range b.cards {
			for j := range b.cards {
				if i != j {
					b.send(i, arctic.Request, j)
					b.idle(time.Minute)
				}
			}
		}
		b.until(10*time.Second, "all have met again", func() bool {
			for i := range b.cards {
				for j := range b.cards {
					if i != j && !b.cards[i].Established(uint16(j)) && b.own[i].out < 2 {
						b.send(i, arctic.Request, j)
					}
				}
			}
			for i := range b.cards {
				for j := range b.cards {
					if i != j && !b.cards[i].Established(uint16(j)) {
						return false
					}
				}
			}
			return true
		})
		b.idle(time.Minute)
		b.pass(time.Second)
		b.reasons = nil
		// Where frames are lost, all tries of one within quick's PeerTimeout may be, now and then.
		without := networks[fault]
		without.Loss, without.Corrupt = 0, 0
		b.net.SetFaults(without)
		exactlyOnce(b, newTraffic(b, 20))
		count()
	})
	// Void frames are rare here, and may be none: limit_test.go makes them.
	if total.back == 0 || total.parked == 0 || total.lives == 0 || total.rejects == 0 {
		t.Errorf("little was tested: %+v", total)
	}
}

// Rule (doc.go, exactly once): sequence numbers wrap (RFC 1982 arithmetic), over 2^32, and over
// 2^31, where a comparison of signed differences turns, under faults and with rejects.
func TestSequenceWrapAround(t *testing.T) {
	for _, edge := range []uint32{0, 1 << 31} {
		for _, before := range []uint32{1, 63, 64, 65, 255, 256, 257, 300} {
			for kind, tune := range cardConfigs {
				b := newBed(t, setup{cards: 2, tune: tune,
					net: wire.Config{Seed: uint64(before), Delay: 10 * time.Microsecond}})
				exactlyOnce(b, newTraffic(b, 1)) // a first greeting starts from 0
				b.net.SetFaults(networks["all"])
				b.cards[0].StartSequencesAt(1, edge-before)
				b.cards[1].StartSequencesAt(0, edge-before)
				b.judge = someRejected(rand.New(rand.NewPCG(uint64(before), uint64(edge))), 8, 0)
				past := func() bool {
					for i, c := range b.cards {
						for l := range arctic.Level(arctic.Levels) {
							if int32(c.Sequence(1-uint16(i), l)-edge) <= 0 {
								return false
							}
						}
					}
					return true
				}
				for round := 0; round == 0 || !past(); round++ {
					if round == 50 {
						t.Fatalf("%s, %d before %#x: the edge was not reached", kind, before, edge)
					}
					exactlyOnce(b, newTraffic(b, 200))
				}
			}
		}
	}
}

// Rule (doc.go; dispatch.go): a frame is filled to its end and no further: a train of full packets
// is cut where the frame ends, at the latest after Config.Train.
func TestTrainsFillFrames(t *testing.T) {
	for _, mtu := range []int{arctic.MinMTU, 1500, 3498, 9000} {
		for _, train := range []int{1, 5, arctic.MaxTrain} {
			b := newBed(t, setup{cards: 2, net: wire.Config{Delay: 10 * time.Microsecond, MTU: mtu},
				tune: func(c *link.Config) { c.Train = train }})
			exactlyOnce(b, newTraffic(b, 20))
			before := b.cards[0].Counters.TrainsSent
			tr := newTraffic(b, 400, [2]int{0, 1})
			tr.words, tr.burst = arctic.MaxPayloadWords, 400
			exactlyOnce(b, tr)
			room := min(train, (mtu+arctic.EthernetSize-arctic.HeaderSize)/arctic.MaxPacketSize)
			if n, least := int(b.cards[0].Counters.TrainsSent-before), (800+room-1)/room; n < least || n > least+8 {
				t.Errorf("MTU %d, trains of %d: 800 packets of 21 words in %d frames, want about %d", mtu,
					train, n, least)
			}
		}
	}
}
