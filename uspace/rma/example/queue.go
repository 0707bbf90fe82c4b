package main

// This file is a lock-free queue of numbers in the memory of one process, into which and from which
// all others put and take them by remote atomic operations. Its owner sleeps.
//
// The queue has places for 64 numbers, words of 64 bits behind two that count: how many numbers
// were put in, and how many were taken out. Number n is in place n mod 64 in round n/64. A place
// says which round it belongs to, whether it has a number, and which:
//
//	round 63:33, full 32, number 31:0
//
// Whoever puts a number in does so by one compare-and-swap of the place, from empty to full;
// whoever takes it, from full to empty of the next round. The counts only say where to look:
// whoever finds one that is behind, as the one who was to add to it is slow or dead, does it for
// him. So nobody waits for anybody, and as rounds never come again nobody mistakes a place for what
// it was.

import (
	"github.com/funet/funet/uspace/rma"
)

const (
	places     = 64
	putIn      = 0 // offsets of the two counts
	takenOut   = 8
	firstPlace = 16
	queueBytes = firstPlace + 8*places

	full = 1 << 32
)

type queue struct{ structure }

func (q queue) place(n uint64) rma.Target { return q.at.At(firstPlace + n%places*8) }

// look reads the count at an offset, and the place that it names.
func (q queue) look(count uint64) (n, place uint64, err error) {
	r, err := q.wait(q.end.Read(q.at.At(count)))
	if n = r.Uint64(); err == nil {
		r, err = q.wait(q.end.Read(q.place(n)))
	}
	return n, r.Uint64(), err
}

// exchange writes a number where another is, and returns whether it was.
func (q queue) exchange(t rma.Target, is, to uint64) (bool, error) {
	r, err := q.wait(q.end.CompareSwap(t, is, to))
	return err == nil && r.Uint64() == is, err
}

// change looks for the place that a count names, changes it, and adds one to the count. to says
// what the place becomes, from what it is and the round of the count; it returns false if the place
// does not permit it, for instance as the queue is full.
func (q queue) change(count uint64, to func(place, round uint64) (uint64, bool)) (was uint64, done bool, err error) {
	for {
		n, place, err := q.look(count)
		if err != nil {
			return 0, false, err
		}
		round := n / places
		next, possible := to(place, round)
		// somebody has done so, and not counted it
		ahead := place>>33 > round || count == putIn && place>>32 == round<<1|1
		if !possible && !ahead {
			return 0, false, nil
		}
		if !ahead {
			if done, err = q.exchange(q.place(n), place, next); err != nil {
				return 0, false, err
			}
		}
		if done || ahead {
			if _, err := q.exchange(q.at.At(count), n, n+1); err != nil || done {
				return place, done, err
			}
		}
	}
}

// put puts a number in; false: the queue is full.
func (q queue) put(v uint32) (bool, error) {
	_, done, err := q.change(putIn, func(place, round uint64) (uint64, bool) {
		return round<<33 | full | uint64(v), place == round<<33
	})
	return done, err
}

// take takes the oldest number out; false: the queue is empty.
func (q queue) take() (uint32, bool, error) {
	was, done, err := q.change(takenOut, func(place, round uint64) (uint64, bool) {
		return (round + 1) << 33, place>>32 == round<<1|1
	})
	return uint32(was), done, err
}
