package engine_test

// This file holds the rules of the counts of windows (execute.go): which operations they count,
// that each counts once, and that it does so when all of it is there.

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// countsAt is where a window's counts are in the keyed segment of its node.
const countsAt = 60 << 10

// counted returns what is counted there.
func (r *remoteBed) counted(node int) (c [3]uint64) {
	for i := range c {
		c[i] = binary.LittleEndian.Uint64(r.keyed[node][countsAt+8*i:])
	}
	return c
}

// counting returns an operation that the window is to count.
func counting(o funi.Operation) funi.Operation {
	o.Counts = true
	return o
}

// Rule: a window with counts counts each operation that asks for it, by what it does, and no other;
// what is refused does not count.
func TestCounts(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *remoteBed, to int) {
		copy(r.keyed[to][countsAt:], make([]byte, funi.CountsBytes))
		r.exposes(to, funi.Window{Key: theKey, Base: 128, Bytes: 4096, Address: windowAt, Rights: allRights, Credit: 8,
			Counts: keyedAt + countsAt})
		r.exposes(to, funi.Window{Key: otherKey, Base: 8192, Bytes: 64, Address: windowAt, Rights: allRights})
		put := func(n int, at uint64, trailer arctic.Trailer) funi.Operation {
			return funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: at, Ack: true,
				Trailer: trailer}, Source: sources, Length: n, Cookie: 7}
		}
		get := func(n int, at uint64) funi.Operation {
			return funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: theKey, Address: at},
				Source: keyedAt + 16384, Length: n, Cookie: 7}
		}
		silent := func(op arctic.Operation, v ...uint64) funi.Operation {
			o := operation(op, windowAt, v...)
			o.Fetch, o.Ack = false, true
			return o
		}
		elsewhere := func(o funi.Operation) funi.Operation { o.Key = otherKey; return o }
		notify := arctic.Trailer{Notify: true}
		wrong := operation(arctic.RemoteAdd, windowAt+4, 1) // not aligned
		for name, c := range map[string]struct {
			o    funi.Operation
			more [3]uint64
			want arctic.Reason
		}{
			"a put of nothing":         {put(0, windowAt, arctic.Trailer{}), [3]uint64{1}, 0},
			"a put of a packet":        {put(64, windowAt, arctic.Trailer{}), [3]uint64{1}, 0},
			"a put of many":            {put(4096, windowAt, arctic.Trailer{}), [3]uint64{1}, 0},
			"a put that notifies":      {put(8, windowAt, notify), [3]uint64{1}, 0},
			"a long put that notifies": {put(1000, windowAt, notify), [3]uint64{1}, 0},
			"a put beyond the window":  {put(4097, windowAt, arctic.Trailer{}), [3]uint64{}, arctic.ReasonRange},
			"a get of nothing":         {get(0, windowAt), [3]uint64{2: 1}, 0},
			"a get of a packet":        {get(64, windowAt), [3]uint64{2: 1}, 0},
			"a get of many":            {get(4096, windowAt), [3]uint64{2: 1}, 0},
			"a get of 65 bytes":        {get(65, windowAt), [3]uint64{2: 1}, 0},
			"a get beyond the window":  {get(4097, windowAt), [3]uint64{}, arctic.ReasonRange},
			"a write":                  {silent(arctic.RemoteWrite, 1), [3]uint64{1}, 0},
			"an add without answer":    {silent(arctic.RemoteAdd, 1), [3]uint64{1}, 0},
			"an add":                   {operation(arctic.RemoteAdd, windowAt, 1), [3]uint64{1: 1}, 0},
			"a swap in vain":           {operation(arctic.RemoteCompareSwap, windowAt, 1<<63, 1), [3]uint64{1: 1}, 0},
			"a read":                   {operation(arctic.RemoteRead, windowAt), [3]uint64{2: 1}, 0},
			"an add that is refused":   {wrong, [3]uint64{}, arctic.ReasonAlignment},
			"an add elsewhere":         {elsewhere(operation(arctic.RemoteAdd, windowAt, 1)), [3]uint64{}, 0},
		} {
			for _, asks := range []bool{true, false} {
				want := r.counted(to)
				o := c.o
				o.Counts = asks
				if asks {
					for i := range want {
						want[i] += c.more[i]
					}
				}
				r.asks(0, to, o)
				done := r.notified(0)
				if to == 0 && done.Kind == funi.NoteWindow {
					done = r.notified(0)
				}
				if done.Reason != c.want || r.counted(to) != want {
					t.Errorf("%s: %v, and the counts are %v, want %v and %v", name, done.Reason, r.counted(to), c.want, want)
				}
				for n := (funi.Notification{}); r.proc[to].NextNotification(&n); {
				}
			}
		}
	})
}

// Rule: an operation counts once, and not before all that it puts is in memory, or all but the last
// packet of what it gets has been read, whatever the network loses. Others go on meanwhile.
func TestCountComesLast(t *testing.T) {
	for name, tune := range windowCards {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				net := wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
					Faults: networks["all"]}
				r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, tune: tune, net: net})
				const most, room = 6, 4096
				clear(r.keyed[1])
				for i := range r.source[0] {
					r.source[0][i] = byte(1 + i%255)
				}
				r.exposes(1, funi.Window{Key: theKey, Bytes: most * room, Address: windowAt, Rights: allRights,
					Counts: keyedAt + countsAt})
				clear(r.keyed[0])
				copy(r.keyed[1][most*room/2:], r.source[0][:most*room/2]) // what is got
				var there []func() bool
				puts, gets := []func() bool{}, []func() bool{}
				n := rapid.IntRange(1, most).Draw(rt, "operations")
				for i := range n {
					size := rapid.SampledFrom([]int{1, 64, 65, 80, 128, 1000, 1472, 2048 - 17}).Draw(rt, "bytes") +
						rapid.IntRange(0, 16).Draw(rt, "more")
					at := i * room / 2
					if rapid.Bool().Draw(rt, "get") {
						from := r.keyed[1][most*room/2+at:][:size]
						into := r.keyed[0][at:][:size]
						read := max(size-arctic.MaxResponseBytes, 0)
						gets = append(gets, func() bool { return bytes.Equal(into[:read], from[:read]) })
						r.asks(0, 1, counting(funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet,
							Key: theKey, Address: windowAt + most*room/2 + uint64(at)}, Source: uint32(keyedAt + at), Length: size,
							Cookie: uint32(i)}))
						there = append(there, func() bool { return bytes.Equal(into, from) })
						continue
					}
					into := r.keyed[1][at:][:size]
					whole := func() bool { return bytes.Equal(into, r.source[0][at:][:size]) }
					puts, there = append(puts, whole), append(there, whole)
					r.asks(0, 1, counting(funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey,
						Address: windowAt + uint64(at), Ack: true}, Source: uint32(sources + at), Length: size,
						Cookie: uint32(i)}))
				}
				holding := func(of []func() bool) (n uint64) {
					for _, f := range of {
						if f() {
							n++
						}
					}
					return n
				}
				for left := n; left > 0; {
					r.pass(5 * time.Microsecond)
					c := r.counted(1)
					if c[0] > holding(puts) || c[2] > holding(gets) || c[1] != 0 {
						rt.Fatalf("the counts are %v, of %d puts that are there and %d gets", c, holding(puts), holding(gets))
					}
					for done := (funi.Notification{}); r.proc[0].NextNotification(&done); left-- {
						if done.Reason != arctic.ReasonNone || !there[done.Cookie]() {
							rt.Fatalf("operation %d is complete: %v", done.Cookie, done.Reason)
						}
					}
				}
				r.ends()
				if c, want := r.counted(1), [3]uint64{uint64(len(puts)), 0, uint64(len(gets))}; c != want {
					rt.Fatalf("the counts are %v, want %v", c, want)
				}
			})
		})
	}
}

// Rule: a window closes with the segment that its counts are in.
func TestCountsWithdrawn(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near})
	const there = 0x9000_0000
	if err := r.ctx[1].Register(funi.Segment{Base: there, Memory: make([]byte, 64), Rights: funi.Keyed}); err != nil {
		t.Fatal(err)
	}
	r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: allRights, Counts: there + 8})
	r.exposes(1, funi.Window{Key: otherKey, Bytes: 64, Address: windowAt, Rights: allRights})
	add := counting(operation(arctic.RemoteAdd, windowAt, 1))
	if n := r.completes(0, 1, add); n.Reason != arctic.ReasonNone {
		t.Fatal(n.Reason)
	}
	if err := r.ctx[1].Unregister(there); err != nil {
		t.Fatal(err)
	}
	if n := r.completes(0, 1, add); n.Reason != arctic.ReasonKeySlot {
		t.Errorf("with the window: %v", n.Reason)
	}
	add.Key = otherKey
	if n := r.completes(0, 1, add); n.Reason != arctic.ReasonNone {
		t.Errorf("with another: %v", n.Reason)
	}
	r.ends()
}
