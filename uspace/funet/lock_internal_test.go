package funet

// This file measures the lock, and tests who gets it.

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/funet/funet/uspace/card"
	"github.com/funet/funet/uspace/lead"
)

// quiet is a card that nobody sleeps on.
type quiet struct{ *card.Card }

func (quiet) Interrupt() {}

// BenchmarkLock measures the lock of a lone caller, beside a counter that has none, and callers
// that contend for it.
func BenchmarkLock(b *testing.B) {
	e := &Endpoint{carrier: quiet{}, group: lead.New(quiet{})}
	b.Run("none", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			e.depth = n
		}
	})
	b.Run("lone", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			if e.lock() != nil {
				b.Fatal("it has failed")
			}
			e.depth = n
			e.unlock()
		}
	})
	for _, goroutines := range []int{2, 8} {
		b.Run(map[int]string{2: "2 goroutines", 8: "8 goroutines"}[goroutines], func(b *testing.B) {
			var all sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N))
			for range goroutines {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if e.lock() != nil {
							return
						}
						e.depth++
						e.unlock()
					}
				})
			}
			all.Wait()
		})
	}
}

// Rule: one goroutine at a time has the lock; the one that has it and runs the program's code is
// refused, and no other.
func TestLockTellsGoroutinesApart(t *testing.T) {
	e := &Endpoint{carrier: quiet{}, group: lead.New(quiet{})}
	if err := e.lock(); err != nil {
		t.Fatal(err)
	}
	e.runner.Store(goroutine())
	if err := e.lock(); !errors.Is(err, ErrHandler) {
		t.Errorf("the same goroutine again: %v", err)
	}
	inside := 0
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			for range 1000 {
				if err := e.lock(); err != nil {
					t.Error(err)
					return
				}
				inside++
				if inside != 1 {
					t.Error("two are inside")
				}
				inside--
				e.unlock()
			}
		})
	}
	e.runner.Store(0)
	e.unlock()
	others.Wait()
}

// Rule: the identity of a goroutine is its own as long as it runs, also after it has been on
// another thread.
func TestGoroutine(t *testing.T) {
	var mu sync.Mutex
	seen := map[uintptr]bool{}
	var ready, all sync.WaitGroup
	ready.Add(50)
	for range 50 {
		all.Go(func() {
			me := goroutine()
			mu.Lock()
			if seen[me] {
				t.Error("two goroutines are one")
			}
			seen[me] = true
			mu.Unlock()
			ready.Done()
			ready.Wait() // all of them run at the same time
			if goroutine() != me {
				t.Error("it has become another")
			}
		})
	}
	all.Wait()
}
