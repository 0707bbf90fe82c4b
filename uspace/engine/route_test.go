package engine_test

// This file holds the rules of the route tables and of the system group (thesis 3.3).

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// Rule: the route table has 64K entries, is loadable at run time, and an absent entry
// comes back to the sender with ReasonNoRoute (thesis 3.3.1, 5.4); what leads nowhere is
// refused and changes nothing.
func TestRoutesAreLoadable(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	last, _ := b.join(1, gid, 0xffff)
	back := func(node int) {
		t.Helper()
		b.mustSend(0, funi.Request, node, 3)
		b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoRoute, Level: funi.Request,
			Header: funi.NewHeader(uint16(node), 5, 1), Word: 3})
	}
	back(0xffff)
	for i := range 2 {
		if err := b.cards[i].SetRoute(0xffff, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []uint32{2, 0xffff, 0x10000, arctic.MaxRoute, 1 << 31} {
		if err := b.cards[0].SetRoute(0xffff, r); !errors.Is(err, engine.ErrRoute) {
			t.Errorf("route %#x: %v, want ErrRoute", r, err)
		}
	}
	b.mustSend(0, funi.Request, 0xffff, 9)
	b.until(time.Second, "node 65535 gets it", func() bool {
		m, ok := take(last, funi.Request)
		return ok && m.Header().Node() == 0xffff
	})
	back(0xfffe) // never set
	if err := b.cards[0].SetRoute(1, engine.NoRoute); err != nil {
		t.Fatal(err)
	}
	back(1)
	if err := b.cards[0].SetRoute(1, 1); err != nil {
		t.Fatal(err)
	}
	b.idle(time.Second)
	exactlyOnce(b, newTraffic(b, 50, 3))
}

// Rule: the configuration's table is not written, cards may share it (SetRoute).
func TestConfiguredRoutesAreNotWritten(t *testing.T) {
	b := newBed(t, setup{cards: 2, slots: 16, net: near})
	if err := b.cards[0].SetRoute(1, engine.NoRoute); err != nil {
		t.Fatal(err)
	}
	if b.route[1] != 1 {
		t.Error("the card wrote into the configuration's table")
	}
}

// alike is a configuration without a route table, where node i is on card i.
func alike(c *engine.Config) { c.Routes, c.NodesAreCards = nil, true }

// Rule: with NodesAreCards a node beyond the route table is on the card of its number, if that is
// this card or a peer. An entry of the table comes before that, and nodes before it stay in place.
func TestNodesAreCards(t *testing.T) {
	b := newBed(t, setup{cards: 3, slots: 16, net: near, tune: alike})
	exactlyOnce(b, newTraffic(b, 50, 3))
	for _, stranger := range []int{3, 0xffff} {
		b.mustSend(0, funi.Request, stranger, 3)
		b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoRoute, Level: funi.Request,
			Header: funi.NewHeader(uint16(stranger), 5, 1), Word: 3})
	}
	fifth, _ := b.join(1, gid, 5)
	for i := range b.cards {
		if err := b.cards[i].SetRoute(5, 1); err != nil {
			t.Fatal(err)
		}
	}
	b.mustSend(2, funi.Request, 5, 8)
	b.until(time.Second, "node 5 gets it", func() bool { _, ok := take(fifth, funi.Request); return ok })
	b.mustSend(0, funi.Request, 4, 3) // before the entry, and no peer
	b.comesBack(time.Second, b.proc[0], funi.Returned{Reason: arctic.ReasonNoRoute, Level: funi.Request,
		Header: funi.NewHeader(4, 5, 1), Word: 3})
	exactlyOnce(b, newTraffic(b, 50, 3))
}

// Rule: with NodesAreCards a node that has moved is found where it is, by all cards, and the other
// nodes where they were.
func TestNodesAreCardsUntilTheyMove(t *testing.T) {
	r := newMoveBed(t, setup{cards: 4, remote: moreRemote, net: near, tune: alike})
	r.moves(1, 1, 2)
	for _, card := range []int{0, 3} {
		if n := r.cards[card].Counters().Redirected; n != 1 {
			t.Errorf("card %d was told of %d moves", card, n)
		}
	}
	for _, from := range []int{0, 2, 3} {
		for _, to := range []int{0, 1, 2, 3} {
			if from == to {
				continue
			}
			r.mustSend(from, funi.Request, to, uint32(from), 7)
			r.until(time.Second, "it arrives", func() bool {
				m, ok := take(r.proc[to], funi.Request)
				if ok && (m.Source() != uint16(from) || m.Payload()[0] != uint32(from)) {
					t.Fatalf("node %d got %v", to, m)
				}
				return ok
			})
		}
	}
	r.ends()
}

// Rule: each group may place its nodes differently: a group's own table serves it
// alone, decides which source nodes are believed, and can be taken away again.
func TestGroupsHaveRoutesOfTheirOwn(t *testing.T) {
	b := newBed(t, setup{cards: 3, slots: 16, net: near})
	const other = gid + 1
	var proc []*funi.Interface
	for node, card := range []int{2, 0, 1} {
		p, _ := b.join(card, other, uint16(node))
		proc = append(proc, p)
	}
	for _, c := range b.cards {
		if err := c.SetGroupRoutes(other, []uint32{2, 0, 1}); err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]uint32{{0, 3}, make([]uint32, 1<<16+1)} {
			if err := c.SetGroupRoutes(other, bad); !errors.Is(err, engine.ErrRoute) {
				t.Errorf("table of %d routes: %v, want ErrRoute", len(bad), err)
			}
		}
		if err := c.SetGroupRoutes(arctic.MaxGID+1, nil); !errors.Is(err, engine.ErrRoute) {
			t.Errorf("GID 2048: %v, want ErrRoute", err)
		}
	}
	for from := range proc {
		for to := range proc {
			put(proc[from], funi.Reply, to, uint32(from))
			b.until(time.Second, "it arrives", func() bool {
				m, ok := take(proc[to], funi.Reply)
				if ok && (m.Source() != uint16(from) || m.Payload()[0] != uint32(from)) {
					t.Fatalf("node %d got %v", to, m)
				}
				return ok
			})
		}
	}
	exactlyOnce(b, newTraffic(b, 50, 3))
	if err := b.cards[2].SetGroupRoutes(other, nil); err != nil {
		t.Fatal(err)
	}
	put(proc[0], funi.Request, 2, 4) // node 2 of the card's table is this very card
	b.comesBack(time.Second, proc[0], funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
		Header: funi.NewHeader(2, 5, 1), Word: 4})
}

// Rule: a packet for the system group raises an event and is rejected for a transient
// reason until a context of that group is there; then it is delivered (thesis 3.3.2).
// Without the hook group 0 is like any other.
func TestSystemGroup(t *testing.T) {
	events := 0
	b := newBed(t, setup{cards: 2, slots: 16, net: near, tune: func(c *engine.Config) {
		quick(c)
		if c.Card == 1 {
			c.SystemEvent = func() { events++ }
		}
	}})
	sender, ctx := b.join(0, engine.SystemGroup, 0)
	if !put(sender, funi.Request, 1, 1234) { // the cards meet for it
		t.Fatal("no room")
	}
	b.pass(300 * time.Millisecond) // longer than PeerTimeout
	if _, ok := sender.NextReturn(); ok || events == 0 || ctx.Idle() {
		t.Fatalf("came back: %v; %d events; idle %v", ok, events, ctx.Idle())
	}
	p, _ := b.join(1, engine.SystemGroup, 1)
	seen := events
	b.until(time.Second, "it is delivered", func() bool {
		m, ok := take(p, funi.Request)
		return ok && m.Payload()[0] == 1234
	})
	b.until(time.Second, "and acknowledged", ctx.Idle)
	if events != seen {
		t.Errorf("%d more events with the system there", events-seen)
	}
	put(p, funi.Request, 0, 1) // card 0 has no hook; its context is there
	b.until(time.Second, "the other way", func() bool { _, ok := take(sender, funi.Request); return ok })
	b.cards[0].Detach(ctx)
	put(p, funi.Request, 0, 5)
	b.comesBack(time.Second, p, funi.Returned{Reason: arctic.ReasonNoContext, Level: funi.Request,
		Header: funi.NewHeader(0, 5, 1), Word: 5})
}

// Rule: the event is raised also while the system's context is there but does not run,
// switched out or in context-switch mode: the handler's switch brings it back
// (thesis 3.3.2: "initiate a context switch to gain possession"). The packet is
// delivered after it, and a context that runs raises none.
func TestSystemGroupSwitchedOut(t *testing.T) {
	events := 0
	b := newBed(t, setup{cards: 2, slots: 16, net: near, group: []uint16{engine.SystemGroup, engine.SystemGroup},
		tune: func(c *engine.Config) {
			quick(c)
			if c.Card == 1 {
				c.SystemEvent = func() { events++ }
			}
		}})
	b.mustSend(0, funi.Request, 1, 1)
	b.until(time.Second, "it is delivered", func() bool { _, ok := take(b.proc[1], funi.Request); return ok })
	if events != 0 {
		t.Fatalf("%d events while the context runs", events)
	}
	s := b.switchOut(1)
	b.mustSend(0, funi.Request, 1, 2)
	b.until(time.Second, "the event", func() bool { return events > 0 })
	b.switchIn(1, s)
	b.until(time.Second, "it is delivered", func() bool {
		m, ok := take(b.proc[1], funi.Request)
		return ok && m.Payload()[0] == 2
	})
	b.idle(time.Second)
	seen := events
	b.mustSend(0, funi.Request, 1, 3)
	b.idle(time.Second)
	if events != seen {
		t.Errorf("%d events more with the context back", events-seen)
	}
}
