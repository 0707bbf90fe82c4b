package engine

// This file is what the card does with a packet of a process of its own whose node has no entry in
// the route table. In Tokyo (sections 2.1 and 3.3: the table of routes) such misses are for the
// operating system to decide.
//
// The card's owner hears of each such packet (Config.Fault, with arctic.ReasonNoRoute) and says
// whether it is to wait. One that waits stays in its line of the process's own cache, so whoever
// sends to nowhere has as many fewer lines, and nobody else pays. When the table gets an entry for
// the node (SetRoute, SetGroupRoutes, or another card's word that it has moved) the packets for it
// are sent, in their order, before any that are retrieved later. One that has waited for
// ConnectTimeout returns to the process with ReasonNoRoute, as one that is not to wait does at
// once.
//
// Messages, transfers and operations of one packet wait, and what begins a multicast. Long
// transfers do not, because the route belongs to what they are when they begin (life.go); nor do
// answers, and copies that a member of a chain sends on, which wait for the process in lines that
// others need.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// missesInStep bounds how many packets that have waited long enough a step returns: a process may
// have a thousand, and a user many processes.
const missesInStep = 256

// noRoute is what becomes of a packet for a node without a route.
func (c *Card) noRoute(x *Context, ln *line) {
	wait := c.cfg.Fault != nil && c.cfg.Fault(x.gid, ln.Node, x.node, arctic.ReasonNoRoute)
	if !wait || ln.Index >= ownLine || ln.transfer != nil || x.forward != nil || x.detached {
		x.returned(ln, arctic.ReasonNoRoute)
		return
	}
	ln.missed = c.now
	x.unrouted.Push(&ln.Line)
	c.unrouted++
	c.missesDue = min(c.missesDue, c.now+int64(c.cfg.ConnectTimeout))
}

// giveUpMisses returns the packets that have waited for a route for long enough, some of them in
// each step.
func (c *Card) giveUpMisses() {
	c.missesDue = Never
	left := missesInStep
	for _, x := range c.contexts {
		c.serving = x
		for x.unrouted.Head() != nil {
			due := c.lineOf(x.unrouted.Head()).missed + int64(c.cfg.ConnectTimeout)
			if due > c.now || left == 0 {
				c.missesDue = min(c.missesDue, due)
				break
			}
			left--
			c.unrouted--
			x.returned(c.lineOf(x.unrouted.Pop()), arctic.ReasonNoRoute)
		}
	}
}

// routed sends what waits for nodes that have a route now.
func (c *Card) routed() {
	if c.unrouted == 0 {
		return
	}
	for _, x := range c.contexts {
		waiting := x.unrouted
		x.unrouted = link.Lines{}
		for waiting.Head() != nil {
			ln := c.lineOf(waiting.Pop())
			route := c.route(x.group, ln.Node)
			if route == NoRoute {
				x.unrouted.Push(&ln.Line)
				continue
			}
			c.unrouted--
			h := arctic.Packet(ln.Data[:ln.Size]).Header()
			h.Route = route & arctic.MaxRoute
			h.Encode(ln.Data[:])
			c.send(x, h.Level, ln, route)
			c.more = true
			if x.looping && !x.away {
				x.stir() // it is for a context of this card, and this one may be asleep
			}
		}
	}
}
