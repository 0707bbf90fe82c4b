package chaos

// This file looks for an order of the operations on a word that explains all their answers (Wing
// and Gong, 1993; Lowe, 2017). Each operation that was carried out is in the order once, and
// answers what the one before it has left. An operation of unknown outcome may be in it or not. No
// operation comes after one that was issued when it was already complete. The order ends with what
// memory holds.
//
// The search places operation after operation, and goes back where it cannot continue. It remembers
// the states from which it found nothing: which operations were placed, and what the word held. Few
// operations of unknown outcome lie between two known ones. So the search first looks for orders
// with one of them in a row, then with 2, 4 and so on. When it has looked everywhere there is no
// order. When it has come to mostStates states the word is undecided, and counted so.

import "math/rand/v2"

// mostStates bounds the states that the search for an order visits.
const mostStates = 1 << 19

type state struct {
	placed uint64 // the exclusive or of numbers of the operations
	holds  uint64
}

// search looks for an order.
type search struct {
	known, unknown []*operation // nil: placed
	marks          map[*operation]uint64
	wanted         map[uint64]int // how many known operations, not yet placed, found this value
	left           int            // known operations that are not placed
	ends           bool           // the word must hold the last number at the end
	last           uint64
	bound          int
	seen           map[state]int // and how many more unknown ones were allowed in a row there
	best           int           // the fewest known ones that were left
	bestHolds      uint64
}

type order uint8

const (
	impossible order = iota
	possible
	undecided
)

// linearizable reports whether there is an order of operations on a word that holds 0 at first and,
// if ends is true, last at the end. It also returns how many known operations fit no order that was
// found, and what the word holds before them.
func linearizable(known, unknown []*operation, ends bool, last uint64, bound int) (o order, left int, holds uint64) {
	x := rand.New(rand.NewPCG(1, uint64(len(known))))
	s := &search{known: known, marks: map[*operation]uint64{}, wanted: map[uint64]int{}, left: len(known), ends: ends,
		last: last, bound: bound, best: len(known) + 1}
	for _, u := range unknown {
		if u.mayChange() {
			s.unknown = append(s.unknown, u)
		}
	}
	for _, list := range [][]*operation{known, s.unknown} {
		for _, u := range list {
			s.marks[u] = x.Uint64()
		}
	}
	for _, k := range known {
		s.wanted[k.was]++
	}
	for row := 1; ; row *= 2 {
		row = min(row, len(s.unknown))
		s.seen = map[state]int{}
		switch s.from(state{}, row, row) {
		case possible:
			return possible, 0, last
		case undecided:
			return undecided, s.best, s.bestHolds
		}
		if row == len(s.unknown) {
			return impossible, s.best, s.bestHolds
		}
	}
}

// mayChange reports whether an operation changes the word if it finds the right number there.
func (o *operation) mayChange() bool { return o.after(o.a) != o.a || o.after(o.a+1) != o.a+1 }

// from continues the search at a state. row is how many unknown operations may be in a row, and
// left how many of these are left.
func (s *search) from(at state, left, row int) order { //nolint:unparam // left begins with row
	if s.left < s.best {
		s.best, s.bestHolds = s.left, at.holds
	}
	if s.left == 0 && (!s.ends || at.holds == s.last) {
		return possible
	}
	if before, ok := s.seen[at]; ok && before >= left {
		return impossible
	}
	if s.bound--; s.bound < 0 {
		return undecided
	}
	s.seen[at] = left
	// the end of a known operation that is not placed: what was issued later is not next
	first := int64(1<<63 - 1)
	for _, o := range s.known {
		if o != nil {
			first = min(first, o.ended)
		}
	}
	// those that leave the word as it is first: where they fit they do no harm, so nothing else
	// need be tried
	for pass := range 2 {
		for i, o := range s.known {
			if s.wanted[at.holds] == 0 {
				break
			}
			if o == nil || o.was != at.holds || o.begun > first || (o.becomes() == o.was) != (pass == 0) {
				continue
			}
			s.known[i] = nil
			s.left--
			s.wanted[o.was]--
			found := s.from(state{at.placed ^ s.marks[o], o.becomes()}, row, row)
			s.known[i] = o
			s.left++
			s.wanted[o.was]++
			if found != impossible || pass == 0 {
				return found
			}
		}
	}
	if left == 0 {
		return impossible
	}
	for i, o := range s.unknown {
		if o == nil || o.begun > first {
			continue
		}
		to := o.after(at.holds)
		if to == at.holds || left == 1 && s.wanted[to] == 0 && !(s.left == 0 && to == s.last) {
			continue
		}
		s.unknown[i] = nil
		found := s.from(state{at.placed ^ s.marks[o], to}, left-1, row)
		s.unknown[i] = o
		if found != impossible {
			return found
		}
	}
	return impossible
}
