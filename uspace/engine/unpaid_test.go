package engine_test

// This file tests that a card's work is on somebody's account also where it makes no frame (design
// idea 10): request blocks, what is refused, CNTL, bells, tries, and frames that bring nothing.
// BenchmarkUnpaid measures what account.go charges for it.

import (
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/port"
)

// unpaid is kinds of slots that make no frame. Each composes slot n of a run.
var unpaid = map[string]func(s *funi.Slot, n int){
	"suspend": func(s *funi.Slot, n int) {
		if n%2 == 0 {
			s.SetSuspendWindow(otherKey, 0)
		} else {
			s.SetResumeWindow(otherKey, 0)
		}
	},
	"open and close": func(s *funi.Slot, n int) {
		if n%2 == 0 {
			s.SetOpenKeySlot(0x77<<16|6, keyedAt, 1<<12, 0)
		} else {
			s.SetCloseKeySlot(0x77<<16|6, 0)
		}
	},
	"chain": func(s *funi.Slot, n int) {
		s.SetChain(&funi.Chain{Number: 1, First: true, Next: []funi.Next{{Node: 1, Members: 1}}}, 0)
	},
	"not opened": func(s *funi.Slot, _ int) { s.SetCloseKeySlot(0x99<<16|7, 0) },
	"no request": func(s *funi.Slot, _ int) { s.SetCloseKeySlot(theKey, 0); s[3] = 1 },
	"no source":  func(s *funi.Slot, _ int) { s.SetPut(0, &funi.Put{Key: theKey, Source: 0x7000_0000, Length: 64}) },
	"no segment": func(s *funi.Slot, _ int) {
		s.SetTransfer(0, 1, funi.Transfer{Source: 0x7000_0000, Destination: 0x7000_0000, Words: 20})
	},
	"no transfer": func(s *funi.Slot, _ int) {
		s.SetTransfer(0, 1, funi.Transfer{Source: 0x7000_0000, Destination: 0x7000_0000, Words: 1 << 14})
	},
	"no node":  func(s *funi.Slot, _ int) { s.SetHeader(funi.NewHeader(1000, 5, 4)) },
	"to self":  func(s *funi.Slot, _ int) { s.SetHeader(funi.NewHeader(0, 5, 4)) },
	"add self": func(s *funi.Slot, _ int) { s.SetOperation(0, operations["add"]) },
	"get self": func(s *funi.Slot, _ int) { s.SetOperation(0, operations["get"]) },
	"lock self": func(s *funi.Slot, n int) {
		o := funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteLock, Key: otherKey,
			Operands: []byte{1, 0, 0, 0}, Ack: true}}
		if n%2 == 1 {
			o.WindowRequest.Operation = arctic.RemoteUnlock
		}
		s.SetOperation(0, &o)
	},
	"get 64k self": func(s *funi.Slot, _ int) { s.SetOperation(0, operations["get 64k"]) },
}

// unpaidBed is two accounts on two cards, as shared, with a window and memory of the first one,
// another context of that one, and a network that can be cut.
type unpaidBed struct {
	*shared
	probe *funi.Interface // of account 7, on card 0
	cut   bool            // card 0 sends nothing
}

// Nodes of group 8 on card 0: absentNode has no context, probeNode is unpaidBed.probe, and deafNode
// is for one that never reads, of a third account.
const absentNode, probeNode, deafNode = 2, 3, 4

func newUnpaidBed(t *testing.T) *unpaidBed {
	u := &unpaidBed{}
	u.shared = newShared(t, func(card int, p *wire.Port) port.Port {
		return &tap{Port: p, see: func([]byte) bool { return card != 0 || !u.cut }}
	})
	for _, c := range u.cards {
		if err := c.SetGroupRoutes(8, []uint32{0, 1, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	procs, _ := u.others(0, 8, probeNode, 1, 7)
	u.probe = procs[0]
	if err := u.floodCtx.Register(funi.Segment{Base: keyedAt, Memory: make([]byte, 1<<16),
		Rights: funi.Keyed | funi.Source}); err != nil {
		t.Fatal(err)
	}
	u.slots(1, func(s *funi.Slot, _ int) {
		s.SetOpenWindow(&funi.Window{Key: otherKey, Base: keyedAt, Bytes: 1 << 16, Rights: allRights}, 0)
	})
	u.forgets()
	return u
}

// slots has the flood's process commit slots, and waits until the card has taken them.
func (u *unpaidBed) slots(n int, compose func(*funi.Slot, int)) {
	u.t.Helper()
	for i := range n {
		compose(u.flood[0].Reserve(funi.Request), i)
		u.flood[0].Commit(funi.Request)
	}
	for i := 0; u.flood[0].Unsent(funi.Request) > 0; i++ {
		if u.step(u.now + 100); i == 1000 {
			u.t.Fatal("the card does not take the slots")
		}
	}
}

// forgets lets all end that is under way, and has card 0 forget what it has worked so far, and for
// whom.
func (u *unpaidBed) forgets() {
	u.pass(20 * time.Millisecond)
	u.take()
	u.cards[0].Charge(u.now, 0)
}

// rest charges card 0 for 20 us, and says which of the accounts rest then.
func (u *unpaidBed) rest() (flood, other bool) {
	u.t.Helper()
	u.cards[0].Charge(u.now, 20e3)
	if !put(u.probe, funi.Request, 1, 1) {
		u.t.Fatal("no room")
	}
	u.mustSend(0, funi.Request, 1, 1)
	u.step(u.now + 1)
	return u.probe.Unsent(funi.Request) > 0, u.proc[0].Unsent(funi.Request) > 0
}

// Rule: all that a user's processes, and what is sent to them, make a card do is on his account:
// when the card's time is charged he rests, and nobody else does.
func TestAllWorkIsPaid(t *testing.T) {
	kinds := map[string]func(*unpaidBed){
		"CNTL": func(u *unpaidBed) {
			for _, v := range []uint32{funi.CSQM, 0} {
				u.floodMem.Page.Store(funi.Control, v)
				u.step(u.now + 100)
			}
		},
		"a node that is not here": func(u *unpaidBed) {
			put(u.sink, funi.Request, absentNode, 1)
			u.pass(100 * time.Microsecond)
		},
		"an acknowledgment that arrives": func(u *unpaidBed) {
			u.slots(1, func(s *funi.Slot, _ int) { s.SetHeader(funi.NewHeader(1, 5, 4)) })
			u.cards[0].Charge(u.now, 0)
			u.pass(10 * time.Millisecond)
		},
		"a frame that arrives": func(u *unpaidBed) {
			before := u.cards[0].Counters().FramesReceived
			put(u.sink, funi.Request, 0, 1)
			u.until(time.Millisecond, "a message", func() bool { return u.cards[0].Counters().FramesReceived > before })
		},
		"an acknowledgment that leaves": func(u *unpaidBed) {
			before := u.cards[0].Counters().FramesReceived
			put(u.sink, funi.Request, 0, 1)
			u.until(time.Millisecond, "a message", func() bool { return u.cards[0].Counters().FramesReceived > before })
			u.cards[0].Charge(u.now, 0)
			u.pass(10 * time.Millisecond)
		},
		"a frame that was lost": func(u *unpaidBed) {
			u.cut = true
			u.slots(1, func(s *funi.Slot, _ int) { s.SetHeader(funi.NewHeader(1, 5, 4)) })
			u.cards[0].Charge(u.now, 0)
			u.pass(20 * time.Millisecond)
			u.cut = false
		},
		"tries": func(u *unpaidBed) {
			u.others(0, 8, deafNode, 1, 9)
			looped := func() uint64 { return u.cards[0].Counters().LoopedToOwnCard }
			for room := true; room; { // in its receive queue
				before := looped()
				put(u.flood[0], funi.Request, deafNode, 1)
				u.pass(time.Millisecond)
				room = looped() != before
			}
			u.cards[0].Charge(u.now, 0)
			u.pass(200 * time.Millisecond)
		},
		"a look for a line": func(u *unpaidBed) {
			u.cut = true
			for taken := 1; taken > 0; { // until there is no line
				stuff(u.flood[0], funi.Request, 1)
				taken = u.flood[0].Unsent(funi.Request)
				u.step(u.now + 1)
				taken -= u.flood[0].Unsent(funi.Request)
			}
			for range 8 {
				u.step(u.now + 1)
			}
			u.cards[0].Charge(u.now, 0)
			u.step(u.now + 1)
			u.cut = false
		},
		"a bell": func(u *unpaidBed) {
			page := new(funi.Doorbells)
			_, contexts := u.others(0, 9, 0, 16, 7)
			for _, x := range contexts {
				u.cards[0].Doorbells(x, page, nil)
			}
			for range 1000 {
				u.step(u.now + 1)
			}
			u.cards[0].Charge(u.now, 0)
			page.Summary = 1 << 63 // nobody's
			u.step(u.now + 1)
		},
	}
	for name, compose := range unpaid {
		kinds[name] = func(u *unpaidBed) { u.slots(8, compose) }
	}
	for name, work := range kinds {
		t.Run(name, func(t *testing.T) {
			u := newUnpaidBed(t)
			work(u)
			if flood, other := u.rest(); !flood || other {
				t.Errorf("who had the card work rests: %v; the other does: %v", flood, other)
			}
		})
	}
}

// Rule: what comes for a group whose contexts have all ended is paid by whose group it was, in
// whichever group he has contexts now.
func TestGroupsThatAreLeftArePaid(t *testing.T) {
	const left, now, account = 10, 11, 9
	u := newUnpaidBed(t)
	for _, c := range u.cards {
		for _, g := range []uint16{left, now} {
			if err := c.SetGroupRoutes(g, []uint32{0, 1, 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, gone := u.others(0, left, 0, 1, account)
	sender, _ := u.others(1, left, 1, 1, account)
	u.pass(time.Millisecond)
	u.cards[0].Detach(gone[0])
	u.pass(20 * time.Millisecond)
	later, _ := u.others(0, now, 0, 1, account)
	u.forgets()
	put(sender[0], funi.Request, 0, 1)
	u.pass(100 * time.Microsecond)
	u.cards[0].Charge(u.now, 20e3)
	put(later[0], funi.Request, 1, 1)
	if u.step(u.now + 1); later[0].Unsent(funi.Request) == 0 {
		t.Error("he does not rest")
	}
}

// Rule: a change of CNTL counts as four times a look: beside one message of another account, 16 of
// them are the larger part of what is charged.
func TestModesAreDear(t *testing.T) {
	u := newUnpaidBed(t)
	for i := range uint32(16) {
		u.floodMem.Page.Store(funi.Control, i%2*funi.CSQM)
		u.step(u.now + 100)
	}
	u.mustSend(0, funi.Request, 1, 1)
	u.step(u.now + 100)
	u.cards[0].Charge(u.now, 20e3)
	put(u.probe, funi.Request, 1, 1)
	if u.step(u.now + 50e3); u.probe.Unsent(funi.Request) == 0 {
		t.Error("16 changes of CNTL are half of 20 us beside a message, or less")
	}
}

// Rule: what nobody here has caused, such as frames of another job, is nobody's part of a charge.
func TestForeignWorkIsNobodys(t *testing.T) {
	u := newUnpaidBed(t)
	u.tag = ^u.tag
	strangers, _ := u.others(1, 10, 0, 1, 9)
	u.tag = ^u.tag
	u.others(0, 10, 1, 1, 7)
	for _, c := range u.cards {
		if err := c.SetGroupRoutes(10, []uint32{1, 0}); err != nil {
			t.Fatal(err)
		}
	}
	u.forgets()
	put(strangers[0], funi.Request, 1, 1)
	u.pass(time.Millisecond)
	if _, ok := strangers[0].NextReturn(); !ok {
		t.Fatal("a message of another job did not come back")
	}
	if flood, other := u.rest(); flood || other {
		t.Errorf("for a frame of another job an account rests: %v, %v", flood, other)
	}
}

// Rule: beside another account a step carries out no more slots than that account's budget pays
// for, and who sends a message now and then keeps more than half of his rate. A slot takes 125 ns
// here, a message a microsecond, and time is charged as the daemon does it.
func TestNeighbourOfUnpaidWork(t *testing.T) {
	const window, thinks = int64(2 * time.Millisecond), int64(5 * time.Microsecond)
	for name, compose := range unpaid {
		t.Run(name, func(t *testing.T) {
			rate := func(busy bool) (sent int) {
				u := newUnpaidBed(t)
				due := u.now
				for end := u.now + window; u.now < end; {
					for n := 0; busy; n++ {
						s := u.flood[0].Reserve(funi.Request)
						if s == nil {
							break
						}
						compose(s, n)
						u.flood[0].Commit(funi.Request)
					}
					if u.proc[0].Unsent(funi.Request) == 0 && u.now >= due {
						u.mustSend(0, funi.Request, 1, 1)
					}
					waits, slots := u.proc[0].Unsent(funi.Request), u.flood[0].Unsent(funi.Request)
					u.step(u.now + 1)
					slots -= u.flood[0].Unsent(funi.Request)
					took := 50 + 125*int64(slots)
					if waits > u.proc[0].Unsent(funi.Request) {
						took += 1000
						sent++
						due = u.now + took + thinks
					}
					if u.cards[0].Contended() {
						// which is bounded by its bytes
						if message := name == "no node" || name == "to self"; slots > 8<<10/512+1 &&
							sent > 1 && !message {
							t.Fatalf("a step took %d slots", slots)
						}
						u.cards[0].Charge(u.now+took, took)
					}
					u.now += took
					u.take()
					for _, p := range append(u.flood, u.sink) {
						for _, ok := p.NextReturn(); ok; _, ok = p.NextReturn() {
						}
						for w := (funi.Notification{}); p.NextNotification(&w); {
						}
						for p.Receive(funi.Request) != nil {
							p.Release(funi.Request)
						}
					}
				}
				return sent
			}
			alone, beside := rate(false), rate(true)
			if alone < 100 || 2*beside < alone {
				t.Errorf("%d messages beside it, of %d alone", beside, alone)
			}
		})
	}
}

func BenchmarkUnpaid(b *testing.B) {
	for name, compose := range unpaid {
		b.Run(name, func(b *testing.B) {
			c := newWindowCouple(b)
			c.commit(0, func(s *funi.Slot) {
				s.SetOpenWindow(&funi.Window{Key: otherKey, Base: keyedAt, Bytes: 1 << 16, Rights: allRights}, 0)
			})
			c.step()
			took, blocks := time.Duration(0), 0
			best := 1e9
			for b.Loop() {
				n := 0
				for ; n < 8; n++ {
					s := c.proc[0].Reserve(funi.Request)
					compose(s, n)
					c.proc[0].Commit(funi.Request)
				}
				begin := time.Now()
				for steps := 0; c.proc[0].Unsent(funi.Request) > 0 || !c.ctx[0].Idle(); steps++ {
					c.now += int64(time.Microsecond)
					c.cards[0].Step(c.now)
					if steps > 1000 {
						b.Fatal("never done")
					}
				}
				d := time.Since(begin)
				took, blocks = took+d, blocks+n
				best = min(best, float64(d.Nanoseconds())/float64(n))
				for _, ok := c.proc[0].NextReturn(); ok; _, ok = c.proc[0].NextReturn() {
				}
				for w := (funi.Notification{}); c.proc[0].NextNotification(&w); {
				}
				for c.proc[0].Receive(funi.Request) != nil {
					c.proc[0].Release(funi.Request)
				}
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(blocks), "ns/block")
			b.ReportMetric(best, "best")
		})
	}
}
