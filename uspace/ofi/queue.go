//go:build libfabric

package main

// This file writes completions: entries of completion queues, and counters.

// #include "ofi.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/am"
)

// queue is a completion queue. Completions beyond its ring wait in the backlog. While there is one,
// operations of its endpoints return -FI_EAGAIN; so it holds at most what was under way.
type queue struct {
	cq      *C.struct_ofi_cq
	ring    []C.struct_ofi_entry
	backlog []C.struct_ofi_entry
	waiting atomic.Bool // the backlog is not empty
	// receives says that what others write with data is told here (process.crowded).
	receives bool
}

// wait notes whether the backlog is not empty. The lock is held.
func (q *queue) wait(waiting bool) {
	if q.waiting.Swap(waiting) == waiting || !q.receives {
		return
	}
	if waiting {
		the.crowded++
	} else {
		the.crowded--
	}
}

// receive notes that what others write with data is told here. The lock is held.
func (q *queue) receive() {
	if !q.receives && q.waiting.Load() {
		the.crowded++
	}
	q.receives = true
}

// word and long are words that C uses at the same time.
func word(p *C.uint32_t) *uint32 { return (*uint32)(unsafe.Pointer(p)) }
func long(p *C.uint64_t) *uint64 { return (*uint64)(unsafe.Pointer(p)) }

//export ofi_go_open_queue
func ofi_go_open_queue(cq uintptr) (code C.int) {
	defer caught(&code)
	c := pointer[C.struct_ofi_cq](cq)
	q := &queue{cq: c, ring: unsafe.Slice(c.ring, uint64(c.size))}
	for number := 1; number < len(the.queues); number++ {
		if the.queues[number].CompareAndSwap(nil, q) {
			return C.int(number)
		}
	}
	return -C.FI_EMFILE
}

//export ofi_go_close_queue
func ofi_go_close_queue(number uint32) {
	var code int32
	defer caught(&code)
	q := the.queues[number].Swap(nil)
	the.with(func(*am.Endpoint) {
		q.wait(false)
		for i := range q.backlog {
			C.free(unsafe.Pointer(pointer[C.char](uintptr(q.backlog[i].text))))
		}
	})
}

// queue returns the queue of a number, or nil.
func (p *process) queue(number uint32) *queue {
	if number >= uint32(len(p.queues)) {
		return nil
	}
	return p.queues[number].Load()
}

// some reports whether the program can read something.
func (q *queue) some() bool {
	return atomic.LoadUint64(long(&q.cq.head)) != atomic.LoadUint64(long(&q.cq.tail)) || q.waiting.Load()
}

// add writes an entry, or keeps it until there is room.
func (q *queue) add(x *C.struct_ofi_entry) {
	if len(q.backlog) > 0 || !q.write(x) {
		q.backlog = append(q.backlog, *x)
		q.wait(true)
	}
}

// write writes an entry if there is room.
func (q *queue) write(x *C.struct_ofi_entry) bool {
	head := uint64(q.cq.head)
	if head-atomic.LoadUint64(long(&q.cq.tail)) == uint64(len(q.ring)) {
		return false
	}
	q.ring[head&uint64(len(q.ring)-1)] = *x
	atomic.StoreUint64(long(&q.cq.head), head+1)
	return true
}

// drain moves the backlog of a queue into its ring, as far as there is room.
func (p *process) drain(number uint32) {
	if q := p.queue(number); q != nil && q.waiting.Load() {
		p.with(func(*am.Endpoint) { q.drain() })
	}
}

func (q *queue) drain() {
	n := 0
	for n < len(q.backlog) && q.write(&q.backlog[n]) {
		n++
	}
	q.backlog = append(q.backlog[:0], q.backlog[n:]...)
	q.wait(len(q.backlog) > 0)
}

// full reports whether an operation must wait until the program has read completions.
func (q *queue) full() bool {
	if q == nil || !q.waiting.Load() {
		return false
	}
	q.drain()
	return q.waiting.Load()
}

// count adds one to a counter, or to its errors; nil: there is no counter.
func count(c *C.struct_ofi_cntr, failed bool) {
	switch {
	case c == nil:
	case failed:
		atomic.AddUint64(long(&c.errors), 1)
	default:
		add(c, 1)
	}
}

// add adds to a counter; nil: there is no counter.
func add(c *C.struct_ofi_cntr, n uint64) {
	if c != nil && n > 0 {
		atomic.AddUint64(long(&c.value), n)
	}
}
