package link_test

// This file holds the rules of owners and their streams: halting, giving up, ending, tracing.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Rule (Halted): of an owner that is halted nothing new is dispatched, also what was rejected for
// now, but a frame that is lost is sent again; others go on. After Resume everything is sent.
func TestHaltedOwner(t *testing.T) {
	for kind, tune := range cardConfigs {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, setup{cards: 2, net: near, tune: tune})
			exactlyOnce(b, newTraffic(b, 10))
			o, other := b.own[0], b.join(0, new(link.Account))
			b.net.Cut(isolate(1))
			flying := b.send(0, arctic.Request, 1)
			b.pass(100 * time.Microsecond)
			if o.Grounded() || !o.Outstanding() {
				t.Fatal("nothing is in flight")
			}
			o.Halted = true
			waits := b.send(0, arctic.Reply, 1)
			b.net.Cut(nil)
			b.arrives(time.Second, flying)
			b.arrives(time.Second, b.put(other, 1, 1, arctic.Reply, 1, nil))
			b.pass(100 * time.Millisecond)
			if waits.at != 0 || o.Outstanding() || o.Grounded() {
				t.Errorf("in the mode a frame left: %v; outstanding %v, grounded %v", waits.at != 0,
					o.Outstanding(), o.Grounded())
			}
			o.Halted = false
			b.cards[0].Resume(&o.Owner)
			b.touched = true
			b.arrives(time.Second, waits)
			if !o.Grounded() {
				t.Error("not grounded with no line in the link")
			}
		})
	}
}

// Rule (GiveUp): what waits and is not in flight comes back at once, each line once, but for those
// that are to be kept; what is in flight goes on.
func TestGiveUp(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near, tune: thesis})
	exactlyOnce(b, newTraffic(b, 10))
	b.net.Cut(isolate(1))
	var sent []*message
	for i := range uint16(8) {
		sent = append(sent, b.put(b.own[0], 1, 1+i%2, arctic.Request, 2, nil))
	}
	b.pass(100 * time.Microsecond)
	kept := map[*message]bool{}
	given := 0
	b.cards[0].GiveUp(&b.own[0].Owner, func(ln *link.Line) bool {
		m := b.own[0].messages[ln.Index]
		kept[m] = m.id%4 == 0
		return kept[m]
	}, func(ln *link.Line) { given++; b.givenUp(ln) })
	b.touched = true
	b.checked()
	if given == 0 || given == 8 {
		t.Fatalf("%d of 8 lines were given up", given)
	}
	b.net.Cut(nil)
	b.idle(time.Second)
	for _, m := range sent {
		keep, asked := kept[m]
		if delivered := m.settled == link.Delivered; delivered != (keep || !asked) || (m.at != 0) != delivered {
			t.Errorf("message %d: asked for %v, kept %v, settled as %d", m.id, asked, keep, m.settled)
		}
	}
}

// Rule (GiveUpTo): only parts of long transfers, or only other lines, to that node behind that card
// come back; the rest goes on. A card or a node that the owner sends nothing to is none of its
// business.
func TestGiveUpTo(t *testing.T) {
	b := newBed(t, setup{cards: 2, net: near})
	exactlyOnce(b, newTraffic(b, 10))
	b.net.Cut(isolate(1))
	o, block := b.own[0], make([]byte, 64)
	var sent []*message
	for i := range uint16(16) {
		var part []byte
		if i%4 < 2 {
			part = block
		}
		sent = append(sent, b.put(o, 1, 1+i%2, arctic.Request, 2, part))
	}
	b.pass(100 * time.Microsecond)
	given := 0
	take := func(ln *link.Line) {
		if !ln.Part || ln.Node != 1 {
			t.Errorf("a line came back: part %v, for node %d", ln.Part, ln.Node)
		}
		given++
		b.givenUp(ln)
	}
	for _, card := range []uint16{0, 7, 65535} {
		b.cards[0].GiveUpTo(&o.Owner, card, arctic.Request, 1, true, nil, take)
	}
	b.cards[0].GiveUpTo(&o.Owner, 1, arctic.Reply, 1, true, nil, take)
	b.cards[0].GiveUpTo(&o.Owner, 1, arctic.Request, 9, true, nil, take)
	if given != 0 {
		t.Fatalf("%d lines of others came back", given)
	}
	b.cards[0].GiveUpTo(&o.Owner, 1, arctic.Request, 1, true, nil, take)
	if given == 0 {
		t.Fatal("no line came back")
	}
	parts := given
	// one frame to the node is in flight, so it waits
	sent = append(sent, b.put(o, 1, 2, arctic.Request, 2, nil))
	b.pass(10 * time.Microsecond)
	b.cards[0].GiveUpTo(&o.Owner, 1, arctic.Request, 2, false, nil, func(ln *link.Line) {
		if ln.Part || ln.Node != 2 {
			t.Errorf("a line came back: part %v, for node %d", ln.Part, ln.Node)
		}
		given++
		b.givenUp(ln)
	})
	if given == parts {
		t.Fatal("no message came back")
	}
	b.touched = true
	b.checked()
	b.net.Cut(nil)
	b.idle(time.Second)
	back := 0
	for _, m := range sent {
		if m.settled != link.Delivered {
			back++
		}
	}
	if back != given {
		t.Errorf("%d lines were given up, and %d are not delivered", given, back)
	}
}

// Rule (Bury): an owner without lines is forgotten, a bounded number of streams in a call; the
// streams of others stay. A flow has the same stream for a node however many it has, before and
// after it was parked (stream.go).
func TestManyStreams(t *testing.T) {
	const nodes = 40
	b := newBed(t, setup{cards: 2, net: near})
	all := func(o *owner) {
		t.Helper()
		for range 3 {
			for n := range uint16(nodes) {
				for l := range arctic.Level(arctic.Levels) {
					b.put(o, 1, n, l, 1, nil)
				}
			}
			b.idle(time.Second)
		}
		if n := b.cards[0].Streams(&o.Owner); n != 2*nodes {
			t.Errorf("%d streams, want %d", n, 2*nodes)
		}
		b.checked()
	}
	for range 2 {
		all(b.own[0])
		o := b.join(0, new(link.Account))
		all(o)
		if !o.Account.Used() {
			t.Error("the account of an owner with streams is not used")
		}
		calls := 0
		for ; !o.Buried(); calls++ {
			if left := b.cards[0].Bury(&o.Owner, 30); left != 0 && !o.Buried() {
				t.Errorf("%d of 30 were not needed, and streams are left", left)
			}
		}
		if n := b.cards[0].Streams(&o.Owner); n != 0 || calls != 3 || o.Account.Used() {
			t.Errorf("%d streams of an owner that ended after %d calls, its account is used: %v", n, calls,
				o.Account.Used())
		}
		if n := b.cards[0].Streams(&b.own[0].Owner); n != 2*nodes {
			t.Errorf("the other has %d streams, want %d", n, 2*nodes)
		}
		b.resting()
		if n := b.cards[0].Streams(nil); n != 0 {
			t.Errorf("%d streams of quiet owners", n)
		}
	}
}

// Rule (stream.go): the streams of an owner are bounded by its lines, however many nodes it sends
// to while the flow is in use.
func TestStreamsAreBounded(t *testing.T) {
	const lines, nodes = 32, 2000
	b := newBed(t, setup{cards: 2, net: near, tune: func(c *link.Config) { c.Lines = lines }})
	sent, most := uint16(0), 0
	b.until(time.Minute, "an answer of all nodes", func() bool {
		for sent < nodes && b.put(b.own[0], 1, sent, arctic.Request, 1, nil) != nil {
			sent++
		}
		most = max(most, b.cards[0].Streams(&b.own[0].Owner))
		return sent == nodes && b.own[0].out == 0
	})
	if most > 3*lines || most < lines {
		t.Errorf("%d streams for %d lines", most, lines)
	}
}

// followed is a Follower that counts.
type followed struct {
	dispatched, sent, answered, lines int
	last                              link.Verdict
}

func (f *followed) Dispatched(to uint16, l arctic.Level, sequence uint32, train *link.Line) {
	f.dispatched++
	for ; train != nil; train = train.Next() {
		f.lines++
	}
}
func (f *followed) Sent(*link.Line) { f.sent++ }
func (f *followed) Answered(_ *link.Line, v link.Verdict) {
	f.answered++
	f.last = v
}

// Rule (Follower): an owner's follower sees each of its frames get its number once, and be answered
// once, and each time that it was sent; of other owners it sees nothing.
func TestFollower(t *testing.T) {
	for kind, tune := range cardConfigs {
		if kind == "tiny" {
			continue
		}
		for seed := range uint64(3) {
			b := newBed(t, setup{cards: 2, tune: tune,
				net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond, Faults: networks["all"]}})
			f := new(followed)
			b.own[0].Follower = f
			other := b.join(0, new(link.Account))
			for range 5 {
				b.put(other, 1, 1, arctic.Request, 1, nil)
			}
			tr := newTraffic(b, 200, [2]int{0, 1})
			exactlyOnce(b, tr)
			if f.dispatched == 0 || f.dispatched != f.answered || f.sent <= f.dispatched || f.lines != 400 {
				t.Errorf("%s: dispatched %d frames with %d packets, sent %d, answered %d", kind, f.dispatched, f.lines,
					f.sent, f.answered)
			}
			b.net.SetFaults(wire.Faults{})
			b.judge = func(_ int, m *message) arctic.Reason { return arctic.ReasonJob }
			b.send(0, arctic.Request, 1)
			b.idle(time.Second)
			if f.last.Fail != 1 || f.last.FailReason != arctic.ReasonJob {
				t.Errorf("%s: answered with %+v", kind, f.last)
			}
		}
	}
}

// Rule (Observe): each frame is shown once, with what became of it, and what is counted agrees; nil
// ends it.
func TestObserve(t *testing.T) {
	for seed := range uint64(4) {
		b := newBed(t, setup{cards: 2, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond,
			Faults: networks["all"]}, tune: quick})
		seen := [2]map[link.Outcome]uint64{{}, {}}
		for i, c := range b.cards {
			c.See = func(port int, _ []byte, fate link.Fate) {
				seen[i][fate.Outcome]++
				if port != 0 || (fate.Reason != arctic.ReasonNone) != (fate.Outcome == link.Rejected) {
					t.Errorf("a frame on port %d is %v, %v", port, fate.Outcome, fate.Reason)
				}
			}
		}
		full := true
		b.judge = func(_ int, m *message) arctic.Reason {
			if full = !full; full && m.rejected < 2 {
				return arctic.ReasonQueueFull
			}
			return arctic.ReasonNone
		}
		exactlyOnce(b, newTraffic(b, 200))
		for i, o := range seen {
			n := &b.cards[i].Counters
			received := uint64(0)
			for outcome, count := range o {
				if outcome != link.Sent {
					received += count
				}
			}
			if o[link.Sent] != n.FramesSent || received != n.FramesReceived || o[link.Duplicate] != n.Duplicates ||
				o[link.BadChecksum] != n.DroppedChecksum || o[link.Rejected] == 0 {
				t.Errorf("card %d: seen %v\n%s", i, o, b.counters())
			}
			b.cards[i].See = nil
		}
		before := seen[0][link.Sent]
		exactlyOnce(b, newTraffic(b, 3))
		if seen[0][link.Sent] != before {
			t.Error("frames are shown to nobody")
		}
	}
	for o := range link.Outcomes {
		if o.String() == "unknown" || o.String() == "" {
			t.Errorf("outcome %d has no words", o)
		}
	}
}
