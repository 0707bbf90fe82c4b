package am

// This file stores operations with tags: pools of records that are found by a number that travels,
// and lists of records.

import "math/rand/v2"

// pool holds the records of one kind. Like a call, a record has a place and a number that changes
// when it is reused.
type pool[T any] struct {
	all  []*T
	free []uint16
}

// record is the part of a record that its pool needs.
type record interface{ op() *operation }

func (o *operation) op() *operation { return o }

// id is the place, 12 bits, and the number, 20 bits.
func (o *operation) id() ID { return ID(o.word()) }

func (o *operation) word() uint32 { return o.number | uint32(o.place) }

// used returns how many records are in use.
func (p *pool[T]) used() int { return len(p.all) - len(p.free) }

// room reports whether a record can be taken.
func (p *pool[T]) room() bool { return len(p.free) > 0 || len(p.all) < MaxTagged }

// take returns a free record; there must be room.
func (p *pool[T]) take(random *rand.PCG) *T {
	if len(p.free) == 0 {
		r := new(T)
		o := any(r).(record).op()
		o.place, o.number = uint16(len(p.all)), uint32(random.Uint64())&^ticketMask
		p.all = append(p.all, r)
		p.free = append(p.free, o.place)
	}
	r := p.all[p.free[len(p.free)-1]]
	p.free = p.free[:len(p.free)-1]
	any(r).(record).op().number += 1 << ticketBits
	return r
}

// give frees a record.
func (p *pool[T]) give(place uint16) {
	any(p.all[place]).(record).op().state = opFree
	p.free = append(p.free, place)
}

// find returns the record in use with a number, or nil.
func (p *pool[T]) find(id uint32) *T {
	if place := id & ticketMask; place < uint32(len(p.all)) {
		r := p.all[place]
		if o := any(r).(record).op(); o.state != opFree && o.number == id&^ticketMask {
			return r
		}
	}
	return nil
}

// links are the list links of a record that is in at most one list.
type links[T any] struct{ previous, next *T }

func (l *links[T]) chain() *links[T] { return l }

// list is an ordered list of records.
type list[T any] struct{ first, last *T }

// linked is the part of a record that its list needs.
type linked[T any] interface{ chain() *links[T] }

func chain[T any](r *T) *links[T] { return any(r).(linked[T]).chain() }

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
