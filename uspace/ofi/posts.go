//go:build libfabric

package main

// This file takes the receives whose posting did not cross (msg.c). That makes a difference only if
// a message waits for its receive, or if a thread sleeps that may have to be told of it. Then
// receives have to cross: the ring is closed.

// #include "ofi.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/funet/funet/uspace/am"
)

// posts is the ring. The lock of the endpoint guards its tail.
var posts = &C.ofi_posts

// posted reports whether receives wait to be taken. Any goroutine may call it.
func posted() bool {
	return atomic.LoadUint64(long(&posts.head)) != atomic.LoadUint64(long(&posts.tail))
}

//export ofi_go_take_posts
func ofi_go_take_posts() {
	var code int32
	defer caught(&code)
	the.with(func(a *am.Endpoint) { the.takePosts(a) })
}

// takePosts takes all receives, and reports whether there were any. One for which there is no room
// stays, with those behind it; later calls try again. Without active messages all fail. The lock is
// held.
func (p *process) takePosts(a *am.Endpoint) (took bool) {
	for tail := uint64(posts.tail); tail != atomic.LoadUint64(long(&posts.head)); took = true {
		if x := &posts.ring[tail%C.POSTS]; x.core != 0 {
			e := p.of(uintptr(x.core))
			code := C.ssize_t(-C.FI_ECONNABORTED)
			if a != nil {
				code = e.receive(a, &x.operation)
			}
			if p.stuck = code == -C.FI_EAGAIN; p.stuck {
				return took
			}
			if code != 0 {
				e.refuse(&x.operation, C.int32_t(-code))
			}
		}
		tail++
		atomic.StoreUint64(long(&posts.tail), tail)
	}
	return took
}

// closePosts makes receives cross, and takes those that have not. The lock is held.
func (p *process) closePosts(a *am.Endpoint) (took bool) {
	if atomic.LoadUint32(word(&posts.closed)) == 0 {
		atomic.StoreUint32(word(&posts.closed), 1)
	}
	return p.takePosts(a)
}

// openPosts lets receives be left if that makes no difference, and otherwise makes them cross. They
// also cross, to be refused, while there is no room for those before. The lock is held.
func (p *process) openPosts(a *am.Endpoint) {
	closed := uint32(0)
	_, _, unreceived := a.TaggedUnderWay()
	if p.armed.Load() || p.waiting.Load() > 0 || unreceived || p.stuck {
		closed = 1
	}
	if atomic.LoadUint32(word(&posts.closed)) != closed {
		atomic.StoreUint32(word(&posts.closed), closed)
	}
}

// refuse completes a receive that failed after its posting.
func (e *endpoint) refuse(x *C.struct_ofi_operation, code C.int32_t) {
	o := the.take(e)
	defer the.give(o)
	o.fill(x)
	o.send = false
	entry := o.entry()
	entry.error, entry.reason = code, code
	count(e.core.counters[C.RECEIVES], true)
	if e.rx != nil {
		e.rx.add(&entry)
	}
}

// forgetPosts drops the receives of an endpoint that is closed. The lock is held.
func (e *endpoint) forgetPosts() {
	for at := uint64(posts.tail); at != atomic.LoadUint64(long(&posts.head)); at++ {
		if x := &posts.ring[at%C.POSTS]; uintptr(x.core) == uintptr(unsafe.Pointer(e.core)) {
			x.core = 0
		}
	}
}
