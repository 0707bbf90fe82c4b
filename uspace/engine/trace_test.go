package engine_test

// This file tests what a tracer says of packets: when each got how far, at both ends.

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// traced follows the contexts of a bed, each with a tracer of its own.
func traced(b *bed, every int) (tracers []*engine.Tracer) {
	b.t.Helper()
	for i, c := range b.cards {
		t := engine.NewTracer(every)
		if !b.ctx[i].Follow(c.NewTrail(t)) {
			b.t.Fatal("it is followed already")
		}
		tracers = append(tracers, t)
	}
	return tracers
}

// records takes what a tracer has.
func records(tr *engine.Tracer) (all []engine.Trace, lost uint64) {
	some := make([]engine.Trace, 100)
	for {
		n, lost := tr.Take(some)
		if n == 0 {
			return all, lost
		}
		all = append(all, some[:n]...)
	}
}

// place names a packet as both ends know it.
type place struct {
	from, to uint16
	session  uint16
	level    arctic.Level
	sequence uint32
	index    uint8
}

func placeOf(r *engine.Trace) place {
	return place{r.FromCard, r.ToCard, r.Session, r.Level, r.Sequence, r.Index}
}

// Rule: the stages of a packet come one after the other, the network's time is between those of the
// two ends, and both ends choose the same packets, whatever part of them (Tracer).
func TestTraceStages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every, messages := rapid.IntRange(1, 20).Draw(rt, "every"), rapid.IntRange(1, 200).Draw(rt, "messages")
		b := newBed(t, setup{cards: 2, slots: 256, net: near})
		tracers := traced(b, every)
		sent, got := 0, 0
		b.until(time.Second, "all arrive", func() bool {
			for n := rapid.IntRange(1, 20).Draw(rt, "burst"); n > 0 && sent < messages &&
				b.send(0, funi.Request, 1, uint32(sent)); n-- {
				sent++
			}
			for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
				got++
			}
			return got == messages
		})
		b.idle(time.Second)
		here, lost := records(tracers[0])
		there, lostThere := records(tracers[1])
		if lost+lostThere != 0 || len(here) != len(there) || every == 1 && len(here) != messages {
			rt.Fatalf("%d and %d records of %d messages, %d lost", len(here), len(there), messages, lost+lostThere)
		}
		arrived := map[place]engine.Trace{}
		for _, r := range there {
			arrived[placeOf(&r)] = r
		}
		for _, s := range here {
			r, ok := arrived[placeOf(&s)]
			if !ok || r.End != engine.Delivered || s.End != engine.Acknowledged || s.Source != 0 ||
				s.Destination != 1 || r.Source != 0 || r.Destination != 1 || s.GID != gid || s.Bytes != r.Bytes {
				rt.Fatalf("%+v arrived as %+v", s, r)
			}
			if s.Seen <= 0 || s.Retrieved < s.Seen || s.Dispatched < s.Retrieved || s.Sent < s.Dispatched ||
				r.Arrived < s.Sent+int64(near.Delay) || s.Answered < r.Arrived+int64(near.Delay) {
				rt.Fatalf("%+v arrived as %+v", s, r)
			}
			if s.Retried+s.Resent != 0 || s.SentLast != s.Sent || s.Rejected != 0 {
				rt.Fatalf("%+v", s)
			}
		}
	})
}

// Rule: of a packet that is rejected and tried again there is one record, with the first rejection
// and its reason; one that cannot be delivered ends as returned; the receiver says that it refused
// it, or holds it (Trace).
func TestTraceRejected(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 4, net: near, tune: func(c *engine.Config) { quick(c); c.FIFO = 1 }})
	tracers := traced(b, 1)
	sent := 0
	b.until(time.Second, "the receiver is full", func() bool {
		for b.send(0, funi.Request, 1, uint32(sent)) {
			sent++
		}
		here, _ := b.cards[1].Rejections()
		full := false
		here.Each(func(r arctic.Reason, n uint64) { full = full || r == arctic.ReasonQueueFull && n > 3 })
		return full
	})
	got := 0
	b.until(time.Second, "all arrive", func() bool {
		for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
			got++
		}
		return got == sent
	})
	b.idle(time.Second)
	b.cards[1].Detach(b.ctx[1])
	b.mustSend(0, funi.Request, 1, 1)
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoContext, Header: funi.NewHeader(1, 5, 1),
		Level: funi.Request, Word: 1})
	all, lost := records(tracers[0])
	if len(all) != sent+1 || lost != 0 {
		t.Fatalf("%d records of %d packets, %d lost", len(all), sent+1, lost)
	}
	retried := 0
	for _, r := range all[:sent] {
		if r.End != engine.Acknowledged || (r.Retried > 0) != (r.Rejected > 0) || (r.Retried > 0) != (r.Resent > 0) ||
			r.Rejected > r.Answered || r.SentLast < r.Sent {
			t.Errorf("%+v", r)
		}
		if r.Retried > 0 {
			retried++
			if r.Reason != arctic.ReasonQueueFull || r.Rejected <= r.Sent || r.SentLast <= r.Rejected {
				t.Errorf("%+v", r)
			}
		}
	}
	if r := all[sent]; retried == 0 || r.End != engine.Returned || r.Reason != arctic.ReasonNoContext ||
		r.Answered <= r.Sent {
		t.Errorf("%d were retried, and the last one %+v", retried, r)
	}
	ends := map[engine.End]int{}
	there, _ := records(tracers[1])
	for _, r := range there {
		ends[r.End]++
		if (r.End == engine.Refused) != (r.Reason != arctic.ReasonNone) {
			t.Errorf("%+v", r)
		}
	}
	if ends[engine.Refused] == 0 || ends[engine.Held] == 0 || ends[engine.Delivered]+ends[engine.Held] != sent {
		t.Errorf("%v of %d", ends, sent)
	}
}

// Rule: a slot counts as seen when the card first looked at a queue that had it, however long it
// finds no line (Trace.Seen).
func TestTraceSeen(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near, tune: func(c *engine.Config) { c.Lines, c.ReplyLines = 8, 4 }})
	tracers := traced(b, 1)
	const messages = 40
	for i := range messages {
		b.mustSend(0, funi.Request, 1, uint32(i))
	}
	begin := b.now
	got := 0
	b.until(time.Second, "all arrive", func() bool {
		for _, ok := take(b.proc[1], funi.Request); ok; _, ok = take(b.proc[1], funi.Request) {
			got++
		}
		return got == messages
	})
	b.idle(time.Second)
	all, _ := records(tracers[0])
	if len(all) != messages {
		t.Fatalf("%d records", len(all))
	}
	for i, r := range all {
		if r.Seen != begin+1 || i >= 8 && r.Retrieved <= r.Seen {
			t.Errorf("packet %d, sent at %d: %+v", i, begin, r)
		}
	}
}

// Rule: tracing takes no more memory than it began with, records that nobody takes are counted as
// lost, and packets whose end nobody hears are unfinished (Tracer).
func TestTraceIsBounded(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near})
	turn := func() {
		b.mustSend(0, funi.Request, 1, 1)
		b.until(time.Second, "it arrives", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	}
	for range 1000 {
		turn()
	}
	before := testing.AllocsPerRun(100, turn) // the bed's own
	b.idle(time.Second)
	tracers := traced(b, 1)
	if other := engine.NewTracer(1); b.ctx[0].Follow(b.cards[0].NewTrail(other)) || b.ctx[0].Followed(other) ||
		!b.ctx[0].Followed(tracers[0]) {
		t.Error("two tracers follow a context")
	}
	for range 3000 {
		turn()
	}
	if n := testing.AllocsPerRun(100, turn); n > before {
		t.Errorf("%v allocations a turn, and %v without tracing", n, before)
	}
	b.idle(time.Second)
	for i, tr := range tracers {
		all, lost := records(tr)
		if len(all) == 0 || uint64(len(all))+lost != 3101 {
			t.Errorf("tracer %d: %d records and %d lost", i, len(all), lost)
		}
		seen := map[place]bool{}
		for _, r := range all {
			if seen[placeOf(&r)] {
				t.Fatalf("tracer %d: %+v twice", i, r)
			}
			seen[placeOf(&r)] = true
		}
	}
	b.cards[1] = nil // switched off
	b.mustSend(0, funi.Request, 1, 1)
	b.pass(time.Millisecond)
	tracers[0].Flush()
	if all, _ := records(tracers[0]); len(all) != 1 || all[0].End != engine.Unfinished || all[0].Sent == 0 ||
		all[0].Answered != 0 {
		t.Errorf("%+v", all)
	}
	if !b.ctx[0].Follow(nil) || b.ctx[0].Followed(tracers[0]) {
		t.Error("it is still followed")
	}
}

// Rule: every line of a context has a place of its own in the table of a trail, also those of its
// chains. A member that is followed sends copies on along each of its chains, and each copy is
// recorded (cache.go).
func TestTraceOfMembers(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 3, slots: 256, remote: funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 64},
		net: near})
	tracers := traced(r.bed, 1)
	for number := range uint16(funi.MaxChains) {
		r.sets(0, funi.Chain{Number: number, First: true, Next: []funi.Next{{Node: 1, Members: 2}}})
		r.sets(1, funi.Chain{Number: number, Next: []funi.Next{{Node: 2, Members: 1}}})
		r.sets(2, funi.Chain{Number: number, Parent: 1})
	}
	for number := range uint16(funi.MaxChains) {
		r.block(0, funi.Request, func(s *funi.Slot) { // all at once, so that all lines are in use
			s.SetMulticast(0, &funi.MulticastRequest{Chain: number, Members: 3, Message: 5, Data: []byte("copy")})
		})
	}
	for range funi.MaxChains {
		if n := r.notified(0); n.Reason != arctic.ReasonNone {
			t.Fatalf("a multicast: %v", n.Reason)
		}
	}
	r.ends()
	sent := 0
	all, lost := records(tracers[1])
	for _, x := range all {
		if x.End == engine.Acknowledged && x.Level == arctic.Request && x.Destination == 2 {
			sent++
		}
	}
	if sent != funi.MaxChains || lost != 0 {
		t.Errorf("%d copies that were sent on are recorded, %d records are lost", sent, lost)
	}
}

// Rule: a record names the epoch of its frame and does not tell it, as whoever knows that can send
// frames in a card's name (sessionOf).
func TestTraceTellsNoEpoch(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 64, net: near})
	tracers := traced(b, 1)
	for range 20 {
		b.mustSend(0, funi.Request, 1, 1)
	}
	b.idle(time.Second)
	sessions := map[uint16]bool{}
	for _, tr := range tracers {
		all, _ := records(tr)
		for i := range all {
			text, err := json.Marshal(&all[i])
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, strconv.AppendUint(nil, b.cards[0].Epoch(1), 10)) {
				t.Fatalf("a record tells the epoch: %s", text)
			}
			sessions[all[i].Session] = true
		}
	}
	if len(sessions) != 1 {
		t.Errorf("the records of one epoch name %d", len(sessions))
	}
}
