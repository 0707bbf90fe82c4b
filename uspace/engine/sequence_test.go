package engine_test

// This file holds the rules of sequence numbers and of time: wrap-around,
// retransmission, determinism.

import (
	"hash/maphash"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// Rule: sequence numbers wrap (RFC 1982 arithmetic): exactly once goes on over
// 2^32, and over 2^31 where a comparison of signed differences turns, under faults
// and with rejects.
func TestSequenceWrapAround(t *testing.T) {
	for _, edge := range []uint32{0, 1 << 31} {
		for _, before := range []uint32{1, 2, 63, 64, 65, 255, 256, 257, 300} {
			for kind, tune := range cardConfigs {
				b := newBed(t, setup{cards: 2, slots: 16, tune: tune,
					net: wire.Config{Seed: uint64(before), Delay: 10 * time.Microsecond}})
				exactlyOnce(b, newTraffic(b, 1, 2)) // a first greeting starts from 0
				b.net.SetFaults(networks["all"])
				b.cards[0].Link().StartSequencesAt(1, edge-before)
				b.cards[1].Link().StartSequencesAt(0, edge-before)
				// While both stall, frames are rejected at a rate of one a
				// millisecond, so the wrap falls among rejected frames, too.
				end := b.now + int64(200*time.Millisecond)
				past := func() bool {
					for i, c := range b.cards {
						for l := range funi.Level(2) {
							if int32(c.Link().Sequence(1-uint16(i), l)-edge) <= 0 {
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
					tr := newTraffic(b, 400, 2)
					tr.stalled = func(int) bool { return b.now < end }
					b.alarm = end
					exactlyOnce(b, tr)
				}
				for i, c := range b.cards {
					if err := c.Check(); err != nil {
						t.Fatalf("%s, %d before %#x: card %d: %v", kind, before, edge, i, err)
					}
				}
			}
		}
	}
}

// Rule: a frame that is lost again after a retransmission is sent again after its
// own retransmission time (RFC 6298 section 5), however busy the frames after it
// keep the flow.
func TestFrameLostTwiceIsNotForgotten(t *testing.T) {
	lose := 0
	b := newBed(t, setup{cards: 2, slots: 64, net: near, wrap: func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(raw []byte) bool {
			f, err := arctic.Parse(raw)
			if err != nil || card != 0 || f.Packets() == 0 || lose == 0 {
				return true
			}
			if p, _ := arctic.Next(f.Train()); p.Word(0) != 1000 {
				return true
			}
			lose--
			return false
		}}
	}})
	exactlyOnce(b, newTraffic(b, 100, 2))
	lose = 2
	b.mustSend(0, funi.Request, 1, 1000)
	begin, next, sent := b.now, b.now, uint32(0)
	found := false
	b.until(time.Second, "the message that is lost twice arrives", func() bool {
		if b.now >= next {
			b.mustSend(0, funi.Request, 1, sent)
			sent++
			next += int64(500 * time.Microsecond)
			b.alarm = next
		}
		for s, ok := take(b.proc[1], funi.Request); ok; s, ok = take(b.proc[1], funi.Request) {
			found = found || s.Payload()[0] == 1000
		}
		return found
	})
	if took := time.Duration(b.now - begin); lose != 0 || took > 10*time.Millisecond {
		t.Errorf("arrived after %v with MinRTO %v; %d losses not used", took, engine.Native().MinRTO, lose)
	}
}

// Rule: the engine is deterministic (design idea 1): same seed, same calls, same
// times give the same frames, byte for byte, and the same counters.
func TestDeterminism(t *testing.T) {
	seed := maphash.MakeSeed()
	run := func(netSeed uint64) (sum uint64, frames int, counters string, now int64) {
		var h maphash.Hash
		h.SetSeed(seed)
		b := newBed(t, setup{cards: 4, slots: 16, tune: quick, net: wire.Config{Seed: netSeed, Delay: 10 * time.Microsecond, Faults: networks["all"]},
			wrap: func(card int, p *wire.Port) port.Port {
				return &tap{Port: p, see: func(raw []byte) bool {
					h.WriteByte(byte(card))
					h.Write(raw)
					frames++
					return true
				}}
			}})
		tr := newTraffic(b, 200, 3)
		tr.stalled = func(node int) bool { return node == 2 && b.now < int64(5*time.Millisecond) }
		b.alarm = int64(5 * time.Millisecond)
		exactlyOnce(b, tr)
		return h.Sum64(), frames, b.counters(), b.now
	}
	for n := range uint64(3) {
		sum1, frames1, counters1, now1 := run(n)
		sum2, frames2, counters2, now2 := run(n)
		if sum1 != sum2 || frames1 != frames2 || counters1 != counters2 || now1 != now2 {
			t.Errorf("seed %d: %d frames %#x at %d, then %d frames %#x at %d\n%s%s", n, frames1, sum1, now1, frames2, sum2, now2, counters1, counters2)
		}
		if other, _, _, _ := run(n + 100); other == sum1 {
			t.Errorf("seeds %d and %d gave the same frames", n, n+100)
		}
	}
}
