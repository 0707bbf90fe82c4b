package engine

// This file holds the groups that are resident on a card, the contexts of each by node, and the
// route tables (thesis 3.3.1, 5.4).
//
// The card has one route table, which serves every group without a table of its own. Where many
// groups are resident, each may place its nodes differently. A table has up to 64K entries of 30
// bits and may change at any time. Packets in the undelivered packet cache keep the route that they
// were retrieved with.

import (
	"errors"
	"fmt"
	"math"

	"github.com/funet/funet/uspace/arctic"
)

// SystemGroup is the privileged group of thesis 3.3.2.
const SystemGroup = 0

// ErrRoute is returned for a route that leads nowhere.
var ErrRoute = errors.New("engine: a route is the number of the card or of a peer, or NoRoute")

// routes holds the groups of a card and their route tables.
type routes struct {
	core
	sched *scheduler
	table *contexts

	groups [arctic.MaxGID + 1]*group
	common []uint32 // the table of groups without one of their own
	own    bool     // common is not the configuration's
	moved  bool     // a node of some group has moved since the card was made
}

// group is the record of a GID.
type group struct {
	nodes  map[uint16]*Context // resident or switched out
	recent *Context            // last one looked up
	routes []uint32            // nil: the card's
	// expected holds the nodes that have no context yet and will get one.
	expected map[uint16]expectation
	moved    map[uint16]*moved // nodes that were on other cards; see forward.go
	tag      uint64            // of the last context that entered
	// generation is the latest generation of the job's records of operations, if images have
	// brought some (adopted); see request.go.
	generation uint16
	adopted    bool
	payer      *account // pays for packets to nodes of the group that are not here
}

// expectation is about a node that has no context yet. tag is that of its job. until is the time at
// which the expectation ends; 0: no packet for the node has come yet.
type expectation struct {
	tag   uint64
	until int64
}

// group returns the record of a GID, made when it is first needed.
func (r *routes) group(gid uint16) *group {
	g := r.groups[gid]
	if g == nil {
		g = &group{nodes: map[uint16]*Context{}}
		r.groups[gid] = g
	}
	return g
}

// hasGroup reports whether frames of the group are taken: a context of it is attached, or it is the
// system group and Config.SystemEvent is set.
func (r *routes) hasGroup(gid uint16) bool {
	return r.cfg.AnyGroup || r.isResident(gid) || gid == SystemGroup && r.cfg.SystemEvent != nil
}

// announce tells the link whether frames of a group are taken.
func (r *routes) announce(gid uint16) { r.link.SetGroup(gid, r.hasGroup(gid), r.isResident(gid)) }

func (r *routes) isResident(gid uint16) bool {
	g := r.groups[gid&arctic.MaxGID]
	return g != nil && len(g.nodes) > 0
}

// lookup returns the context of a node of a group, awake, or why packets for the node are rejected.
// Packets for a node that is expected are rejected for now, so that they come again. Comparing tags
// takes no longer when they are nearly equal: they are two machine words. Such a difference in time
// would be of no use anyhow: a process does not choose its tag, and a host that composes frames can
// read the tag in frames that it gets.
func (r *routes) lookup(gid, node uint16, tag uint64) (*Context, arctic.Reason) {
	g := r.groups[gid&arctic.MaxGID]
	if g == nil {
		return nil, arctic.ReasonNoContext
	}
	x := g.recent
	if x == nil || x.node != node {
		if x = g.nodes[node]; x == nil {
			return nil, r.awaited(g, node, tag)
		}
		g.recent = x
	}
	if x.tag != tag {
		r.counters.ForeignJob++
		return nil, arctic.ReasonJob
	}
	if !x.awake {
		r.sched.wake(x)
	}
	r.table.show(x)
	return x, arctic.ReasonNone
}

// awaited returns why packets for a node without a context are rejected. The time that the card
// waits for an expected node begins with the first packet for it.
func (r *routes) awaited(g *group, node uint16, tag uint64) arctic.Reason {
	e, expected := g.expected[node]
	switch {
	case !expected:
		return arctic.ReasonNoContext
	case e.tag != tag:
		r.counters.ForeignJob++
		return arctic.ReasonJob
	case e.until == 0:
		e.until = r.clock.now + int64(r.cfg.ConnectTimeout)
		g.expected[node] = e
	case r.clock.now >= e.until:
		delete(g.expected, node)
		return arctic.ReasonNoContext
	}
	r.clock.by(nodeDue, e.until)
	return arctic.ReasonSwitching
}

// Expect says that a node of a group without a context here will be attached. While the node is
// expected, packets for it with the tag of its job are rejected for a transient reason and come
// again. The expectation ends when the node is attached, when expected is false, or ConnectTimeout
// after the first packet for it: the node may have died unseen. Then packets for a node without a
// context are rejected for good. A GID has 11 bits.
func (c *Card) Expect(gid, node uint16, tag uint64, expected bool) {
	gid &= arctic.MaxGID
	g := c.routes.group(gid)
	switch {
	case !expected:
		delete(g.expected, node)
	case g.nodes[node] == nil:
		if g.expected == nil {
			g.expected = map[uint16]expectation{}
		}
		g.expected[node] = expectation{tag: tag}
	}
	c.routes.leaveGroup(gid, g)
}

// leaveGroup forgets a group without nodes, expected nodes and routes.
func (r *routes) leaveGroup(gid uint16, g *group) {
	if len(g.nodes) == 0 && len(g.expected) == 0 && g.routes == nil {
		r.sched.setPayer(g, nil)
		r.groups[gid] = nil
	}
}

// enter puts a context into the group of the GID, and takes it out of its old one.
func (r *routes) enter(x *Context, gid uint16) error {
	if o := r.group(gid).nodes[x.node]; o != nil && o != x {
		return ErrAttached
	}
	r.quit(x)
	g := r.group(gid)
	delete(g.expected, x.node)
	g.nodes[x.node] = x
	x.gid, x.group, x.tag = gid, g, x.nextTag
	g.tag = x.tag
	x.owner.GID, x.owner.Tag = x.gid, x.tag
	r.announce(gid)
	r.sched.charge(x, x.account)
	r.table.beginLife(x)
	return nil
}

// quit takes a context out of its group.
func (r *routes) quit(x *Context) {
	g := x.group
	if g == nil {
		return
	}
	delete(g.nodes, x.node)
	g.recent = nil
	r.announce(x.gid)
	r.leaveGroup(x.gid, g)
	x.group = nil
}

// of returns the route bits for a node of the group, or NoRoute.
func (r *routes) of(g *group, node uint16) uint32 {
	t := r.common
	if g.routes != nil {
		t = g.routes
	}
	if int(node) >= len(t) {
		return r.beyond(node)
	}
	return t[node]
}

// beyond returns the route bits for a node beyond the end of a route table, or NoRoute.
func (r *routes) beyond(node uint16) uint32 {
	if r.cfg.NodesAreCards && (node == r.cfg.Card || r.link.IsPeer(node)) {
		return uint32(node)
	}
	return NoRoute
}

// SetRoute loads one entry of the card's route table: the 30 route bits for a node, here the number
// of a card, or NoRoute. It returns ErrRoute if there is no such card. Packets that waited for the
// entry (Config.Fault) are sent in the next Step. Set a node's route on a card before the node
// sends to it. The card rejects packets for good with ReasonSourceNode if its table has their node
// on another card than the sender: they may be forged.
func (c *Card) SetRoute(node uint16, route uint32) error {
	if err := c.routes.checkRoute(route); err != nil {
		return fmt.Errorf("setting the route of node %d: %w", node, err)
	}
	if !c.routes.own || int(node) >= len(c.routes.common) {
		// The first table was the configuration's, which others may share.
		own := make([]uint32, max(len(c.routes.common), int(node)+1))
		for i := copy(own, c.routes.common); i < len(own); i++ {
			own[i] = c.routes.beyond(uint16(i))
		}
		c.routes.common, c.routes.own = own, true
	}
	c.routes.common[node] = route
	c.out.routed()
	return nil
}

// SetGroupRoutes gives a group a route table of its own, indexed by node. The card keeps a copy.
// With nil the group uses the card's table again. The group need not be resident. Packets that
// waited for an entry (Config.Fault) are sent in the next Step. It returns ErrRoute, and changes
// nothing, if a route leads nowhere or the table is longer than 64K entries.
func (c *Card) SetGroupRoutes(gid uint16, routes []uint32) error {
	if gid > arctic.MaxGID || len(routes) > math.MaxUint16+1 {
		return fmt.Errorf("setting %d routes of group %d: a table has 65536 entries and a GID 11 bits: %w",
			len(routes), gid, ErrRoute)
	}
	for node, r := range routes {
		if err := c.routes.checkRoute(r); err != nil {
			return fmt.Errorf("setting the route of node %d of group %d: %w", node, gid, err)
		}
	}
	g := c.routes.group(gid)
	g.routes = nil
	if routes != nil {
		g.routes = append([]uint32{}, routes...)
	}
	g.forgetMoves()
	c.out.routed()
	c.routes.leaveGroup(gid, g)
	return nil
}

func (r *routes) checkRoute(to uint32) error {
	if to != NoRoute && to != uint32(r.cfg.Card) && (to > math.MaxUint16 || !r.link.IsPeer(uint16(to))) {
		return fmt.Errorf("card %d: %w", to, ErrRoute)
	}
	return nil
}
