package lead

// This file tests who gets the lock of a group, and who leads.

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// still is a card to which nothing comes, and on which nobody sleeps.
type still struct{ Card }

func (still) Interrupt() {}

// Rule: a goroutine that has the lock keeps it in Yield unless it leads, also where another one
// leads and has given the lock up for it: it is in the middle of something.
func TestOnlyTheLeaderYields(t *testing.T) {
	g := New(still{})
	g.leads, g.lent = true, true // another goroutine
	g.Lock()
	var got atomic.Bool
	var other sync.WaitGroup
	other.Go(func() {
		g.Lock()
		got.Store(true)
		g.Unlock()
	})
	for !g.Wanted() {
		runtime.Gosched()
	}
	for range 100 {
		if g.Yield(); got.Load() {
			t.Fatal("it lost the lock")
		}
	}
	g.lent = false // it leads itself
	for !got.Load() {
		g.Yield()
	}
	g.Unlock()
	other.Wait()
}

// Rule: of many goroutines that wait one leads at a time. Each sees what happened for it, whoever
// leads then, and one that claims to lead does so before the others.
func TestLeadersTakeTurns(t *testing.T) {
	g := New(still{})
	const rounds, waiting = 100, 8
	leaders, polls := 0, 0
	var all sync.WaitGroup
	for i := range waiting {
		all.Go(func() {
			w := g.NewWaiter()
			g.Lock()
			defer g.Unlock()
			for round := range rounds {
				target := round*waiting + i
				for polls <= target {
					if !g.MayLead() {
						g.Park(&w, nil)
						continue
					}
					g.Lead()
					if leaders++; leaders != 1 {
						t.Error("two lead")
					}
					for polls <= target && !g.Claimed() {
						polls++
						g.Yield()
					}
					leaders--
					g.Leave()
				}
				g.PassOn()
			}
		})
	}
	all.Go(func() {
		w := g.NewWaiter()
		g.Lock()
		defer g.Unlock()
		g.Claim(func() bool { return false }, func() { g.Park(&w, nil) })
		if g.Leads() {
			t.Error("another leads")
		}
		g.Lead()
		g.Leave()
	})
	all.Wait()
}
