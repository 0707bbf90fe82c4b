package sim

// This file has the event queue, which orders events in virtual time. Events of the same time
// happen in the order in which they were put in.
//
// Most events happen soon: a step of a card, a frame on a link. Events within horizon of the last
// event that happened are in a wheel of lists, one for each nanosecond, with a bitmap of the lists
// that are not empty. An event goes in and out of the wheel at the same cost however many events
// wait. Timers and the like are in a heap. An event in the heap stays there when its time comes
// within the horizon. It comes before the wheel's events of the same time: it was put in earlier,
// when that time was still out of the wheel's reach.

import (
	"math/bits"
	"unsafe"
)

// Never is a time that does not come.
const Never = 1<<63 - 1

// actor is an object that events happen to.
type actor interface {
	// happen carries out the event that push announced with the argument. It returns false if the
	// actor no longer wants the event, which then does not count.
	happen(token, arg uint64) bool
}

const (
	slotBits = 22
	// maxPending is the most events that wait at a time. One more panics, because a world that
	// needs more is a mistake.
	maxPending = 1 << slotBits
	slotMask   = maxPending - 1
	// horizon is how far the wheel reaches, in ns. Twice as far costs twice the memory, which
	// should stay in the processor's cache.
	horizon = 1 << 14
)

// node is one event in the heap. The upper bits of order are the serial number of the event, which
// keeps events of the same time in order. Its lower bits are the index of the event's slot.
type node struct {
	at    int64
	order uint64
}

func (a node) before(b node) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

// queue is the wheel, and a heap with four children to a node. Neither holds pointers, so that
// moving events costs the garbage collector nothing. The zero value is empty.
type queue struct {
	base    int64 // when the last event happened; none may be put in before it
	soonest int64 // the first event of the wheel, if near is not 0
	near    int   // events in the wheel
	lists   [horizon]list
	busy    [horizon / 64]uint64      // lists that are not empty
	rows    [horizon / 64 / 64]uint64 // words of busy that are not 0
	heap    []node
	slots   []slot
	free    uint32 // the first free slot, whose next is the next free one; index plus one
	serial  uint64
	large   bool   // the first word of the next actor is read ahead
	warm    uint64 // the sum of words that were read ahead, so that the compiler keeps the reads
}

// list is the events of one time: indices of slots plus one, linked through next.
type list struct{ first, last uint32 }

// slot is the actor of an event, and the event's details.
type slot struct {
	actor actor
	arg   uint64
	token uint64
	next  uint32
}

// firstWord reads the first word of the actor, which never changes. In a large network each event
// needs an actor that is not in the processor's cache. Reading the next one's first word brings it
// there while the event before it happens. That saves a sixth of the processor's time with 16,384
// nodes, and costs some with few.
func (s *slot) firstWord() uint64 {
	type words struct{ _, data *uint64 } // of an interface
	return *(*words)(unsafe.Pointer(&s.actor)).data
}

// push queues an event for the actor and returns its token, which no other event has. Events cannot
// be taken back: an actor that has changed its mind remembers the token that it wants.
func (q *queue) push(at int64, a actor, arg uint64) uint64 {
	q.serial++
	i := q.free
	if i != 0 {
		q.free = q.slots[i-1].next
	} else {
		if len(q.slots) == maxPending {
			panic("sim: more than 4 million events wait")
		}
		q.slots = append(q.slots, slot{})
		i = uint32(len(q.slots))
	}
	s := &q.slots[i-1]
	s.actor, s.arg, s.token, s.next = a, arg, q.serial, 0
	if at-q.base >= horizon {
		n := node{at, q.serial<<slotBits | uint64(i-1)}
		q.heap = append(q.heap, n)
		q.up(n, len(q.heap)-1)
		return q.serial
	}
	k := uint(at) % horizon
	if l := &q.lists[k]; l.first == 0 {
		l.first = i
		l.last = i
		q.busy[k/64] |= 1 << (k % 64)
		q.rows[k/64/64] |= 1 << (k / 64 % 64)
	} else {
		q.slots[l.last-1].next = i
		l.last = i
	}
	if q.near == 0 || at < q.soonest {
		q.soonest = at
	}
	q.near++
	return q.serial
}

// pop takes out the first event; there must be one. It returns the event's time, its actor, and
// what else push was given. (In registers: a slot as a value was copied three times, which was a
// fifth of a run's time.)
func (q *queue) pop() (at int64, a actor, token, arg uint64) {
	if len(q.heap) > 0 && (q.near == 0 || q.heap[0].at <= q.soonest) {
		first := q.heap[0]
		last := len(q.heap) - 1
		n := q.heap[last]
		q.heap = q.heap[:last]
		if last > 0 {
			q.down(n)
		}
		q.base = first.at
		a, token, arg = q.take(uint32(first.order&slotMask) + 1)
		return first.at, a, token, arg
	}
	at = q.soonest
	q.base = at
	k := uint(at) % horizon
	l := &q.lists[k]
	i := l.first
	l.first = q.slots[i-1].next
	if q.large && l.first != 0 {
		q.warm += q.slots[l.first-1].firstWord()
	}
	q.near--
	if l.first == 0 {
		if q.busy[k/64] &^= 1 << (k % 64); q.busy[k/64] == 0 {
			q.rows[k/64/64] &^= 1 << (k / 64 % 64)
		}
		if q.near > 0 {
			q.soonest = at + int64((q.after(k)-k)%horizon)
		}
	}
	a, token, arg = q.take(i)
	return at, a, token, arg
}

// take empties a slot and returns what it held.
func (q *queue) take(i uint32) (a actor, token, arg uint64) {
	s := &q.slots[i-1]
	a, token, arg = s.actor, s.token, s.arg
	s.actor, s.next = nil, q.free
	q.free = i
	return a, token, arg
}

// after returns the first list from k on, around the wheel, that is not empty. There must be one.
func (q *queue) after(k uint) uint {
	if w := q.busy[k/64] >> (k % 64); w != 0 {
		return k + uint(bits.TrailingZeros64(w))
	}
	word := k/64 + 1
	row := word / 64 % uint(len(q.rows))
	w := q.rows[row] >> (word % 64) << (word % 64)
	for w == 0 {
		row = (row + 1) % uint(len(q.rows))
		w = q.rows[row]
	}
	word = row*64 + uint(bits.TrailingZeros64(w))
	return word*64 + uint(bits.TrailingZeros64(q.busy[word]))
}

// up inserts n at leaf i of the heap.
func (q *queue) up(n node, i int) {
	for i > 0 {
		parent := (i - 1) / 4
		if !n.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = n
}

// down inserts n at the root of the heap.
func (q *queue) down(n node) {
	h, i := q.heap, 0
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(n) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = n
}

// empty reports whether no event waits.
func (q *queue) empty() bool { return q.near == 0 && len(q.heap) == 0 }

// next returns the time of the first event, or Never.
func (q *queue) next() int64 {
	at := int64(Never)
	if q.near > 0 {
		at = q.soonest
	}
	if len(q.heap) > 0 {
		at = min(at, q.heap[0].at)
	}
	return at
}

// action is an event that calls a function; see World.At.
type action func()

func (a action) happen(uint64, uint64) bool { a(); return true }
