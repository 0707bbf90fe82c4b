// This file has a stack of free frame addresses, for users that have no free list of their own.

package xdp

// Allocator hands out the frames of a UMEM. The frame returned last goes first, because it is
// likely still in the cache. An Allocator belongs to one goroutine.
type Allocator struct {
	free []uint64
	mask uint64
	size uint64
}

// NewAllocator returns an allocator of n frames of u, counted from frame first. Several allocators
// may divide one UMEM. Frames beyond the end of u are left out.
func NewAllocator(u *UMEM, first, n uint32) *Allocator {
	count := u.config.FrameCount
	first = min(first, count)
	n = min(n, count-first)
	a := &Allocator{free: make([]uint64, n), mask: u.mask, size: uint64(count) * uint64(u.config.FrameSize)}
	for i := range a.free {
		a.free[i] = u.Addr(first + n - 1 - uint32(i)) // lowest address on top
	}
	return a
}

// Get takes a frame and returns its address, or false when no frame is free.
func (a *Allocator) Get() (addr uint64, ok bool) {
	if len(a.free) == 0 {
		return 0, false
	}
	addr = a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	return addr, true
}

// Put returns the frame that addr lies in, at any place in the frame. It refuses (false) an address
// outside the UMEM, and a frame too many. It does not notice a frame that is returned twice while
// others are out.
func (a *Allocator) Put(addr uint64) bool {
	if addr >= a.size || len(a.free) == cap(a.free) {
		return false
	}
	a.free = append(a.free, addr&^a.mask)
	return true
}

// Len returns the number of free frames.
func (a *Allocator) Len() int { return len(a.free) }
