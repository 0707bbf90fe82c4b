package engine_test

// This file holds the rules of a process that wants the memory of a segment back (segments.go):
// what others of its transfers do does not matter, and nothing of what it writes there afterwards
// travels.

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: a segment is busy with the transfers that are read from it, and with no others
// (Unregister).
func TestUnregisterBesideAnothersTransfer(t *testing.T) {
	b, _, _ := flight(t, quick)
	if err := b.ctx[0].Unregister(readOnly); err != nil {
		t.Errorf("unregistering what no transfer is read from: %v", err)
	}
	if err := b.ctx[0].Unregister(area); !errors.Is(err, engine.ErrSegmentBusy) {
		t.Errorf("unregistering what a transfer is read from: %v", err)
	}
	if err := b.ctx[0].Unregister(area + 16); !errors.Is(err, funi.ErrNoSegment) {
		t.Errorf("unregistering no segment: %v", err)
	}
}

// Rule: Withdraw takes the memory from the card at once. The transfer comes back, its slot is
// retired, and blocks in flight leave again without data.
func TestWithdrawWithBlocksInFlight(t *testing.T) {
	for _, peer := range []string{"answers", "silent"} {
		b, m, old := flight(t, quick)
		if err := b.ctx[0].Withdraw(area + 16); !errors.Is(err, funi.ErrNoSegment) {
			t.Errorf("withdrawing no segment: %v", err)
		}
		if err := b.ctx[0].Withdraw(area); err != nil {
			t.Fatal(err)
		}
		b.checked()
		scribble(m)
		before := bytes.Clone(m[1].area)
		if peer == "answers" {
			b.net.Cut(nil)
		}
		b.comesBack(time.Minute, b.proc[0], funi.Returned{Reason: arctic.ReasonSource, Level: funi.Request,
			Header: 3<<30 | funi.NewHeader(1, 5, 0), Word: 77})
		b.until(time.Minute, "retired", func() bool { return b.proc[0].Unsent(funi.Request) == 0 })
		b.idle(time.Minute)
		onlyOld(t, m[1].area, before, old)
		if s, ok := take(b.proc[1], funi.Request); ok {
			t.Errorf("peer %s: the receiver was told: %#x", peer, s[:])
		}
		quietTransfers(t, b)
	}
}

// Rule: a transfer whose source is withdrawn at any moment, over a network with every fault, is
// delivered whole, with what the process put there before, or comes back; and not both.
func TestWithdrawAtAnyMoment(t *testing.T) {
	told, back := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		blocks := rapid.Bool().Draw(rt, "blocks")
		lines := rapid.SampledFrom([]int{16, 64}).Draw(rt, "lines")
		b, m := transferBed(t, setup{cards: 2, slots: 16, tune: func(c *engine.Config) {
			c.Lines, c.ReplyLines, c.Blocks = lines, 4, blocks
		},
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks[rapid.SampledFrom([]string{"clean", "loss", "all"}).Draw(rt, "network")]}})
		// The second transfer is read from a segment that stays.
		other := make([]byte, areaSize/4)
		fill(other, 17)
		if err := b.ctx[0].Register(funi.Segment{Base: 2 * area, Memory: other, Rights: funi.Source}); err != nil {
			rt.Fatal(err)
		}
		want := [2][]byte{bytes.Clone(m[0].area[:areaSize/2]), bytes.Clone(other)}
		at := [2]uint32{area, area + areaSize/2}
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: at[0], Argument: 0,
			Words: len(want[0]) / 4})
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: 2 * area, Destination: at[1], Argument: 1,
			Words: len(want[1]) / 4})
		// At the beginning, somewhere on the way, or most likely at the end.
		moment := rapid.SampledFrom([]int{100, 2000, 100_000}).Draw(rt, "most microseconds")
		b.pass(time.Duration(moment-rapid.IntRange(0, min(moment, 2000)).Draw(rt, "microseconds")) * time.Microsecond)
		// Only a source: nobody writes to node 0, so its FIFOs hold nothing.
		if err := b.ctx[0].Withdraw(area); err != nil {
			rt.Fatal(err)
		}
		b.checked()
		scribble(m[:1])
		var notices, returns [2]int
		over := func(i int) bool { return notices[i]+returns[i] > 0 }
		look := func() bool {
			for s, ok := take(b.proc[1], funi.Request); ok; s, ok = take(b.proc[1], funi.Request) {
				i := s.Notice().Argument
				notices[i]++
				if got := m[1].area[at[i]-area:][:len(want[i])]; !bytes.Equal(got, want[i]) {
					rt.Fatalf("transfer %d is told of, with other data than was there before the source was withdrawn",
						i)
				}
			}
			for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
				if r.Reason != arctic.ReasonSource {
					rt.Fatalf("transfer %d came back with %v", r.Word, r.Reason)
				}
				returns[r.Word]++
			}
			return over(0) && over(1)
		}
		b.until(5*time.Minute, "an end of both", look)
		b.idle(time.Minute)
		b.pass(200 * time.Millisecond)
		look()
		if notices[0]+returns[0] != 1 || notices[1] != 1 || returns[1] != 0 {
			rt.Fatalf("told %v times, came back %v times", notices, returns)
		}
		quietTransfers(rt, b)
		told, back = told+notices[0], back+returns[0]
	})
	if told == 0 || back == 0 {
		t.Errorf("%d transfers were delivered and %d came back, want some of each", told, back)
	}
}
