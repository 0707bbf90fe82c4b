package engine

// This file gives out numbers: of doorbells, and of owners of lines. The lowest free number comes
// first, so that tables by number stay as short as they can be.

import "math/bits"

// numbers is a set of numbers in use, from 0.
type numbers struct {
	used []uint64 // bit i%64 of used[i/64]
	full int      // all words before it are full
}

// take returns the lowest number that is not in use.
func (n *numbers) take() uint32 {
	for n.full < len(n.used) && n.used[n.full] == 1<<64-1 {
		n.full++
	}
	if n.full == len(n.used) {
		n.used = append(n.used, 0)
	}
	bit := bits.TrailingZeros64(^n.used[n.full])
	n.used[n.full] |= 1 << bit
	return uint32(n.full*64 + bit)
}

// takeFrom returns the lowest number from first on, a multiple of 64, that is not in use.
func (n *numbers) takeFrom(first uint32) uint32 {
	i := int(first / 64)
	n.used = append(n.used, make([]uint64, max(0, i-len(n.used)))...)
	for i < len(n.used) && n.used[i] == 1<<64-1 {
		i++
	}
	if i == len(n.used) {
		n.used = append(n.used, 0)
	}
	bit := bits.TrailingZeros64(^n.used[i])
	n.used[i] |= 1 << bit
	return uint32(i*64 + bit)
}

// give takes a number back.
func (n *numbers) give(i uint32) {
	n.used[i/64] &^= 1 << (i % 64)
	n.full = min(n.full, int(i/64))
}
