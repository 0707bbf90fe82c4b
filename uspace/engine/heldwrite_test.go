package engine_test

// This file tests remote writes on cards whose units take time (heldwrite.go): how long, that
// nothing is seen before its time, and that what waits between its acceptance and its last burst
// keeps every rule of remote memory.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// timedRemoteBed is two cards that know each other, with no unit busy. Node 1 has opened its keyed
// segment, and areas 0 and 1. The Delivery Unit takes so long for a packet, beside its bursts.
func timedRemoteBed(t *testing.T, delivery time.Duration) *remoteBed {
	r := newRemoteBed(t, setup{cards: 2, net: near, tune: func(c *engine.Config) {
		timed(c)
		c.Timing.Retrieval, c.Timing.Delivery, c.Lines = 0, delivery, 16
	}})
	r.opens(1, theKey, 0, keyedSize, 0, 1)
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true})
	r.notified(1)
	r.pass(time.Millisecond)
	return r
}

// when steps the bed from event to event until something is true, and returns when that is.
func (r *remoteBed) when(what string, is func() bool) int64 {
	r.t.Helper()
	for end := r.now + int64(time.Second); !is(); r.step(max(r.next(), r.now+1)) {
		if r.next() > end {
			r.t.Fatalf("not within a second: %s", what)
		}
	}
	return r.now
}

// Rule: retrieving a request block takes the time of a slot's words, and retrieving data from
// memory that of XFER's data. Delivering a write takes the time of its data. The write that
// completes an area takes besides that of the notification's 16 words and of the ring's head
// (heldwrite.go).
func TestRemoteWritesTakeTheirTime(t *testing.T) {
	data := make([]byte, 64)
	for name, c := range map[string]struct {
		put               funi.Put
		retrieve, deliver int64
	}{
		"16 bytes in the slot": {funi.Put{Data: data[:16]}, four + eight + four, four},
		"64 bytes in the slot": {funi.Put{Data: data}, four + 3*eight, 2 * eight},
		"64 bytes in memory":   {funi.Put{Source: sources, Length: 64}, four + eight + 2*eight, 2 * eight},
		"a byte in memory":     {funi.Put{Source: sources, Length: 1}, four + eight + one, one},
		"16 bytes with notice": {funi.Put{Data: data[:16], Counted: true}, four + eight + four,
			four + 2*eight + one},
		"metadata and 16 bytes": {funi.Put{Data: data[:16], Counted: true, Metadata: []uint32{1, 2, 3, 4}},
			four + 2*eight, eight + 2*eight + one},
		"16 bytes of what is not all": {funi.Put{Data: data[:16], Counted: true, Count: 5}, four + eight + four, four},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedRemoteBed(t, 0)
			c.put.Key, c.put.Offset = theKey, 100
			fill(data, 7)
			r.source[0][0] = ^r.keyed[1][100]
			r.put(0, 1, funi.Request, c.put)
			begin := r.now + 1
			if took := r.watch(0, funi.RQSQTail) - begin; took != c.retrieve {
				t.Errorf("retrieval took %d ns, want %d", took, c.retrieve)
			}
			arrival, _ := r.net.Next()
			before := bytes.Clone(r.keyed[1])
			if took := r.when("the data", func() bool { return !bytes.Equal(before, r.keyed[1]) }) - arrival; took !=
				c.deliver {
				t.Errorf("delivery took %d ns, want %d", took, c.deliver)
			}
			var n funi.Notification
			if notified := r.proc[1].NextNotification(&n); notified != (c.put.Counted && c.put.Count == 0) {
				t.Errorf("with the last burst: notified %v", notified)
			}
			r.ends()
		})
	}
}

// Rule: a long write costs its request block once, and then the data of each packet: 64 bytes and
// last 1 to 16.
func TestLongWriteTakesItsTime(t *testing.T) {
	r := timedRemoteBed(t, 0)
	const size = 4 * 64
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Source: sources, Length: size})
	begin := r.now + 1
	if took, want := r.watch(0, funi.RQSQTail)-begin, int64(four+eight+3*2*eight+eight+four+four); took != want {
		t.Errorf("retrieval took %d ns, want %d", took, want)
	}
	r.notified(1)
	if !bytes.Equal(r.keyed[1][:size], r.source[0][:size]) {
		t.Error("not all is there")
	}
	r.ends()
}

// Rule: closing comes behind what was accepted before it, all of which is there when it is retired;
// and then nothing changes any more. The same holds for the segment's
// withdrawal.
func TestCloseBehindWritesThatWait(t *testing.T) {
	for name, end := range map[string]func(r *remoteBed){
		"close": func(r *remoteBed) {
			r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
			r.when("it is retired", func() bool { return r.proc[1].Unsent(funi.Request) == 0 })
		},
		"withdraw": func(r *remoteBed) {
			if err := r.ctx[1].Unregister(keyedAt); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedRemoteBed(t, 100*time.Microsecond)
			for i := range uint32(4) {
				r.put(0, 1, funi.Level(i%2), funi.Put{Key: theKey, Offset: i * 100, Data: r.source[0][i*64 : i*64+64]})
			}
			written := func(i int) bool { return bytes.Equal(r.keyed[1][i*100:i*100+64], r.source[0][i*64:i*64+64]) }
			number := func() (n int) {
				for i := range 4 {
					if written(i) {
						n++
					}
				}
				return n
			}
			r.when("the first is written", func() bool { return number() == 1 })
			end(r)
			if n := number(); n != 4 {
				t.Errorf("%d of 4 writes that were accepted are there", n)
			}
			fill(r.keyed[1], 99)
			want := bytes.Clone(r.keyed[1])
			r.pass(10 * time.Millisecond)
			if !bytes.Equal(want, r.keyed[1]) {
				t.Error("something has changed afterwards")
			}
			if back, ok := r.proc[0].NextReturn(); ok {
				t.Errorf("came back: %v", back.Reason)
			}
			r.ends()
		})
	}
}

// Rule: a notification that waits to be written takes its area's credit when its packet is
// accepted: others wait at their senders or return, as they would behind one that is written.
func TestCreditOfWritesThatWait(t *testing.T) {
	for _, returns := range []bool{false, true} {
		t.Run(fmt.Sprintf("returns %v", returns), func(t *testing.T) {
			r := timedRemoteBed(t, 100*time.Microsecond)
			r.block(1, funi.Request, func(s *funi.Slot) { s.SetOpenArea(5, theKey, 1, returns, 0) })
			r.retired(1)
			for range 3 {
				r.put(0, 1, funi.Request, funi.Put{Key: theKey, Area: 5, Counted: true, Data: []byte{1}})
			}
			r.pass(5 * time.Millisecond)
			back := 0
			for b, ok := r.proc[0].NextReturn(); ok; b, ok = r.proc[0].NextReturn() {
				if back++; b.Reason != arctic.ReasonNoBuffer {
					t.Errorf("came back: %v", b.Reason)
				}
			}
			if err := r.cards[1].Check(); err != nil {
				t.Error(err)
			}
			notified := 0
			for range 3 - back {
				r.notified(1)
				notified++
			}
			r.silent(1)
			if want := map[bool]int{false: 3, true: 1}[returns]; notified != want {
				t.Errorf("%d notifications and %d returned, want %d notifications", notified, back, want)
			}
			r.ends()
		})
	}
}

// Rule: the same holds for an area to which packets of both levels come: the Delivery Unit prefers
// the replies: what is notified first is all there (2.5), and has the only credit.
func TestCreditOfBothLevels(t *testing.T) {
	r := timedRemoteBed(t, 100*time.Microsecond)
	data := r.source[0]
	// the unit works on it meanwhile
	r.put(0, 1, funi.Request, funi.Put{Key: theKey, Offset: 0, Data: data[:64]})
	for i, c := range []struct {
		l     funi.Level
		count uint32
	}{{funi.Request, 1}, {funi.Reply, 1<<32 - 1}, {funi.Request, 0}} {
		at := 64 * uint32(i+1)
		r.put(0, 1, c.l, funi.Put{Key: theKey, Offset: at, Data: data[at : at+64], Area: 1, Counted: true,
			Count: c.count})
		r.pass(20 * time.Microsecond)
	}
	r.pass(5 * time.Millisecond)
	if err := r.cards[1].Check(); err != nil {
		t.Error(err)
	}
	if r.notified(1); !bytes.Equal(r.keyed[1][64:192], data[64:192]) {
		t.Error("notified before all is there")
	}
	if bytes.Equal(r.keyed[1][192:256], data[192:256]) {
		t.Error("written without a credit")
	}
	r.notified(1)
	r.silent(1)
	r.ends()
}

// Rule: writes pass messages that find no room, whatever the process does with its receive queue.
func TestWritesPassWhatWaitsForRoom(t *testing.T) {
	r := timedRemoteBed(t, 0)
	for full := false; !full; { // the receive queue, the FIFO, the cache and the send queue
		for r.proc[0].Reserve(funi.Request) != nil {
			r.mustSend(0, funi.Request, 1, 1)
		}
		before := r.proc[0].Unsent(funi.Request)
		r.pass(time.Millisecond)
		full = r.proc[0].Unsent(funi.Request) == before
	}
	r.put(1, 1, funi.Request, funi.Put{Key: theKey, Counted: true, Data: []byte{1}})
	r.notified(1)
}

// Rule: a write of a node to itself that waits for a credit is tried again by itself, when its
// process has read: nothing else tells the card.
func TestOwnWriteWaitsForACredit(t *testing.T) {
	r := timedRemoteBed(t, 0)
	var n funi.Notification
	for range 2 {
		r.put(1, 1, funi.Request, funi.Put{Key: theKey, Area: 1, Counted: true})
	}
	r.pass(time.Second) // the second waits by now, and nothing else is to be done
	if !r.proc[1].NextNotification(&n) || r.proc[1].NextNotification(&n) {
		t.Fatal("not one notification for one credit")
	}
	r.when("the second has its credit", func() bool { return r.proc[1].NextNotification(&n) })
	r.ends()
}
