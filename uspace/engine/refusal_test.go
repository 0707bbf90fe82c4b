package engine_test

// This file holds what a card refuses: packets that come back to their sender with
// a permanent reason, and frames that are dropped and counted.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

var near = wire.Config{Delay: 10 * time.Microsecond}

// Rule: what the receiving card refuses for good comes back with the reason: here an
// XFER to memory that the receiver did not register (thesis 3.2.4). The return shows
// the header as the process wrote it, and the packets beside it arrive.
func TestRefusedPacketComesBack(t *testing.T) {
	for _, to := range []int{0, 1} { // own card, peer
		b := newBed(t, setup{cards: 2, slots: 16, net: near})
		for i := range uint32(5) {
			s := b.proc[0].Reserve(funi.Request)
			s.SetHeader(funi.NewHeader(uint16(to), 5, 2))
			s[1], s[2] = i, i
			if i == 2 {
				s.SetTransfer(uint16(to), 5, funi.Transfer{Destination: 0x1000, Argument: i, Words: 4})
			}
			b.proc[0].Commit(funi.Request)
		}
		b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonDestination, Level: funi.Request,
			Header: funi.NewTransferHeader(uint16(to), 5, 4), Word: 2})
		var got []uint32
		b.until(time.Second, "the others arrive", func() bool {
			for s, ok := take(b.proc[to], funi.Request); ok; s, ok = take(b.proc[to], funi.Request) {
				got = append(got, s.Payload()[0])
			}
			return len(got) == 4
		})
		b.idle(time.Second)
		if n := b.cards[to].Counters().DestinationRefused; n != 1 {
			t.Errorf("%d destinations counted as refused, want 1", n)
		}
	}
}

// Rule: each of the kinds that are reserved is answered with one permanent
// reject that names it, and is not delivered (arctic.Kind).
func TestReservedKindsAreRejected(t *testing.T) {
	var rejects []arctic.Reject
	b := newBed(t, setup{cards: 2, slots: 16, net: near, wrap: watchRejects(0, &rejects)})
	exactlyOnce(b, newTraffic(b, 1, 2)) // they know each other; sequence 1 is next
	reserved := []arctic.Kind{arctic.KindExtended, arctic.KindExtended}
	for n, kind := range reserved {
		i := uint32(n)
		b.inject(forge([]arctic.PacketHeader{{Kind: kind, Length: 1, Type: 5, Source: 1, Destination: 0}},
			func(h *arctic.Header) { h.Sequence = 1 + i }))
		b.pass(time.Millisecond)
		want := arctic.Reject{Sequence: 1 + i, Level: arctic.Request, Reason: arctic.ReasonUnknownKind, Bits: 1}
		if len(rejects) != int(i+1) || rejects[i] != want {
			t.Fatalf("kind %d: rejects %+v, want one more: %+v", kind, rejects, want)
		}
	}
	if c := b.cards[0].Counters(); c.UnknownKind != uint64(len(reserved)) || c.PacketsDelivered != 2 {
		t.Errorf("%d of unknown kind and %d delivered, want %d and 2", c.UnknownKind, c.PacketsDelivered, len(reserved))
	}
}

// watchRejects is setup.wrap that keeps the rejects that a card sends.
func watchRejects(of int, rejects *[]arctic.Reject) func(int, *wire.Port) port.Port {
	return func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func(b []byte) bool {
			if f, err := arctic.Parse(b); err == nil && card == of {
				for i := range f.Rejects() {
					*rejects = append(*rejects, f.Reject(i))
				}
			}
			return true
		}}
	}
}

// Rule: a node that no process has attached comes back with ReasonNoContext, from
// the peer's card and from the own; a node without a route comes back with
// ReasonNoRoute at once (thesis 3.3.1).
func TestNoSuchNodeAndNoRoute(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, route: []uint32{0, 1, 1, 0, engine.NoRoute}})
	for _, c := range []struct {
		node   int
		reason arctic.Reason
	}{{2, arctic.ReasonNoContext}, {3, arctic.ReasonNoContext}, {4, arctic.ReasonNoRoute}, {5, arctic.ReasonNoRoute},
		{0xffff, arctic.ReasonNoRoute}} {
		for l := range funi.Level(2) {
			b.mustSend(0, l, c.node, 0xcafe, uint32(c.node))
			b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: c.reason, Level: l,
				Header: funi.NewHeader(uint16(c.node), 5, 2), Word: 0xcafe})
			b.mustSend(0, l, c.node) // no payload: the word is zero
			b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: c.reason, Level: l,
				Header: funi.NewHeader(uint16(c.node), 5, 0)})
		}
	}
	b.idle(time.Second)
	exactlyOnce(b, newTraffic(b, 50, 3))
}

// Rule: a frame that lies about where it comes from is dropped and counted, and
// changes nothing: another card's number, address, or incarnation; and so is one for
// another card, or a damaged one (preprocess.go).
func TestForgedFramesAreDropped(t *testing.T) {
	message := []arctic.PacketHeader{{Length: 1, Type: 5, Source: 1, Destination: 0}}
	for _, c := range []struct {
		what    string
		frame   []byte
		counter func(*engine.Counters) *uint64
	}{
		{"unknown card", forge(message, func(h *arctic.Header) { h.Sequence, h.SourceCard = 1, 9 }),
			func(c *engine.Counters) *uint64 { return &c.DroppedStranger }},
		{"largest card", forge(message, func(h *arctic.Header) { h.Sequence, h.SourceCard = 1, 0xffff }),
			func(c *engine.Counters) *uint64 { return &c.DroppedStranger }},
		{"own card", forge(message, func(h *arctic.Header) { h.Sequence, h.SourceCard = 1, 0 }),
			func(c *engine.Counters) *uint64 { return &c.DroppedStranger }},
		{"another card's address", forge(message, func(h *arctic.Header) { h.Sequence, h.From = 1, address(2) }),
			func(c *engine.Counters) *uint64 { return &c.DroppedStranger }},
		{"another card's number", forge(message, func(h *arctic.Header) { h.Sequence, h.SourceCard = 1, 2 }),
			func(c *engine.Counters) *uint64 { return &c.DroppedStranger }},
		{"for another card", forge(message, func(h *arctic.Header) { h.Sequence, h.DestinationCard = 1, 2 }),
			func(c *engine.Counters) *uint64 { return &c.DroppedMisrouted }},
		{"another epoch", forge(message, func(h *arctic.Header) { h.Sequence, h.Epoch = 1, 77 }),
			func(c *engine.Counters) *uint64 { return &c.Stale }},
		{"no epoch", forge(message, func(h *arctic.Header) { h.Sequence, h.Epoch = 1, 0 }),
			func(c *engine.Counters) *uint64 { return &c.Stale }},
		{"sealed, where there is no key", withByte(forge(message, nothing), 15, 0x10),
			func(c *engine.Counters) *uint64 { return &c.DroppedForged }},
		{"not FUNet", withByte(forge(message, nothing), 12, 8), func(c *engine.Counters) *uint64 {
			return &c.DroppedForeign
		}},
		{"short", forge(message, nothing)[:40], func(c *engine.Counters) *uint64 { return &c.DroppedShort }},
		{"another version", withByte(forge(message, nothing), 14, arctic.Version+1), func(c *engine.Counters) *uint64 {
			return &c.DroppedVersion
		}},
		{"length", withByte(forge(message, nothing), 17, 0xff), func(c *engine.Counters) *uint64 {
			return &c.DroppedLength
		}},
		{"checksum", withByte(forge(message, nothing), 40, 0xff), func(c *engine.Counters) *uint64 {
			return &c.DroppedChecksum
		}},
		{"reserved flag", resealed(withByte(forge(message, nothing), 15, 0x80)), func(c *engine.Counters) *uint64 {
			return &c.DroppedReserved
		}},
		{"block that its packet does not name", resealed(withByte(forge(message, nothing), 15, 0x08)),
			func(c *engine.Counters) *uint64 { return &c.DroppedPacket }},
		{"packet longer than its frame", resealed(withByte(forge(message, nothing), arctic.HeaderSize+6, 21)),
			func(c *engine.Counters) *uint64 { return &c.DroppedPacket }},
		{"block without its packet", resealed(withByte(forge(message, nothing), 15, 8)),
			func(c *engine.Counters) *uint64 { return &c.DroppedPacket }},
		{"packet of another group", resealed(withByte(forge(message, nothing), arctic.HeaderSize+7, 0xff)),
			func(c *engine.Counters) *uint64 { return &c.DroppedPacket }},
	} {
		b := newBed(t, setup{cards: 3, slots: 16, net: near})
		seen := observe(b.cards[0])
		exactlyOnce(b, newTraffic(b, 1, 2))
		before := b.cards[0].Counters()
		b.inject(c.frame)
		b.step(b.next())
		seen.agree(t)
		after := b.cards[0].Counters()
		if n := *c.counter(&after) - *c.counter(&before); n != 1 {
			t.Errorf("%s: counted %d times, want once\n%s", c.what, n, b.counters())
		}
		if after.PacketsDelivered != before.PacketsDelivered || after.FramesReceived != before.FramesReceived+1 {
			t.Errorf("%s: was delivered", c.what)
		}
		exactlyOnce(b, newTraffic(b, 20, 2))
	}
}

// Rule: a frame of a node that the receiver's route table does not put on the sending
// card is rejected for good and counted, whoever the node is, and delivered to nobody
// (thesis 4.1.1: no falsified delivery; preprocess.go).
func TestForgedSourceNodeIsRejected(t *testing.T) {
	for _, node := range []uint16{2, 0, 3, 0xffff} { // another card's, the own, without route
		var rejects []arctic.Reject
		b := newBed(t, setup{cards: 3, slots: 16, net: near, route: []uint32{0, 1, 2, engine.NoRoute},
			wrap: watchRejects(0, &rejects)})
		exactlyOnce(b, newTraffic(b, 1, 2))
		before := b.cards[0].Counters()
		b.inject(forge([]arctic.PacketHeader{{Source: node}, {Source: node}}, func(h *arctic.Header) {
			h.Sequence = 1
		}))
		b.pass(time.Millisecond)
		after := b.cards[0].Counters()
		if after.ForgedSource != before.ForgedSource+1 || after.PacketsDelivered != before.PacketsDelivered {
			t.Errorf("node %d: %d frames counted, %d packets delivered", node, after.ForgedSource-before.ForgedSource,
				after.PacketsDelivered-before.PacketsDelivered)
		}
		if want := (arctic.Reject{Sequence: 1, Level: arctic.Request, Reason: arctic.ReasonSourceNode,
			Bits: 3}); len(rejects) != 1 || rejects[0] != want {
			t.Errorf("node %d: rejects %+v, want %+v", node, rejects, want)
		}
	}
}

// Rule: a genuine card whose node the receiver's table puts elsewhere, because the table was loaded
// late or differently, gets an answer. The packet comes back with the reason, and what the two
// cards exchange besides is not held up. With the table right packets arrive (SetRoute; design idea
// 4: nothing hangs).
func TestSourceNodeThatTheReceiverDoesNotKnow(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, route: []uint32{0, 1}})
	exactlyOnce(b, newTraffic(b, 3, 2))
	late, _ := b.join(1, gid, 9)
	for i := range uint32(20) {
		begin := b.now
		put(late, funi.Request, 0, i)
		b.mustSend(1, funi.Request, 0, i)
		b.comesBack(time.Second, late, funi.Returned{Reason: arctic.ReasonSourceNode, Level: funi.Request,
			Header: funi.NewHeader(0, 5, 1), Word: i})
		b.until(time.Second, "the other process's packet", func() bool {
			m, ok := take(b.proc[0], funi.Request)
			return ok && m.Source() == 1
		})
		if took := time.Duration(b.now - begin); took > time.Millisecond {
			t.Fatalf("took %v", took)
		}
	}
	if err := b.cards[0].SetRoute(9, 1); err != nil {
		t.Fatal(err)
	}
	put(late, funi.Request, 0, 99)
	b.until(time.Second, "it arrives", func() bool {
		m, ok := take(b.proc[0], funi.Request)
		return ok && m.Source() == 9
	})
	b.idle(time.Second)
	exactlyOnce(b, newTraffic(b, 20, 2))
}

func nothing(*arctic.Header) {}

func withByte(b []byte, at int, v byte) []byte {
	b[at] = v
	return b
}

func resealed(b []byte) []byte {
	arctic.Seal(b, len(b))
	return b
}

// Rule: no other group can read or forge (design, what it is): cards whose groups
// differ never meet, the frames are dropped and counted, and the sender is told
// after ConnectTimeout.
func TestCardsOfDifferentGroups(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: quick, group: []uint16{gid, gid + 1}})
	b.mustSend(0, funi.Request, 1, 5)
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonSilent, Level: funi.Request,
		Header: funi.NewHeader(1, 5, 1), Word: 5})
	if c := b.cards[1].Counters(); c.DroppedGroup == 0 || c.FramesSent != 0 || c.PacketsDelivered != 0 {
		t.Errorf("the other group's card: %+v", c)
	}
}

// Rule: one group is never a stall for another (design idea 3). Card 0 has groups
// 9 and gid, card 1 only gid; a process of group 9 sends to card 1 as fast as it
// can, before the cards have met and after. Each of its packets comes back, and
// group gid sees nothing of it: acknowledgments for group gid that ride on frames
// of group 9 count.
func TestAbsentGroupDoesNotDisturbOthers(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
	rogue, ctx := b.join(0, 9, 0)
	sent, back := 0, 0
	pump := func(most int) {
		for sent < most && put(rogue, funi.Request, 1, uint32(sent)) {
			sent++
		}
		for _, ok := rogue.NextReturn(); ok; _, ok = rogue.NextReturn() {
			back++
		}
		if s, ok := take(rogue, funi.Request); ok {
			t.Fatalf("group 9 got %v", s)
		}
	}
	pump(10)
	b.step(b.now) // group 9 is the first to greet
	tr := newTraffic(b, 3000, 3)
	begin := b.now
	b.until(time.Minute, "group 7 has got everything", func() bool { pump(1 << 30); return tr.pump() })
	if took := time.Duration(b.now - begin); took > time.Second {
		t.Errorf("group 7 took %v\n%s", took, b.counters())
	}
	last := sent
	b.until(time.Minute, "group 9 has got everything back", func() bool {
		pump(last)
		return back == sent && ctx.Idle()
	})
	if _, back := tr.totals(); back != 0 || b.cards[0].Counters().PeersLost != 0 {
		t.Errorf("packets of group 7 came back, or the peer was lost\n%s", b.counters())
	}
	exactlyOnce(b, newTraffic(b, 100, 3))
	if b.cards[1].Counters().DroppedGroup == 0 {
		t.Error("frames of the absent group were not counted")
	}
}

// Rule: a group that only one of two cards has does not keep the groups that both
// have from meeting, although it greets first: repeated greetings name the groups
// in turn (link/greeting.go).
func TestAbsentGroupDoesNotKeepCardsApart(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	rogue, _ := b.join(0, 9, 0)
	put(rogue, funi.Request, 1, 0)
	b.step(b.now)
	begin := b.now
	exactlyOnce(b, newTraffic(b, 10, 2, [2]int{0, 1}))
	if took := time.Duration(b.now - begin); took > time.Second {
		t.Errorf("met after %v", took)
	}
}
