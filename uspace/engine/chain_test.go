package engine_test

// This file holds the rules of chained multicast (chain.go;
// Tokyo, sections 2.2.1 and 3.3.1.3). Every member has a multicast once, and the origin hears of
// all members. A broken chain names its node, and no table makes a loop.

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
	"github.com/funet/funet/uspace/port"
)

// tree is a chain: the members behind each, by node.
type tree map[uint16][]uint16

// members counts those from a node on.
func (c tree) members(node uint16) uint16 {
	n := uint16(1)
	for _, next := range c[node] {
		n += c.members(next)
	}
	return n
}

// chains makes processes members of a chain that begins with first. where says which process is a
// node, nil for none.
func (r *remoteBed) chains(number, first uint16, c tree, where func(node uint16) *funi.Interface) {
	r.t.Helper()
	var set func(node, parent uint16)
	set = func(node, parent uint16) {
		s := funi.Chain{Number: number, First: node == first}
		if !s.First {
			s.Parent = parent
		}
		for _, next := range c[node] {
			s.Next = append(s.Next, funi.Next{Node: next, Members: c.members(next)})
			set(next, node)
		}
		p := where(node)
		if p == nil {
			return
		}
		block := p.Reserve(funi.Request)
		block.SetChain(&s, 0)
		p.Commit(funi.Request)
		r.until(time.Second, "the block is retired", func() bool { return p.Unsent(funi.Request) == 0 })
		if back, ok := p.NextReturn(); ok {
			r.t.Fatalf("node %d cannot be a member: %v", node, back.Reason)
		}
	}
	set(first, 0)
}

func (r *remoteBed) byNode(node uint16) *funi.Interface {
	if int(node) < len(r.proc) {
		return r.proc[node]
	}
	return nil
}

// multicasts sends along a chain, and waits until that is complete.
func (r *remoteBed) multicasts(from int, first uint16, m funi.MulticastRequest) (funi.Notification, funi.Delivery) {
	r.t.Helper()
	if !m.Valid() {
		r.t.Fatalf("not valid: %+v", m)
	}
	r.block(from, funi.Request, func(s *funi.Slot) { s.SetMulticast(first, &m) })
	n := r.notified(from)
	if n.Kind != funi.NoteCompletion || n.Operation != arctic.RemoteMulticast || n.Cookie != m.Cookie ||
		n.Source != first {
		r.t.Fatalf("not the completion of %+v: %+v", m, n)
	}
	return n, n.Delivery()
}

// has takes the message out of a request queue, and checks that it is the only one. It may have to
// wait for the Delivery Unit.
func (r *remoteBed) has(p *funi.Interface, from, typ uint16, words ...uint32) {
	r.t.Helper()
	r.until(time.Millisecond, "a member has the message", func() bool { return p.Receive(funi.Request) != nil })
	s := p.Receive(funi.Request)
	h := s.Header()
	if s[funi.SourceWord] != uint32(from) || h.Type() != typ ||
		!slices.Equal(s[funi.PayloadWord:funi.PayloadWord+h.Length()], words) {
		r.t.Fatalf("a member has %x of type %d from node %d", s[:funi.PayloadWord+h.Length()], h.Type(),
			s[funi.SourceWord])
	}
	p.Release(funi.Request)
	if p.Receive(funi.Request) != nil {
		r.t.Fatal("a member has two messages")
	}
}

// Rule: each member of a chain, however it is branched, has a message once, from its origin, and
// the origin hears how many have it; also when members are the origin itself, or on its card.
func TestMulticast(t *testing.T) {
	for name, c := range map[string]tree{
		"line":   {1: {2}, 2: {3}, 3: {4}},
		"star":   {1: {2, 3, 4}},
		"tree":   {1: {2, 3}, 3: {4, 0}},
		"origin": {1: {0}, 0: {2}, 2: {3, 4}},
		"one":    {},
	} {
		for _, cards := range []int{1, 3, 5} {
			for kind, on := range machines {
				t.Run(fmt.Sprintf("%s on %d cards, %s", name, cards, kind), func(t *testing.T) {
					toAll(t, c, cards, on)
				})
			}
		}
	}
}

// toAll sends along a chain of five nodes on some cards.
func toAll(t *testing.T, c tree, cards int, on machine) {
	route := make([]uint32, 5)
	for i := range route {
		route[i] = uint32(i % cards)
	}
	r := newRemoteBed(t, setup{cards: cards, remote: moreRemote, route: route, tune: on})
	procs := slices.Clone(r.proc)
	for i := cards; i < 5; i++ {
		p, _ := r.join(i%cards, gid, uint16(i))
		procs = append(procs, p)
	}
	r.chains(7, 1, c, func(node uint16) *funi.Interface { return procs[node] })
	members := c.members(1)
	for i := range uint32(3) {
		words := []uint32{1, i, 3}
		n, d := r.multicasts(0, 1, funi.MulticastRequest{Chain: 7, Members: members, Cookie: 9 + i, Message: 300,
			Data: bytesOf(words)})
		if n.Reason != arctic.ReasonNone || n.Bytes != uint32(members) ||
			d != (funi.Delivery{Delivered: int(members)}) {
			t.Fatalf("it came to %+v: %v", d, n.Reason)
		}
		for node := range procs {
			if in(c, 1, uint16(node)) {
				r.has(procs[node], 0, 300, words...)
			} else if procs[node].Receive(funi.Request) != nil {
				t.Fatalf("node %d is no member", node)
			}
		}
	}
	r.ends()
}

func in(c tree, from, node uint16) bool {
	return from == node || slices.ContainsFunc(c[from], func(next uint16) bool { return in(c, next, node) })
}

func bytesOf(words []uint32) []byte {
	b := make([]byte, len(words)*4)
	arctic.PutWords(b, words)
	return b
}

// Rule: a put along a chain writes into each member's window, with all checks of a put, and nothing
// else changes a byte.
func TestMulticastPut(t *testing.T) { onEach(t, multicastPut) }

func multicastPut(t *testing.T, on machine) {
	r := newRemoteBed(t, setup{cards: 4, remote: moreRemote, tune: on})
	c := tree{1: {2}, 2: {3}}
	for node := 1; node < 4; node++ {
		r.exposes(node, funi.Window{Key: theKey, Base: 128, Bytes: 100, Address: windowAt, Rights: funi.RightWrite})
	}
	r.chains(0, 1, c, r.byNode)
	data := bytes.Repeat([]byte{0xa5, 0x5a, 1}, 18)[:49]
	want := make([][]byte, 4)
	for node := range want {
		want[node] = bytes.Clone(r.keyed[node])
		if node > 0 {
			copy(want[node][128+51:], data)
		}
	}
	put := funi.MulticastRequest{Chain: 0, Members: 3, Put: true, Key: theKey, Address: windowAt + 51, Data: data}
	check := func(what string, m funi.MulticastRequest, reason arctic.Reason, failed int, node uint16) {
		t.Helper()
		n, d := r.multicasts(0, 1, m)
		if n.Reason != reason || d.Delivered != 3-failed || d.Failed != failed ||
			failed > 0 && (d.Named != 1 || d.Broken[0] != funi.Broken{Node: node, Reason: reason}) {
			t.Fatalf("%s: %v, %+v", what, n.Reason, d)
		}
		for node := range want {
			if !bytes.Equal(r.keyed[node], want[node]) {
				t.Fatalf("%s: the memory of node %d is another", what, node)
			}
		}
	}
	check("a put", put, arctic.ReasonNone, 0, 0)
	beyond, wrong := put, put
	beyond.Address++
	wrong.Key += 1 << 16
	check("beyond the end", beyond, arctic.ReasonRange, 3, 1)
	check("a wrong key", wrong, arctic.ReasonKeySlot, 3, 1)
	r.block(2, funi.Request, func(s *funi.Slot) { s.SetCloseKeySlot(theKey, 0) })
	r.retired(2)
	put.Data = bytes.Repeat([]byte{0x77}, 49)
	copy(want[1][128+51:], put.Data) // and nobody further on has what the second refuses
	check("the second has closed its window", put, arctic.ReasonKeySlot, 2, 2)
	r.ends()
}

// Rule: whoever notices a member that refuses or cannot be reached names it, with those behind it;
// the others have it.
func TestBrokenChain(t *testing.T) {
	type broken = []funi.Broken
	for name, c := range map[string]struct {
		tree    tree
		breaks  func(r *remoteBed)
		has     []int
		failed  int
		doubt   int
		named   broken
		members uint16
	}{
		"the first is no member": {tree: tree{1: {2}, 2: {3}}, failed: 3,
			named:  broken{{Node: 1, Reason: arctic.ReasonChain}},
			breaks: func(r *remoteBed) { r.leaves(1) }},
		"the first does not expect so many": {tree: tree{1: {2}, 2: {3}}, members: 4, failed: 4,
			named: broken{{Node: 1, Reason: arctic.ReasonChain}}},
		"one in the middle has left": {tree: tree{1: {2}, 2: {3}}, has: []int{1}, failed: 2,
			named:  broken{{Node: 2, Reason: arctic.ReasonChain}},
			breaks: func(r *remoteBed) { r.leaves(2) }},
		"one in the middle has ended": {tree: tree{1: {2}, 2: {3}}, has: []int{1}, failed: 2,
			named: broken{{Node: 2, Reason: arctic.ReasonNoContext}},
			breaks: func(r *remoteBed) {
				r.cards[2].Detach(r.ctx[2])
				r.join(2, gid, 20) // else the card's ports let nothing of the group in
			}},
		"the last's card is silent": {tree: tree{1: {2}, 2: {3}}, has: []int{1, 2}, doubt: 1,
			named:  broken{{Node: 3, Reason: arctic.ReasonSilent}},
			breaks: func(r *remoteBed) { r.cards[3] = nil }},
		"no route": {tree: tree{1: {2, 9}, 2: {3}}, has: []int{1, 2, 3}, failed: 1,
			named: broken{{Node: 9, Reason: arctic.ReasonNoRoute}}},
		"two branches": {tree: tree{1: {2, 3, 8, 9}}, has: []int{1, 2}, failed: 3,
			named: broken{{Node: 3, Reason: arctic.ReasonChain}, {Node: 8, Reason: arctic.ReasonNoRoute},
				{Node: 9, Reason: arctic.ReasonNoRoute}},
			breaks: func(r *remoteBed) { r.leaves(3) }},
	} {
		for kind, on := range machines {
			t.Run(name+" "+kind, func(t *testing.T) {
				r := newRemoteBed(t, setup{cards: 4, remote: moreRemote, tune: on})
				r.chains(7, 1, c.tree, r.byNode)
				if c.breaks != nil {
					c.breaks(r)
				}
				if c.members == 0 {
					c.members = c.tree.members(1)
				}
				n, d := r.multicasts(0, 1, funi.MulticastRequest{Chain: 7, Members: c.members, Message: 5,
					Data: bytesOf([]uint32{77})})
				named := slices.Clone(d.Broken[:d.Named])
				slices.SortFunc(named, func(a, b funi.Broken) int { return int(a.Node) - int(b.Node) })
				if n.Reason == arctic.ReasonNone || d.Delivered != len(c.has) || d.Failed != c.failed ||
					d.Doubtful != c.doubt || !slices.Equal(named, c.named) {
					t.Fatalf("%v, %+v; want %d delivered, %d failed, %d doubtful, %v", n.Reason, d, len(c.has),
						c.failed, c.doubt, c.named)
				}
				for node := 1; node < 4; node++ {
					switch {
					case slices.Contains(c.has, node):
						r.has(r.proc[node], 0, 5, 77)
					case r.cards[node] != nil && r.proc[node].Receive(funi.Request) != nil:
						t.Errorf("node %d has it", node)
					}
				}
			})
		}
	}
}

func (r *remoteBed) sets(node int, c funi.Chain) {
	r.t.Helper()
	r.block(node, funi.Request, func(s *funi.Slot) { s.SetChain(&c, 0) })
	r.retired(node)
}

func (r *remoteBed) leaves(node int) {
	r.t.Helper()
	r.block(node, funi.Request, func(s *funi.Slot) { s.SetLeaveChain(7, 0) })
	r.retired(node)
}

// Rule: whatever the tables of the members say, nobody has a multicast twice, it ends, and the
// origin hears so.
func TestNoChainLoops(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRemoteBed(t, setup{cards: 4, slots: 64, remote: moreRemote, tune: anyMachine(rt),
			net: wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond}})
		for node := range 4 {
			c := funi.Chain{Number: 7, First: rapid.IntRange(0, 3).Draw(rt, "first") == 0}
			if !c.First {
				c.Parent = uint16(rapid.IntRange(0, 3).Draw(rt, "parent"))
			}
			for next := range uint16(4) {
				if rapid.IntRange(0, 2).Draw(rt, "next") == 0 {
					c.Next = append(c.Next, funi.Next{Node: next,
						Members: uint16(rapid.IntRange(1, 4).Draw(rt, "members"))})
				}
			}
			r.sets(node, c)
		}
		for first := range uint16(4) {
			members := uint16(rapid.IntRange(1, 8).Draw(rt, "of"))
			_, d := r.multicasts(0, first, funi.MulticastRequest{Chain: 7, Members: members, Message: 5,
				Data: bytesOf([]uint32{uint32(first)})})
			r.pass(100 * time.Microsecond) // for the Delivery Units
			has := 0
			for _, p := range r.proc {
				if p.Receive(funi.Request) != nil {
					has++
					p.Release(funi.Request)
				}
				if p.Receive(funi.Request) != nil {
					rt.Fatal("somebody has it twice")
				}
			}
			if d.Delivered != has || d.Delivered+d.Failed != int(members) {
				rt.Fatalf("%d have it, and %+v is told of %d", has, d, members)
			}
		}
		r.ends()
	})
}

// anyMachine draws one of the machines.
func anyMachine(rt *rapid.T) machine {
	return machines[rapid.SampledFrom([]string{"native", "followed", "timed"}).Draw(rt, "machine")]
}

// Rule: two ways to a member, and a way back, are cut where they meet: the second copy finds that
// it does not come from the member's parent, or is to reach another number of members.
func TestWaysThatMeet(t *testing.T) {
	for name, c := range map[string]struct {
		chains  map[int]funi.Chain
		members uint16
		has     int
		broken  []funi.Broken
	}{
		"two ways": {members: 5, has: 4, broken: []funi.Broken{{Node: 3, Reason: arctic.ReasonChain}},
			chains: map[int]funi.Chain{
				0: {First: true, Next: []funi.Next{{Node: 1, Members: 2}, {Node: 2, Members: 2}}},
				1: {Next: []funi.Next{{Node: 3, Members: 1}}}, 2: {Next: []funi.Next{{Node: 3, Members: 1}}},
				3: {Parent: 1}}},
		"a way back": {members: 3, has: 2, broken: []funi.Broken{{Node: 0, Reason: arctic.ReasonChain}},
			chains: map[int]funi.Chain{
				0: {First: true, Next: []funi.Next{{Node: 1, Members: 2}}},
				1: {Next: []funi.Next{{Node: 0, Members: 1}}}}},
		"itself": {members: 2, has: 1, broken: []funi.Broken{{Node: 0, Reason: arctic.ReasonChain}},
			chains: map[int]funi.Chain{
				0: {First: true, Next: []funi.Next{{Node: 0, Members: 1}}}}},
		"another group's member": {members: 2, has: 1, broken: []funi.Broken{{Node: 1, Reason: arctic.ReasonNoContext}},
			chains: map[int]funi.Chain{
				0: {First: true, Next: []funi.Next{{Node: 1, Members: 1}}}, 4: {}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := setup{cards: 4, remote: moreRemote}
			procs := 4
			// node 1 of another group, on the card where this group's node 4 is
			if _, other := c.chains[4]; other {
				s.cards, s.route, procs = 1, []uint32{0, 0}, 1
			}
			r := newRemoteBed(t, s)
			for node, ch := range c.chains {
				if ch.Number = 7; node < procs {
					r.sets(node, ch)
					continue
				}
				p, _ := r.join(0, gid+1, 1)
				slot := p.Reserve(funi.Request)
				slot.SetChain(&ch, 0)
				p.Commit(funi.Request)
				r.until(time.Second, "it is a member", func() bool { return p.Unsent(funi.Request) == 0 })
				r.proc = append(r.proc, p)
			}
			_, d := r.multicasts(0, 0, funi.MulticastRequest{Chain: 7, Members: c.members, Message: 5,
				Data: bytesOf([]uint32{6})})
			has := 0
			for _, p := range r.proc {
				for p.Receive(funi.Request) != nil {
					has++
					p.Release(funi.Request)
				}
			}
			if has != c.has || d.Delivered != has || d.Failed != int(c.members)-has ||
				!slices.Equal(d.Broken[:d.Named], c.broken) {
				t.Fatalf("%d have it, %+v", has, d)
			}
		})
	}
}

// Rule: what is no chain is refused, and is none: the block returns.
func TestChainsThatAreNone(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 2, remote: moreRemote})
	two := []funi.Next{{Node: 1, Members: 1}, {Node: 1, Members: 1}}
	for name, c := range map[string]funi.Chain{
		"too many chains":  {Number: funi.MaxChains, First: true},
		"two that are one": {First: true, Next: two},
		"without members":  {First: true, Next: []funi.Next{{Node: 1}}},
		"too many members": {First: true, Next: []funi.Next{{Node: 1, Members: arctic.MaxMembers}}},
		"five next":        {First: true, Next: make([]funi.Next, 5)},
	} {
		r.block(0, funi.Request, func(s *funi.Slot) { s.SetChain(&c, 3) })
		r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonNotOpened,
			Header: 1<<30 | funi.NewHeader(0, uint16(funi.SetChain), 0), Word: 3})
		if u, _ := r.ctx[0].Remote(); u.Chains != 0 {
			t.Errorf("%s: it is a member", name)
		}
	}
	r.block(0, funi.Request, func(s *funi.Slot) { s.SetLeaveChain(1, 3) })
	r.comesBack(time.Second, r.proc[0], funi.Returned{Reason: arctic.ReasonNotOpened,
		Header: 1<<30 | funi.NewHeader(0, uint16(funi.SetChain), 0), Word: 3})
	r.ends()
}

// Rule: a chain whose members have no room stops no other chain, along the same nodes either
// (chain.go).
func TestFullChainStopsNoOther(t *testing.T) { onEach(t, fullChain) }

func fullChain(t *testing.T, on machine) {
	r := newRemoteBed(t, setup{cards: 4, slots: 8, remote: moreRemote,
		tune: on.on(func(c *engine.Config) { c.FIFO = 2 })})
	line := tree{1: {2}, 2: {3}}
	// More than the last member's queue and FIFO take, and fewer than these and the chains' lines;
	// what waits is more than a frame has room for.
	const full, messages = 10, 8 + 2 + 4*10 - 8
	for number := range uint16(full + 1) {
		r.chains(number, 1, line, r.byNode)
	}
	r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
	r.exposes(2, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
	r.exposes(3, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
	for i := range uint32(messages) {
		r.until(time.Second, "room", func() bool { return r.proc[0].Reserve(funi.Request) != nil })
		r.block(0, funi.Request, func(s *funi.Slot) {
			s.SetMulticast(1, &funi.MulticastRequest{Chain: uint16(i % full), Members: 3, Message: 5,
				Data: bytesOf([]uint32{i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})})
		})
	}
	got := [4]int{}
	read := func(nodes ...int) {
		for _, node := range nodes {
			for r.proc[node].Receive(funi.Request) != nil {
				got[node]++
				r.proc[node].Release(funi.Request)
			}
		}
	}
	r.until(time.Second, "the second member has it all", func() bool {
		read(1, 2)
		return got[1] == messages && got[2] == messages
	})
	complete := 0
	for n := (funi.Notification{}); r.proc[0].NextNotification(&n); {
		complete++
	}
	if complete == messages {
		t.Fatal("nothing waits")
	}
	r.block(0, funi.Request, func(s *funi.Slot) {
		s.SetMulticast(1, &funi.MulticastRequest{Chain: full, Members: 3, Cookie: 99, Put: true, Key: theKey,
			Address: windowAt, Data: []byte("along the same nodes")})
	})
	for n := (funi.Notification{}); n.Cookie != 99; {
		if n = r.notified(0); n.Reason != arctic.ReasonNone {
			t.Fatalf("%v, %+v", n.Reason, n.Delivery())
		} else if n.Cookie != 99 {
			complete++
		}
	}
	if complete == messages {
		t.Fatal("the messages did not wait")
	}
	r.until(time.Minute, "all is complete", func() bool {
		read(3)
		for n := (funi.Notification{}); r.proc[0].NextNotification(&n); {
			complete++
		}
		return complete == messages
	})
	if read(3); got != [4]int{0, messages, messages, messages} {
		t.Errorf("they have %v messages", got)
	}
	r.ends()
}

// Rule: members that read slowly hold their chain up, and no other; what crosses them goes on, and
// when they read all of it comes, once. Each member takes no more than its chain has lines for.
func TestSlowMemberHoldsItsChainOnly(t *testing.T) {
	onEach(t, slowMembers)
}

func slowMembers(t *testing.T, on machine) {
	r := newRemoteBed(t, setup{cards: 4, slots: 64, remote: funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 128},
		tune: on.on(func(c *engine.Config) { c.FIFO = 2 })})
	line := func(number uint16, nodes ...uint16) {
		for i, node := range nodes {
			c := funi.Chain{Number: number, First: i == 0}
			if i > 0 {
				c.Parent = nodes[i-1]
			}
			if i+1 < len(nodes) {
				c.Next = []funi.Next{{Node: nodes[i+1], Members: uint16(len(nodes) - i - 1)}}
			}
			r.sets(int(node), c)
		}
	}
	line(1, 1, 2, 3)
	line(2, 2, 3, 1) // these three wait for each other in a circle if streams are shared
	line(3, 3, 1, 2)
	const each = 40
	for i := range uint32(each) {
		for chain := range uint16(3) {
			r.until(time.Minute, "room", func() bool { return r.proc[0].Reserve(funi.Request) != nil })
			r.block(0, funi.Request, func(s *funi.Slot) {
				s.SetMulticast(1+chain, &funi.MulticastRequest{Chain: 1 + chain, Members: 3, Message: 5,
					Data: bytesOf([]uint32{uint32(chain), i})})
			})
		}
		r.pass(time.Microsecond)
	}
	got := map[[3]uint32]int{}
	complete := 0
	r.until(time.Minute, "all is complete", func() bool {
		for node, p := range r.proc {
			if s := p.Receive(funi.Request); s != nil { // one at a time: they are slow
				got[[3]uint32{uint32(node), s[funi.PayloadWord], s[funi.PayloadWord+1]}]++
				p.Release(funi.Request)
			}
		}
		var n funi.Notification
		for r.proc[0].NextNotification(&n) {
			if complete++; n.Reason != arctic.ReasonNone {
				t.Fatalf("%v, %+v", n.Reason, n.Delivery())
			}
		}
		return complete == 3*each
	})
	r.pass(10 * time.Millisecond)
	for node, p := range r.proc {
		for s := p.Receive(funi.Request); s != nil; s = p.Receive(funi.Request) {
			got[[3]uint32{uint32(node), s[funi.PayloadWord], s[funi.PayloadWord+1]}]++
			p.Release(funi.Request)
			r.pass(time.Microsecond)
		}
	}
	if len(got) != 9*each {
		t.Errorf("%d of %d came", len(got), 9*each)
	}
	for what, n := range got {
		if n != 1 {
			t.Errorf("%v came %d times", what, n)
		}
	}
	r.ends()
}

// Rule: a card takes multicasts from the network as it takes them from its own processes: of a
// first member's only what its source sends in its own name, of the others' only what comes from
// the parent. What another card forges goes back to it, and nobody has it.
func TestForgedMulticasts(t *testing.T) { onEach(t, forgedMulticasts) }

func forgedMulticasts(t *testing.T, on machine) {
	r := newRemoteBed(t, setup{cards: 4, remote: moreRemote, net: near, tune: on})
	r.chains(7, 1, tree{1: {2}}, r.byNode)
	r.exposes(1, funi.Window{Key: theKey, Bytes: 64, Address: windowAt, Rights: funi.RightWrite})
	good := arctic.Multicast{Chain: 7, Left: 2, Origin: 3, ID: 1 << 16, Message: 5, Data: bytesOf([]uint32{1, 2})}
	before := bytes.Clone(r.keyed[1])
	for name, c := range map[string]struct {
		to     int
		level  arctic.Level
		change func(*arctic.Multicast)
		want   arctic.Reason
	}{
		"in another's name": {to: 1, change: func(m *arctic.Multicast) {
			m.Origin = 0
		}, want: arctic.ReasonChain},
		"with members before": {to: 1, change: func(m *arctic.Multicast) {
			m.Done, m.Place = 1, 1
		}, want: arctic.ReasonChain},
		"at another place": {to: 1, change: func(m *arctic.Multicast) {
			m.Place = 1
		}, want: arctic.ReasonChain},
		"to more": {to: 1, change: func(m *arctic.Multicast) {
			m.Left = 3
		}, want: arctic.ReasonChain},
		"to fewer": {to: 1, change: func(m *arctic.Multicast) {
			m.Left = 1
		}, want: arctic.ReasonChain},
		"along another": {to: 1, change: func(m *arctic.Multicast) {
			m.Chain = 6
		}, want: arctic.ReasonChain},
		"beyond the table": {to: 1, change: func(m *arctic.Multicast) {
			m.Chain = 65535
		}, want: arctic.ReasonChain},
		"past the first": {to: 2, change: func(m *arctic.Multicast) {
			m.Left = 1
		}, want: arctic.ReasonChain},
		"to who is no member": {to: 0, change: func(*arctic.Multicast) {}, want: arctic.ReasonChain},
		"to nobody": {to: 1, change: func(m *arctic.Multicast) {
			m.Left = 0
		}, want: arctic.ReasonRemoteForm},
		"more than there can be": {to: 1, change: func(m *arctic.Multicast) {
			m.Left, m.Place = 65535, 1
		}, want: arctic.ReasonRemoteForm},
		"as a reply": {to: 1, level: arctic.Reply, change: func(*arctic.Multicast) {},
			want: arctic.ReasonRemoteForm},
		"a put with another key": {to: 1, change: func(m *arctic.Multicast) {
			m.Put, m.Key, m.Address = true, theKey^1<<20, windowAt
		}, want: arctic.ReasonKeySlot},
		"a put in front of a window": {to: 1, change: func(m *arctic.Multicast) {
			m.Put, m.Key, m.Address = true, theKey, windowAt-1
		}, want: arctic.ReasonRange},
	} {
		m := good
		c.change(&m)
		r.cards[3].Say(r.ctx[3], uint16(c.to), uint16(c.to), c.level, arctic.KindMulticast, m.Type(),
			func(b []byte) int { return arctic.PutMulticast(b, &m) })
		r.wake[3] = 0
		if back := r.comesBackOf(3); back.Reason != c.want {
			t.Errorf("%s: %v, want %v", name, back.Reason, c.want)
		}
		for node, p := range r.proc {
			if p.Receive(funi.Request) != nil {
				t.Fatalf("%s: node %d has it", name, node)
			}
		}
		if !bytes.Equal(r.keyed[1], before) {
			t.Fatalf("%s: the memory of node 1 is another", name)
		}
	}
	if n, d := r.multicasts(3, 1, funi.MulticastRequest{Chain: 7, Members: 2, Message: 5,
		Data: bytesOf([]uint32{9})}); n.Reason != arctic.ReasonNone {
		t.Fatalf("%v, %+v", n.Reason, d)
	}
	r.has(r.proc[1], 3, 5, 9)
	r.has(r.proc[2], 3, 5, 9)
	r.ends()
}

// Rule: a forged report changes nothing. Such a report is on a multicast that does not exist, on
// one that no process waits for, or on more members than there are. Or it comes from a card that
// has had no copy. The origin hears the outcome from the members that have the multicast.
func TestForgedReports(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 4, slots: 4, remote: moreRemote, net: near, tune: func(c *engine.Config) {
		c.FIFO = 2
	}})
	r.chains(7, 1, tree{1: {2}}, r.byNode)
	r.leaves(2)
	// which takes nothing from 1
	r.sets(2, funi.Chain{Number: 7, Parent: 1, Next: []funi.Next{{Node: 9, Members: 1}}})
	full := make([]byte, 4)
	// more than the first has room for, so that the multicast waits there, and nobody reports yet
	for i := range uint32(8) {
		r.mustSend(0, funi.Request, 1, i, 2)
		r.pass(time.Millisecond)
	}
	r.block(0, funi.Request, func(s *funi.Slot) {
		s.SetMulticast(1, &funi.MulticastRequest{Chain: 7, Members: 2, Message: 5, Data: full})
	})
	r.pass(time.Millisecond)
	id, proof := r.ctx[0].RequestID(0), r.ctx[0].ProofOf(0)
	bad := func(report arctic.Report) []byte {
		b := make([]byte, arctic.ReportBytes)
		arctic.PutReport(b, &report)
		return b
	}
	all := bad(arctic.Report{Place: 1, Done: 1, Left: 1, Proof: proof})
	for name, c := range map[string]struct {
		a    arctic.Response
		want arctic.Reason
	}{
		"of another time":   {arctic.Response{ID: id + 1<<16, Data: all}, arctic.ReasonRequest},
		"of another record": {arctic.Response{ID: id + 1, Data: all}, arctic.ReasonRequest},
		"of who has no copy": {arctic.Response{ID: id,
			Data: bad(arctic.Report{Place: 1, Done: 1, Left: 1, Proof: proof + 1})}, arctic.ReasonPath},
		"of three": {arctic.Response{ID: id,
			Data: bad(arctic.Report{Place: 2, Done: 2, Left: 1, Proof: proof})}, arctic.ReasonPosted},
		"of two and one": {arctic.Response{ID: id,
			Data: bad(arctic.Report{Place: 1, Done: 1, Left: 2, Proof: proof, Node: 2, Reason: arctic.ReasonSilent})},
			arctic.ReasonPosted},
		"of nobody": {arctic.Response{ID: id, Data: bad(arctic.Report{Proof: proof})},
			arctic.ReasonRemoteForm},
		"taken, and not over": {arctic.Response{ID: id, Data: bad(arctic.Report{Left: 2, Proof: proof})},
			arctic.ReasonRemoteForm},
		"behind its end": {arctic.Response{ID: id, Offset: 8, Data: all}, arctic.ReasonRemoteForm},
		"too long": {arctic.Response{ID: id, Data: make([]byte, arctic.ReportBytes+4)},
			arctic.ReasonRemoteForm},
	} {
		r.cards[3].Say(r.ctx[3], 0, 0, arctic.Reply, arctic.KindResponse, c.a.Type(), func(b []byte) int {
			return arctic.PutResponse(b, &c.a)
		})
		r.wake[3] = 0
		if back := r.comesBackOf(3); back.Reason != c.want {
			t.Errorf("%s: %v, want %v", name, back.Reason, c.want)
		}
		r.silent(0)
	}
	for _, ok := take(r.proc[1], funi.Request); ok; _, ok = take(r.proc[1], funi.Request) {
		r.pass(time.Millisecond)
	}
	n := r.notified(0)
	if d := n.Delivery(); n.Reason != arctic.ReasonChain || d.Delivered != 1 || d.Failed != 1 || d.Named != 1 ||
		d.Broken[0] != (funi.Broken{Node: 2, Reason: arctic.ReasonChain}) {
		t.Errorf("it came to %v, %+v", n.Reason, d)
	}
}

// Rule: a member that has taken a copy is counted once, also if the acknowledgment of the copy is
// lost for good. The sender of the copy then reports it as in doubt. With the reports of the
// member, or of those behind it, everything is known. The multicast has then come to all members
// (ledger.go).
func TestAcknowledgmentOfACopyIsLost(t *testing.T) {
	cut := false
	r := newRemoteBed(t, setup{cards: 5, slots: 4, remote: moreRemote, net: near, tune: func(c *engine.Config) {
		quick(c)
		c.FIFO = 2
	},
		wrap: func(card int, p *wire.Port) port.Port {
			return &tap{Port: p, see: func(b []byte) bool {
				f, err := arctic.Look(b)
				return !cut || card != 2 || err != nil || f.Header().DestinationCard != 1
			}}
		}})
	r.chains(7, 1, tree{1: {2, 4}, 2: {3}}, r.byNode)
	along := funi.MulticastRequest{Chain: 7, Members: 4, Cookie: 1, Message: 5, Data: bytesOf([]uint32{1})}
	if n, d := r.multicasts(0, 1, along); n.Reason != arctic.ReasonNone { // and all cards have met
		t.Fatalf("%v, %+v", n.Reason, d)
	}
	for node := 1; node < 5; node++ {
		r.has(r.proc[node], 0, 5, 1)
	}
	// more than the last branch has room for, so that the multicast waits there
	for i := range uint32(8) {
		r.mustSend(0, funi.Request, 4, i, 2)
		r.pass(time.Millisecond)
	}
	cut = true
	along.Cookie = 2
	r.block(0, funi.Request, func(s *funi.Slot) { s.SetMulticast(1, &along) })
	r.until(time.Second, "the first member's card gives the second's up", func() bool {
		return r.cards[1].Counters().PeersLost > 0
	})
	r.pass(time.Millisecond)
	r.silent(0)
	for _, ok := take(r.proc[4], funi.Request); ok; _, ok = take(r.proc[4], funi.Request) {
		r.pass(time.Millisecond)
	}
	n := r.notified(0)
	if d := n.Delivery(); n.Cookie != 2 || n.Reason != arctic.ReasonNone || n.Bytes != 4 ||
		d != (funi.Delivery{Delivered: 4}) {
		t.Errorf("it came to %v, %+v", n.Reason, d)
	}
	for _, node := range []int{1, 2, 3} {
		r.has(r.proc[node], 0, 5, 1)
	}
}

// Rule: a multicast is not given up because one member after the other has no room for a while.
// Each lets what it sends on wait for up to MaxHold, which may be longer than PeerTimeout. The
// origin has patience for all of a way (chain.go).
func TestWaysThatAreFull(t *testing.T) {
	r := newRemoteBed(t, setup{cards: 6, slots: 4, remote: moreRemote, net: near, tune: func(c *engine.Config) {
		c.FIFO, c.PeerTimeout, c.ConnectTimeout, c.MaxHold = 2, 20*time.Millisecond, 20*time.Millisecond,
			100*time.Millisecond
	}})
	r.chains(7, 1, tree{1: {2}, 2: {3}, 3: {4}, 4: {5}}, r.byNode)
	const messages = 40
	read := func(nodes ...int) {
		for _, node := range nodes {
			for r.proc[node].Receive(funi.Request) != nil {
				r.proc[node].Release(funi.Request)
			}
		}
	}
	complete := 0
	takes := func() {
		for n := (funi.Notification{}); r.proc[0].NextNotification(&n); complete++ {
			if n.Reason != arctic.ReasonNone {
				t.Fatalf("multicast %d: %v, %+v", n.Cookie, n.Reason, n.Delivery())
			}
		}
	}
	for i := range uint32(messages) {
		r.until(time.Second, "room", func() bool { read(1, 2, 3, 4); return r.proc[0].Reserve(funi.Request) != nil })
		r.block(0, funi.Request, func(s *funi.Slot) {
			s.SetMulticast(1, &funi.MulticastRequest{Chain: 7, Members: 5, Cookie: i, Message: 5,
				Data: bytesOf([]uint32{i})})
		})
	}
	for last := r.now; complete < messages; {
		r.until(time.Second, "some time", func() bool {
			takes()
			read(1, 2, 3, 4)
			return complete == messages || r.now > last+int64(30*time.Millisecond)
		})
		last = r.now
		read(5) // seldom, and all that is there
	}
	r.ends()
}
