package engine

// This file is the time of a card, and what is due when. Its owner hands the time to Step; the card
// has no clock of its own. The timers of frames are the link's.

import "slices"

// clock holds the time of the present step, or of the last one, and when the card wants the next.
type clock struct {
	now      int64
	step     uint64           // number of the step
	more     bool             // work was left over; step again at once
	loopNext int64            // when packets for this card, or the units of a model, go on
	at       [deadlines]int64 // when something is due, by deadline; Never: nothing is
	due      int64            // the first of these times
}

// deadline is a kind of thing that is due at a time.
type deadline int

// The deadlines: the end of the wait for an expected node (route.go) and for a route
// (routemiss.go), a late write (late.go), the answer to an operation and the reports on a multicast
// (request.go), what a sign tells (forward.go), the next packet of a message (receive.go), and what
// an end of a path waits for (ultrapath.go).
const (
	nodeDue deadline = iota
	routeDue
	lateDue
	answerDue
	reportDue
	signDue
	pathDue
	roomDue
	deadlines
)

func newClock() (k clock) {
	for d := range deadlines {
		k.set(d, Never)
	}
	return k
}

// set sets when a deadline is.
func (k *clock) set(d deadline, at int64) {
	k.at[d] = at
	k.due = slices.Min(k.at[:])
}

// by sets when a deadline is, unless it is earlier already.
func (k *clock) by(d deadline, at int64) { k.set(d, min(k.at[d], at)) }

// agenda is a list of things that are due one after the other. The clock has the time of the first.
type agenda[T any] struct {
	clock      *clock
	deadline   deadline
	head, tail *item[T]
}

// item is the place of a thing on an agenda.
type item[T any] struct {
	of           *T
	at           int64
	waits        bool // it is on the agenda
	before, next *item[T]
}

// push puts a thing last on the agenda, from which it is removed first if it is there.
func (a *agenda[T]) push(i *item[T], of *T, at int64) {
	a.remove(i)
	*i = item[T]{of: of, at: at, waits: true, before: a.tail}
	if a.tail == nil {
		a.head = i
	} else {
		a.tail.next = i
	}
	a.tail = i
	a.clock.set(a.deadline, a.head.at)
}

// remove takes a thing off the agenda if it is there.
func (a *agenda[T]) remove(i *item[T]) {
	if !i.waits {
		return
	}
	if i.before != nil {
		i.before.next = i.next
	} else {
		a.head = i.next
	}
	if i.next != nil {
		i.next.before = i.before
	} else {
		a.tail = i.before
	}
	*i = item[T]{}
	first := int64(Never)
	if a.head != nil {
		first = a.head.at
	}
	a.clock.set(a.deadline, first)
}

// overdue returns the first thing if it is due by now, or nil.
func (a *agenda[T]) overdue() *T {
	if a.head == nil || a.head.at > a.clock.now {
		return nil
	}
	return a.head.of
}
