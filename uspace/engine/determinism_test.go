package engine_test

// This file holds the rule of determinism.

import (
	"hash/maphash"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/port"
)

// Rule: the engine is deterministic (design idea 1): same seed, same calls, same
// times give the same frames, byte for byte, and the same counters.
func TestDeterminism(t *testing.T) {
	seed := maphash.MakeSeed()
	run := func(netSeed uint64) (sum uint64, frames int, counters string, now int64) {
		var h maphash.Hash
		h.SetSeed(seed)
		b := newBed(t, setup{cards: 4, slots: 16, tune: quick,
			net: wire.Config{Seed: netSeed, Delay: 10 * time.Microsecond, Faults: networks["all"]},
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
			t.Errorf("seed %d: %d frames %#x at %d, then %d frames %#x at %d\n%s%s", n, frames1, sum1, now1, frames2,
				sum2, now2, counters1, counters2)
		}
		if other, _, _, _ := run(n + 100); other == sum1 {
			t.Errorf("seeds %d and %d gave the same frames", n, n+100)
		}
	}
}
