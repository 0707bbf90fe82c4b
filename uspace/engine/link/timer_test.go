package link

// This file holds the rules of the timers.

import (
	"testing"

	"pgregory.net/rapid"
)

// Rule: the heap gives the earliest timer first; set never moves a timer later, and
// each peer is in the heap at most once (timer.go).
func TestTimersAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timers := timers{heap[*peer]{first: Never}}
		peers := make([]peer, 8)
		for i := range peers {
			peers[i].timer = notTimed
		}
		model := map[*peer]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				p := &peers[rapid.IntRange(0, len(peers)-1).Draw(t, "peer")]
				at := rapid.Int64Range(0, 20).Draw(t, "at")
				timers.set(p, at)
				if was, ok := model[p]; !ok || at < was {
					model[p] = at
				}
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("no timer")
				}
				p := timers.of[0]
				timers.remove(p)
				for _, at := range model {
					if at < model[p] {
						t.Fatalf("popped %d before %d", model[p], at)
					}
				}
				if _, ok := model[p]; !ok || p.timer != notTimed {
					t.Fatal("popped a peer that has no timer, or left it marked")
				}
				delete(model, p)
			},
			"": func(t *rapid.T) {
				if len(timers.of) != len(model) {
					t.Fatalf("%d in the heap, want %d", len(timers.of), len(model))
				}
				next := int64(Never)
				for p, at := range model {
					if timers.of[p.timer] != p || p.wake != at {
						t.Fatalf("peer at place %d wakes at %d, want %d", p.timer, p.wake, at)
					}
					next = min(next, at)
				}
				if timers.first != next {
					t.Fatalf("next is %d, want %d", timers.first, next)
				}
			},
		})
	})
}
