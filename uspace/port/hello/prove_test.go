package hello

// This file tests the proof of transmit queues.

import (
	"testing"
)

// Rule: when a port was opened, a hello leaves on each of its queues, and its answer proves the
// queue. A queue on which all hellos are lost is left out, once, and taken in again when one is
// answered. Losses of the network, and a peer that dies meanwhile, cause no queue to be left out.
func TestQueuesAreProven(t *testing.T) {
	for seed := range uint64(40) {
		s := newSegment(t, seed)
		s.loss = []float64{0, 0.2}[seed%2]
		a, b := s.add(0, 1, func(c *Config) { c.Discover = false }), s.add(1, 2, func(c *Config) { c.Discover = false })
		a.SetPeer(1, 0, b.mac)
		b.SetPeer(0, 0, a.mac)
		a.queues, b.queues = 8, []int{1, 8}[seed/2%2]
		a.dead = map[int]bool{5: true}
		if b.queues > 1 { // where answers are lost, no question is
			b.dead = map[int]bool{2: true}
			b.proofs[0].rounds = 0
		}
		a.Prove(0)
		s.run(20*second, func() bool { return a.out[5] })
		if b.queues == 1 && b.sent[0] == 0 || b.queues > 1 && b.sent[2] == 0 {
			t.Errorf("seed %d: b has sent %v", seed, b.sent)
		}
		for q := range a.queues {
			if a.out[q] != (q == 5) || (a.answers[q] > 0) == (q == 5) {
				t.Errorf("seed %d: queue %d: left out %v, %d answers", seed, q, a.out[q], a.answers[q])
			}
		}
		if n := a.TakeQueueNews(); len(n) != 1 || n[0].Queue != 5 || !n[0].Left || n[0].Asked < proofRounds {
			t.Errorf("%+v", n)
		}
		a.dead = nil
		s.run(10*second, func() bool { return !a.out[5] })
		if n := a.TakeQueueNews(); len(n) != 1 || n[0].Queue != 5 || n[0].Left {
			t.Errorf("%+v", n)
		}
		a.Prove(0)
		s.run(int64(seed)*50*millisecond, nil)
		b.off = true
		s.run(20*second, nil)
		if n := a.TakeQueueNews(); len(n) > 0 {
			t.Errorf("seed %d: a peer that died: %+v", seed, n)
		}
	}
}
