package chaos

// This file assigns addresses of a segment to transfers that are under way.

import "slices"

// span is a range of addresses, and the number of the message that it belongs to.
type span struct {
	first, end uint32
	number     uint32
}

// arena is a range of addresses, parts of which are taken. It gives out the lowest free addresses
// first, so that an address is used again as soon as it is free.
type arena struct {
	first, end uint32
	seam       uint32 // no span that take returns lies across it
	taken      []span // in order of address
}

// take takes a number of bytes, a multiple of 16, for a message. It returns their address, or 0 if
// there is no such gap. For a size of 0 the address is never 0.
func (a *arena) take(size, number uint32) uint32 {
	size = max(size, 16)
	at := a.first
	for i := 0; ; i++ {
		if at < a.seam && at+size > a.seam {
			at = a.seam
		}
		gap := a.end
		if i < len(a.taken) {
			gap = min(gap, a.taken[i].first)
		}
		if at+size <= gap {
			a.taken = slices.Insert(a.taken, i, span{at, at + size, number})
			return at
		}
		if i == len(a.taken) {
			return 0
		}
		at = max(at, a.taken[i].end)
	}
}

// takeAt takes the bytes at an address, which may reach beyond the arena, unless some
// of them are taken.
func (a *arena) takeAt(at, size, number uint32) bool {
	i := a.find(at)
	if i < len(a.taken) && a.taken[i].first < at+size {
		return false
	}
	a.taken = slices.Insert(a.taken, i, span{at, at + size, number})
	return true
}

// find returns the index of the first taken span that ends behind the address.
func (a *arena) find(at uint32) int {
	i, _ := slices.BinarySearchFunc(a.taken, at, func(s span, at uint32) int {
		if s.end <= at {
			return -1
		}
		return 1
	})
	return i
}

// give gives back the span that begins at an address, and returns it.
func (a *arena) give(at uint32) span {
	i := a.find(at)
	s := a.taken[i]
	a.taken = slices.Delete(a.taken, i, i+1)
	return s
}
