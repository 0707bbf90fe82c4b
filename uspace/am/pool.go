package am

// This file stores operations: pools of records that are found by a number that travels, lists of
// records, and queues.

import (
	"math/rand/v2"
	"unsafe"
)

const (
	ticketBits = 12
	// wideTicketBits is ticketBits for pools of more records.
	wideTicketBits = 16
	freeTicket     = 1 << 31
)

// pool holds the records of one kind: calls, messages, receives or grants that are under way. Each
// has a ticket: its place, 12 or 16 bits, and a number of 19 or 15 bits that changes when the place
// is used again. A ticket is never 0, has bit 31 clear, and travels in messages. So a late message
// about a record that is gone names none. The numbers begin at random, because a process that is
// started anew uses the places of its predecessor.
type pool[T any] struct {
	most   int      // how many records may be in use
	mask   uint32   // of the place in a ticket
	all    []*T     // by place
	last   []uint32 // by place: its ticket, with freeTicket while the place is not in use
	free   []uint16 // places; the last one is used next
	random rand.PCG
}

// make prepares an empty pool. Pools of one endpoint differ in their streams.
func (p *pool[T]) make(most int, seed, stream uint64) {
	p.most, p.mask = most, 1<<ticketBits-1
	if most > 1<<ticketBits {
		p.mask = 1<<wideTicketBits - 1
	}
	p.random.Seed(seed, stream)
}

// room reports whether a record can be taken.
func (p *pool[T]) room() bool { return len(p.free) > 0 || len(p.last) < p.most }

// under returns how many records are in use.
func (p *pool[T]) under() int { return len(p.last) - len(p.free) }

// used yields the records in use, by place.
func (p *pool[T]) used(yield func(*T) bool) {
	for place, r := range p.all {
		if p.last[place]&freeTicket == 0 && !yield(r) {
			return
		}
	}
}

// take returns a record and its new ticket; there must be room. The record is the last one given
// back, with its content, or a new one.
func (p *pool[T]) take() (*T, uint32) {
	if len(p.free) == 0 {
		p.free = append(p.free, uint16(len(p.last)))
		p.last = append(p.last, uint32(p.random.Uint64())&^p.mask|uint32(len(p.last)))
		p.all = append(p.all, new(T))
	}
	place := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	ticket := (p.last[place] + p.mask + 1) &^ freeTicket
	if ticket == 0 {
		ticket = p.mask + 1
	}
	p.last[place] = ticket
	return p.all[place], ticket
}

// find returns the record in use with a ticket, or nil.
func (p *pool[T]) find(ticket uint32) *T {
	if place := ticket & p.mask; place < uint32(len(p.last)) && p.last[place] == ticket {
		return p.all[place]
	}
	return nil
}

// give frees the record of a ticket in use.
func (p *pool[T]) give(ticket uint32) {
	p.last[ticket&p.mask] |= freeTicket
	p.free = append(p.free, uint16(ticket&p.mask))
}

// links are the list links of a record that is in at most one list. They are its first field.
type links[T any] struct{ previous, next *T }

// list is an ordered list of records.
type list[T any] struct{ first, last *T }

// These do not compile if links are not the first field of the records that have them.
const (
	_ = -unsafe.Offsetof(tagSend{}.links)
	_ = -unsafe.Offsetof(envelope{}.links)
)

// chain returns the links of a record.
func chain[T any](r *T) *links[T] { return (*links[T])(unsafe.Pointer(r)) }

// add appends a record.
func (l *list[T]) add(r *T) {
	c := chain(r)
	c.previous, c.next = l.last, nil
	if l.last == nil {
		l.first = r
	} else {
		chain(l.last).next = r
	}
	l.last = r
}

// remove removes a record from its list.
func (l *list[T]) remove(r *T) {
	c := chain(r)
	if c.previous == nil {
		l.first = c.next
	} else {
		chain(c.previous).next = c.next
	}
	if c.next == nil {
		l.last = c.previous
	} else {
		chain(c.next).previous = c.previous
	}
	c.previous, c.next = nil, nil
}

// fifo is a queue. Its memory is reused.
type fifo[T any] struct {
	items []T
	head  int // items before it have been taken
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) add(v T) {
	if q.head > len(q.items)/2 && len(q.items) == cap(q.items) {
		q.items, q.head = append(q.items[:0], q.items[q.head:]...), 0
	}
	q.items = append(q.items, v)
}

// take returns the first item and removes it; there must be one.
func (q *fifo[T]) take() T {
	v := q.items[q.head]
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v
}
