package engine_test

// This file tests that time is shared by account where the card's owner says how long steps took
// (design idea 10): those for whom the card worked rest, and nobody waits for the rests of others.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// shared is two cards with contexts of two accounts each: of account 7, which floods, and of
// account 8.
type shared struct {
	*bed
	flood    []*funi.Interface // on card 0
	sink     *funi.Interface   // of the same account, on card 1
	floodMem *funi.Memory
	floodCtx *engine.Context
}

func newShared(t *testing.T, wrap func(int, *wire.Port) port.Port) *shared {
	s := &shared{bed: newBed(t, setup{cards: 2, slots: 256, net: near, remote: someRemote, wrap: wrap})}
	for i, c := range s.cards {
		if err := c.SetGroupRoutes(8, []uint32{0, 1}); err != nil {
			t.Fatal(err)
		}
		c.Account(s.ctx[i], 8)
	}
	var flood []*engine.Context
	s.flood, flood = s.others(0, 8, 0, 1, 7)
	s.floodCtx = flood[0]
	s.floodMem = s.mem[len(s.mem)-1]
	sink, _ := s.others(1, 8, 1, 1, 7)
	s.sink = sink[0]
	for range 2 { // both accounts are known as such that use the card
		stuff(s.flood[0], funi.Request, 1)
		s.mustSend(0, funi.Request, 1, 1)
		s.until(time.Second, "all is sent", func() bool {
			return s.flood[0].Unsent(funi.Request)+s.proc[0].Unsent(funi.Request) == 0
		})
		s.take()
	}
	s.pass(10 * time.Millisecond)
	s.take()
	s.cards[0].Charge(s.now, 0) // what was before counts no more
	return s
}

// take empties the receive queues of card 1.
func (s *shared) take() {
	for _, p := range []*funi.Interface{s.sink, s.proc[1]} {
		for p.Receive(funi.Request) != nil {
			p.Release(funi.Request)
		}
	}
}

// Rule: an account for which the card has worked rests for twice as long, and its process is served
// no more until then; another account's messages leave in the next step. The card says when it
// wants to run again, and that time is the end of the rest.
func TestChargedRest(t *testing.T) {
	s := newShared(t, nil)
	const took = int64(20 * time.Microsecond)
	for range 3 { // lines of it wait to be sent, too
		stuff(s.flood[0], funi.Request, 1)
		s.step(s.now + 1)
	}
	if over := s.cards[0].Charge(s.now, took); over != 0 {
		t.Errorf("%d ns of a first charge are too much", over)
	}
	ends := s.now + 2*took
	left := s.flood[0].Unsent(funi.Request)
	for n := uint32(0); s.now < ends-took/4; n++ {
		s.mustSend(0, funi.Request, 1, n)
		sent := s.cards[0].Counters().PacketsSent
		s.step(s.now + took/4)
		if sent = s.cards[0].Counters().PacketsSent - sent; sent > 1 {
			t.Fatalf("%d packets left while one account rested and the other sent one", sent)
		}
		if got := s.flood[0].Unsent(funi.Request); got != left {
			t.Fatalf("%d ns before the end of its rest an account has %d messages to be sent, not %d",
				ends-s.now, got, left)
		}
		if s.proc[0].Unsent(funi.Request) != 0 {
			t.Fatal("another account's message waits for the rest")
		}
	}
	if s.proc[1].Arrived(funi.Request) == 0 {
		t.Error("nothing of the other account has arrived")
	}
	for s.wake[0] <= s.now && s.now < ends-1 {
		s.step(s.now + 1)
	}
	if s.wake[0] > ends {
		t.Errorf("the card wants to run at %d, not at %d", s.wake[0], ends)
	}
	s.step(ends)
	s.until(time.Millisecond, "the account goes on after its rest", func() bool {
		return s.flood[0].Unsent(funi.Request) < left
	})
}

// Rule: a charge is shared by those for whom the card worked, so that for all together it works for
// a third of the time; no rest is longer than a millisecond, and what would make it longer is told.
// Who did not use the card does not rest.
func TestChargeIsBounded(t *testing.T) {
	s := newShared(t, nil)
	over := int64(0)
	for n := range 100 {
		put(s.flood[0], funi.Request, 1, uint32(n))
		s.step(s.now + int64(time.Millisecond))
		s.take()
		if over += s.cards[0].Charge(s.now, int64(time.Second)); over != 0 {
			t.Fatalf("charge %d of one account that rests for what it is charged: %d ns are too much", n, over)
		}
	}
	for range 1000 { // what arrives is taken while they rest, and charged
		put(s.sink, funi.Request, 0, 1)
		s.step(s.now + int64(5*time.Microsecond))
		for s.flood[0].Receive(funi.Request) != nil {
			s.flood[0].Release(funi.Request)
		}
		over += s.cards[0].Charge(s.now, int64(50*time.Microsecond))
	}
	if over == 0 {
		t.Error("somebody for whom ten times as much arrives as the card has time for has not too much of it")
	}
	left := s.now + int64(time.Millisecond)
	put(s.flood[0], funi.Request, 1, 7)
	s.mustSend(0, funi.Request, 1, 1)
	s.step(s.now + 1)
	if s.proc[0].Unsent(funi.Request) != 0 {
		t.Error("an account that has not used the card rests")
	}
	s.step(left)
	s.until(time.Millisecond, "a rest ends after a millisecond", func() bool {
		return s.flood[0].Unsent(funi.Request) == 0
	})
}

// Rule: while the card naps, or dozes, a process on an account that rests cannot wake its thread,
// and one of another account does; the card says when the rest ends, so what the first commits is
// found then.
func TestWhoRestsWakesNobody(t *testing.T) {
	for name, lie := range map[string]func(*engine.Card){"nap": (*engine.Card).Nap, "doze": (*engine.Card).Doze} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t, nil)
			const took = int64(20 * time.Microsecond)
			woken := map[string]int{}
			s.floodMem.Wake = func() { woken["flood"]++ }
			s.mem[0].Wake = func() { woken["other"]++ }
			put(s.flood[0], funi.Request, 1, 1)
			s.step(s.now + 1)
			s.cards[0].Charge(s.now, took)
			ends := s.now + 2*took
			s.step(s.now + 1)
			lie(s.cards[0])
			s.step(s.now + 1)
			put(s.flood[0], funi.Request, 1, 2)
			if len(woken) != 0 {
				t.Error("somebody who rests woke the card's thread")
			}
			if next := s.cards[0].Step(s.now); next > ends {
				t.Errorf("the card sleeps until %d, and a rest ends at %d", next, ends)
			}
			s.mustSend(0, funi.Request, 1, 1)
			if woken["other"] != 1 {
				t.Errorf("somebody who does not rest woke the thread %d times, not once", woken["other"])
			}
			s.cards[0].Rouse()
			s.step(ends)
			s.mustSend(0, funi.Request, 1, 1)
			put(s.flood[0], funi.Request, 1, 3)
			if len(woken) != 1 || woken["other"] != 1 {
				t.Errorf("after Rouse somebody woke the thread: %v", woken)
			}
		})
	}
}
