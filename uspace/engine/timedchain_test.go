package engine_test

// This file holds the rules of chained multicast on cards whose units take time (chain.go,
// units.go): how long, that sending on waits for no bus, and that what it comes to is what it comes
// to natively.

import (
	"bytes"
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

// timedChain is three cards that know each other, with no unit busy: the origin, and two members
// behind each other. The Delivery Unit takes so long for a packet, beside its bursts.
func timedChain(t *testing.T, delivery time.Duration) *remoteBed {
	r := newRemoteBed(t, setup{cards: 3, net: near, remote: moreRemote, tune: func(c *engine.Config) {
		machines["timed"](c)
		c.Timing.Retrieval, c.Timing.Delivery = 0, delivery
		c.Timing.Dispatch, c.Timing.Transmit, c.Timing.Preprocess = dispatches, transmits, preprocesses
	}})
	r.chains(7, 1, tree{1: {2}}, r.byNode)
	for node := 1; node < 3; node++ {
		r.exposes(node, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
	}
	if n, d := r.multicasts(0, 1, funi.MulticastRequest{Chain: 7, Members: 2, Message: 5}); n.Reason !=
		arctic.ReasonNone {
		t.Fatalf("%v, %+v", n.Reason, d)
	}
	r.has(r.proc[1], 0, 5)
	r.has(r.proc[2], 0, 5)
	r.pass(time.Millisecond)
	return r
}

// Rule: the block of a multicast is retrieved as the words of a slot are (thesis 5.2.2), up to its
// data. A member's copy takes what a message of the origin takes (5.2.3). The next member has it
// later by what Preprocessor, Dispatch Unit, Transmit Scheduler and network take. That holds
// however long the Delivery Unit of the member before takes (Tokyo, section 3.3.1.3: an interface
// sends on what came over its link).
func TestMulticastsTakeTheirTime(t *testing.T) {
	for _, c := range []struct {
		words             int
		retrieve, deliver int64
	}{
		{0, four + eight, one + one},
		{1, four + eight + one, four + one},
		{5, four + eight + four + one, 2*four + one},
		{17, four + 3*eight + one, four + eight + 2*four + one},
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
				// the bed's next step, in which what a frame called for leaves
				hop := int64(dispatches+transmits+near.Delay+preprocesses) + 1
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

// Rule: a copy of a put has the bus for its data before it is accepted, and only then is it written
// and sent on (chain.go; Tokyo, section 2.2.1: the interface stores the message and forwards it).
// The last report takes the bus the record of the completion.
func TestMulticastPutsTakeTheirTime(t *testing.T) {
	for _, c := range []struct {
		bytes             int
		retrieve, deliver int64
	}{
		{0, four + eight, 0},
		{3, four + eight + one, one},
		{32, four + 2*eight, eight},
		{44, four + 2*eight + four, eight + four},
	} {
		t.Run(fmt.Sprintf("%d bytes", c.bytes), func(t *testing.T) {
			r := timedChain(t, 0)
			m := funi.MulticastRequest{Chain: 7, Members: 2, Put: true, Key: theKey, Address: windowAt,
				Data: make([]byte, c.bytes)}
			fill(m.Data, 77)
			r.block(0, funi.Request, func(s *funi.Slot) { s.SetMulticast(1, &m) })
			begin := r.now + 1
			if took := r.watch(0, funi.RQSQTail) - begin; took != c.retrieve {
				t.Errorf("retrieval took %d ns, want %d", took, c.retrieve)
			}
			const hop = int64(dispatches + transmits + 10*time.Microsecond + preprocesses)
			want := r.now + hop + c.deliver
			for node := 1; node < 3; node++ {
				before, was := r.cards[node].Counters().Multicasts, bytes.Clone(r.keyed[node])
				at := r.when("a member has it", func() bool {
					done := r.cards[node].Counters().Multicasts != before
					if !done && !bytes.Equal(was, r.keyed[node]) {
						t.Fatal("memory changes before its time")
					}
					return done
				})
				if at != want {
					t.Errorf("member %d has it %d ns late", node, at-want)
				}
				if !bytes.Equal(r.keyed[node][:c.bytes], m.Data) {
					t.Errorf("member %d has other bytes", node)
				}
				// the bed's next step, in which what a frame called for leaves
				want += hop + c.deliver + 1
			}
			completions := r.cards[0].Counters().Completions
			want += 2*eight + one - c.deliver
			if at := r.when("it is complete", func() bool {
				return r.cards[0].Counters().Completions != completions
			}); at != want {
				t.Errorf("it is complete %d ns late", at-want)
			}
			if n := r.notified(0); n.Reason != arctic.ReasonNone || n.Delivery() != (funi.Delivery{Delivered: 2}) {
				t.Errorf("%v, %+v", n.Reason, n.Delivery())
			}
			r.ends()
		})
	}
}

// Rule: a copy that is refused takes the bus nothing, whether it is the chain or the window that
// refuses it.
func TestRefusedCopiesTakeNoTime(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*funi.MulticastRequest)
		want   arctic.Reason
	}{
		"chain":   {func(m *funi.MulticastRequest) { m.Chain = 6 }, arctic.ReasonChain},
		"members": {func(m *funi.MulticastRequest) { m.Members = 3 }, arctic.ReasonChain},
		"key":     {func(m *funi.MulticastRequest) { m.Key ^= 1 << 40 }, arctic.ReasonKeySlot},
		"range":   {func(m *funi.MulticastRequest) { m.Address += 21 }, arctic.ReasonRange},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedChain(t, 0)
			m := funi.MulticastRequest{Chain: 7, Members: 2, Put: true, Key: theKey, Address: windowAt,
				Data: make([]byte, 44)}
			c.change(&m)
			r.block(0, funi.Request, func(s *funi.Slot) { s.SetMulticast(1, &m) })
			arrival, before := r.lands(), r.cards[1].Counters().RejectsSent
			if took := r.when("it is judged", func() bool {
				return r.cards[1].Counters().RejectsSent != before
			}) - arrival; took != int64(preprocesses) {
				t.Errorf("it took %d ns, want %d", took, preprocesses)
			}
			if n := r.notified(0); n.Reason != c.want || n.Delivery().Failed != int(m.Members) {
				t.Errorf("%v, %+v; want %v", n.Reason, n.Delivery(), c.want)
			}
			r.ends()
		})
	}
}

// Rule: a copy is judged when its time is over. A member that has closed its window or left the
// chain by then has nothing of it and sends nothing on, and the origin hears who that is; one that
// is away takes it when it is back, once.
func TestMembersThatEndBeforeTheTimeOfACopy(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *remoteBed)
		want arctic.Reason
	}{
		"the window is closed": {func(r *remoteBed) {
			r.block(1, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
			r.retired(1)
		}, arctic.ReasonKeySlot},
		"it has left the chain": {func(r *remoteBed) { r.leaves(1) }, arctic.ReasonChain},
		"it is away for a time": {func(r *remoteBed) {
			s := r.switchOut(1)
			r.pass(10 * time.Millisecond)
			r.switchIn(1, s)
		}, arctic.ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			r := timedChain(t, 0)
			data := bytes.Repeat([]byte{0x3c}, 44)
			r.block(0, funi.Request, func(s *funi.Slot) {
				s.SetMulticast(1, &funi.MulticastRequest{Chain: 7, Members: 2, Put: true, Key: theKey,
					Address: windowAt, Data: data})
			})
			was := bytes.Clone(r.keyed[2])
			r.step(r.lands() + int64(preprocesses))
			r.step(r.now + 1)
			if r.cards[1].Counters().Multicasts != 1 {
				t.Fatal("it is accepted before its time")
			}
			c.end(r)
			n := r.notified(0)
			if d := n.Delivery(); n.Reason != c.want || c.want != arctic.ReasonNone &&
				(d.Failed != 2 || d.Broken[0].Node != 1) {
				t.Errorf("%v, %+v; want %v", n.Reason, d, c.want)
			}
			if has := !bytes.Equal(was, r.keyed[2]); has != (c.want == arctic.ReasonNone) {
				t.Errorf("the second member has it: %v", has)
			}
			r.idle(time.Minute)
		})
	}
}

// Rule: what stands in a block costs no more than the longest that there is, whatever length the
// process writes into it, and is refused.
func TestMulticastOfAnyLengthIsBounded(t *testing.T) {
	for _, length := range []uint32{76, 1 << 16, 1<<32 - 4, 1<<32 - 1} {
		r := timedChain(t, 0)
		r.block(0, funi.Request, func(s *funi.Slot) {
			s.SetMulticast(1, &funi.MulticastRequest{Chain: 7, Members: 2, Message: 5, Cookie: 3})
			s[funi.RemoteLengthWord] = length
		})
		begin := r.now + 1
		if took, most := r.watch(0, funi.RQSQTail)-begin, int64(four+3*eight+one); took > most {
			t.Errorf("%d bytes: retrieval took %d ns, more than %d", length, took, most)
		}
		if back := r.comesBackOf(0); back.Reason != arctic.ReasonRemoteRequest || back.Word != 3 {
			t.Errorf("%d bytes: %+v", length, back)
		}
	}
}

// Rule: whatever the tables of the members say, a multicast comes to the same members and is told
// the same natively and on cards whose units take time.
func TestMulticastIsTheSameOnEachMachine(t *testing.T) {
	type outcome struct {
		has  []int
		at   [4][]byte // the members' memory
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
					c.Next = append(c.Next, funi.Next{Node: next,
						Members: uint16(rapid.IntRange(1, 4).Draw(rt, "members"))})
				}
			}
		}
		first, members := uint16(rapid.IntRange(0, 3).Draw(rt, "at")), uint16(rapid.IntRange(1, 8).Draw(rt, "of"))
		seed, put := rapid.Uint64().Draw(rt, "seed"), rapid.Bool().Draw(rt, "put")
		var keys [4]uint64
		for i := range keys {
			keys[i] = rapid.SampledFrom([]uint64{theKey, theKey, theKey, theKey ^ 1<<40}).Draw(rt, "key")
		}
		on := func(tune machine) (o outcome) {
			r := newRemoteBed(t, setup{cards: 4, slots: 64, remote: moreRemote, tune: tune,
				net: wire.Config{Seed: seed, Delay: 10 * time.Microsecond}})
			for node, c := range chains {
				r.sets(node, c)
			}
			m := funi.MulticastRequest{Chain: 7, Members: members, Put: put, Data: bytesOf([]uint32{1, 2, 3})}
			for node, key := range keys {
				r.exposes(node, funi.Window{Key: key, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
			}
			if put {
				m.Key, m.Address = theKey, windowAt+8
			}
			n, d := r.multicasts(0, first, m)
			r.pass(100 * time.Microsecond) // for the Delivery Units
			for node, p := range r.proc {
				if p.Receive(funi.Request) != nil {
					o.has = append(o.has, node)
				}
				o.at[node] = r.keyed[node]
			}
			slices.SortFunc(d.Broken[:min(d.Named, funi.MaxNamed)], func(a, b funi.Broken) int {
				return int(a.Node) - int(b.Node)
			})
			o.told, o.why = d, n.Reason
			return o
		}
		native, timed := on(machines["native"]), on(machines["timed"])
		if !slices.Equal(native.has, timed.has) || native.told != timed.told ||
			(native.why == arctic.ReasonNone) != (timed.why == arctic.ReasonNone) ||
			!slices.EqualFunc(native.at[:], timed.at[:], bytes.Equal) {
			rt.Fatalf("natively %+v, timed %+v", native, timed)
		}
	})
}
