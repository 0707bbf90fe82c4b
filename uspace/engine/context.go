package engine

// This file is the context: one process's attachment to the card.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// ErrAttached is returned when the group and node already have a context here.
var ErrAttached = errors.New("engine: group and node are already attached to this card")

// Context is one process's attachment to a card.
type Context struct {
	card    *Card
	gid     uint16
	node    uint16
	iface   *funi.Card
	ticket  ticket
	lines   []line
	fifo    [arctic.Levels]fifo
	starved bool                 // a packet found no line in the last retrieval
	loop    [arctic.Levels]lines // packets for a context of this very card
}

// Attach makes a context for node of group gid on memory that the process has
// initialised.
func (c *Card) Attach(m *funi.Memory, gid, node uint16) (*Context, error) {
	if gid > arctic.MaxGID {
		return nil, fmt.Errorf("attaching to group %d: GIDs are at most %d", gid, arctic.MaxGID)
	}
	if c.lookup(gid, node) != nil {
		return nil, fmt.Errorf("attaching node %d of group %d: %w", node, gid, ErrAttached)
	}
	iface, err := funi.Attach(m)
	if err != nil {
		return nil, fmt.Errorf("attaching node %d of group %d: %w", node, gid, err)
	}
	x := &Context{card: c, gid: gid, node: node, iface: iface, lines: make([]line, c.cfg.Lines)}
	x.ticket.reset(c.cfg.Lines, c.cfg.ReplyLines)
	for i := range x.lines {
		x.lines[i].ctx = x
		x.lines[i].own = uint16(i)
	}
	for l := range x.fifo {
		x.fifo[l].slots = make([][arctic.MaxPacketSize]byte, c.cfg.FIFO)
	}
	iface.Store(funi.GID, uint32(gid))
	c.contexts = append(c.contexts, x)
	x.publish()
	return x, nil
}

// lookup returns the context of a node of a group, or nil.
func (c *Card) lookup(gid, node uint16) *Context {
	for _, x := range c.contexts {
		if x.gid == gid && x.node == node {
			return x
		}
	}
	return nil
}

// take returns a free cache line for a packet of the level, or nil.
func (x *Context) take(l arctic.Level) *line {
	i := x.ticket.take(l)
	if i < 0 {
		return nil
	}
	return &x.lines[i]
}

// free gives a line back; its packet is accounted for.
func (x *Context) free(l *line) {
	l.next = nil
	x.ticket.give(int(l.own))
	if x.starved {
		x.starved = false
		x.card.more = true // for what found no line there is one now
	}
}

// returned gives the packet of a line back to the process, with the reason, and
// frees the line.
func (x *Context) returned(l *line, reason arctic.Reason) {
	p := arctic.Packet(l.data[:l.size])
	h := p.Header()
	r := funi.Returned{Reason: reason, Level: h.Level, Header: funi.NewHeader(l.node, l.typ, int(h.Length))}
	if h.Length > 0 {
		r.Word = p.Word(0)
	}
	x.iface.Return(r)
	x.card.counters.Returned++
	x.free(l)
}

// publish makes what the card did visible to the process, once a step. TICKET, which
// no program waits for, follows when the card has nothing else to do, and at every
// 64th step.
func (x *Context) publish() {
	x.iface.Publish()
	if !x.ticket.changed {
		return
	}
	c := x.card
	if c.steps%64 == 0 || c.Progress() == c.before {
		x.ticket.changed = false
		x.iface.Store(funi.Ticket, uint32(x.ticket.words[0]))
	}
}

// Idle reports whether nothing of the context's waits in the card: no slot to
// retrieve, no packet undelivered, nothing in the receive FIFOs.
func (x *Context) Idle() bool {
	return x.iface.Pending(arctic.Reply) == 0 && x.iface.Pending(arctic.Request) == 0 &&
		x.ticket.free() == len(x.lines) && x.fifo[0].n == 0 && x.fifo[1].n == 0
}

// GID returns the context's group.
func (x *Context) GID() uint16 { return x.gid }

// Node returns the context's node number in its group.
func (x *Context) Node() uint16 { return x.node }
