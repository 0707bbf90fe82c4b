package engine_test

// This file holds the rules of windows that are not present (Tokyo, sections 2.1, 3.1 and 3.3;
// fault.go).

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// faults is what the owners of cards have heard, in order.
type faults struct {
	heard   []string
	suspend bool // what they answer
}

// patience is how long others wait for a window in these tests.
const patience = 2 * time.Second

func (f *faults) tune(c *engine.Config) {
	c.ConnectTimeout = patience
	card := c.Card
	c.Fault = func(gid, node, source uint16, reason arctic.Reason) bool {
		f.heard = append(f.heard, fmt.Sprintf("card %d: node %d of group %d, from %d: %v", card, node, gid,
			source, reason))
		return f.suspend
	}
}

func (f *faults) hears(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(f.heard, want) {
		t.Errorf("the owners heard %q, want %q", f.heard, want)
	}
	f.heard = nil
}

func (r *remoteBed) resumes(node int, key uint64) {
	r.t.Helper()
	r.block(node, funi.Request, func(s *funi.Slot) { s.SetResumeWindow(key, 0) })
	r.retired(node)
}

// Rule: an operation on a window that is not present has no effect and waits; the card's owner and
// the process hear of the first one; when the process brings the window back it is carried out,
// once. So it is with each kind of packet that touches a window, and with the window of a signal.
func TestMiss(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		const wanted = windowAt + 8
		put := func(change func(*funi.Operation)) func(r *remoteBed, to int) {
			return func(r *remoteBed, to int) {
				o := funi.Operation{WindowRequest: arctic.WindowRequest{Key: theKey, Address: wanted,
					Operands: word(77), Bytes: 8, Ack: true}, Cookie: 5}
				change(&o)
				r.asks(0, to, o)
			}
		}
		for name, asks := range map[string]func(r *remoteBed, to int){
			"add":  func(r *remoteBed, to int) { r.asks(0, to, operation(arctic.RemoteAdd, wanted, 1)) },
			"read": func(r *remoteBed, to int) { r.asks(0, to, operation(arctic.RemoteRead, wanted)) },
			"get": func(r *remoteBed, to int) {
				r.asks(0, to, funi.Operation{WindowRequest: arctic.WindowRequest{Operation: arctic.RemoteGet,
					Key: theKey, Address: wanted}, Length: 8})
			},
			"put": put(func(*funi.Operation) {}),
			"long put": put(func(o *funi.Operation) {
				o.Operands, o.Bytes, o.Source, o.Length = nil, 0, sources, 4000
			}),
			"signal": put(func(o *funi.Operation) {
				o.Key, o.Address = otherKey, 0
				o.Trailer = arctic.Trailer{Set: true, Key: theKey, Address: wanted, Value: 9}
			}),
			"multicast": func(r *remoteBed, to int) {
				r.chains(1, uint16(to), tree{}, r.byNode)
				r.block(0, funi.Request, func(s *funi.Slot) {
					s.SetMulticast(uint16(to), &funi.MulticastRequest{Chain: 1, Members: 1, Put: true, Key: theKey,
						Address: wanted, Data: word(3)})
				})
			},
		} {
			for to := range 2 {
				t.Run(fmt.Sprintf("%s to %d", name, to), func(t *testing.T) {
					var f faults
					r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: func(c *engine.Config) {
						f.tune(c)
						tune(c)
					}})
					r.exposes(to, funi.Window{Key: theKey, Bytes: 8192, Address: windowAt, Rights: allRights,
						Credit: 2, Absent: true})
					r.exposes(to, funi.Window{Key: otherKey, Base: 8192, Bytes: 64, Rights: allRights})
					was := bytes.Clone(r.keyed[to])
					asks(r, to)
					n := r.notified(to)
					if n.Kind != funi.NoteFault || n.KeySlot != uint16(theKey&0xffff) || n.Source != 0 ||
						n.Address != wanted {
						t.Fatalf("the process is told %+v", n)
					}
					r.pass(patience / 2)
					r.silent(0)
					r.silent(to)
					if !bytes.Equal(was, r.keyed[to]) {
						t.Error("memory has changed")
					}
					f.hears(t, fmt.Sprintf("card %d: node %d of group %d, from 0: %v", to, to, gid,
						arctic.ReasonAbsent))
					if use, _ := r.ctx[to].Remote(); use.Refused.Absent == 0 {
						t.Error("misses are not counted")
					}
					r.resumes(to, theKey)
					if n := r.notified(0); n.Kind != funi.NoteCompletion || n.Reason != arctic.ReasonNone {
						t.Fatalf("when the window is back: %+v", n)
					}
					r.silent(0)
					if n := r.completes(0, to, operation(arctic.RemoteRead, wanted)); n.Reason != arctic.ReasonNone ||
						name == "add" &&
							binary.LittleEndian.Uint64(n.Answer[:]) != binary.LittleEndian.Uint64(was[8:])+1 {
						t.Errorf("then a read: %+v", n)
					}
					f.hears(t)
					r.ends()
				})
			}
		}
	})
}

// Rule: who owns a window and never answers costs others a bounded time: from ConnectTimeout after
// the first miss operations on it fail, the later ones at once, until it is back. What the same
// process sends elsewhere, and others to other windows of that owner, goes on all the time.
func TestOwnerThatNeverAnswers(t *testing.T) {
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		var f faults
		r := newRemoteBed(t, setup{cards: 3, remote: moreRemote, net: near, tune: func(c *engine.Config) {
			f.tune(c)
			tune(c)
		}})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: allRights, Credit: 1, Absent: true})
		r.exposes(1, funi.Window{Key: otherKey, Base: 64, Bytes: 64, Rights: allRights})
		r.exposes(2, funi.Window{Key: theKey, Bytes: 64, Rights: allRights})
		other := func(from, to int, key uint64) {
			t.Helper()
			o := operation(arctic.RemoteAdd, 0, 1)
			o.Key, o.Cookie = key, 8
			before := r.now
			if n := r.completes(from, to, o); n.Reason != arctic.ReasonNone || r.now-before > int64(patience/4) {
				t.Fatalf("node %d to %d: %v after %v", from, to, n.Reason, time.Duration(r.now-before))
			}
		}
		begun := r.now
		r.asks(0, 1, operation(arctic.RemoteAdd, 0, 1))
		for range 10 {
			other(0, 2, theKey)   // its own, elsewhere
			other(2, 1, otherKey) // another's, to the same owner
			r.pass(patience / 20)
		}
		n := r.notified(0)
		if took := time.Duration(r.now - begun); n.Reason != arctic.ReasonWithheld || took < patience ||
			took > 2*patience {
			t.Fatalf("after %v: %+v, want %v", took, n, arctic.ReasonWithheld)
		}
		for range 3 {
			before := r.now
			if n := r.completes(2, 1, operation(arctic.RemoteAdd, 0, 1)); n.Reason != arctic.ReasonWithheld ||
				r.now-before > int64(patience/4) {
				t.Fatalf("the next one: %v after %v", n.Reason, time.Duration(r.now-before))
			}
		}
		if use, _ := r.ctx[1].Remote(); use.Refused.Withheld != 4 {
			t.Errorf("%d are counted as withheld, want 4", use.Refused.Withheld)
		}
		r.resumes(1, theKey)
		other(0, 1, theKey)
		// Suspended again it has all of the time again, and the one credit is for whoever reads.
		r.block(1, funi.Request, func(s *funi.Slot) { s.SetSuspendWindow(theKey, 0) })
		r.retired(1)
		f.heard = nil
		r.asks(0, 1, operation(arctic.RemoteAdd, 0, 1))
		r.pass(patience / 2)
		r.silent(0)
		f.hears(t, fmt.Sprintf("card 1: node 1 of group %d, from 0: %v", gid, arctic.ReasonAbsent))
		for range 2 { // of both times
			if n := r.notified(1); n.Kind != funi.NoteFault {
				t.Fatalf("the owner is told %+v", n)
			}
		}
		r.resumes(1, theKey)
		if n := r.notified(0); n.Reason != arctic.ReasonNone {
			t.Fatalf("in time: %v", n.Reason)
		}
		r.ends()
	})
}

// Rule: the card's owner hears of each access that is refused and of each node without a route;
// what it does about a window is to count, or to have it suspended if its process can be told.
func TestFaultsAreTheOwners(t *testing.T) {
	const mute = otherKey ^ 1 // of key slot 4
	onTimedToo(t, func(t *testing.T, tune func(*engine.Config)) {
		var f faults
		r := newRemoteBed(t, setup{cards: 2, remote: moreRemote, net: near, tune: func(c *engine.Config) {
			f.tune(c)
			tune(c)
		}})
		r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Rights: funi.RightRead | funi.RightNotify, Credit: 1})
		r.exposes(1, funi.Window{Key: mute, Base: 64, Bytes: 64, Rights: funi.RightRead})
		refused := func(key uint64, o funi.Operation, want arctic.Reason) {
			t.Helper()
			o.Key = key
			if n := r.completes(0, 1, o); n.Reason != want {
				t.Fatalf("%v, want %v", n.Reason, want)
			}
			f.hears(t, fmt.Sprintf("card 1: node 1 of group %d, from 0: %v", gid, want))
		}
		refused(theKey, operation(arctic.RemoteAdd, 0, 1), arctic.ReasonRights)
		refused(theKey, operation(arctic.RemoteRead, 64), arctic.ReasonRange)
		refused(otherKey, operation(arctic.RemoteRead, 0), arctic.ReasonKeySlot)
		if n := r.completes(0, 1, operation(arctic.RemoteRead, 0)); n.Reason != arctic.ReasonNone {
			t.Fatalf("a read that is permitted, when refusals were counted: %v", n.Reason)
		}
		f.hears(t)
		f.suspend = true
		// no window is meant
		refused(otherKey, operation(arctic.RemoteRead, 0), arctic.ReasonKeySlot)
		// nobody could tell its process
		refused(mute, operation(arctic.RemoteAdd, 0, 1), arctic.ReasonRights)
		o := operation(arctic.RemoteRead, 0)
		o.Key = mute
		if n := r.completes(0, 1, o); n.Reason != arctic.ReasonNone {
			t.Fatalf("a window whose process could not be told: %v", n.Reason)
		}
		refused(theKey, operation(arctic.RemoteAdd, 0, 1), arctic.ReasonRights)
		r.asks(0, 1, operation(arctic.RemoteRead, 0))
		r.pass(patience / 2)
		r.silent(0)
		f.hears(t, fmt.Sprintf("card 1: node 1 of group %d, from 0: %v", gid, arctic.ReasonAbsent))
		r.resumes(1, theKey)
		if n := r.notified(0); n.Reason != arctic.ReasonNone {
			t.Fatalf("when it is back: %v", n.Reason)
		}
		if err := r.cards[0].SetRoute(9, engine.NoRoute); err != nil {
			t.Fatal(err)
		}
		r.asks(0, 9, operation(arctic.RemoteRead, 0))
		if n := r.notified(0); n.Reason != arctic.ReasonNoRoute {
			t.Fatalf("a node without a route: %v", n.Reason)
		}
		f.hears(t, fmt.Sprintf("card 0: node 9 of group %d, from 0: %v", gid, arctic.ReasonNoRoute))
		r.ends()
	})
}
