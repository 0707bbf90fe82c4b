package main

// This file is the tables of handles: which endpoint, call or cancellation a number stands for.

// #include "gate.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/funet/funet/uspace/funet"
)

// errHandle reports a handle that stands for nothing.
var errHandle = errors.New("funet: the handle was closed, or is none")

// errFull reports that a table of handles is full.
var errFull = errors.New("funet: too many handles; close some")

// errBroken reports that the library has panicked. It may hold locks, so nothing of it works.
var errBroken = errors.New("funet: the library has failed before, and cannot be used any more")

// broken is set by the first panic.
var broken atomic.Bool

// indices is the number of entries of a table.
const indices = 1 << C.INDEX_BITS

// table gives values handles: a kind, an index, and a serial number that no other handle has had.
type table[T any] struct {
	kind    uintptr
	found   func(T)    // is called with what find returns; nil: nothing is
	mu      sync.Mutex // of put and remove
	serial  uintptr
	entries [indices]atomic.Pointer[entry[T]]
}

type entry[T any] struct {
	handle uintptr
	value  T
}

var (
	endpoints = table[*endpoint]{kind: C.KIND_ENDPOINT, found: (*endpoint).crossed}
	cancels   = table[*cancellation]{kind: C.KIND_CANCEL}
)

// index returns a handle's place in its table.
func index(handle uintptr) uint32 { return uint32(handle >> C.KIND_BITS & (indices - 1)) }

// put gives a value a handle, or 0 if the table is full.
func (t *table[T]) put(v T) uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.entries {
		if t.entries[i].Load() == nil {
			t.serial++
			handle := (t.serial<<C.INDEX_BITS|uintptr(i))<<C.KIND_BITS | t.kind
			t.entries[i].Store(&entry[T]{handle, v})
			return handle
		}
	}
	return 0
}

// find returns the value of a handle.
func (t *table[T]) find(handle uintptr) (v T, err error) {
	if broken.Load() {
		return v, errBroken
	}
	if x := t.entries[index(handle)].Load(); x != nil && x.handle == handle {
		if t.found != nil {
			t.found(x.value)
		}
		return x.value, nil
	}
	return v, errHandle
}

// remove ends a handle.
func (t *table[T]) remove(handle uintptr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.entries[index(handle)].Load(); x != nil && x.handle == handle {
		t.entries[index(handle)].Store(nil)
	}
}

// removeAll ends the handles of some values.
func (t *table[T]) removeAll(of func(T) bool) {
	for i := range t.entries {
		if x := t.entries[i].Load(); x != nil && of(x.value) {
			t.remove(x.handle)
		}
	}
}

// endpoint is what a struct funet of C stands for.
type endpoint struct {
	*funet.Endpoint
	handle  uintptr
	inbox   inbox
	still   still
	running []running // the handlers that run, the innermost last
	calls   calls
	windows windows
}

// member refuses a number that no node has.
func (e *endpoint) member(node uint32) error {
	if int(node) >= e.Nodes() {
		return fmt.Errorf("node %d: %w", node, funet.ErrNode)
	}
	return nil
}
