package funi_test

// This file holds the rules of waking by writes (written.go) between the two ends; those of the
// card are in package engine.

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
)

// Rule: the card counts writes for a process that asks, and says so once; arming, disarming and
// being woken leave what was asked.
func TestWatch(t *testing.T) {
	i, c, m := pair(t, 8)
	write := func() bool {
		c.Wrote()
		if !c.Unseen() {
			t.Error("a write is nothing that was not told")
		}
		seen := m.Page.Written()
		c.Awaited()
		return m.Page.Written() != seen
	}
	if write() || m.Page.Written() != 0 {
		t.Error("the card tells of a write that nobody asked for")
	}
	if i.Watch(true) || !i.Watch(true) || !i.Watch(false) || i.Watch(true) {
		t.Error("Watch does not return what was asked before")
	}
	for name, do := range map[string]func(){
		"nothing": func() {}, "Arm": m.Page.Arm, "Disarm": m.Page.Disarm,
		"a wake": func() {
			if m.Page.Arm(); !awaited(c) || awaited(c) {
				t.Error("the card is not told once of one Arm")
			}
		},
	} {
		do()
		if n := m.Page.Published(); !write() || m.Page.Published() == n || m.Page.Written() == n.Written {
			t.Errorf("after %s the card does not tell of a write", name)
		}
		if m.Page.Arm(); c.Awaited() || c.Unseen() {
			t.Errorf("after %s the card tells twice of a write", name)
		}
	}
	m.Page.Disarm()
	if awaited(c) {
		t.Error("a process that watches and does not sleep is woken")
	}
	if i.Watch(false); write() {
		t.Error("the card tells of a write that nobody asks for any more")
	}
}

// Rule: the card's count is its own, whatever a process stores in the two words, and it changes no
// bit there but the one that asks for a wake (rapid).
func TestScribbledWatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, c, m := pair(t, 8)
		for n := uint32(1); n < 20; n++ {
			wake, scribble := rapid.Uint32().Draw(rt, "wake"), rapid.Uint32().Draw(rt, "written")
			changed := rapid.Bool().Draw(rt, "changed")
			if changed {
				c.Store(funi.GID, n)
			}
			m.Page[0x4d8/4], m.Page[0x6a8/4] = wake, scribble
			c.Wrote()
			want, left := scribble, wake
			if wake&2 != 0 {
				want = n
			}
			if changed || wake&2 != 0 {
				left &^= 1
			}
			if c.Awaited() != (left != wake) || m.Page[0x4d8/4] != left {
				rt.Fatalf("%#x has become %#x; want %#x", wake, m.Page[0x4d8/4], left)
			}
			if m.Page.Written() != want || c.Unseen() {
				rt.Fatalf("write %d with %#x in wake: the count is %d", n, wake, m.Page.Written())
			}
		}
	})
}

// cell is memory that a card writes by plain stores, as it copies data, on a line of its own.
type cell struct {
	_ [64]byte
	v uint64
	_ [64]byte
}

// write is the card's copy. The race detector has nothing to say of what another process does.
//
//go:norace
func (c *cell) write(v uint64) { c.v = v }

//go:norace
//go:noinline
func (c *cell) read() uint64 { return c.v }

// Rule: on two processors no write is lost between a process's last look and its sleep, also when
// it asks just then (written.go). Whether it notices that the fence is gone depends on the
// processor, so there is no mutation of it.
func TestNoWriteIsLostOnTwoProcessors(t *testing.T) {
	const rounds = 20_000
	i, c, m := pair(t, 8)
	var memory cell
	var turn, woken atomic.Uint64
	failed := make(chan error, 1)
	go func() { // the card
		for n := uint64(1); n <= rounds; n++ {
			for turn.Load() < n {
			}
			for k := n % 64; k > 0; k-- { // so that they meet everywhere
				c.Unseen()
			}
			memory.write(n)
			c.Wrote()
			if c.Awaited() {
				woken.Store(n)
			}
		}
	}()
	go func() { // the process
		for n := uint64(1); n <= rounds; n++ {
			turn.Store(n)
			for k := n / 64 % 64; k > 0; k-- {
				m.Page.Gone()
			}
			i.Watch(true)
			for seen := m.Page.Published(); memory.read() != n; seen = m.Page.Published() {
				m.Page.Arm()
				end := time.Now().Add(30 * time.Second)
				for m.Page.Published() == seen && woken.Load() != n {
					if time.Now().After(end) {
						failed <- fmt.Errorf("round %d: it sleeps beside %d, has seen %d", n, memory.read(), n-1)
						return
					}
				}
				m.Page.Disarm()
			}
			i.Watch(false)
		}
		failed <- nil
	}()
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
