package engine

// This file opens the card to tests outside of the package.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Link returns the card's end of its links.
func (c *Card) Link() *link.End { return c.link }

// Check returns an error if the card's books do not balance: every line is free, in
// the cache on a list, or in a frame; and those of its links.
func (c *Card) Check() error {
	used := map[uint32]int{}
	if err := c.link.Check(used); err != nil {
		return err
	}
	for _, x := range c.contexts {
		n := used[x.owner.Number]
		for l := range x.loop {
			n += x.loop[l][0].length() + x.loop[l][1].length()
		}
		if err := x.checkTransfers(); err != nil {
			return fmt.Errorf("context %d: %w", x.node, err)
		}
		for l := range arctic.Levels {
			if x.long != nil && x.long.inUse[l] {
				n--
			}
		}
		if free := x.ticket.free(); free+n != c.cfg.Lines {
			return fmt.Errorf("context %d: %d lines free and %d in use of %d", x.node, free, n, c.cfg.Lines)
		}
		for l, q := range x.fifo {
			if q.n < 0 || q.n > len(q.slots) {
				return fmt.Errorf("context %d, level %d: %d packets in the receive FIFO", x.node, l, q.n)
			}
		}
	}
	return nil
}

// checkTransfers: every record is free, current, due or has lines, and no other line
// points at one.
func (x *Context) checkTransfers() error {
	if x.long == nil {
		return nil
	}
	lines := map[*transfer]int{}
	for i := range x.lines {
		if t := x.lines[i].transfer; t != nil {
			lines[t]++
		}
	}
	for i := range x.long.own {
		if t := x.long.own[i].transfer; t != nil {
			lines[t]++
		}
	}
	open := 0
	for l := range x.long.records {
		places := map[*transfer]int{}
		for _, q := range []transfers{x.long.free[l], x.long.due[l], {head: x.current[l]}} {
			for t := q.head; t != nil; t = t.next {
				places[t]++
			}
		}
		for t := x.long.due[l].head; t != nil; t = t.next {
			open++
		}
		slots := x.finished[l]
		for t := x.long.slots[l].head; t != nil; t = t.nextSlot {
			if slots += 1 + t.behind; !t.queued || t.spent && t == x.long.slots[l].head {
				return fmt.Errorf("a transfer of level %d that waits for its slot: queued %v, spent %v", l, t.queued, t.spent)
			}
			if t.over {
				places[t]++
			}
		}
		if slots != x.taken[l] {
			return fmt.Errorf("%d slots of level %d taken, counted %d", x.taken[l], l, slots)
		}
		for i := range x.long.records[l] {
			t := &x.long.records[l][i]
			if t.lines != lines[t] {
				return fmt.Errorf("transfer %d of level %d has %d lines, counted %d", i, l, t.lines, lines[t])
			}
			if t.lines > 0 || t.current {
				open++
				places[t]++
			}
			if t.current != (x.current[l] == t) || places[t] != 1 && !t.current {
				return fmt.Errorf("transfer %d of level %d is in %d places, current %v", i, l, places[t], t.current)
			}
		}
	}
	if open != x.long.open {
		return fmt.Errorf("%d transfers open, counted %d", x.long.open, open)
	}
	return nil
}

func (q *lines) length() (n int) {
	for l := q.head; l != nil; l = l.next {
		n++
	}
	return n
}

// Fault returns the reason of the context's last memory error.
func (x *Context) Fault() arctic.Reason { return x.iface.Memory().Page.Fault() }

// SetDrain sets DRAIN mode.
func (x *Context) SetDrain(on bool) { x.drain = on }

// Streams returns how many streams of the context the card's flows have.
func (c *Card) Streams(x *Context) (n int) { return c.link.Streams(x.owner) }

// Awake returns how many contexts a step looks at.
func (c *Card) Awake() int { return len(c.awake) }

// Epoch returns the epoch with a peer, 0 for who is none.
func (c *Card) Epoch(card uint16) uint64 {
	if !c.link.IsPeer(card) {
		return 0
	}
	return c.link.Epoch(card)
}
