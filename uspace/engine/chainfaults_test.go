package engine_test

// This file is chains on a network that does anything, whose members are restarted and switched out
// meanwhile (chain.go).

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// chainRun is multicasts of three chains, each a tree over all nodes, and what has become of them.
type chainRun struct {
	*remoteBed
	rt       *rapid.T
	trees    [3]tree
	firsts   [3]uint16
	sent     [][]bool          // by origin and number: it is complete
	got      map[[3]uint32]int // by node, origin and number
	restarts bool
}

// reads takes what has come to all but one that is out, and what is complete.
func (c *chainRun) reads(out int) {
	for node, p := range c.proc {
		if node == out {
			continue
		}
		for s := p.Receive(funi.Request); s != nil; s = p.Receive(funi.Request) {
			c.got[[3]uint32{uint32(node), s[funi.SourceWord], s[funi.PayloadWord]}]++
			p.Release(funi.Request)
		}
	}
	for node, p := range c.proc {
		if node == out {
			continue
		}
		for n := (funi.Notification{}); p.NextNotification(&n); {
			d := n.Delivery()
			if c.sent[node][n.Cookie] {
				c.rt.Fatalf("multicast %d of node %d is complete twice", n.Cookie, node)
			}
			if c.sent[node][n.Cookie] = true; (n.Reason == arctic.ReasonNone) !=
				(d.Failed == 0 && d.Delivered == len(c.proc)) {
				c.rt.Fatalf("%v: %+v", n.Reason, d)
			}
			if n.Reason != arctic.ReasonNone && !c.restarts {
				c.rt.Fatalf("nothing was wrong, and it failed: %v, %+v", n.Reason, d)
			}
		}
	}
}

// joins makes a node a member of all chains.
func (c *chainRun) joins(node uint16) {
	for number, t := range c.trees {
		set := funi.Chain{Number: uint16(number), First: node == c.firsts[number]}
		for parent, next := range t {
			for _, n := range next {
				if n == node {
					set.Parent = parent
				}
			}
		}
		for _, n := range t[node] {
			set.Next = append(set.Next, funi.Next{Node: n, Members: t.members(n)})
		}
		c.sets(int(node), set)
	}
}

// Rule: whatever the network does, every multicast is complete once, and nobody has one twice. If
// no card is restarted it has come to all, also to members that were switched out meanwhile; else
// what failed is told.
func TestChainsUnderFaults(t *testing.T) {
	const nodes = 5
	rapid.Check(t, func(rt *rapid.T) {
		faults := wire.Networks[rapid.SampledFrom([]string{"clean", "loss", "duplicate", "reorder", "corrupt",
			"all"}).Draw(rt, "network")]
		c := &chainRun{rt: rt, got: map[[3]uint32]int{}, restarts: rapid.Bool().Draw(rt, "restarts")}
		c.remoteBed = newRemoteBed(t, setup{cards: nodes, slots: 16,
			remote: funi.RemoteSizes{KeySlots: 1, Areas: 1, Notifications: 64},
			net:    wire.Config{Seed: rapid.Uint64().Draw(rt, "seed"), Delay: 10 * time.Microsecond, Faults: faults},
			tune:   anyMachine(rt).on(func(c *engine.Config) { c.FIFO = 2 })})
		c.sent = make([][]bool, nodes)
		for number := range c.trees {
			order := rapid.Permutation([]uint16{0, 1, 2, 3, 4}).Draw(rt, "order")
			c.firsts[number], c.trees[number] = order[0], tree{}
			for i := 1; i < nodes; i++ {
				parent := order[rapid.IntRange(0, i-1).Draw(rt, "parent")]
				if len(c.trees[number][parent]) == funi.MaxNext {
					parent = order[i-1]
				}
				c.trees[number][parent] = append(c.trees[number][parent], order[i])
			}
		}
		for node := range uint16(nodes) {
			c.joins(node)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			node := rapid.IntRange(0, nodes-1).Draw(rt, "node")
			switch what := rapid.IntRange(0, 11).Draw(rt, "what"); {
			case what == 0 && c.restarts:
				c.start(node)
				for i := range c.sent[node] {
					c.sent[node][i] = true // nobody hears of them any more
				}
				c.registers(node)
				if rapid.Bool().Draw(rt, "is a member again") {
					c.joins(uint16(node))
				}
			case what == 1:
				s := c.switchOut(node)
				for end := c.now + int64(5*time.Millisecond); c.now < end; c.reads(node) {
					c.step(min(c.next(), end))
				}
				c.switchIn(node, s)
			default:
				number := rapid.IntRange(0, len(c.trees)-1).Draw(rt, "chain")
				cookie := uint32(len(c.sent[node]))
				c.until(time.Minute, "room", func() bool {
					c.reads(none)
					return c.proc[node].Reserve(funi.Request) != nil
				})
				c.sent[node] = append(c.sent[node], false)
				c.block(node, funi.Request, func(s *funi.Slot) {
					s.SetMulticast(c.firsts[number],
						&funi.MulticastRequest{Chain: uint16(number), Members: nodes, Cookie: cookie, Message: 5,
							Data: bytesOf([]uint32{cookie})})
				})
			}
			c.pass(time.Duration(rapid.IntRange(1, 200).Draw(rt, "microseconds")) * time.Microsecond)
		}
		c.until(5*time.Minute, "all is complete", func() bool {
			c.reads(none)
			for _, of := range c.sent {
				for _, complete := range of {
					if !complete {
						return false
					}
				}
			}
			return true
		})
		c.pass(time.Millisecond) // some may wait for room
		c.reads(none)
		for node := range c.sent {
			for number := range c.sent[node] {
				for member := range nodes {
					if n := c.got[[3]uint32{uint32(member), uint32(node), uint32(number)}]; n != 1 && !c.restarts {
						rt.Fatalf("member %d has multicast %d of node %d %d times", member, number, node, n)
					}
				}
			}
		}
		for what, n := range c.got {
			if n > 1 {
				rt.Fatalf("member %d has multicast %d of node %d %d times", what[0], what[2], what[1], n)
			}
		}
		c.ends()
	})
}

// none is no node.
const none = -1

// Rule: nothing on the data path allocates (doc.go): a multicast to two, of whom one is its origin.
func TestMulticastsDoNotAllocate(t *testing.T) {
	c := newRemoteCouple(t)
	c.commit(1, func(s *funi.Slot) {
		s.SetChain(&funi.Chain{Number: 7, First: true, Next: []funi.Next{{Node: 0, Members: 1}}}, 0)
	})
	c.commit(0, func(s *funi.Slot) { s.SetChain(&funi.Chain{Number: 7, Parent: 1}, 0) })
	m := funi.MulticastRequest{Chain: 7, Members: 2, Message: 5, Data: make([]byte, 68)}
	var n funi.Notification
	once := func() {
		c.proc[0].Reserve(funi.Request).SetMulticast(1, &m)
		c.proc[0].Commit(funi.Request)
		for !c.proc[0].NextNotification(&n) {
			c.step()
		}
		for _, p := range c.proc {
			for p.Receive(funi.Request) != nil {
				p.Release(funi.Request)
			}
		}
	}
	for range 200 {
		once()
	}
	if n.Reason != arctic.ReasonNone || n.Delivery().Delivered != 2 {
		t.Fatalf("%v, %+v", n.Reason, n.Delivery())
	}
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("a multicast allocates %v times", n)
	}
}
