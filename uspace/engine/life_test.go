package engine_test

// This file holds the rule of life.go: no transfer of many packets is torn between two
// lives of its receiver, and none comes back that could be whole.

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// again makes another process the node of a context, with memory of its own.
func (b *bed) again(t testing.TB, card int, old *engine.Context) (*funi.Interface, *engine.Context, []byte) {
	t.Helper()
	b.cards[card].Detach(old)
	p, x := b.join(card, old.GID(), old.Node())
	fresh := make([]byte, areaSize)
	if err := x.Register(funi.Segment{Base: area, Memory: fresh, Rights: funi.Destination}); err != nil {
		t.Fatal(err)
	}
	return p, x, fresh
}

// Rule: the receiver of a transfer may be detached and attached again at any time. The notice comes
// only with all of the data, or the whole transfer comes back. That holds whatever the network
// does, over frames and within a card, in blocks and in parts.
func TestTransfersAreNotTorn(t *testing.T) {
	outcomes := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		net := rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "all"}).Draw(rt, "network")
		on := rapid.SampledFrom([]string{"native", "parts", "timed"}).Draw(rt, "card")
		tune := func(c *engine.Config) { c.Blocks = on == "native" }
		if on == "timed" {
			tune = machines[on].on(nil)
		}
		b, m := transferBed(t, setup{cards: 2, slots: 16, tune: tune,
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond,
				Faults: networks[net]}})
		at, l := rapid.IntRange(0, 1).Draw(rt, "card of the receiver"),
			funi.Level(rapid.IntRange(0, 1).Draw(rt, "level"))
		to, x := b.join(at, gid, 9)
		b.setRoutes(9, at)
		memory := make([]byte, areaSize)
		if err := x.Register(funi.Segment{Base: area, Memory: memory, Rights: funi.Destination}); err != nil {
			rt.Fatal(err)
		}
		sent, ended := uint32(0), map[uint32]bool{}
		hasEnded := func(argument uint32) {
			if ended[argument] || argument >= sent {
				rt.Fatalf("transfer %d ended twice, or was never sent", argument)
			}
			ended[argument] = true
		}
		for range rapid.IntRange(1, 3).Draw(rt, "lives") {
			more := uint32(rapid.IntRange(1, 3).Draw(rt, "transfers"))
			for i := range more {
				w := 4 * rapid.IntRange(5, areaSize/16/8).Draw(rt, "quads")
				a := area + (sent+i)%8*areaSize/8
				if !request(b.proc[0], l, 9, funi.Transfer{Source: a, Destination: a, Argument: sent + i, Words: w}) {
					rt.Fatal("no room in the send queue")
				}
			}
			sent += more
			end := b.now + rapid.Int64Range(1, 200_000).Draw(rt, "until")
			step := func() {
				b.step(max(b.now+1, min(b.next(), b.now+1000)))
				for s, ok := take(to, l); ok; s, ok = take(to, l) {
					n := s.Notice()
					from := n.Address - area
					if !bytes.Equal(memory[from:from+uint32(4*n.Words)], m[0].area[from:from+uint32(4*n.Words)]) {
						rt.Fatalf("notice %+v, and the data is not whole", n)
					}
					outcomes["noticed"]++
					hasEnded(n.Argument)
				}
				for r, ok := b.proc[0].NextReturn(); ok; r, ok = b.proc[0].NextReturn() {
					if r.Reason != arctic.ReasonReplaced && r.Reason != arctic.ReasonNoContext {
						rt.Fatalf("came back as %+v", r)
					}
					outcomes[r.Reason.String()]++
					hasEnded(r.Word)
				}
			}
			for b.now < end {
				step()
			}
			to, x, memory = b.again(t, at, x)
			if rapid.Bool().Draw(rt, "wait") {
				for limit := b.now + 60e9; !b.ctx[0].Idle(); {
					if step(); b.now > limit {
						rt.Fatalf("the sender is not idle: %s", b.counters())
					}
				}
			}
		}
		// What is sent now is for who is there now, and nothing of before delays it.
		b.until(time.Minute, "all transfers have ended", b.ctx[0].Idle)
		for _, ok := take(to, l); ok; _, ok = take(to, l) {
		}
		for _, ok := b.proc[0].NextReturn(); ok; _, ok = b.proc[0].NextReturn() {
		}
		request(b.proc[0], l, 9, funi.Transfer{Source: area, Destination: area, Argument: 77, Words: areaSize / 4})
		b.until(time.Minute, "the notice", func() bool {
			if r, ok := b.proc[0].NextReturn(); ok {
				rt.Fatalf("came back as %+v", r)
			}
			s, ok := take(to, l)
			return ok && s.Notice().Argument == 77
		})
		if !bytes.Equal(memory, m[0].area) {
			rt.Fatal("the memories differ")
		}
	})
	if outcomes["noticed"] == 0 || outcomes[arctic.ReasonReplaced.String()] == 0 {
		t.Errorf("outcomes %v: the test tells nothing", outcomes)
	}
	t.Log(outcomes)
}

// setRoutes puts a node on a card, on every card.
func (b *bed) setRoutes(node uint16, card int) {
	b.t.Helper()
	for _, c := range b.cards {
		if err := c.SetRoute(node, uint32(card)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// halfway starts a transfer of all of node 0's memory to node 1, and goes on until some
// of it is there.
func halfway(b *bed, m []memory) {
	b.t.Helper()
	request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 9,
		Words: areaSize / 4})
	b.until(time.Second, "some of it is there", func() bool { return bytes.Equal(m[1].area[:1024], m[0].area[:1024]) })
	if bytes.Equal(m[0].area, m[1].area) {
		b.t.Fatal("all of it is there")
	}
}

// returnOf is the return of that transfer.
func returnOf(reason arctic.Reason) funi.Returned {
	var s funi.Slot
	s.SetTransfer(1, 5, funi.Transfer{Words: areaSize / 4})
	return funi.Returned{Reason: reason, Level: funi.Request, Header: s.Header(), Word: 9}
}

// Rule: the same when the sequence of the flow turns around before, within or after the
// transfer, and when the process came back by RESET.
func TestTransfersAreNotTornWhereSequencesTurn(t *testing.T) {
	for _, seq := range []uint32{0, 1 << 31, 1<<32 - 1, 1<<32 - 10, 1<<32 - 45, 1<<32 - 60} {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%#x, reset %v", seq, reset), func(t *testing.T) {
				b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
				exactlyOnce(b, newTraffic(b, 3, 2))
				b.cards[0].Link().StartSequencesAt(1, seq)
				b.cards[1].Link().StartSequencesAt(0, seq)
				halfway(b, m)
				memory := m[1].area
				if reset {
					x := b.ctx[1]
					for _, w := range []struct {
						r funi.Register
						v uint32
					}{{funi.Control, funi.RESET}, {funi.Control, 0}, {funi.GID, gid}} {
						x.SetTag(jobTag)
						if err := x.Store(w.r, w.v); err != nil {
							t.Fatal(err)
						}
					}
					clear(memory)
					if err := x.Register(funi.Segment{Base: area, Memory: memory, Rights: funi.Destination}); err !=
						nil {
						t.Fatal(err)
					}
					b.mem[1].Page.Store(funi.Control, 0)
					if err := x.Store(funi.Control, 0); err != nil {
						t.Fatal(err)
					}
				} else {
					b.proc[1], b.ctx[1], memory = b.again(t, 1, b.ctx[1])
				}
				b.comesBack(time.Second, b.proc[0], returnOf(arctic.ReasonReplaced))
				if s, ok := take(b.proc[1], funi.Request); ok {
					t.Fatalf("%+v besides", s.Notice())
				}
				if n := b.cards[1].Counters().TransfersTorn; n != 1 {
					t.Errorf("counted %d times, want once", n)
				}
				request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 10,
					Words: areaSize / 4})
				s := b.receives(1, funi.Request)
				notice(t, &s, 0, 1, true, funi.Notice{Address: area, Argument: 10, Words: areaSize / 4})
				if !bytes.Equal(memory, m[0].area) {
					t.Error("the memories differ")
				}
			})
		}
	}
}

// Rule: a life is not ended by a context switch, and not by a flow that is put away: a
// transfer goes on where it was, to a process that was attached when frames had come
// already.
func TestSwitchesTearNoTransfer(t *testing.T) {
	for _, side := range []int{0, 1} {
		b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
		exactlyOnce(b, newTraffic(b, 20, 2))
		b.proc[1], b.ctx[1], m[1].area = b.again(t, 1, b.ctx[1])
		halfway(b, m)
		var saved *engine.Saved
		b.until(time.Second, "switched out", func() (ok bool) {
			var err error
			saved, err = b.cards[side].SwitchOut(b.ctx[side], false)
			b.wake[side] = b.now
			return err == nil
		})
		if side == 0 {
			b.pass(time.Second) // so that flows are put away
		} else {
			b.pass(10 * time.Millisecond)
		}
		if err := b.cards[side].SwitchIn(saved); err != nil {
			t.Fatal(err)
		}
		b.step(b.now)
		s := b.receives(1, funi.Request)
		notice(t, &s, 0, 1, true, funi.Notice{Address: area, Argument: 9, Words: areaSize / 4})
		if !bytes.Equal(m[1].area, m[0].area) {
			t.Error("the memories differ")
		}
	}
}

// Rule: a notice that has no room when its context is switched out comes when it is back
// and has (thesis appendix B).
func TestSwitchesLoseNoNotice(t *testing.T) {
	b, m := transferBed(t, setup{cards: 2, slots: 2, net: near, tune: quick})
	b.mustSend(0, funi.Request, 1, 5)
	b.pass(time.Millisecond)
	halfway(b, m)
	b.until(time.Second, "all is accepted", b.ctx[0].Idle)
	saved, err := b.cards[1].SwitchOut(b.ctx[1], false)
	if err != nil {
		t.Fatal(err)
	}
	if d := saved.Drained[funi.Request]; len(d) != 1 || d[0].Header()>>30 != 3 {
		t.Fatalf("drained %v, want the last packet", d)
	}
	if err := b.cards[1].SwitchIn(saved); err != nil {
		t.Fatal(err)
	}
	if s := b.receives(1, funi.Request); s[funi.PayloadWord] != 5 {
		t.Fatalf("%#x", s)
	}
	s := b.receives(1, funi.Request)
	notice(t, &s, 0, 1, true, funi.Notice{Address: area, Argument: 9, Words: areaSize / 4})
	if !bytes.Equal(m[1].area, m[0].area) {
		t.Error("the memories differ")
	}
}

// Rule: a transfer that is all in its last packet cannot be torn.
func TestTransferOfOnePacket(t *testing.T) {
	each(t, func(t *testing.T, b *bed, m []memory, l funi.Level, to int) {
		s := b.proc[0].Reserve(l)
		s.SetTransfer(uint16(to), 5, funi.Transfer{Source: area, Destination: area + 4096, Argument: 9,
			Words: areaSize / 4})
		s[funi.LengthWord] = arctic.MaxSingleWords
		b.proc[0].Commit(l)
		s = b.proc[0].Reserve(l)
		s.SetPiece(uint16(to), 5, area+8192, 10, 4, 4)
		b.proc[0].Commit(l)
		got := b.receives(to, l) // the last packet of the other leaves in a later step
		notice(t, &got, 0, to, true, funi.Notice{Address: area + 8192, Argument: 10, Words: 4})
		got = b.receives(to, l)
		notice(t, &got, 0, to, true, funi.Notice{Address: area + 4096, Argument: 9, Words: arctic.MaxSingleWords})
		if !bytes.Equal(m[to].area[4096:][:64], m[0].area[:64]) {
			t.Error("the data differs")
		}
	})
}

// Rule: a card that restarts begins its sequence anew, and is not taken for its earlier
// life by a process that was attached during that.
func TestTransfersAfterARestart(t *testing.T) {
	b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
	exactlyOnce(b, newTraffic(b, 200, 2))
	b.proc[1], b.ctx[1], m[1].area = b.again(t, 1, b.ctx[1])
	for i := range 2 {
		if i == 0 {
			b.pass(time.Second) // so that flows are put away
		} else {
			b.proc[1], b.ctx[1], m[1].area = b.again(t, 1, b.ctx[1])
		}
		b.start(0)
		if err := b.ctx[0].Register(funi.Segment{Base: area, Memory: m[0].area, Rights: funi.Source}); err != nil {
			t.Fatal(err)
		}
		clear(m[1].area)
		request(b.proc[0], funi.Request, 1, funi.Transfer{Source: area, Destination: area, Argument: 9,
			Words: areaSize / 4})
		s := b.receives(1, funi.Request)
		notice(t, &s, 0, 1, true, funi.Notice{Address: area, Argument: 9, Words: areaSize / 4})
		if !bytes.Equal(m[1].area, m[0].area) {
			t.Error("the memories differ")
		}
	}
}

// Rule: a transfer whose last packet waits for the receiver's card comes back when that restarts,
// and the process that is there afterwards hears nothing of it: it has none of the parts. The
// acknowledgment of the parts comes with the goodbye here.
func TestLastPacketWaitsForACardThatRestarts(t *testing.T) {
	for l := range funi.Level(2) {
		b, m := transferBed(t, setup{cards: 2, slots: 16, net: near, tune: quick})
		exactlyOnce(b, newTraffic(b, 200, 2))
		retrieved := b.cards[0].Counters().PacketsRetrieved
		request(b.proc[0], l, 1, funi.Transfer{Source: area, Destination: area, Argument: 9, Words: areaSize / 4})
		b.until(time.Second, "the parts arrive", func() bool {
			return bytes.Equal(m[1].area[:areaSize-1024], m[0].area[:areaSize-1024])
		})
		parts := b.cards[0].Counters().PacketsRetrieved
		b.cards[1].Leave()
		b.until(time.Second, "the last packet waits", func() bool {
			return b.cards[0].Counters().PacketsRetrieved > parts
		})
		if parts == retrieved {
			t.Fatal("the transfer has no parts")
		}
		b.start(1)
		if err := b.ctx[1].Register(funi.Segment{Base: area, Memory: make([]byte, areaSize),
			Rights: funi.Destination}); err != nil {
			t.Fatal(err)
		}
		want := returnOf(arctic.ReasonRestarted)
		want.Level = l
		b.comesBack(time.Second, b.proc[0], want)
		b.idle(time.Second)
		if s, ok := take(b.proc[1], l); ok {
			t.Errorf("%v: the process of the other life gets %+v", l, s.Notice())
		}
	}
}

// Rule: a transfer whose node moves to another card comes back, also if the node has moved
// back before its end.
func TestTransferToANodeThatMoves(t *testing.T) {
	for _, back := range []bool{false, true} {
		b, m := transferBed(t, setup{cards: 3, slots: 16, net: near, tune: func(c *engine.Config) {
			quick(c)
			c.Lines, c.ReplyLines = 16, 4
		}})
		p, x := b.join(2, gid, 1)
		if err := x.Register(funi.Segment{Base: area, Memory: make([]byte, areaSize), Rights: funi.Destination}); err !=
			nil {
			t.Fatal(err)
		}
		halfway(b, m)
		b.setRoutes(1, 2)
		b.pass(20 * time.Microsecond)
		if back {
			b.setRoutes(1, 1)
		}
		b.comesBack(time.Second, b.proc[0], returnOf(arctic.ReasonReplaced))
		b.idle(time.Second)
		for _, p := range []*funi.Interface{p, b.proc[1]} {
			if s, ok := take(p, funi.Request); ok {
				t.Errorf("notice %+v", s.Notice())
			}
		}
	}
}

// Rule: what a context keeps of the cards of before its life is for those that have sent, and not
// for their numbers: a host that is found as card 65,535 costs others nothing (beginLife).
func TestLifeKeepsCardsThatHaveSent(t *testing.T) {
	b := newBed(t, setup{cards: 3, slots: 16, net: near, tune: func(c *engine.Config) {
		c.Peers = append(c.Peers, engine.Peer{Card: 65535, Address: address(65535), Local: address(int(c.Card))})
	}})
	b.mustSend(2, funi.Request, 0, 1)
	b.until(time.Second, "a message", func() bool { _, ok := take(b.proc[0], funi.Request); return ok })
	if _, x := b.join(0, gid+1, 1); x.Born() != 1 {
		t.Errorf("the context keeps %d cards, want the one that has sent", x.Born())
	}
}
