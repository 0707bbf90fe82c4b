package engine

// This file holds the rules of the timers and of TICKET, which are the card's own.

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
)

// Rule: the heap gives the earliest timer first; set never moves a timer later, and
// each peer is in the heap at most once (timer.go).
func TestTimersAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var timers timers
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
				p := timers.pop()
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
				if len(timers.heap) != len(model) {
					t.Fatalf("%d in the heap, want %d", len(timers.heap), len(model))
				}
				next := int64(Never)
				for p, at := range model {
					if timers.heap[p.timer] != p || p.wake != at {
						t.Fatalf("peer at place %d wakes at %d, want %d", p.timer, p.wake, at)
					}
					next = min(next, at)
				}
				if timers.next() != next {
					t.Fatalf("next is %d, want %d", timers.next(), next)
				}
			},
		})
	})
}

// Rule: the lowest free line is taken first; requests get none when only the lines
// reserved for replies are free (hi), nobody when none is (full) (thesis 5.2.4).
func TestTicketAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(2, 130), rapid.Just(maxLines)).Draw(t, "lines")
		reply := rapid.IntRange(1, n-1).Draw(t, "reply lines")
		var k ticket
		k.reset(n, reply)
		taken := map[int]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				l := arctic.Level(rapid.IntRange(0, 1).Draw(t, "level"))
				want := -1
				for i := range n {
					if !taken[i] {
						if l == arctic.Reply || i < n-reply {
							want = i
						}
						break
					}
				}
				if got := k.take(l); got != want {
					t.Fatalf("level %v got line %d, want %d", l, got, want)
				}
				if want >= 0 {
					taken[want] = true
				}
			},
			"give": func(t *rapid.T) {
				for i := range taken {
					k.give(i)
					delete(taken, i)
					break
				}
			},
			"": func(t *rapid.T) {
				if k.free() != n-len(taken) {
					t.Fatalf("%d free, want %d", k.free(), n-len(taken))
				}
			},
		})
	})
}
