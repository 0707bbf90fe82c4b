package engine

// This file handles packets of the card's own processes whose node has no entry in the route table.
// In Tokyo (sections 2.1 and 3.3: the table of routes) such misses are for the operating system to
// decide.
//
// The card's owner hears of each such packet (Config.Fault, with arctic.ReasonNoRoute) and says
// whether it is to wait. A waiting packet stays in its line of the process's own cache. So a
// process that sends to nodes without a route has fewer lines, and others pay nothing. When the
// table gets an entry for the node, the packets for it are sent in their order, before any that are
// retrieved later. The entry comes from SetRoute, SetGroupRoutes, or another card's news that the
// node has moved. A packet that has waited for ConnectTimeout returns to the process with
// ReasonNoRoute. One that is not to wait returns at once.
//
// Messages, transfers and operations of one packet wait, and so does the packet that begins a
// multicast. Long transfers do not wait, because their route is fixed when they begin (life.go).
// Answers, and copies that a member of a chain sends on, do not wait either: their lines are needed
// by others.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// missesInStep bounds the packets without a route that a step returns after ConnectTimeout. A
// process may have a thousand, and a user many processes.
const missesInStep = 256

// noRoute holds or returns a packet for a node without a route.
func (o *retrieval) noRoute(x *Context, ln *line) {
	wait := o.cfg.Fault != nil && o.cfg.Fault(x.gid, ln.Node, x.node, arctic.ReasonNoRoute)
	if !wait || ln.Index >= ownLine || ln.transfer != nil || x.forward != nil || x.detached {
		x.returned(ln, arctic.ReasonNoRoute)
		return
	}
	ln.missed = o.clock.now
	x.unrouted.Push(&ln.Line)
	o.unrouted++
	o.clock.by(routeDue, o.clock.now+int64(o.cfg.ConnectTimeout))
}

// giveUpMisses returns packets that have waited for a route for ConnectTimeout, at most
// missesInStep in a step.
func (o *retrieval) giveUpMisses() {
	o.clock.set(routeDue, Never)
	left := missesInStep
	for _, x := range o.table.all {
		o.table.serving = x
		for x.unrouted.Head() != nil {
			due := o.table.lineOf(x.unrouted.Head()).missed + int64(o.cfg.ConnectTimeout)
			if due > o.clock.now || left == 0 {
				o.clock.by(routeDue, due)
				break
			}
			left--
			o.unrouted--
			x.returned(o.table.lineOf(x.unrouted.Pop()), arctic.ReasonNoRoute)
		}
	}
}

// routed sends the waiting packets whose nodes have a route now.
func (o *retrieval) routed() {
	if o.unrouted == 0 {
		return
	}
	for _, x := range o.table.all {
		waiting := x.unrouted
		x.unrouted = link.Lines{}
		for waiting.Head() != nil {
			ln := o.table.lineOf(waiting.Pop())
			route := o.routes.of(x.group, ln.Node)
			if route == NoRoute {
				x.unrouted.Push(&ln.Line)
				continue
			}
			o.unrouted--
			h := arctic.Packet(ln.Data[:ln.Size]).Header()
			h.Route = route & arctic.MaxRoute
			h.Encode(ln.Data[:])
			o.send(x, h.Level, ln, route)
			o.clock.more = true
			if x.looping && !x.away {
				x.stir() // it is for a context of this card, and this one may be asleep
			}
		}
	}
}
