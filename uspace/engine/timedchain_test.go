package engine_test

// This file holds the rules of chained multicast on cards whose units take time (chain.go, units.go): how long, that sending on waits for no bus,
// and that what it comes to is what it comes to natively.

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// How long the units of timedChain's cards are with a packet beside its bursts.
const (
	dispatches, transmits, preprocesses = 500 * time.Nanosecond, 300 * time.Nanosecond, 700 * time.Nanosecond
)

// timedChain is three cards that know each other, with no unit busy: the origin, and two members behind each other. The Delivery Unit takes so long
// for a packet, beside its bursts.
func timedChain(t *testing.T, delivery time.Duration) *remoteBed {
	r := newRemoteBed(t, setup{cards: 3, net: near, remote: moreRemote, tune: func(c *engine.Config) {
		machines["timed"](c)
		c.Timing.Retrieval, c.Timing.Delivery = 0, delivery
		c.Timing.Dispatch, c.Timing.Transmit, c.Timing.Preprocess = dispatches, transmits, preprocesses
	}})
	r.chains(7, 1, tree{1: {2}}, r.byNode)
	if n, d := r.multicasts(0, 1, funi.MulticastRequest{Chain: 7, Members: 2, Message: 5}); n.Reason != arctic.ReasonNone {
		t.Fatalf("%v, %+v", n.Reason, d)
	}
	r.has(r.proc[1], 0, 5)
	r.has(r.proc[2], 0, 5)
	r.pass(time.Millisecond)
	return r
}

// Rule: the block of a multicast is retrieved as the words of a slot are (thesis 5.2.2), up to its data; a member's copy takes what a message of the
// origin takes (5.2.3); and the next member has it later by what Preprocessor, Dispatch Unit, Transmit Scheduler and network take, however
// long the Delivery Unit of the member before takes (Tokyo, section 3.3.1.3: an interface sends on what came over its link).
func TestMulticastsTakeTheirTime(t *testing.T) {
	for _, c := range []struct {
		words             int
		retrieve, deliver int64
	}{
		{0, four + eight, one + one},
		{1, four + eight + one, four + one},
		{5, four + eight + four + one, 2*four + one},
		{18, four + 3*eight + four, four + eight + 2*four + one},
	} {
		for _, delivery := range []time.Duration{0, 50 * time.Microsecond} {
			t.Run(fmt.Sprintf("%d words, %v", c.words, delivery), func(t *testing.T) {
				r := timedChain(t, delivery)
				words := make([]uint32, c.words)
				for i := range words {
					words[i] = uint32(i + 1)
				}
				m := funi.MulticastRequest{Chain: 7, Members: 2, Message: 5, Data: bytesOf(words)}
				r.block(0, funi.Request, func(s *funi.Slot) { s.SetMulticast(1, &m) })
				begin := r.now + 1
				if took := r.watch(0, funi.RQSQTail) - begin; took != c.retrieve {
					t.Errorf("retrieval took %d ns, want %d", took, c.retrieve)
				}
				sent := r.now
				want := sent + int64(dispatches+transmits+near.Delay+preprocesses+delivery) + c.deliver
				if at := r.watch(1, funi.RQRQHead); at != want {
					t.Errorf("the first member has it %d ns after it was retrieved, want %d", at-sent, want-sent)
				}
				hop := int64(dispatches+transmits+near.Delay+preprocesses) + 1 // the bed's next step, in which what a frame called for leaves
				if at := r.watch(2, funi.RQRQHead); at != want+hop {
					t.Errorf("the second member has it %d ns after the first, want %d", at-want, hop)
				}
				r.has(r.proc[1], 0, 5, words...)
				r.has(r.proc[2], 0, 5, words...)
				r.ends()
			})
		}
	}
}

// Rule: what stands in a block costs no more than the longest that there is, whatever length the process writes into it, and is refused.
func TestMulticastOfAnyLengthIsBounded(t *testing.T) {
	for _, length := range []uint32{76, 1 << 16, 1<<32 - 4, 1<<32 - 1} {
		r := timedChain(t, 0)
		r.block(0, funi.Request, func(s *funi.Slot) {
			s.SetMulticast(1, &funi.MulticastRequest{Chain: 7, Members: 2, Message: 5, Cookie: 3})
			s[funi.RemoteLengthWord] = length
		})
		begin := r.now + 1
		if took, most := r.watch(0, funi.RQSQTail)-begin, int64(four+3*eight+four); took > most {
			t.Errorf("%d bytes: retrieval took %d ns, more than %d", length, took, most)
		}
		if back := r.comesBackOf(0); back.Reason != arctic.ReasonRemoteRequest || back.Word != 3 {
			t.Errorf("%d bytes: %+v", length, back)
		}
	}
}

// Rule: whatever the tables of the members say, a multicast comes to the same members and is told the same natively and on cards whose units take
// time.
func TestMulticastIsTheSameOnEachMachine(t *testing.T) {
	type outcome struct {
		has  []int
		told funi.Delivery
		why  arctic.Reason
	}
	rapid.Check(t, func(rt *rapid.T) {
		var chains [4]funi.Chain
		for node := range chains {
			c := &chains[node]
			if c.Number, c.First = 7, rapid.IntRange(0, 3).Draw(rt, "first") == 0; !c.First {
				c.Parent = uint16(rapid.IntRange(0, 3).Draw(rt, "parent"))
			}
			for next := range uint16(5) { // nobody is node 4
				if rapid.IntRange(0, 2).Draw(rt, "next") == 0 && len(c.Next) < funi.MaxNext {
					c.Next = append(c.Next, funi.Next{Node: next, Members: uint16(rapid.IntRange(1, 4).Draw(rt, "members"))})
				}
			}
		}
		first, members := uint16(rapid.IntRange(0, 3).Draw(rt, "at")), uint16(rapid.IntRange(1, 8).Draw(rt, "of"))
		seed := rapid.Uint64().Draw(rt, "seed")
		on := func(tune machine) (o outcome) {
			r := newRemoteBed(t, setup{cards: 4, slots: 64, remote: moreRemote, tune: tune, net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond}})
			for node, c := range chains {
				r.sets(node, c)
			}
			n, d := r.multicasts(0, first, funi.MulticastRequest{Chain: 7, Members: members, Message: 5, Data: bytesOf([]uint32{1, 2, 3})})
			r.pass(100 * time.Microsecond) // for the Delivery Units
			for node, p := range r.proc {
				if p.Receive(funi.Request) != nil {
					o.has = append(o.has, node)
				}
			}
			slices.SortFunc(d.Broken[:min(d.Named, funi.MaxNamed)], func(a, b funi.Broken) int { return int(a.Node) - int(b.Node) })
			o.told, o.why = d, n.Reason
			return o
		}
		native, timed := on(machines["native"]), on(machines["timed"])
		if !slices.Equal(native.has, timed.has) || native.told != timed.told || (native.why == arctic.ReasonNone) != (timed.why == arctic.ReasonNone) {
			rt.Fatalf("natively %+v, timed %+v", native, timed)
		}
	})
}
