//go:build libfabric

package main

// This file is atomic operations that cards do not have: logical ones, and swaps under a comparison
// other than equality. An element of one is a loop of compare-and-swap from here. The first swap
// guesses that the element is 0. If the guess is wrong, the answer is the next guess. The loop ends
// when a guess was right, or when the operation leaves the answered value as it is. So it takes
// effect at one moment, as the card's own operations do. Other writers can only delay it.

// #include "ofi.h"
import "C"

import (
	"encoding/binary"
	"math"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/rma"
)

// looped is the state of an operation that takes a loop for each of its elements.
type looped struct {
	op                uint64
	element, bits     arctic.Element
	target            rma.Target // of the first element
	operands, compare [8 * C.ELEMENTS]byte
	guesses           [C.ELEMENTS]uint64
}

// loops reports whether an operation is one of these.
func loops(op uint64) bool {
	switch op {
	case C.FI_LOR, C.FI_LAND, C.FI_LXOR, C.FI_CSWAP_NE, C.FI_CSWAP_LE, C.FI_CSWAP_LT, C.FI_CSWAP_GE, C.FI_CSWAP_GT:
		return true
	}
	return false
}

// startLoops starts the loops of an operation.
func (o *operation) startLoops(x *C.struct_ofi_remote, operands, compare []byte) error {
	l := &looped{op: uint64(x.op), element: elements[uint64(x._type)], target: target(x, 0)}
	l.bits = bits[l.element.Size()]
	copy(l.operands[:], operands)
	copy(l.compare[:], compare)
	o.loops = l
	for at := 0; at < len(operands); at += l.element.Size() {
		if err := l.try(o, at, 0); err != nil {
			return err
		}
	}
	return nil
}

// try swaps the element at a place of the operands if it is what the guess says.
func (l *looped) try(o *operation, at int, guess uint64) error {
	size := l.element.Size()
	l.guesses[at/size] = guess
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], guess)
	binary.LittleEndian.PutUint64(b[size:], l.value(at, guess))
	id, err := the.one.Apply(l.target.At(uint64(at)), arctic.RemoteCompareSwap, l.bits, b[:2*size], size, rma.With{})
	return o.begun(id, at, err)
}

// answered takes the former value of an element, and goes on if the guess was wrong and the
// operation changes that value.
func (l *looped) answered(o *operation, at int, answer []byte) error {
	size := l.element.Size()
	old := read(answer, size)
	if old == l.guesses[at/size] || old == l.value(at, old) {
		return nil
	}
	return l.try(o, at, old)
}

// read returns the bits of an element.
func read(b []byte, size int) uint64 {
	var all [8]byte
	copy(all[:], b[:size])
	return binary.LittleEndian.Uint64(all[:])
}

// value returns what the operation makes of the value old of an element.
func (l *looped) value(at int, old uint64) uint64 {
	size := l.element.Size()
	operand, compare := read(l.operands[at:], size), read(l.compare[at:], size)
	swaps := false
	switch l.op {
	case C.FI_LOR:
		return l.truth(l.true(old) || l.true(operand))
	case C.FI_LAND:
		return l.truth(l.true(old) && l.true(operand))
	case C.FI_LXOR:
		return l.truth(l.true(old) != l.true(operand))
	case C.FI_CSWAP_NE:
		swaps = !(l.most(compare, old) && l.most(old, compare))
	case C.FI_CSWAP_LE:
		swaps = l.most(compare, old)
	case C.FI_CSWAP_LT:
		swaps = l.most(compare, old) && !l.most(old, compare)
	case C.FI_CSWAP_GE:
		swaps = l.most(old, compare)
	case C.FI_CSWAP_GT:
		swaps = l.most(old, compare) && !l.most(compare, old)
	}
	if swaps {
		return operand
	}
	return old
}

// true reports whether a value is not 0. -0.0 is 0.
func (l *looped) true(v uint64) bool { return !(l.most(v, 0) && l.most(0, v)) }

// truth returns 0 or 1 as an element.
func (l *looped) truth(v bool) uint64 {
	switch {
	case !v:
		return 0
	case l.element == arctic.Float32:
		return uint64(math.Float32bits(1))
	case l.element == arctic.Float64:
		return math.Float64bits(1)
	}
	return 1
}

// most reports whether a is at most b. Nothing is at most NaN, nor is NaN at most anything.
func (l *looped) most(a, b uint64) bool {
	shift := 64 - 8*l.element.Size()
	switch l.element {
	case arctic.Float32:
		return math.Float32frombits(uint32(a)) <= math.Float32frombits(uint32(b))
	case arctic.Float64:
		return math.Float64frombits(a) <= math.Float64frombits(b)
	case arctic.Int8, arctic.Int16, arctic.Int32, arctic.Int64:
		return int64(a<<shift) <= int64(b<<shift) // the sign is the highest bit
	}
	return a <= b
}
