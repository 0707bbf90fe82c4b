package engine_test

// This file tests steps that end in the middle as a process's memory fails.

import (
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// anonymous maps memory.
func anonymous(t *testing.T, size int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// tries steps a card and reports whether the step ended in a fault.
func tries(c *engine.Card, now int64) (failed bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if e := recover(); e != nil {
			if _, fault := e.(interface{ Addr() uintptr }); !fault {
				panic(e)
			}
			failed = true
		}
	}()
	c.Step(now)
	return false
}

// Rule: whatever part of a context's memory fails, and wherever that ends a step, every message
// of the others is delivered exactly once, on both cards, and nothing of the context stays in
// the card once it is abandoned (abandon.go).
func TestAbandonedMemory(t *testing.T) {
	const other, slots, messages = 9, 16, 200
	size, err := funi.SharedSize(slots)
	if err != nil {
		t.Fatal(err)
	}
	faults := 0
	for seed := range 120 {
		c := newCouple(t, 64)
		memory, segment := anonymous(t, size), anonymous(t, 1<<16)
		mem, err := funi.SharedRemoteMemory(memory, anonymous(t, funi.DoorbellsSize), funi.RemoteSizes{})
		if err != nil {
			t.Fatal(err)
		}
		mem.Queues = mem.Queues[:4*slots*funi.SlotWords] // Initialize makes all of it queues
		var proc [2]*funi.Interface
		var ctx [2]*engine.Context
		for i := range proc {
			m := mem
			if i == 1 {
				if m, err = funi.NewMemory(slots); err != nil {
					t.Fatal(err)
				}
			}
			if proc[i], err = funi.Initialize(m); err != nil {
				t.Fatal(err)
			}
			if ctx[i], err = c.cards[i].Attach(m, other, uint16(i), jobTag); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range [][]byte{segment, make([]byte, 1<<16)} {
			if err := ctx[i].Register(funi.Segment{Base: 4096, Memory: s,
				Rights: funi.Source | funi.Destination}); err != nil {
				t.Fatal(err)
			}
		}
		// The queues, the registers or the segment fail, or all.
		parts := [][]byte{memory[funi.PageSize:], memory[:funi.PageSize], segment}[seed%4%3:]
		if seed%4 != 3 {
			parts = parts[:1]
		}
		sent, seen, gone := 0, map[uint32]int{}, false
		for step := 0; step < 4000 && (len(seen) < messages || !gone || !c.cards[0].Quiet()); step++ {
			if sent < messages && put(c.proc[0], funi.Request, 1, uint32(sent)) {
				sent++
			}
			if step < 20+seed/4 {
				for i, p := range proc {
					put(p, funi.Reply, 1-i, 1)
					put(p, funi.Request, 77, 1) // it returns
					words := 4                  // copied at once
					if seed%8 < 4 {
						words = 1 << 12 // in blocks
					}
					if s := p.Reserve(funi.Request); s != nil {
						s.SetTransfer(uint16(1-i), 5, funi.Transfer{Source: 4096, Destination: 4096, Words: words})
						p.Commit(funi.Request)
					}
				}
			}
			if step == 20+seed/4-1 {
				for _, p := range parts {
					if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.now += int64(time.Microsecond)
			if tries(c.cards[0], c.now) || step == 2000 && !gone {
				faults++
				for _, p := range [][]byte{memory, segment} {
					if err := unix.Mprotect(p, unix.PROT_READ); err != nil {
						t.Fatal(err)
					}
				}
				c.cards[0].Abandon(ctx[0])
				gone = true
			}
			c.cards[1].Step(c.now)
			for s := c.proc[1].Receive(funi.Request); s != nil; s = c.proc[1].Receive(funi.Request) {
				seen[s.Payload()[0]]++
				c.proc[1].Release(funi.Request)
			}
			if step > 3000 { // what only a timer repairs
				c.now += int64(time.Millisecond)
			}
		}
		for i := range uint32(messages) {
			if seen[i] != 1 {
				t.Fatalf("seed %d: message %d of others was delivered %d times", seed, i, seen[i])
			}
		}
		if !gone || !c.cards[0].Quiet() {
			t.Fatalf("seed %d: abandoned %v, and nothing of it is in the card: %v", seed, gone, c.cards[0].Quiet())
		}
		c.roundTrip()
	}
	if faults < 100 {
		t.Error(fmt.Sprint(faults, " faults"))
	}
}
