package engine_test

import (
	"testing"
	"time"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port/wire"
)

// Design idea 4: exactly once over a network that loses, duplicates, reorders and
// damages frames, at both levels and in both directions at once.
func TestExactlyOnceUnderFaults(t *testing.T) {
	for seed := range uint64(20) {
		b := newBed(t, 2, 16, wire.Config{Seed: seed, Delay: 10 * time.Microsecond,
			Faults: wire.Faults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.2, Corrupt: 0.05}}, nil)
		const messages = 3000
		var sent [2][2]int
		var seen [2][2][messages]bool
		var got [2][2]int
		b.until(60*time.Second, "all messages delivered", func() bool {
			done := true
			for from := range 2 {
				for l := range funi.Level(2) {
					for range 5 {
						if sent[from][l] < messages && b.send(from, l, 1-from, uint32(sent[from][l]), 0xabcd0000|uint32(sent[from][l])) {
							sent[from][l]++
						}
					}
					for s := b.proc[from].Receive(l); s != nil; s = b.proc[from].Receive(l) {
						w := s.Payload()
						if len(w) != 2 || w[1] != 0xabcd0000|w[0] || int(s.Source()) != 1-from || seen[from][l][w[0]] {
							t.Fatalf("seed %d: node %d got %v from %d again or damaged", seed, from, w, s.Source())
						}
						seen[from][l][w[0]] = true
						got[from][l]++
						b.proc[from].Release(l)
					}
					done = done && got[from][l] == messages
				}
			}
			return done
		})
		b.until(10*time.Second, "two quiet cards reach zero in flight", func() bool { return b.ctx[0].Idle() && b.ctx[1].Idle() })
		for i := range 2 {
			if _, ok := b.proc[i].NextReturn(); ok {
				t.Fatal("a packet came back")
			}
		}
		if seed == 0 {
			t.Logf("%+v", b.cards[0].Counters())
			t.Logf("virtual %v", time.Duration(b.now))
		}
	}
}
