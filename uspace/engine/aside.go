package engine

// This file sets aside remote writes of many packets that wait for their peer. So silent peers do
// not take all lines of a process, however many these peers are.
//
// All writes to one card together may hold at most half of the lines that requests may use, and at
// most as many lines as are free beside them. A write that may take no more lines is set aside, and
// the card goes on with the slots behind it in the send queue. The write goes on when a part of
// these lines is free again. Writes to the next silent card get half of what the others have left
// (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
// IEEE/ACM ToN 6(2), 1998).
//
// The slot of such a write stays taken until the write is answered, or until the card has copied
// the rest of it (late.go). While the process waits for its queues to halt, no write is set aside.

import "github.com/funet/funet/uspace/arctic"

// shareTo returns how many lines the writes to t's destination card may hold now, and how many more
// than they hold that is. Cards whose numbers are equal modulo 256 share.
func (x *Context) shareTo(t *transfer) (share, more int) {
	c, held := x.card, int(*x.long.linesTo(t))
	share = min((c.cfg.Lines-c.cfg.ReplyLines)/2, (x.ticket.freeFor(t.level, c.cfg.Lines)+held)/2)
	share = max(share, 1)
	return share, share - held
}

// roomTo returns how many more lines the writes to t's destination card may take.
func (x *Context) roomTo(t *transfer) int {
	_, more := x.shareTo(t)
	return more
}

// resumes reports whether a write that was set aside has room enough to go on.
func (x *Context) resumes(t *transfer) bool {
	share, more := x.shareTo(t)
	return more > share/4
}

// setAside puts the current write on the list of those that wait for lines.
func (x *Context) setAside(t *transfer) {
	x.current[t.level] = nil
	x.long.aside[t.level].push(t)
	x.mayBeLate(t)
}

// resume makes current again the first write set aside that can go on, or that has failed. While
// the queues are being closed it takes the first of all. A message that waits for room at its
// receiver is left where it is.
func (x *Context) resume(l arctic.Level) {
	for t := x.long.aside[l].head; t != nil; t = t.next {
		if t.failed != arctic.ReasonNone || !t.put.ungranted() && (x.closing || x.resumes(t)) {
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
