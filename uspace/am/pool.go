package am

// This file stores operations with tags: pools of records that are found by a number that travels,
// and lists of records.

// pool holds the records of one kind.
type pool[T any] struct {
	ids tickets
	all []*T // by place
}

// room reports whether a record can be taken.
func (p *pool[T]) room() bool { return p.ids.room(MaxTagged) }

// take returns a free record and its ticket; there must be room.
func (p *pool[T]) take() (*T, uint32) {
	ticket := p.ids.take()
	place := int(ticket & ticketMask)
	if place == len(p.all) {
		p.all = append(p.all, new(T))
	}
	return p.all[place], ticket
}

// give frees a record.
func (p *pool[T]) give(o *operation) {
	o.state = opFree
	p.ids.give(o.ticket)
}

// find returns the record in use with a ticket, or nil.
func (p *pool[T]) find(ticket uint32) *T {
	if place, ok := p.ids.find(ticket); ok {
		return p.all[place]
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
