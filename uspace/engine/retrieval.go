package engine

// This file is the Retrieval Unit (thesis 5.2.2): from the send queues into the
// undelivered packet cache.

import (
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// retrieve moves pending packets of the context into free lines, replies first.
// What finds no line stays in the send queue.
func (c *Card) retrieve(x *Context) {
	noLine := false
	for l := arctic.Reply; l <= arctic.Reply; l-- { // Reply, then Request
		n := x.iface.Pending(l)
		if n == 0 {
			continue
		}
		taken := 0
		for taken < min(n, retrieveBatch) {
			ln := x.take(l)
			if ln == nil {
				c.counters.SendQueueNoTicket++
				noLine = true
				break
			}
			c.load(x, l, ln, x.iface.Slot(l, taken))
			taken++
		}
		if taken == retrieveBatch && n > taken {
			c.more = true
		}
		if taken > 0 {
			x.iface.Retire(l, taken)
			c.counters.PacketsRetrieved += uint64(taken)
		}
	}
	if c.loopback(x) && noLine {
		c.more = true // for what found no line there is one now
	}
	x.starved = noLine
}

// load copies a slot once into a line in wire format and queues the line to its
// flow. From here on the process cannot change the packet.
func (c *Card) load(x *Context, l arctic.Level, ln *line, s *funi.Slot) {
	h := funi.Header(atomic.LoadUint32(&s[0]))
	n := h.Length()
	ln.node, ln.typ = h.Node(), h.Type()
	ln.size = uint16(arctic.PacketHeaderSize + n*arctic.WordSize)
	route := uint32(NoRoute)
	if int(ln.node) < len(c.cfg.Routes) {
		route = c.cfg.Routes[ln.node]
	}
	wire := arctic.PacketHeader{Level: l, Kind: arctic.KindMessage, Route: route & arctic.MaxRoute, GID: x.gid,
		Length: uint8(n), Type: ln.typ, Destination: ln.node, Source: x.node}
	if h.Transfer() {
		wire.Kind = arctic.KindTransfer
	}
	wire.Encode(ln.data[:])
	arctic.PutWords(ln.data[arctic.PacketHeaderSize:ln.size], s[funi.PayloadWord:funi.PayloadWord+n])
	switch {
	case route == NoRoute:
		x.returned(ln, arctic.ReasonNoRoute)
	case uint16(route) == c.cfg.Card:
		x.loop[l].push(ln)
	default:
		c.queue(c.byCard[uint16(route)], l, ln)
	}
}

// loopback delivers packets between contexts of this card, which never see a
// port. What the receive queue has no room for waits in its line. It reports
// whether a line was freed.
func (c *Card) loopback(x *Context) (freed bool) {
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		q := &x.loop[l]
		for q.head != nil {
			ln := q.head
			reason := c.accept(c.lookup(x.gid, ln.node), l, arctic.Packet(ln.data[:ln.size]))
			if reason == arctic.ReasonQueueFull {
				break
			}
			q.pop()
			freed = true
			c.counters.LoopedToOwnCard++
			if reason == arctic.ReasonNone {
				x.free(ln)
			} else {
				x.returned(ln, reason)
			}
		}
	}
	return freed
}
