package engine_test

// This file holds the rules of remote writes whose peers do not answer, or whose readers do not
// read (late.go).

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// soon is much less than PeerTimeout.
const soon = 200 * time.Millisecond

// othersGoOn sends many more messages to node 2 than the send queue has slots, and reads their
// notifications.
func (r *remoteBed) othersGoOn(l funi.Level) {
	r.t.Helper()
	begin := r.now
	for i := range 100 {
		r.until(soon, "a free slot", func() bool { return r.proc[0].Reserve(l) != nil })
		r.put(0, 2, l, funi.Put{Key: theKey, Counted: true, Metadata: []uint32{uint32(i)}})
		if n := r.notified(2); n.Metadata[0] != uint32(i) {
			r.t.Fatalf("message %d: %+v", i, n)
		}
	}
	r.until(soon, "all slots are given back", func() bool { return r.proc[0].Unsent(l) == 0 })
	if r.now-begin > int64(soon) {
		r.t.Fatalf("messages to another node took %v", time.Duration(r.now-begin))
	}
}

// Rule: a long write to a peer that is silent stops nothing that the process sends elsewhere. Soon
// its slot is given back, and its source is the process's again. When the peer answers again it
// gets what the source held when the slot was taken.
func TestSilentPeerStopsNoOther(t *testing.T) {
	for l := range funi.Level(2) {
		r := newRemoteBed(t, setup{cards: 3, net: near})
		r.opens(1, theKey, 0, keyedSize, 0)
		r.opens(2, theKey, 0, 64, 0)
		r.net.Cut(isolate(1))
		const size = 50001
		want := bytes.Clone(r.source[0][:size])
		r.put(0, 1, l, funi.Put{Key: theKey, Counted: true, Source: sources, Length: size, Metadata: []uint32{9}})
		r.othersGoOn(l)
		clear(r.source[0])
		if err := r.ctx[0].Unregister(sources); err != nil {
			t.Fatalf("the card still reads the source: %v", err)
		}
		r.silent(1)
		r.net.Cut(nil)
		if n := r.notified(1); n.Metadata[0] != 9 || !bytes.Equal(r.keyed[1][:size], want) {
			t.Fatalf("the silent peer was notified of %+v, or its memory is another", n)
		}
		if n := r.cards[0].Counters().LateWrites; n != 1 {
			t.Errorf("%d writes were late", n)
		}
		r.ends()
	}
}

// Rule: a long write takes at most half of the lines of its level while its peer is silent, however
// long the write is. What is behind it in the send queue goes on, also what the process sends
// elsewhere at length. The write goes on when the peer answers (aside.go).
func TestSilentPeerTakesHalfTheLines(t *testing.T) {
	for l := range funi.Level(2) {
		for _, again := range []bool{true, false} {
			r := newRemoteBed(t, setup{cards: 3, slots: 256, net: near, tune: func(c *engine.Config) {
				c.Lines, c.ReplyLines, c.PeerTimeout, c.ConnectTimeout = 48, 16, time.Second, time.Second
			}})
			r.opens(1, otherKey, 0, keyedSize, 0)
			r.opens(2, theKey, 0, keyedSize, 0)
			r.net.Cut(isolate(1))
			for range 3 {
				r.put(0, 1, l, funi.Put{Key: otherKey, Source: sources, Length: keyedSize})
			}
			begin := r.now
			for i := range 100 {
				p := funi.Put{Key: theKey, Counted: true, Metadata: []uint32{uint32(i)}}
				if i%10 == 0 {
					p.Source, p.Length = sources, keyedSize
				}
				r.put(0, 2, l, p)
				if n := r.notified(2); n.Metadata[0] != uint32(i) {
					t.Fatalf("message %d: %+v", i, n)
				}
			}
			if r.now-begin > int64(soon) || !bytes.Equal(r.keyed[2], r.source[0]) {
				t.Fatalf("messages to another node took %v, or are not what was sent", time.Duration(r.now-begin))
			}
			want := 3
			if again {
				r.net.Cut(nil)
				want = 0
			}
			back := 0
			r.until(time.Minute, "all is answered", func() bool {
				for _, ok := r.proc[0].NextReturn(); ok; _, ok = r.proc[0].NextReturn() {
					back++
				}
				return r.proc[0].Unsent(l) == 0 && r.ctx[0].Idle()
			})
			if back != want || again && !bytes.Equal(r.keyed[1], r.source[0]) {
				t.Fatalf("%d writes came back, want %d; or the memory is another", back, want)
			}
			r.ends()
		}
	}
}

// Rule: so does one to a reader who stalls, for as long as he does.
func TestStalledReaderStopsNoOther(t *testing.T) {
	for _, to := range []int{0, 1} {
		r := newRemoteBed(t, setup{cards: 3, net: near})
		r.opens(to, otherKey, 0, keyedSize, 0)
		r.opens(2, theKey, 0, 64, 0)
		const size = 30000
		want := bytes.Clone(r.source[0][:size])
		for range 2 { // the second finds no credit when all of it but the last packet is there
			r.put(0, to, funi.Request, funi.Put{Key: otherKey, Counted: true, Source: sources, Length: size})
			r.pass(50 * time.Millisecond)
		}
		r.othersGoOn(funi.Request)
		clear(r.source[0])
		r.pass(20 * time.Second) // no patience ends while the peer answers
		r.othersGoOn(funi.Request)
		for range 2 {
			r.notified(to)
		}
		if !bytes.Equal(r.keyed[to][:size], want) {
			t.Fatal("the memory is another")
		}
		r.ends()
	}
}

// Rule: what the card copies of late writes is bounded for each account, and given back; a write
// that finds no room waits until there is.
func TestLateWritesAreBounded(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, net: near, tune: func(c *engine.Config) {
		c.Lines, c.ReplyLines = 4096, 2048
	}})
	r.opens(1, theKey, 0, keyedSize)
	proc, ctx, _ := r.attach(0, gid, 7) // another process of the same user
	if err := ctx.Register(funi.Segment{Base: sources, Memory: r.source[0], Rights: funi.Source}); err != nil {
		t.Fatal(err)
	}
	r.net.Cut(isolate(1))
	for l := range funi.Level(2) { // 16 times 64 KiB but for the last bytes of each
		for range 8 {
			r.put(0, 1, l, funi.Put{Key: theKey, Source: sources, Length: keyedSize})
		}
	}
	r.until(soon, "they are copied", func() bool {
		return r.proc[0].Unsent(funi.Request)+r.proc[0].Unsent(funi.Reply) == 0
	})
	s := proc.Reserve(funi.Request)
	s.SetPut(1, &funi.Put{Key: theKey, Source: sources, Length: keyedSize / 2})
	proc.Commit(funi.Request)
	if r.pass(soon); proc.Unsent(funi.Request) != 1 || r.cards[0].Counters().LateWrites != 16 {
		t.Fatalf("beyond the bound %d slots are left, and %d writes were copied", proc.Unsent(funi.Request),
			r.cards[0].Counters().LateWrites)
	}
	want := bytes.Clone(r.source[0])
	r.net.Cut(nil)
	r.until(time.Minute, "all is delivered", func() bool { return r.ctx[0].Idle() && ctx.Idle() })
	if !bytes.Equal(r.keyed[1], want) {
		t.Fatal("the memory is another")
	}
	r.net.Cut(isolate(1))
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Source: sources, Length: keyedSize})
	r.until(soon, "there is room again", func() bool { return r.proc[0].Unsent(funi.Request) == 0 })
	r.net.Cut(nil)
	r.ends()
}

// Rule: a member of a group that dies leaves its area half counted, and no process is told. When
// the owner has closed area and key, nothing of the dead member's writes or counts any more. The
// same numbers, opened anew, are as good as new.
func TestDeadMemberLeavesAnAreaHalfCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRemoteBed(t, setup{cards: 3, net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"),
			Delay: 10 * time.Microsecond, Faults: wire.Networks["all"]},
			tune: func(c *engine.Config) { c.Blocks = rapid.Bool().Draw(rt, "blocks") }})
		const half = keyedSize / 2
		r.opens(2, theKey, 0, keyedSize, 0)
		share := rapid.Uint32Range(2000, 1<<31).Draw(rt, "share")
		r.put(0, 2, funi.Request, funi.Put{Key: theKey, Counted: true, Count: share, Source: sources, Length: half})
		r.put(1, 2, funi.Request, funi.Put{Key: theKey, Offset: half, Counted: true, Count: -share,
			Source: sources, Length: half})
		r.pass(time.Duration(rapid.IntRange(1, 500).Draw(rt, "microseconds")) * time.Microsecond)
		r.cards[0].Detach(r.ctx[0])
		whole := r.proc[2].NextNotification(new(funi.Notification)) // it died too late
		if rapid.Bool().Draw(rt, "reset before") {
			r.block(2, funi.Request, func(s *funi.Slot) { s.SetResetArea(0, 0) })
		}
		r.block(2, funi.Request, func(s *funi.Slot) { s.SetCloseArea(0, 0) })
		r.block(2, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
		r.until(time.Second, "both are closed", func() bool { return r.proc[2].Unsent(funi.Request) == 0 })
		for n := (funi.Notification{}); r.proc[2].NextNotification(&n); {
			whole = true
		}
		if whole && !bytes.Equal(r.keyed[2][:half], r.source[0][:half]) {
			rt.Fatal("the owner was told of what is not there")
		}
		before := bytes.Clone(r.keyed[2])
		const key = theKey ^ 1<<50 // of the same key slot
		r.opens(2, key, 0, keyedSize, 0)
		r.pass(100 * time.Millisecond)
		if !bytes.Equal(r.keyed[2], before) {
			rt.Fatal("what was closed is written")
		}
		for n := 1; n <= 3; n++ {
			r.put(1, 2, funi.Request, funi.Put{Key: key, Counted: true, Source: sources, Length: 1000 * n,
				Metadata: []uint32{uint32(n)}})
			if got := r.notified(2); got.Metadata[0] != uint32(n) ||
				!bytes.Equal(r.keyed[2][:1000*n], r.source[1][:1000*n]) {
				rt.Fatalf("message %d: notified of %+v, or the memory is another", n, got)
			}
		}
		r.silent(2)
	})
}

// Rule: writes to several peers that are silent at once stop nothing else either, however many
// peers there are and however much is sent to each. What the card has copied holds no record, and
// what waits for silent peers leaves lines to others. What is sent elsewhere at length goes on, and
// when the peers answer again they get everything.
func TestSilentPeersStopNoOther(t *testing.T) {
	const silent, writes, size = 3, 12, 20000
	for l := range funi.Level(2) {
		for _, again := range []bool{true, false} {
			for _, lines := range []int{64, 512} {
				r := newRemoteBed(t, setup{cards: silent + 2, slots: 256, net: near, tune: func(c *engine.Config) {
					c.Lines, c.ReplyLines, c.PeerTimeout, c.ConnectTimeout = lines, 16, 2*time.Second, 2*time.Second
				}})
				last := silent + 1
				for node := 1; node <= silent; node++ {
					r.opens(node, otherKey, 0, keyedSize)
				}
				r.opens(last, theKey, 0, keyedSize, 0)
				r.net.Cut(func(from, to [6]byte) bool {
					for node := 1; node <= silent; node++ {
						if isolate(node)(from, to) {
							return true
						}
					}
					return false
				})
				for range writes {
					for node := 1; node <= silent; node++ {
						r.put(0, node, l, funi.Put{Key: otherKey, Source: sources, Length: size})
					}
				}
				r.pass(2 * soon)
				begin := r.now
				for i := range 100 {
					p := funi.Put{Key: theKey, Counted: true, Metadata: []uint32{uint32(i)}}
					if i%10 == 0 {
						p.Source, p.Length = sources, keyedSize
					}
					r.put(0, last, l, p)
					if n := r.notified(last); n.Metadata[0] != uint32(i) {
						t.Fatalf("message %d: %+v", i, n)
					}
				}
				if r.now-begin > int64(soon) || !bytes.Equal(r.keyed[last], r.source[0]) {
					t.Fatalf("messages to another node took %v, or are not what was sent", time.Duration(r.now-begin))
				}
				want := silent * writes
				if again {
					r.net.Cut(nil)
					want = 0
				}
				back := 0
				r.until(time.Minute, "all is answered", func() bool {
					for _, ok := r.proc[0].NextReturn(); ok; _, ok = r.proc[0].NextReturn() {
						back++
					}
					return r.proc[0].Unsent(l) == 0 && r.ctx[0].Idle()
				})
				if back != want {
					t.Fatalf("%d writes came back, want %d", back, want)
				}
				for node := 1; node <= silent && again; node++ {
					if !bytes.Equal(r.keyed[node][:size], r.source[0][:size]) {
						t.Fatalf("the memory of node %d is another", node)
					}
				}
				r.ends()
			}
		}
	}
}
