package main

// This file has C answer empty polls.

// #include "gate.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

var _ [C.sizeof_struct_libfunet_watch]byte = [unsafe.Sizeof(funi.Watch{})]byte{}

// still is what C answers empty polls of an endpoint from: a struct libfunet_still, which is never
// freed. Without membarrier(2) every poll crosses.
type still struct {
	watch   *funi.Watch
	budget  *uint32
	skipped *uint32
	recall  func()
}

// watched takes the structure of its index, for an endpoint that is new.
func (e *endpoint) watched() {
	s, c := &e.still, C.libfunet_still(C.uint32_t(index(e.handle)))
	e.inbox.unread = (*uint32)(unsafe.Pointer(&c.unread))
	atomic.StoreUint32(e.inbox.unread, 0)
	if C.libfunet_can_recall() == 0 {
		return
	}
	s.watch = (*funi.Watch)(unsafe.Pointer(&c.watch))
	s.budget = (*uint32)(unsafe.Pointer(&c.budget))
	s.skipped = (*uint32)(unsafe.Pointer(&c.skipped))
	s.recall = func() { C.libfunet_recall(c) }
	atomic.StoreUint32(s.skipped, 0)
}

// poll is a poll of the program that has crossed: it lets the card run and handles messages. If
// nothing has come, C answers the next ones.
func (e *endpoint) poll() (n int, err error) {
	s := &e.still
	if s.watch == nil {
		return e.Poll()
	}
	if skipped := atomic.SwapUint32(s.skipped, 0); skipped > 0 {
		e.Skipped(int(min(skipped, C.MOST_SKIPPED)))
	}
	if n, err = e.Poll(); n == 0 && err == nil && e.Watch(s.watch, s.recall) {
		atomic.StoreUint32(s.budget, C.MOST_SKIPPED)
	}
	return n, err
}

// crossed has the next poll cross, since the program has called something that changes what a poll
// would find.
func (e *endpoint) crossed() {
	if e.still.watch != nil {
		atomic.StoreUint32(e.still.budget, 0)
	}
}
