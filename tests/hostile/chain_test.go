package hostile

// This file is chains (package rma). One member of a job lies about the member after it, sends
// where it is not the parent, guesses keys, changes the blocks that it has committed, or never
// reads. A process of another job names the same chain. What each of the two does comes back to it,
// or ends at it. No member has a message twice, and along a chain without the offender every
// message comes.

import (
	"bytes"
	"errors"
	mathrand "math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

const (
	chainGID    = 14 // of the members
	strangerGID = 15 // of another job
	honestChain = 1  // nodes 0 and 1
	thiefChain  = 2  // node 0, and behind it the thief
	honestType  = 7  // of messages
	otherType   = 8
)

// chainMember is a node of the job.
type chainMember struct {
	*windowMember
	got [2]int // messages of honestType, and others
}

// reads takes what has come.
func (m *chainMember) reads() {
	iface := m.client.Interface()
	for s := iface.Receive(funi.Request); s != nil; s = iface.Receive(funi.Request) {
		if m.got[1]++; s.Header().Type() == honestType {
			m.got[0], m.got[1] = m.got[0]+1, m.got[1]-1
		}
		iface.Release(funi.Request)
	}
}

// TestChains: see above, row by row.
func TestChains(t *testing.T) {
	long.Test(t)
	b, l := newBed(t, rules(), longSilence), newLedger()
	goOn, end := b.traffic(t, l)
	g := b.newGroup("members", chainGID, 0, 0, 0, 1, 0, 1)
	other := b.newGroup("strangers", strangerGID, 0, 0, 0, 1)
	join := func(g *group, name string, node uint16) *chainMember {
		return &chainMember{windowMember: b.newWindowMember(t, g, name, node)}
	}
	first, second, thief, origin := join(g, "the first", 0), join(g, "the second", 1), join(g, "the thief", 2),
		join(g, "the origin", 3)
	stranger, another := join(other, "the stranger", 1), join(other, "another stranger", 0)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w, _ := first.exposes(0x1000, 64, rma.Options{Rights: funi.RightWrite})
	must(first.Join(funi.Chain{Number: honestChain, First: true, Next: []funi.Next{{Node: 1, Members: 1}}}))
	must(second.Join(funi.Chain{Number: honestChain, Parent: 0}))
	before := bytes.Clone(first.memory)

	sent := 0
	honest := func(what string) { // along the chain of the honest everything comes, once
		t.Helper()
		for range 20 {
			sent++
			if d, err := origin.Multicast(0, funi.MulticastRequest{Chain: honestChain, Members: 2, Message: honestType,
				Data: make([]byte, 8)}); err != nil || d.Delivered != 2 {
				t.Fatalf("%s: a multicast of the origin's came to %+v: %v", what, d, err)
			}
		}
		for _, m := range []*chainMember{first, second} {
			if m.reads(); m.got[0] != sent {
				t.Fatalf("%s: %s has %d messages of %d", what, m.name, m.got[0], sent)
			}
		}
		if !bytes.Equal(first.memory, before) {
			t.Fatalf("%s: the first's memory is another", what)
		}
	}
	honest("nothing")

	to := func(node uint16, reason arctic.Reason) funi.Broken { return funi.Broken{Node: node, Reason: reason} }
	message := func(chain, members uint16) funi.MulticastRequest {
		return funi.MulticastRequest{Chain: chain, Members: members, Message: otherType, Data: make([]byte, 4)}
	}
	put := funi.MulticastRequest{Chain: honestChain, Members: 2, Put: true, Key: uint64(w.Key), Address: windowAddress,
		Data: []byte("thirteen byte")}
	guess, beyond := put, put
	guess.Key ^= 1 << 40
	beyond.Address += 60
	for _, row := range []struct {
		name      string
		by        *chainMember
		first     uint16
		m         funi.MulticastRequest
		firstSays []funi.Next // who comes after the first in the thief's chain, if it is of that
		thiefSays *funi.Chain
		delivered int
		broken    funi.Broken
	}{
		{name: "a way back to the first", by: origin, first: 0, m: message(thiefChain, 3),
			firstSays: []funi.Next{{Node: 2, Members: 2}},
			thiefSays: &funi.Chain{Number: thiefChain, Parent: 0, Next: []funi.Next{{Node: 0, Members: 1}}},
			delivered: 2, broken: to(0, arctic.ReasonChain)},
		{name: "a way to itself", by: origin, first: 0, m: message(thiefChain, 3),
			firstSays: []funi.Next{{Node: 2, Members: 2}},
			thiefSays: &funi.Chain{Number: thiefChain, Parent: 0, Next: []funi.Next{{Node: 2, Members: 1}}},
			delivered: 2, broken: to(2, arctic.ReasonChain)},
		{name: "a way into another chain's member", by: origin, first: 0, m: message(thiefChain, 3),
			firstSays: []funi.Next{{Node: 2, Members: 2}},
			thiefSays: &funi.Chain{Number: thiefChain, Parent: 0, Next: []funi.Next{{Node: 1, Members: 1}}},
			delivered: 2, broken: to(1, arctic.ReasonChain)},
		{name: "more members than there are to be", by: origin, first: 0, m: message(thiefChain, 3),
			firstSays: []funi.Next{{Node: 2, Members: 2}},
			thiefSays: &funi.Chain{Number: thiefChain, Parent: 0, Next: []funi.Next{{Node: 1, Members: 60000}}},
			delivered: 1, broken: to(2, arctic.ReasonChain)},
		{name: "nobody after it", by: origin, first: 0, m: message(thiefChain, 3),
			firstSays: []funi.Next{{Node: 2, Members: 2}},
			thiefSays: &funi.Chain{Number: thiefChain, Parent: 0}, delivered: 1, broken: to(2, arctic.ReasonChain)},
		{name: "who takes it from another", by: origin, first: 0, m: message(thiefChain, 2),
			firstSays: []funi.Next{{Node: 2, Members: 1}},
			thiefSays: &funi.Chain{Number: thiefChain, Parent: 1}, delivered: 1, broken: to(2, arctic.ReasonChain)},
		{name: "to a member that is not the first", by: thief, first: 1, m: message(honestChain, 1),
			broken: to(1, arctic.ReasonChain)},
		{name: "to fewer members than there are", by: thief, first: 0, m: message(honestChain, 1),
			broken: to(0, arctic.ReasonChain)},
		{name: "to more members than there are", by: thief, first: 0, m: message(honestChain, arctic.MaxMembers),
			broken: to(0, arctic.ReasonChain)},
		{name: "along a chain that is none", by: thief, first: 0, m: message(funi.MaxChains-1, 2),
			broken: to(0, arctic.ReasonChain)},
		{name: "to nobody", by: thief, first: 999, m: message(honestChain, 2), broken: to(999, arctic.ReasonNoRoute)},
		{name: "a guessed key", by: thief, first: 0, m: guess, broken: to(0, arctic.ReasonKeySlot)},
		{name: "beyond the window", by: thief, first: 0, m: beyond, broken: to(0, arctic.ReasonRange)},
		{name: "of another job", by: stranger, first: 0, m: message(honestChain, 2), broken: to(0, arctic.ReasonChain)},
	} {
		if row.thiefSays != nil {
			must(first.Join(funi.Chain{Number: thiefChain, First: true, Next: row.firstSays}))
			must(thief.Join(*row.thiefSays))
		}
		want := funi.Delivery{Delivered: row.delivered, Failed: int(row.m.Members) - row.delivered, Named: 1}
		want.Broken[0] = row.broken
		d, err := row.by.Multicast(row.first, row.m)
		var why *rma.Error
		if !errors.As(err, &why) || why.Reason != row.broken.Reason || d != want {
			t.Errorf("%s: %v, %+v; want %+v", row.name, err, d, want)
		}
		had := [3]int{first.got[1], second.got[1], thief.got[1]}
		for i, m := range []*chainMember{first, second, thief} {
			if m.reads(); m.got[1]-had[i] > 1 || row.delivered == 0 && m.got[1] != had[i] {
				t.Errorf("%s: %s has %d messages of it", row.name, m.name, m.got[1]-had[i])
			}
		}
		honest(row.name)
	}
	goOn("beside chains that lie")

	// Chains beyond the bounds are refused, and are none.
	for name, c := range map[string]funi.Chain{
		"a number too large": {Number: funi.MaxChains, First: true},
		"too many next": {Number: 9, First: true,
			Next: []funi.Next{{Node: 1, Members: 1}, {Node: 2, Members: 1}, {Node: 3, Members: 1},
				{Node: 4, Members: 1}, {Node: 5, Members: 1}}},
		"too many members": {Number: 9, First: true, Next: []funi.Next{{Node: 1, Members: arctic.MaxMembers}}},
		"no members":       {Number: 9, First: true, Next: []funi.Next{{Node: 1}}},
		"two that are one": {Number: 9, First: true, Next: []funi.Next{{Node: 1, Members: 1}, {Node: 1, Members: 1}}},
	} {
		if err := thief.Join(c); !errors.Is(err, rma.ErrChain) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range uint16(funi.MaxChains) { // as many as there may be
		must(thief.Join(funi.Chain{Number: n, First: true}))
	}
	if u := b.chainsOf(chainGID, 2); u == nil || u.Chains != funi.MaxChains {
		t.Errorf("the thief is a member of %+v", u)
	}
	for n := range uint16(funi.MaxChains) {
		must(thief.Leave(n))
	}
	if err := thief.Leave(0); !errors.Is(err, rma.ErrChain) {
		t.Errorf("leaving again: %v", err)
	}
	honest("more chains than there may be")

	// A member that never reads: what goes along its chain waits for it, and nothing else does.
	must(first.Join(funi.Chain{Number: thiefChain, First: true, Next: []funi.Next{{Node: 2, Members: 1}}}))
	must(thief.Join(funi.Chain{Number: thiefChain, Parent: 0}))
	const deaf = 300 // more than its queue and FIFO take
	complete := 0
	takes := func() {
		first.reads()
		for r := (rma.Result{}); origin.Next(&r); complete++ {
			must(r.Err)
		}
	}
	for range deaf {
		_, err := origin.StartMulticast(0, message(thiefChain, 2))
		must(err)
		takes()
	}
	honest("a member that never reads")
	if goOn("beside a member that never reads"); complete == deaf {
		t.Error("the deaf member has taken everything")
	}
	until(t, "all comes when it reads", func() bool {
		thief.reads()
		takes()
		must(origin.drives())
		return complete == deaf
	}, func() string { return "" })

	// Blocks that change after they are committed.
	raceChains(thief, func() { first.reads(); second.reads() })
	sent = 0
	first.got[0], second.got[0] = 0, 0 // the race may have sent messages of any type
	honest("blocks that change")
	goOn("beside blocks of chains that change")
	for node := range uint16(3) {
		if u := b.chainsOf(chainGID, node); u == nil || u.Refused.Chain == 0 {
			t.Errorf("the status of node %d says %+v", node, u)
		}
	}
	for _, m := range []*chainMember{first, second, thief, origin, stranger, another} {
		_ = m.client.Close(0)
	}
	end()
	g.end()
	other.end()
	b.empty()
	b.alive()
}

// drives lets the member's card run.
func (m *chainMember) drives() error {
	m.client.Drive()
	return m.client.Err()
}

// chainsOf returns what the daemon of a node says of its remote memory; nil: there is no such node.
func (b *bed) chainsOf(gid, node uint16) *engine.RemoteUse {
	b.t.Helper()
	for host := range b.sockets {
		for _, x := range b.status(host).Contexts {
			if x.GID == gid && x.Node == node && x.Remote != nil {
				return x.Remote
			}
		}
	}
	return nil
}

// raceChains commits blocks of the thief's and changes them while the card reads them, whatever
// comes back.
func raceChains(m *chainMember, others func()) {
	m.t.Helper()
	r := mathrand.New(mathrand.NewPCG(4, 4))
	iface := m.client.Interface()
	take := func() {
		for _, ok := iface.NextReturn(); ok; _, ok = iface.NextReturn() {
		}
		for n := (funi.Notification{}); iface.NextNotification(&n); {
		}
		m.reads()
		others()
	}
	for range 20000 {
		slot := iface.Reserve(funi.Request)
		if slot == nil {
			take()
			m.client.Drive()
			continue
		}
		switch r.IntN(3) {
		case 0:
			c := funi.Chain{Number: uint16(r.IntN(4)), First: r.IntN(2) == 0}
			for range r.IntN(4) {
				c.Next = append(c.Next, funi.Next{Node: uint16(r.IntN(4)), Members: uint16(1 + r.IntN(3))})
			}
			slot.SetChain(&c, 0)
		case 1:
			slot.SetLeaveChain(uint16(r.IntN(4)), 0)
		default:
			slot.SetMulticast(uint16(r.IntN(3)), &funi.MulticastRequest{Chain: uint16(r.IntN(4)),
				Members: uint16(1 + r.IntN(3)), Message: otherType, Data: make([]byte, 4*r.IntN(10))})
		}
		iface.Commit(funi.Request)
		for range r.IntN(20) {
			at := []int{1, funi.RemoteKeyWord, funi.RemoteOffsetWord, funi.RemoteLengthWord, funi.RemoteCountWord,
				funi.RemoteDataWord, funi.RemoteDataWord + 1}[r.IntN(7)]
			atomic.StoreUint32(&slot[at], r.Uint32()>>r.IntN(32))
		}
		take()
	}
	until(m.t, "all is taken", func() bool { m.client.Drive(); take(); return iface.Unsent(funi.Request) == 0 },
		func() string { return "" })
	quiet := time.Now().Add(200 * time.Millisecond)
	for time.Now().Before(quiet) {
		m.client.Drive()
		take()
	}
}
