package am

// This file names the records of a table: calls, messages, receives and grants that are under way.

import "math/rand/v2"

const (
	ticketBits = 12
	ticketMask = 1<<ticketBits - 1
	freeTicket = 1 << 31
)

// tickets names the records of a table. A ticket is a record's place, 12 bits, and a number of 19
// bits that changes when the place is used again. It is never 0, and travels in messages. So a late
// message about a record that is gone names none. The numbers begin at random, because a process
// that is started anew uses the places of its predecessor.
type tickets struct {
	last   []uint32 // by place: its ticket, with freeTicket while the place is not in use
	free   []uint16 // places; the last one is used next
	random rand.PCG
}

// room reports whether a table of at most the given number of records has room.
func (t *tickets) room(most int) bool { return len(t.free) > 0 || len(t.last) < most }

// under returns how many records are in use.
func (t *tickets) under() int { return len(t.last) - len(t.free) }

// take returns a new ticket; there must be room. The place is the last one used, or a new one.
func (t *tickets) take() uint32 {
	if len(t.free) == 0 {
		t.free = append(t.free, uint16(len(t.last)))
		t.last = append(t.last, uint32(t.random.Uint64())&^ticketMask|uint32(len(t.last)))
	}
	place := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	ticket := (t.last[place] + 1<<ticketBits) &^ freeTicket
	if ticket == 0 {
		ticket = 1 << ticketBits
	}
	t.last[place] = ticket
	return ticket
}

// find returns the place of a ticket in use; false: the ticket is not in use.
func (t *tickets) find(ticket uint32) (place uint32, ok bool) {
	place = ticket & ticketMask
	return place, place < uint32(len(t.last)) && t.last[place] == ticket
}

// give frees a ticket that is in use.
func (t *tickets) give(ticket uint32) {
	t.last[ticket&ticketMask] |= freeTicket
	t.free = append(t.free, uint16(ticket&ticketMask))
}
