package rats

// This file implements the memory that a manager hands out (HPL-95-86, section 3.2: malloc and free
// of pinned memory). It is a buddy system (Knuth, The Art of Computer Programming, volume 1,
// section 2.5). The length of every block is a power of two, and its position a multiple of its
// length. Both calls take at most one step for each power of two, and allocate nothing.

import (
	"fmt"
	"math/bits"
	"unsafe"
)

const (
	// leastBlock is the shortest block, in bytes.
	leastBlock = 256
	leastShift = 8
	maxOrders  = 32 - leastShift
	none       = -1
	inUse      = 0x80 // in heap.order: the block is handed out
	inside     = 0x7f // in heap.order: no block begins here
)

// heap is memory of which a part is free.
type heap struct {
	memory []byte
	// first free block of leastBlock<<order bytes, as a number of least blocks; none
	free   [maxOrders]int32
	order  []uint8 // of the block that begins there
	next   []int32 // of free blocks
	last   []int32
	unused int // bytes
}

// fill makes all of memory free, except a rest shorter than the least block.
func (h *heap) fill(memory []byte) {
	n := len(memory) / leastBlock
	h.memory, h.order, h.next, h.last = memory, make([]uint8, n), make([]int32, n), make([]int32, n)
	for i := range h.free {
		h.free[i] = none
	}
	for i := range h.order {
		h.order[i] = inside
	}
	for at := 0; at < n; {
		order := bits.Len(uint(n-at)) - 1
		if at > 0 {
			order = min(order, bits.TrailingZeros(uint(at)))
		}
		order = min(order, maxOrders-1)
		h.push(int32(at), order)
		at += 1 << order
	}
	h.unused = n * leastBlock
}

func (h *heap) push(at int32, order int) {
	first := h.free[order]
	h.order[at], h.next[at], h.last[at] = uint8(order), first, none
	if first != none {
		h.last[first] = at
	}
	h.free[order] = at
}

func (h *heap) remove(at int32, order int) {
	next, last := h.next[at], h.last[at]
	if next != none {
		h.last[next] = last
	}
	if last != none {
		h.next[last] = next
	} else {
		h.free[order] = next
	}
	h.order[at] = inside
}

// orderOf returns the order of blocks for the given number of bytes.
func orderOf(bytes int) int {
	return bits.Len(uint(max(bytes, 1)-1) >> leastShift)
}

// alloc returns a block with room for the bytes, or nil.
func (h *heap) alloc(bytes int) []byte {
	order := orderOf(bytes)
	from := order
	for ; from < maxOrders && h.free[from] == none; from++ {
	}
	if from >= maxOrders {
		return nil
	}
	at := h.free[from]
	h.remove(at, from)
	for ; from > order; from-- {
		h.push(at+1<<(from-1), from-1)
	}
	h.order[at] = uint8(order) | inUse
	size := leastBlock << order
	h.unused -= size
	start := int(at) * leastBlock
	return h.memory[start : start+bytes : start+size]
}

// block returns the number of the least block at the start of b, and whether b begins at one.
func (h *heap) block(b []byte) (at int32, ok bool) {
	offset := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(h.memory)))
	if offset >= uintptr(len(h.memory)) || offset%leastBlock != 0 || int(offset>>leastShift) >= len(h.order) {
		return 0, false
	}
	return int32(offset >> leastShift), true
}

// allocated reports whether b is the beginning of a block that is handed out.
func (h *heap) allocated(b []byte) bool {
	at, ok := h.block(b)
	return ok && h.order[at]&inUse != 0 && len(b) > 0 && len(b) <= leastBlock<<(h.order[at]&^inUse)
}

// release takes back a block that alloc returned.
func (h *heap) release(block []byte) {
	at, ok := h.block(block)
	if !ok || h.order[at]&inUse == 0 {
		panic(fmt.Sprintf("rats: memory of %d bytes is freed that was not allocated", len(block)))
	}
	order := int(h.order[at] &^ inUse)
	h.unused += leastBlock << order
	for h.order[at] = inside; order < maxOrders-1; order++ {
		buddy := at ^ 1<<order
		if int(buddy) >= len(h.order) || h.order[buddy] != uint8(order) {
			break
		}
		h.remove(buddy, order)
		at = min(at, buddy)
	}
	h.push(at, order)
}
