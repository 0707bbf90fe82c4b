package wire_test

// This file holds the rules of the network in memory.

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/port"
)

var (
	a = [6]byte{2, 0, 0, 0, 0, 1}
	b = [6]byte{2, 0, 0, 0, 0, 2}
)

const size = 64

// send commits a numbered frame.
func send(p port.Port, from, to [6]byte, n uint32) []byte {
	f := p.Reserve()[:size]
	clear(f)
	copy(f[0:], to[:])
	copy(f[6:], from[:])
	binary.LittleEndian.PutUint32(f[14:], n)
	f = bytes.Clone(f)
	p.Commit(size)
	return f
}

// receive takes all frames of a port, a few at a time.
func receive(p port.Port) (all [][]byte) {
	var batch [3][]byte
	for n := p.Receive(batch[:]); n > 0; n = p.Receive(batch[:]) {
		for _, f := range batch[:n] {
			all = append(all, bytes.Clone(f))
		}
		p.Release()
	}
	return all
}

// Rule: a frame leaves with Flush, arrives after Delay, unchanged and in order; it
// is in the port's memory until Release, and Receive before Release lends the same
// again (port.Port).
func TestFramesArriveInOrder(t *testing.T) {
	n := wire.New(wire.Config{Delay: 10})
	from, to := n.Plug(a), n.Plug(b)
	n.Advance(100)
	var want [][]byte
	for i := range uint32(10) {
		want = append(want, send(from, a, b, i))
	}
	if _, ok := n.Next(); ok {
		t.Fatal("a frame is under way before Flush")
	}
	from.Flush()
	if at, ok := n.Next(); !ok || at != 110 {
		t.Fatalf("next arrival at %d (%v), want 110", at, ok)
	}
	n.Advance(109)
	if got := receive(to); len(got) != 0 {
		t.Fatalf("%d frames came early", len(got))
	}
	n.Advance(110)
	var batch [4][]byte
	if k := to.Receive(batch[:]); k != 4 || !bytes.Equal(batch[3], want[3]) {
		t.Fatalf("%d frames", k)
	}
	got := receive(to)
	if len(got) != 10 || n.Carried != 10 || n.Lost != 0 {
		t.Fatalf("%d frames arrived, %d counted, %d lost; want 10, 10, 0", len(got), n.Carried, n.Lost)
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("frame %d is %x, want %x", i, got[i], want[i])
		}
	}
}

// Rule: a receive ring holds Ring frames, further ones are lost and counted; so are
// frames to an address that nobody has, and those that are cut (Config, Cut).
func TestLostFramesAreCounted(t *testing.T) {
	n := wire.New(wire.Config{Ring: 3})
	from, to := n.Plug(a), n.Plug(b)
	for i := range uint32(5) {
		send(from, a, b, i)
	}
	send(from, a, [6]byte{2, 9}, 9)
	from.Flush()
	n.Advance(1)
	if got := receive(to); len(got) != 3 || n.Lost != 3 || n.Carried != 3 {
		t.Fatalf("%d arrived, %d counted, %d lost; want 3, 3, 3", len(got), n.Carried, n.Lost)
	}
	n.Cut(func(x, y [6]byte) bool { return x == a && y == b })
	send(from, a, b, 1)
	from.Flush()
	send(to, b, a, 2)
	to.Flush()
	n.Advance(2)
	if x, y := receive(to), receive(from); len(x) != 0 || len(y) != 1 {
		t.Fatalf("cut from a to b: %d and %d frames arrived, want 0 and 1", len(x), len(y))
	}
	n.Cut(nil)
	send(from, a, b, 1)
	from.Flush()
	n.Advance(3)
	if got := receive(to); len(got) != 1 {
		t.Fatalf("%d frames arrived after healing, want 1", len(got))
	}
}

// Rule: a port replaces an earlier port of its address (Plug).
func TestPlugReplaces(t *testing.T) {
	n := wire.New(wire.Config{})
	from, old := n.Plug(a), n.Plug(b)
	young := n.Plug(b)
	send(from, a, b, 1)
	from.Flush()
	n.Advance(1)
	if x, y := receive(old), receive(young); len(x) != 0 || len(y) != 1 {
		t.Fatalf("%d frames at the old port and %d at the new, want 0 and 1", len(x), len(y))
	}
}

// Rule: each fault does what its name says, about as often as configured, and
// nothing else (Faults).
func TestFaults(t *testing.T) {
	const frames = 10000
	for name, faults := range map[string]wire.Faults{
		"none": {}, "loss": {Loss: 0.3}, "duplicate": {Duplicate: 0.3}, "reorder": {Reorder: 0.3},
		"corrupt": {Corrupt: 0.3},
	} {
		n := wire.New(wire.Config{Seed: 5, Delay: time.Microsecond, Ring: 3 * frames})
		n.SetFaults(faults)
		from, to := n.Plug(a), n.Plug(b)
		var sent [][]byte
		for i := range uint32(frames) {
			n.Advance(int64(i) * 100)
			sent = append(sent, send(from, a, b, i))
			from.Flush()
		}
		n.Advance(frames*100 + 11000)
		copies := make([]int, frames)
		damaged, overtaken, last := 0, 0, uint32(0)
		got := receive(to)
		for _, f := range got {
			id := binary.LittleEndian.Uint32(f[14:])
			if faults.Corrupt > 0 {
				// Find the frame by the only order there is.
				id = last
				last++
			}
			wrong := 0
			for i := range f {
				wrong += bits.OnesCount8(f[i] ^ sent[id][i])
			}
			if wrong > 1 || !bytes.Equal(f[:14], sent[id][:14]) {
				t.Fatalf("%s: frame %d has %d wrong bits, or its Ethernet header is damaged", name, id, wrong)
			}
			damaged += wrong
			copies[id]++
			if faults.Corrupt == 0 {
				if id < last {
					overtaken++
				}
				last = max(last, id)
			}
		}
		lost, twice := 0, 0
		for _, c := range copies {
			switch c {
			case 0:
				lost++
			case 2:
				twice++
			}
		}
		for _, c := range []struct {
			what string
			n    int
			p    float64
		}{{"lost", lost, faults.Loss}, {"twice", twice, faults.Duplicate}, {"damaged", damaged, faults.Corrupt}} {
			if low, high := int(c.p*frames*0.9), int(c.p*frames*1.1); c.n < low || c.n > high {
				t.Errorf("%s: %d of %d frames %s, want %d to %d", name, c.n, frames, c.what, low, high)
			}
		}
		if (overtaken > 0) != (faults.Reorder > 0) {
			t.Errorf("%s: %d frames overtaken", name, overtaken)
		}
		if uint64(len(got)) != n.Carried || n.Lost != uint64(lost) {
			t.Errorf("%s: counted %d carried and %d lost, want %d and %d", name, n.Carried, n.Lost, len(got), lost)
		}
	}
}

// Rule: the same seed, calls and times give the same frames in the same order;
// another seed gives others.
func TestSameSeedSameFrames(t *testing.T) {
	run := func(seed uint64) []byte {
		n := wire.New(wire.Config{Seed: seed, Delay: 50,
			Faults: wire.Faults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.3, Corrupt: 0.1}})
		from, to := n.Plug(a), n.Plug(b)
		var all []byte
		for i := range uint32(500) {
			send(from, a, b, i)
			from.Flush()
			n.Advance(int64(i) * 10)
			for _, f := range receive(to) {
				all = append(all, f...)
			}
		}
		return all
	}
	if !bytes.Equal(run(1), run(1)) {
		t.Error("seed 1 gave different frames")
	}
	if bytes.Equal(run(1), run(2)) {
		t.Error("seeds 1 and 2 gave the same frames")
	}
}
