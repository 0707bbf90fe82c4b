package engine

// This file is remote writes of many packets that wait for their peer: they may hold half of the lines that a level's messages can have, all
// writes to one card together. One that has no more is set aside, and the card goes on with what is behind it in the send queue. It goes on itself
// when a part of these lines is free again. So a peer that is silent does not take all lines of a process.
//
// Its slot stays taken until the card has copied what is left of it (late.go). While the process waits for its queues to halt nothing is set aside.

import "github.com/funet/funet/uspace/arctic"

// linesTo is how many lines the writes of a level to one card may hold.
func (c *Card) linesTo() int { return max((c.cfg.Lines-c.cfg.ReplyLines)/2, 1) }

// roomTo returns how many more lines the writes to the card that t goes to may take.
func (x *Context) roomTo(t *transfer) int {
	room := x.card.linesTo()
	for i := range x.long.records[t.level] {
		if r := &x.long.records[t.level][i]; r.put != nil && r.route == t.route {
			room -= r.lines
		}
	}
	return room
}

// setAside has the current write wait.
func (x *Context) setAside(t *transfer) {
	x.current[t.level] = nil
	x.long.aside[t.level].push(t)
	x.mayBeLate(t)
}

// resume makes a write current again that was set aside, if one can go on or has failed.
func (x *Context) resume(l arctic.Level) {
	for t := x.long.aside[l].head; t != nil; t = t.next {
		if x.closing || t.failed != arctic.ReasonNone || x.roomTo(t) > x.card.linesTo()/4 {
			x.long.aside[l].remove(t)
			x.current[l] = t
			return
		}
	}
}

// waitsAside reports whether a write of the level was set aside.
func (x *Context) waitsAside(l arctic.Level) bool {
	return x.long != nil && x.long.aside[l].head != nil
}
