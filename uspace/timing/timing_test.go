package timing

// This file tests the bus against thesis 6.1.1 and 6.1.5.

import (
	"testing"
	"time"
)

// The thesis's figures: 15 bus cycles of 40 ns and two for each word.
func sbus() *Bus { return NewBus(600, 80) }

// A transaction of 1, 2, 4 and 8 words takes 27.2, 30.4, 36.8 and 49.6 cycles of 25 ns.
func TestTransactions(t *testing.T) {
	for words, want := range map[int]int64{1: 680, 2: 760, 4: 920, 8: 1240} {
		if got := sbus().Transaction(words); got != want {
			t.Errorf("a transaction of %d words takes %d ns, want %d", words, got, want)
		}
	}
}

// Transactions never overlap, and the processor goes first (6.1.1): the card waits for
// all stores that were issued before it got the bus, a store for no more than the card's
// transaction under way.
func TestProcessorFirst(t *testing.T) {
	b := sbus()
	at, ok := b.Card(1000, 4)
	if !ok || at != 1920 {
		t.Fatalf("the card gets an idle bus: %v, until %d", ok, at)
	}
	if done := b.processor(1100, 2); done != 1920+760 {
		t.Errorf("a store behind the card's burst ends at %d", done)
	}
	if done := b.processor(1150, 1); done != 1920+760+680 {
		t.Errorf("a second store ends at %d", done)
	}
	if at, ok := b.Card(1920, 4); ok || at != 3360 {
		t.Errorf("the card goes before stores: %v, until %d", ok, at)
	}
	if at, ok := b.Card(3360, 8); !ok || at != 4600 {
		t.Errorf("the card does not get the bus when the stores are done: %v, until %d", ok, at)
	}
}

// A store takes the program two cycles whatever the bus does; a load waits for the stores
// before it and for its own transaction, and longer by the stall.
func TestStoresAreBuffered(t *testing.T) {
	now := int64(1)
	c := NewCPU(CPUConfig{Cycle: 25, Store: 50, Stall: 20 * time.Nanosecond}, sbus(),
		Clock{Now: func() int64 { return now }, Until: func(at int64) { now = max(now, at) }})
	c.Work(4)
	if now != 1 {
		t.Errorf("work took %d ns before anybody could tell", now-1)
	}
	c.Store(2)
	c.Store(2)
	c.Settle()
	if now != 1+100+50+50 {
		t.Errorf("two stores and four instructions took %d ns", now-1)
	}
	c.Load(1)
	if want := int64(1 + 100 + 760 + 760 + 680 + 20); now != want {
		t.Errorf("the load behind them ended at %d, want %d", now, want)
	}
}
