package engine

// This file is the undelivered packet cache (thesis 2.9, 5.2.4, 5.3): a packet
// stays in its line from retrieval until it is positively acknowledged.

import (
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// maxLines is the most lines of a context: ticket's two levels of 64 bits.
const maxLines = 64 * 64

// ownLine and the number after it are the Index of the two lines outside the cache (long.own). The
// lines of answers, chains and paths follow (response.go, chain.go, ultra.go).
const ownLine = maxLines

// endOfLines is one more than the highest Index: a new kind of line moves it.
const endOfLines = firstPath + contextPaths*placesOfPath

// placesOfLines returns the length of a table with an entry for each line of a context.
func (t *contexts) placesOfLines() int { return t.cfg.Lines + endOfLines - ownLine }

// placeOf returns the place in such a table of the line with that Index.
func (t *contexts) placeOf(index uint16) int {
	if index < ownLine {
		return int(index)
	}
	return t.cfg.Lines + int(index-ownLine)
}

// line holds one packet in wire format. The link has the line from launch until it is settled.
type line struct {
	link.Line
	ctx  *Context
	typ  uint16 // type as the process wrote it, for a return
	kept bool   // the block is the card's copy
	// request is the header of the slot, and argument that of an XFER request.
	request  funi.Header
	argument uint32
	transfer *transfer // the long transfer that the packet belongs to; nil: none
	asked    bool      // the packet belongs to an operation that has a record
	asks     uint32    // the identification of that record
	missed   int64     // when it began to wait for a route (routemiss.go)
}

// lineOf returns the line that contains a line of the link.
func (t *contexts) lineOf(ln *link.Line) *line {
	x := t.owners[ln.Owner.Number]
	switch {
	case ln.Index < ownLine:
		return x.at(int(ln.Index))
	case ln.Index >= firstPath:
		return x.paths.line(ln.Index)
	case ln.Index >= firstChained:
		return x.chainedLine(ln.Index)
	case ln.Index >= firstAnswer:
		return &x.answers.lines[ln.Index-firstAnswer]
	}
	return &x.long.own[ln.Index-ownLine]
}

// shelfLines is how many lines a shelf has.
const shelfLines = 16

// shelf is a part of a context's set of the cache. A context that has something undelivered holds
// the shelves that it has used since it last slept; a quiet one holds none.
type shelf [shelfLines]line

// take returns a free cache line for a packet of the level, or nil.
func (x *Context) take(l arctic.Level) *line {
	x.card.sched.tickets = true
	i := x.ticket.take(l)
	if i < 0 {
		return nil
	}
	if x.shelves == nil {
		x.shelves = make([]*shelf, (x.card.cfg.Lines+shelfLines-1)/shelfLines) // once
	}
	s := &x.shelves[i/shelfLines]
	if *s == nil {
		*s = x.card.table.takeShelf()
	}
	ln := &(*s)[i%shelfLines]
	ln.ctx, ln.Index = x, uint16(i)
	return ln
}

// at returns the line of the cache with that Index, which was taken.
func (x *Context) at(i int) *line { return &x.shelves[i/shelfLines][i%shelfLines] }

// takeShelf returns a shelf of which no line is used.
func (t *contexts) takeShelf() *shelf {
	if n := len(t.spare); n > 0 {
		s := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return s
	}
	t.shelves++
	t.spare = roomFor(t.shelves, t.spare) // giving back must not allocate
	return new(shelf)
}

// giveShelves gives back the shelves of a context of which no line is used. The card keeps them:
// there are never more than were in use at one time.
func (t *contexts) giveShelves(x *Context) {
	for i, s := range x.shelves {
		if s != nil {
			t.spare = append(t.spare, s)
			x.shelves[i] = nil
		}
	}
}

// ticket is the bitmap of free lines, FUNi's TICKET register widened: bit set
// means free. The lowest free line is taken first, as the thesis's priority
// encoder does.
type ticket struct {
	words   [maxLines / 64]uint64
	some    uint64 // bit i: words[i] is not zero
	limit   int    // lines that requests may use
	used    int    // lines that are not free
	changed bool   // the register must be written
}

// reset marks n lines free. The last reply of them are for replies only.
func (t *ticket) reset(n, reply int) {
	*t = ticket{limit: n - reply, changed: true}
	for i := range n {
		t.words[i/64] |= 1 << (i % 64)
		t.some |= 1 << (i / 64)
	}
}

// take returns a free line, or -1 if all are occupied (full), or if the level is Request and only
// lines reserved for replies are free (hi).
func (t *ticket) take(l arctic.Level) int {
	if t.some == 0 {
		return -1
	}
	w := bits.TrailingZeros64(t.some)
	b := bits.TrailingZeros64(t.words[w])
	i := w*64 + b
	if l == arctic.Request && i >= t.limit {
		return -1
	}
	t.words[w] &^= 1 << b
	if t.words[w] == 0 {
		t.some &^= 1 << w
	}
	t.changed = true
	t.used++
	return i
}

// any reports whether take would find a line.
func (t *ticket) any(l arctic.Level) bool {
	if t.some == 0 {
		return false
	}
	w := bits.TrailingZeros64(t.some)
	return l == arctic.Reply || w*64+bits.TrailingZeros64(t.words[w]) < t.limit
}

// give marks line i free again.
func (t *ticket) give(i int) {
	t.words[i/64] |= 1 << (i % 64)
	t.some |= 1 << (i / 64)
	t.used--
	t.changed = true
}

// freeFor returns how many of n lines are free for packets of a level.
func (t *ticket) freeFor(l arctic.Level, n int) (free int) {
	if l == arctic.Request {
		n = t.limit
	}
	for i := 0; i < n; i += 64 {
		w := t.words[i/64]
		if n-i < 64 {
			w &= 1<<(n-i) - 1
		}
		free += bits.OnesCount64(w)
	}
	return free
}
