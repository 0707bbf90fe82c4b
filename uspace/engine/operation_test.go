package engine_test

// This file holds the rules of operations on windows (execute.go, atomics.go, request.go,
// response.go): what they change and answer, once; what is refused, and that a refusal changes
// nothing; when they are complete.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	windowAt  = 1<<40 + 64 // the address of the first byte of a window
	allRights = funi.RightRead | funi.RightWrite | funi.RightAtomic | funi.RightNotify
)

var moreRemote = funi.RemoteSizes{KeySlots: 8, Areas: 4, Notifications: 64}

// windowCards are the cards that operations are tried on.
var windowCards = map[string]func(*engine.Config){
	"blocks": func(c *engine.Config) { c.Blocks = true }, "packets": func(c *engine.Config) { c.Blocks = false },
	"timed": timed, "units": units, "fetching": fetching,
}

// fetching is the card of a machine whose units take time, and which has one entry of a window
// table.
func fetching(c *engine.Config) {
	timed(c)
	c.Timing.WindowEntries = 1
}

// onTimedToo tries a rule on a card that takes no time, and on those whose units do.
func onTimedToo(t *testing.T, try func(t *testing.T, tune func(*engine.Config))) {
	t.Helper()
	for name, tune := range map[string]func(*engine.Config){
		"native": func(*engine.Config) {}, "timed": timed, "fetching": fetching} {
		t.Run(name, func(t *testing.T) { try(t, tune) })
	}
}

// exposes opens a window over bytes of the keyed segment.
func (r *remoteBed) exposes(node int, w funi.Window) {
	r.t.Helper()
	w.Base += keyedAt
	r.block(node, funi.Request, func(s *funi.Slot) { s.SetOpenWindow(&w, 0) })
	r.retired(node)
}

// asks sends an operation.
func (r *remoteBed) asks(from, to int, o funi.Operation) {
	r.t.Helper()
	if !o.Valid() {
		r.t.Fatalf("not valid: %+v", o)
	}
	r.block(from, funi.Request, func(s *funi.Slot) { s.SetOperation(uint16(to), &o) })
}

// completes sends an operation and waits until it is complete.
func (r *remoteBed) completes(from, to int, o funi.Operation) funi.Notification {
	r.t.Helper()
	r.asks(from, to, o)
	n := r.notified(from)
	if n.Kind != funi.NoteCompletion || n.Cookie != o.Cookie || n.Source != uint16(to) || n.Operation != o.Operation {
		r.t.Fatalf("not the completion of %+v: %+v", o, n)
	}
	return n
}

func word(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// operation returns one on 8 bytes that is complete when it is answered.
func operation(op arctic.Operation, address uint64, operands ...uint64) funi.Operation {
	o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: op, Element: arctic.Uint64, Key: theKey,
		Address: address, Bytes: 8, Fetch: op != arctic.RemoteRead}, Cookie: 7}
	for _, v := range operands {
		o.Operands = append(o.Operands, word(v)...)
	}
	return o
}

func eachWindow(t *testing.T, f func(t *testing.T, r *remoteBed, to int)) {
	for name, tune := range windowCards {
		for _, to := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s to %d", name, to), func(t *testing.T) {
				r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, tune: tune})
				f(t, r, to)
				r.ends()
			})
		}
	}
}

// Rule: each operation does to integers of 64 bits what it says, and answers what was there
// (section 2).
func TestOperations(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *remoteBed, to int) {
		r.exposes(to, funi.Window{Key: theKey, Base: 128, Bytes: 64, Address: windowAt, Rights: allRights})
		cell := r.keyed[to][128+8 : 128+16]
		was := uint64(1000)
		copy(cell, word(was))
		for _, c := range []struct {
			op       arctic.Operation
			operands []uint64
			becomes  uint64
		}{
			{arctic.RemoteRead, nil, 1000},
			{arctic.RemoteWrite, []uint64{0xf0f0}, 0xf0f0},
			{arctic.RemoteAdd, []uint64{0x10}, 0xf100},
			{arctic.RemoteAnd, []uint64{0xff00}, 0xf100},
			{arctic.RemoteOr, []uint64{0x0f}, 0xf10f},
			{arctic.RemoteXor, []uint64{0xffff}, 0x0ef0},
			{arctic.RemoteMin, []uint64{5}, 5},
			{arctic.RemoteMax, []uint64{6}, 6},
			{arctic.RemoteProd, []uint64{7}, 42},
			{arctic.RemoteSwap, []uint64{99}, 99},
			{arctic.RemoteCompareSwap, []uint64{98, 1}, 99},
			{arctic.RemoteCompareSwap, []uint64{99, 1}, 1},
			{arctic.RemoteMaskedSwap, []uint64{0xabcd, 0xff00}, 0xab01},
			{arctic.RemoteAdd, []uint64{math.MaxUint64}, 0xab00},
		} {
			n := r.completes(0, to, operation(c.op, windowAt+8, c.operands...))
			if n.Reason != arctic.ReasonNone || n.Bytes != 8 || binary.LittleEndian.Uint64(n.Answer[:]) != was {
				t.Fatalf("operation %d answers %v of %d bytes: %v, want %#x", c.op, n.Answer[:8],
					n.Bytes, n.Reason, was)
			}
			if got := binary.LittleEndian.Uint64(cell); got != c.becomes {
				t.Fatalf("operation %d leaves %#x, want %#x", c.op, got, c.becomes)
			}
			was = c.becomes
		}
		if done := r.proc[0].Completed(); done != 14 {
			t.Errorf("%d operations are completed, want 14", done)
		}
	})
}

// Rule: elements of each type are numbers of that type, and of 8 and 16 bits nothing beside them
// changes.
func TestElements(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		r := newRemoteBed(t, setup{tune: tune, cards: 2, remote: moreRemote})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: allRights})
		f32 := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
		f64 := func(v float64) []byte { return word(math.Float64bits(v)) }
		for _, c := range []struct {
			op             arctic.Operation
			e              arctic.Element
			at             int
			was, by, is    []byte
			ofSeveralWords bool
		}{
			{op: arctic.RemoteAdd, e: arctic.Uint8, at: 3, was: []byte{250}, by: []byte{10}, is: []byte{4}},
			{op: arctic.RemoteMin, e: arctic.Int8, at: 2, was: []byte{5}, by: []byte{0xff}, is: []byte{0xff}},
			{op: arctic.RemoteMax, e: arctic.Uint8, at: 1, was: []byte{5}, by: []byte{0xff}, is: []byte{0xff}},
			{op: arctic.RemoteProd, e: arctic.Int16, at: 6, was: []byte{3, 0}, by: []byte{0xfe, 0xff},
				is: []byte{0xfa, 0xff}},
			{op: arctic.RemoteSwap, e: arctic.Uint16, at: 4, was: []byte{3, 0}, by: []byte{0xfe, 0xff},
				is: []byte{0xfe, 0xff}},
			{op: arctic.RemoteMin, e: arctic.Int32, at: 8, was: []byte{1, 0, 0, 0}, by: []byte{0xff, 0xff, 0xff, 0xff},
				is: []byte{0xff, 0xff, 0xff, 0xff}},
			{op: arctic.RemoteMax, e: arctic.Int64, at: 8, was: word(1), by: word(math.MaxUint64), is: word(1)},
			{op: arctic.RemoteAdd, e: arctic.Float32, at: 12, was: f32(1.5), by: f32(2.25), is: f32(3.75)},
			{op: arctic.RemoteProd, e: arctic.Float64, at: 16, was: f64(1.5), by: f64(-2), is: f64(-3)},
			{op: arctic.RemoteMin, e: arctic.Float64, at: 16, was: f64(1.5), by: f64(-2), is: f64(-2)},
			{op: arctic.RemoteAdd, e: arctic.Uint64, at: 24, was: append(word(1), word(2)...),
				by: append(word(math.MaxUint64), word(5)...), is: append(word(0), word(7)...)},
			{op: arctic.RemoteAdd, e: arctic.Uint32, at: 48, was: make([]byte, 16),
				by: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0},
				is: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}},
		} {
			fill(r.keyed[1], 77)
			copy(r.keyed[1][c.at:], c.was)
			want := bytes.Clone(r.keyed[1])
			copy(want[c.at:], c.is)
			n := r.completes(0, 1, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: c.op, Element: c.e,
				Key: theKey, Address: windowAt + uint64(c.at), Bytes: len(c.was), Operands: c.by, Fetch: true}})
			if n.Reason != arctic.ReasonNone || !bytes.Equal(n.Answer[:n.Bytes], c.was) ||
				!bytes.Equal(r.keyed[1], want) {
				t.Errorf("operation %d on type %d: %v, answer %v; memory as it should be: %v", c.op, c.e, n.Reason,
					n.Answer[:n.Bytes], bytes.Equal(r.keyed[1], want))
			}
		}
		r.ends()
	})
}

// Rule: a get of any length brings what the window holds, and nothing else changes; a put of any
// length writes what it says, also in packets that cross 4 GiB of addresses (rapid).
func TestGetAndPutOfAnyLength(t *testing.T) {
	for name, tune := range windowCards {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				net := wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
					Faults: rapid.SampledFrom([]wire.Faults{{}, networks["all"]}).Draw(rt, "faults")}
				to := rapid.IntRange(0, 1).Draw(rt, "to")
				r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, tune: tune, net: net})
				at := rapid.Uint64Range(0, arctic.MaxAddress-keyedSize).Draw(rt, "address")
				if rapid.Bool().Draw(rt, "across") {
					at = 5<<32 - 4096
				}
				half := keyedSize / 2
				r.exposes(to, funi.Window{Key: theKey, Bytes: uint32(half), Address: at, Rights: allRights})
				for range 3 {
					n := rapid.SampledFrom([]int{0, 1, 8, 32, 63, 64, 65, 80, 1000, 1456, 5000, half - 300}).Draw(rt,
						"bytes") + rapid.IntRange(0, 17).Draw(rt, "more")
					from, into := rapid.IntRange(0, half-n).Draw(rt, "from"),
						rapid.IntRange(half, keyedSize-n).Draw(rt, "into")
					want := [][]byte{bytes.Clone(r.keyed[0]), bytes.Clone(r.keyed[1])}
					o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: at + uint64(from)},
						Length: n, Cookie: 3}
					if rapid.Bool().Draw(rt, "get") {
						o.Operation, o.Source = arctic.RemoteGet, uint32(keyedAt+into)
						copy(want[0][into:into+n], want[to][from:from+n])
					} else {
						o.Source, o.Ack = uint32(sources+into), true
						copy(want[to][from:from+n], r.source[0][into:into+n])
					}
					if got := r.completes(0, to, o); got.Reason != arctic.ReasonNone ||
						o.Operation == arctic.RemoteGet && int(got.Bytes) != n {
						rt.Fatalf("%d bytes: %v", n, got)
					}
					for i := range want {
						if !bytes.Equal(want[i], r.keyed[i]) {
							rt.Fatalf("memory of node %d is not as it should be after operation %d of %d bytes",
								i, o.Operation, n)
						}
					}
				}
				r.ends()
			})
		})
	}
}

// Rule: a trailer is carried out when all data of its put is there, whatever the network loses: the
// notification says its tag, and the signal is set or added to once.
func TestTrailer(t *testing.T) {
	for name, tune := range windowCards {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				net := wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
					Faults: networks["all"]}
				r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, tune: tune, net: net})
				r.exposes(1, funi.Window{Key: theKey, Bytes: 32768, Address: windowAt, Rights: allRights, Credit: 4})
				r.exposes(1, funi.Window{Key: otherKey, Base: 32768, Bytes: 64, Rights: funi.RightAtomic})
				signal := r.keyed[1][32768+8 : 32768+16]
				copy(signal, word(100))
				n := rapid.SampledFrom([]int{0, 8, 32, 64, 100, 4096, 20000}).Draw(rt, "bytes")
				o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: windowAt,
					Ack: rapid.Bool().Draw(rt, "ack"),
					Trailer: arctic.Trailer{Notify: true, Tag: 1<<63 | 5, Add: true, Key: otherKey, Address: 8,
						Value: 11}}, Source: sources, Length: n}
				r.asks(0, 1, o)
				got := r.notified(1)
				if got.Kind != funi.NoteWindow || got.Tag != 1<<63|5 || got.Source != 0 ||
					got.KeySlot != uint16(theKey&0xffff) {
					rt.Fatalf("the notification is %+v", got)
				}
				if !bytes.Equal(r.keyed[1][:n], r.source[0][:n]) {
					rt.Fatalf("the notification came before the data")
				}
				r.ends()
				if v := binary.LittleEndian.Uint64(signal); v != 111 {
					rt.Fatalf("the signal is %d, want 111", v)
				}
				if again := (funi.Notification{}); r.proc[1].NextNotification(&again) {
					rt.Fatalf("a second notification: %+v", again)
				}
			})
		})
	}
}

// Rule: adds that the network loses, doubles and reorders are carried out once each: the sum is
// that of all, and no two answers are the same (section 2: exactly-once frames make exactly-once
// atomics).
func TestAddsOnce(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		rapid.Check(t, func(rt *rapid.T) {
			net := wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks["all"]}
			r := newRemoteBed(t, setup{tune: tune, cards: 3, remote: moreRemote, net: net})
			r.exposes(2, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
			copy(r.keyed[2], word(0))
			seen := map[uint64]bool{}
			const each = 40
			sent, left := [3]int{}, 3*each
			for left > 0 {
				for node := range 3 {
					if n := (funi.Notification{}); r.proc[node].NextNotification(&n) {
						v := binary.LittleEndian.Uint64(n.Answer[:])
						if n.Reason != arctic.ReasonNone || seen[v] {
							rt.Fatalf("node %d is answered %d: %v; seen before: %v", node, v, n.Reason, seen[v])
						}
						seen[v] = true
						left--
					}
					if sent[node] < each && r.proc[node].Reserve(funi.Request) != nil {
						r.asks(node, 2, operation(arctic.RemoteAdd, 0, 1))
						sent[node]++
					}
				}
				r.pass(10 * time.Microsecond)
			}
			if v := binary.LittleEndian.Uint64(r.keyed[2]); v != 3*each {
				rt.Fatalf("the sum is %d, want %d", v, 3*each)
			}
			r.ends()
		})
	})
}

// Rule (request.go): what a window's owner owes to a process that has ended is not taken for an
// answer to the next process in its place, however many there are.
func TestAnswersOfAnotherLife(t *testing.T) {
	for lives := range 4 {
		r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		copy(r.keyed[1], word(0))
		sum := uint64(0)
		add := func(v uint64) {
			// so that the cards have met
			r.put(0, 1, funi.Request, funi.Put{Key: theKey, Offset: 8, Data: word(v)})
			r.pass(time.Millisecond)
			r.net.Cut(func(from, _ [6]byte) bool { return from == address(1) })
			r.asks(0, 1, operation(arctic.RemoteAdd, 0, v))
			sum += v
			r.until(soon, "it is carried out", func() bool { return binary.LittleEndian.Uint64(r.keyed[1]) == sum })
		}
		for life := range lives + 1 {
			add(uint64(100 + life))
			r.cards[0].Detach(r.ctx[0])
			r.proc[0], r.ctx[0], _ = r.attach(0, gid, 0)
			if life < lives {
				r.net.Cut(nil)
			}
		}
		r.asks(0, 1, operation(arctic.RemoteAdd, 0, 7))
		r.until(soon, "it is carried out", func() bool { return binary.LittleEndian.Uint64(r.keyed[1]) == sum+7 })
		r.net.Cut(nil)
		if n := r.notified(0); n.Reason != arctic.ReasonNone || binary.LittleEndian.Uint64(n.Answer[:]) != sum {
			t.Fatalf("after %d lives it is answered %d, want %d: %v", lives+1,
				binary.LittleEndian.Uint64(n.Answer[:]), sum, n.Reason)
		}
		r.ends()
	}
}

// Rule: an operation of another process of the same card is answered also if the window's owner has
// nothing else to do, awake or asleep.
func TestOperationsOfTheSameCard(t *testing.T) {
	const nodes = 20 // so that those who are quiet sleep (wake.go)
	r := newRemoteBed(t, setup{cards: 1, remote: moreRemote})
	for n := uint16(1); n < nodes; n++ {
		p, _ := r.join(0, gid, n)
		r.proc = append(r.proc, p)
		if err := r.cards[0].SetRoute(n, 0); err != nil {
			t.Fatal(err)
		}
	}
	r.exposes(0, funi.Window{Key: theKey, Base: 128, Bytes: 64, Address: windowAt, Rights: allRights})
	copy(r.keyed[0][128:136], word(0))
	for i := range uint64(3 * nodes) {
		r.pass(time.Millisecond) // the owner is quiet
		from := int(1 + i%(nodes-1))
		if n := r.completes(from, 0, operation(arctic.RemoteAdd, windowAt, 1)); n.Reason != arctic.ReasonNone ||
			binary.LittleEndian.Uint64(n.Answer[:]) != i {
			t.Fatalf("operation %d of node %d: %+v", i, from, n)
		}
	}
}

// Rule: a write that fetches what was there is a swap: the right to write is not enough, and says
// so at once.
func TestWriteThatFetchesIsASwap(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *remoteBed, to int) {
		r.exposes(to, funi.Window{Key: theKey, Base: 128, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
		before := bytes.Clone(r.keyed[to])
		if n := r.completes(0, to, operation(arctic.RemoteWrite, windowAt, 1)); n.Reason != arctic.ReasonRights ||
			!bytes.Equal(r.keyed[to], before) {
			t.Fatalf("with the right to write: %v", n.Reason)
		}
		o := operation(arctic.RemoteWrite, windowAt, 1)
		o.Fetch, o.Ack = false, true
		if n := r.completes(0, to, o); n.Reason != arctic.ReasonNone || !bytes.Equal(r.keyed[to][128:136], word(1)) {
			t.Fatalf("without: %v", n.Reason)
		}
	})
}
