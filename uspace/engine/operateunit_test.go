package engine_test

// This file tests the time that operations on windows take on cards whose units take time
// (operateunit.go, windowentry.go). It tests how long they take, and that nothing is done before
// its time. What is refused takes no time, and what ends meanwhile is not carried out.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// timedWindowBed is two cards that know each other, with no unit busy. Node 1 has two windows, the
// second only for adding.
func timedWindowBed(t testing.TB, change func(*engine.Config)) *remoteBed {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: func(c *engine.Config) {
		timed(c)
		c.Timing.Retrieval, c.Timing.Delivery = 0, 0
		if change != nil {
			change(c)
		}
	}})
	r.exposes(1, funi.Window{Key: theKey, Bytes: 8192, Address: windowAt, Rights: allRights, Credit: 4,
		Counts: keyedAt + countsAt})
	r.exposes(1, funi.Window{Key: otherKey, Base: 8192, Bytes: 64, Rights: funi.RightAtomic})
	r.mustSend(0, funi.Request, 1, 1)
	r.mustSend(1, funi.Request, 0, 1)
	r.pass(time.Millisecond)
	return r
}

// lands steps the bed until the next frame has arrived at its card, and returns when that was.
func (r *remoteBed) lands() int64 {
	r.t.Helper()
	r.when("a frame", func() bool { _, under := r.net.Next(); return under })
	at, _ := r.net.Next()
	return at
}

func plainPut(data []byte) funi.Operation {
	return funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemotePut, Key: theKey,
		Address: windowAt, Bytes: len(data), Operands: data, Ack: true}, Length: len(data)}
}

func timedGet(n int) funi.Operation {
	return funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet, Key: theKey,
		Address: windowAt}, Source: keyedAt, Length: n}
}

// Rule (operateunit.go): a request block is retrieved as the words of a slot are, and data from
// memory as XFER's. Then an operation is carried out when the bus has carried what it reads and
// writes, and no earlier.
func TestOperationsTakeTheirTime(t *testing.T) {
	with := func(trailer arctic.Trailer) funi.Operation {
		o := plainPut(make([]byte, 8))
		o.Trailer = trailer
		return o
	}
	fromMemory := plainPut(nil)
	fromMemory.Operands, fromMemory.Source, fromMemory.Length = nil, sources, 64
	silentWrite := operation(arctic.RemoteWrite, windowAt, 5)
	silentWrite.Fetch, silentWrite.Ack = false, true
	silentAdd := operation(arctic.RemoteAdd, windowAt, 5)
	silentAdd.Fetch, silentAdd.Ack = false, true
	for name, c := range map[string]struct {
		o                 funi.Operation
		retrieve, operate int64
	}{
		"put of 3 bytes":        {plainPut(make([]byte, 3)), four + eight + one, one},
		"put of 8 bytes":        {plainPut(make([]byte, 8)), four + eight + four, four},
		"put of 64 bytes":       {plainPut(make([]byte, 64)), four + 3*eight, 2 * eight},
		"put from memory":       {fromMemory, four + 3*eight, 2 * eight},
		"get of 64 bytes":       {timedGet(64), four + eight, 2 * eight},
		"get of nothing":        {timedGet(0), four + eight, 0},
		"read":                  {operation(arctic.RemoteRead, windowAt), four + eight, four},
		"write":                 {silentWrite, four + eight + four, four},
		"swap":                  {operation(arctic.RemoteSwap, windowAt, 5), four + eight + four, 2 * four},
		"write that fetches":    {operation(arctic.RemoteWrite, windowAt, 5), four + eight + four, 2 * four},
		"add":                   {operation(arctic.RemoteAdd, windowAt, 5), four + eight + four, 2 * four},
		"add without an answer": {silentAdd, four + eight + four, 2 * four},
		"compare and swap": {operation(arctic.RemoteCompareSwap, windowAt, 5, 6),
			four + eight + four, 2 * four},
		"put that notifies": {with(arctic.Trailer{Notify: true}), four + eight + four, four + 2*eight + one},
		"put that sets a signal": {with(arctic.Trailer{Set: true, Key: otherKey}),
			four + 2*eight + four, four + four},
		"put that counts": {counting(plainPut(make([]byte, 8))), four + eight + four, four + 2*four},
		"put that adds to a signal": {with(arctic.Trailer{Add: true, Key: otherKey}), four + 2*eight + four,
			four + 2*four},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedWindowBed(t, nil)
			before, was := r.cards[1].Counters().Operations, bytes.Clone(r.keyed[1])
			r.asks(0, 1, c.o)
			begin := r.now + 1
			if took := r.watch(0, funi.RQSQTail) - begin; took != c.retrieve && c.o.Trailer.Words() == 0 {
				t.Errorf("retrieval took %d ns, want %d", took, c.retrieve)
			}
			arrival := r.lands()
			if took := r.when("it is carried out", func() bool {
				done := r.cards[1].Counters().Operations != before
				if !done && !bytes.Equal(was, r.keyed[1]) {
					t.Fatal("memory changes before its time")
				}
				return done
			}) - arrival; took != c.operate {
				t.Errorf("operation took %d ns, want %d", took, c.operate)
			}
			if n := r.notified(0); n.Reason != arctic.ReasonNone {
				t.Error(n.Reason)
			}
			r.ends()
		})
	}
}

// Rule: the data of an answer are written over the bus, and then the record of the completion, of
// 16 words and the head. An answer that stands in the record takes nothing besides.
func TestAnswersTakeTheirTime(t *testing.T) {
	for name, c := range map[string]struct {
		o     funi.Operation
		takes int64
	}{
		"get of 64 bytes": {timedGet(64), 2*eight + 2*eight + one},
		"get of 4 bytes":  {timedGet(4), one + 2*eight + one},
		"add":             {operation(arctic.RemoteAdd, windowAt, 5), 2*eight + one},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedWindowBed(t, nil)
			r.asks(0, 1, c.o)
			before := r.cards[1].Counters().Operations
			r.when("it is carried out", func() bool { return r.cards[1].Counters().Operations != before })
			before, was := r.cards[0].Counters().Completions, bytes.Clone(r.keyed[0])
			arrival := r.lands()
			if took := r.when("it is complete", func() bool {
				done := r.cards[0].Counters().Completions != before
				if !done && !bytes.Equal(was, r.keyed[0]) {
					t.Fatal("memory changes before its time")
				}
				return done
			}) - arrival; took != c.takes {
				t.Errorf("the answer took %d ns, want %d", took, c.takes)
			}
			r.ends()
		})
	}
}

// Rule: what is refused takes the bus nothing, so the packet is rejected when it arrives; neither
// does locking, which is in the card.
func TestRefusalsTakeNoTime(t *testing.T) {
	change := func(f func(*funi.Operation)) funi.Operation {
		o := plainPut(make([]byte, 64))
		f(&o)
		return o
	}
	for name, c := range map[string]struct {
		o    funi.Operation
		want arctic.Reason
	}{
		"key":       {change(func(o *funi.Operation) { o.Key ^= 1 << 40 }), arctic.ReasonKeySlot},
		"range":     {change(func(o *funi.Operation) { o.Address += 8192 - 60 }), arctic.ReasonRange},
		"rights":    {change(func(o *funi.Operation) { o.Key, o.Address = otherKey, 0 }), arctic.ReasonRights},
		"alignment": {operation(arctic.RemoteAdd, windowAt+4, 1), arctic.ReasonAlignment},
		"operation": {func() funi.Operation {
			o := operation(arctic.RemoteXor, windowAt, 1)
			o.Element = arctic.Float64
			return o
		}(), arctic.ReasonOperation},
		"trailer": {change(func(o *funi.Operation) {
			o.Operands, o.Length, o.Bytes = make([]byte, 8), 8, 8
			o.Trailer = arctic.Trailer{Add: true, Key: otherKey ^ 1<<40}
		}), arctic.ReasonKeySlot},
		"lock": {funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteLock, Key: theKey,
			Ack: true, Operands: []byte{1, 2, 3, 4}}}, arctic.ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedWindowBed(t, func(c *engine.Config) { c.Timing.WindowEntries = 4 })
			r.asks(0, 1, c.o)
			arrival := r.lands()
			judged := func() uint64 { n := r.cards[1].Counters(); return n.RejectsSent + n.Operations }
			before := judged()
			if took := r.when("it is judged", func() bool { return judged() != before }) - arrival; took != 0 {
				t.Errorf("it took %d ns", took)
			}
			if n := r.notified(0); n.Reason != c.want {
				t.Errorf("%v, want %v", n.Reason, c.want)
			}
			if n := r.cards[1].Counters().EntriesFetched; n != 0 {
				t.Errorf("%d entries were fetched for it", n)
			}
			r.ends()
		})
	}
}

// Rule (windowentry.go; Tokyo, section 3.3): the first packet for a page of a window fetches the
// page's entry. Packets behind it do not, until another page has taken its place, the window is
// closed, or the context is switched out. A window that is not present has no entry.
func TestMissesOfTheWindowTableAreFetched(t *testing.T) {
	r := timedWindowBed(t, func(c *engine.Config) {
		c.Timing.WindowEntries, c.Timing.EntryWords, c.RemotePage = 2, 4, 4096
	})
	put := func(key, address uint64) int64 {
		t.Helper()
		o := plainPut(make([]byte, 8))
		if o.Key, o.Address = key, address; key == otherKey {
			o = operation(arctic.RemoteAdd, address, 1)
			o.Key, o.Fetch, o.Ack = key, false, true
		}
		before := r.cards[1].Counters().Operations
		r.asks(0, 1, o)
		arrival := r.lands()
		at := r.when("it is carried out", func() bool { return r.cards[1].Counters().Operations != before })
		if n := r.notified(0); n.Reason != arctic.ReasonNone {
			t.Fatal(n.Reason)
		}
		r.pass(time.Millisecond)
		return at - arrival
	}
	const page = windowAt &^ 4095
	for i, c := range []struct {
		what         string
		key, address uint64
		takes        int64
	}{
		{"the first", theKey, windowAt, four + four},
		{"again", theKey, windowAt + 8, four},
		{"the next page", theKey, page + 4096, four + four},
		{"the first again", theKey, windowAt, four},
		{"a page in the place of the first", theKey, page + 8192, four + four},
		{"the first a third time", theKey, windowAt, four + four},
		{"another window in the place of the first", otherKey, 0, four + 2*four},
		{"the second page again", theKey, page + 4096, four},
		{"the first a fourth time", theKey, windowAt, four + four},
	} {
		if took := put(c.key, c.address); took != c.takes {
			t.Errorf("%d, %s: %d ns, want %d", i, c.what, took, c.takes)
		}
	}
	if n := r.cards[1].Counters().EntriesFetched; n != 6 {
		t.Errorf("%d entries were fetched, want 6", n)
	}
	r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
	r.exposes(1, funi.Window{Key: theKey, Bytes: 8192, Address: windowAt, Rights: allRights, Credit: 4})
	if took := put(theKey, windowAt); took != four+four {
		t.Errorf("after the window was closed: %d ns, want %d", took, four+four)
	}
	if took := put(theKey, windowAt); took != four {
		t.Errorf("and again: %d ns, want %d", took, four)
	}
	s, err := r.cards[1].SwitchOut(r.ctx[1], false)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cards[1].SwitchIn(s); err != nil {
		t.Fatal(err)
	}
	if took := put(theKey, windowAt); took != four+four {
		t.Errorf("after a context switch: %d ns, want %d", took, four+four)
	}
	r.ends()
}

// Rule: a packet is judged when its time is over. What has ended by then is not carried out, and
// changes nothing; what goes on does so once.
func TestWhatEndsBeforeItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *remoteBed)
		want arctic.Reason
	}{
		"the window is closed": {func(r *remoteBed) {
			r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
			r.retired(1)
		}, arctic.ReasonKeySlot},
		"its segment is withdrawn": {func(r *remoteBed) {
			if err := r.ctx[1].Unregister(keyedAt); err != nil {
				r.t.Fatal(err)
			}
		}, arctic.ReasonKeySlot},
		"the context is detached":      {func(r *remoteBed) { r.cards[1].Detach(r.ctx[1]) }, arctic.ReasonNoContext},
		"its card is no peer any more": {func(r *remoteBed) { r.cards[1].RemovePeer(0) }, arctic.ReasonDeparted},
		"the context is away for a time": {func(r *remoteBed) {
			s, err := r.cards[1].SwitchOut(r.ctx[1], true)
			if err != nil {
				r.t.Fatal(err)
			}
			was := bytes.Clone(r.keyed[1])
			r.pass(10 * time.Millisecond)
			if !bytes.Equal(was, r.keyed[1]) {
				r.t.Error("memory changes while the context is away")
			}
			if err := r.cards[1].SwitchIn(s); err != nil {
				r.t.Fatal(err)
			}
		}, arctic.ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			// Long enough for the Retrieval Unit to take a block meanwhile.
			r := timedWindowBed(t, func(c *engine.Config) { c.Timing.WindowEntries, c.Timing.EntryWords = 1, 16 })
			was := binary.LittleEndian.Uint64(r.keyed[1])
			r.asks(0, 1, operation(arctic.RemoteAdd, windowAt, 5))
			r.step(r.lands())
			r.step(r.now + 1)
			c.end(r)
			n := r.notified(0)
			if n.Reason != c.want {
				t.Errorf("%v, want %v", n.Reason, c.want)
			}
			if c.want == arctic.ReasonNone {
				was += 5
			}
			if got := binary.LittleEndian.Uint64(r.keyed[1]); got != was {
				t.Errorf("the word is %d, want %d", got, was)
			}
			r.idle(time.Minute)
		})
	}
}

// Rule (link/park.go): a flow is not put away while one of its frames waits to be judged, however
// quiet it is. Else a frame that it has not accepted, behind one that was lost, would count as
// answered, and the one that was lost, too.
func TestFlowStaysWhileAFrameIsJudged(t *testing.T) {
	r := timedWindowBed(t, func(c *engine.Config) { c.Timing.Bus = timing.NewBus(30*time.Millisecond, 0) })
	r.until(time.Minute, "the cards have nothing to do", func() bool {
		return r.cards[1].Counters().FramesReceived > 0
	})
	copy(r.keyed[1], word(0))
	lost := true
	r.net.Cut(func(_, to [6]byte) bool {
		cut := lost && to == address(1)
		lost = lost && !cut
		return cut
	})
	for range 2 {
		r.asks(0, 1, operation(arctic.RemoteAdd, windowAt, 1))
	}
	for range 2 {
		if n := r.notified(0); n.Reason != arctic.ReasonNone {
			t.Error(n.Reason)
		}
	}
	if v := binary.LittleEndian.Uint64(r.keyed[1]); v != 2 {
		t.Errorf("%d of 2 adds were carried out", v)
	}
	r.ends()
}

// Rule: a frame that comes twice takes the bus once: what the link has seen before is nothing for
// the unit.
func TestRepeatsTakeNoTime(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote,
		net:  wire.Config{Delay: 10 * time.Microsecond, Faults: wire.Faults{Duplicate: 1}},
		tune: func(c *engine.Config) { timed(c); c.Timing.WindowEntries = 1 }})
	r.exposes(1, funi.Window{Key: theKey, Bytes: 8192, Rights: allRights})
	r.exposes(1, funi.Window{Key: otherKey, Base: 8192, Bytes: 64, Rights: allRights})
	for i := range uint64(10) {
		o := operation(arctic.RemoteAdd, 0, 1)
		o.Key = []uint64{theKey, otherKey}[i%2]
		r.completes(0, 1, o)
	}
	if n := r.cards[1].Counters(); n.Duplicates == 0 || n.EntriesFetched != 10 || n.Operations != 10 {
		t.Errorf("%d duplicates, %d entries fetched for %d operations, want 10 for 10", n.Duplicates,
			n.EntriesFetched, n.Operations)
	}
	r.ends()
}

// Rule: neither those of a card's own contexts nor those that come from other cards wait for ever
// for the Operation Unit: each goes on while the other always has more.
func TestOperationUnitTakesTurns(t *testing.T) {
	r := timedWindowBed(t, nil)
	done, open := [2]int{}, [2]int{}
	for done[0] < 50 || done[1] < 50 {
		for node := range 2 { // of card 1, and from card 0
			for ; open[node] < 8; open[node]++ {
				r.asks(node, 1, operation(arctic.RemoteAdd, windowAt+8*uint64(node), 1))
			}
			for n := (funi.Notification{}); r.proc[node].NextNotification(&n); open[node]-- {
				if n.Reason != arctic.ReasonNone {
					t.Fatal(n.Reason)
				}
				done[node]++
			}
		}
		if done[0]+done[1] > 1000 {
			t.Fatalf("%d from another card, %d of its own", done[0], done[1])
		}
		r.step(max(r.next(), r.now+1))
	}
	r.ends()
}

// Rule: the same program leaves the same memory and completions on a card whose units take time as
// on one that takes none (rapid): operations of two nodes, each on words and bytes of its own, one
// after the other.
func TestSameOnTimedCards(t *testing.T) {
	type step struct {
		from int
		o    funi.Operation
	}
	rapid.Check(t, func(rt *rapid.T) {
		var program []step
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			from := rapid.IntRange(0, 1).Draw(rt, "from")
			at := windowAt + uint64(from)*4096 + 8*rapid.Uint64Range(0, 500).Draw(rt, "at")
			var o funi.Operation
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				o = plainPut(nil)
				o.Address, o.Operands, o.Source = at, nil, sources+uint32(rapid.IntRange(0, 100).Draw(rt, "source"))
				o.Length = rapid.IntRange(0, 96).Draw(rt, "bytes")
			case 1:
				o = timedGet(rapid.IntRange(0, 90).Draw(rt, "bytes"))
				o.Address, o.Source = at, keyedAt+16384+uint32(i)*128
			case 2:
				o = operation(arctic.RemoteCompareSwap, at, rapid.Uint64Range(0, 1).Draw(rt, "if"), 1)
			case 3:
				o = plainPut(make([]byte, 8))
				o.Address, o.Trailer = at, arctic.Trailer{Add: true, Key: theKey,
					Address: windowAt + uint64(from)*4096 + 4088, Value: 3}
			default:
				o = operation(arctic.RemoteAdd, at+rapid.SampledFrom([]uint64{0, 0, 0, 4, 1 << 30}).Draw(rt, "off"), 7)
			}
			o.Cookie = uint32(i)
			program = append(program, step{from, o})
		}
		run := func(tune func(*engine.Config)) (memory [][]byte, heard string) {
			r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: tune})
			r.exposes(1, funi.Window{Key: theKey, Bytes: 8192, Address: windowAt, Rights: allRights})
			for _, s := range program {
				n := r.completes(s.from, 1, s.o)
				heard += fmt.Sprintln(s.from, n.Cookie, n.Reason, n.Bytes, n.Answer)
			}
			r.ends()
			return r.keyed, heard
		}
		memory, heard := run(nil)
		for name, tune := range windowCards {
			again, heardAgain := run(tune)
			if heard != heardAgain {
				rt.Fatalf("%s: completions\n%swithout times\n%s", name, heardAgain, heard)
			}
			for i := range memory {
				if !bytes.Equal(memory[i], again[i]) {
					rt.Fatalf("%s: other memory at node %d", name, i)
				}
			}
		}
	})
}
