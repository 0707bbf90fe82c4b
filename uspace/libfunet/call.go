package main

// This file is calls.

// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/funet/funet/uspace/funet"
)

// calls are the calls, sends and receives of an endpoint that were begun and neither finished nor
// abandoned.
type calls struct {
	mu      sync.Mutex
	pending map[uintptr]*funet.Pending
}

// callSerial numbers the calls of all endpoints, so that no handle comes twice.
var callSerial atomic.Uintptr

// put gives a call a handle, which has the index of the endpoint's.
func (c *calls) put(index uint32, p *funet.Pending) uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[uintptr]*funet.Pending{}
	}
	handle := (callSerial.Add(1)<<C.INDEX_BITS|uintptr(index))<<C.KIND_BITS | C.KIND_CALL
	c.pending[handle] = p
	return handle
}

// findCall returns the call of a handle, and its endpoint.
func findCall(handle uintptr) (*endpoint, *funet.Pending, error) {
	if broken.Load() {
		return nil, nil, errBroken
	}
	if x := endpoints.entries[index(handle)].Load(); x != nil {
		c := &x.value.calls
		c.mu.Lock()
		defer c.mu.Unlock()
		if p := c.pending[handle]; p != nil {
			return x.value, p, nil
		}
	}
	return nil, nil, fmt.Errorf("no such call: %w", errHandle)
}

func (c *calls) remove(handle uintptr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, handle)
}

//export libfunet_call
func libfunet_call(handle uintptr, node, number uint32, bytes, length, answer, room, answered uintptr,
	milliseconds int64, cancel uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	b, err := memory(bytes, length)
	if err != nil {
		return tell(fmt.Errorf("the request: %w", err))
	}
	a, err := memory(answer, room)
	if err != nil {
		return tell(fmt.Errorf("the answer: %w", err))
	}
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err != nil {
		return tell(err)
	}
	got, err := e.AppendCall(ctx, a[:0:len(a)], int(node), number, b)
	if err == nil {
		err = deliver(got, len(a), answered)
	}
	return tell(err)
}

// deliver stores the length of an answer, and returns errRoom if it is longer than the memory.
func deliver(got []byte, room int, answered uintptr) error {
	if err := store(answered, uintptr(len(got))); err != nil {
		return err
	}
	if len(got) > room {
		return fmt.Errorf("an answer of %d bytes, and room for %d: %w", len(got), room, errRoom)
	}
	return nil
}

//export libfunet_start_call
func libfunet_start_call(handle uintptr, node, number uint32, bytes, length, call uintptr) C.int {
	return begin(handle, bytes, length, call, -1, 0,
		func(_ context.Context, e *endpoint, b []byte) (*funet.Pending, error) {
			return e.Go(int(node), number, b), nil
		})
}

//export libfunet_finish
func libfunet_finish(call, answer, room, answered uintptr, milliseconds int64, cancel uintptr) (code C.int) {
	defer caught(&code)
	a, err := memory(answer, room)
	if err != nil {
		return tell(fmt.Errorf("the answer: %w", err))
	}
	return finish(call, milliseconds, cancel, func(_ *funet.Pending, got []byte, err error) error {
		if err == nil {
			copy(a, got)
			err = deliver(got, len(a), answered)
		}
		return err
	})
}

// finish waits for the end of what was begun, and calls f with the outcome.
func finish(handle uintptr, milliseconds int64, cancel uintptr,
	f func(p *funet.Pending, answer []byte, err error) error) C.int {
	e, p, err := findCall(handle)
	if err != nil {
		return tell(err)
	}
	e.crossed()
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err != nil {
		return tell(err)
	}
	got, err := p.Wait(ctx)
	if err != nil && ctx.Err() != nil && e.Err() == nil && errors.Is(err, context.Cause(ctx)) {
		return tell(err) // it goes on
	}
	e.calls.remove(handle)
	return tell(f(p, got, err))
}

//export libfunet_abandon
func libfunet_abandon(call uintptr) (code C.int) {
	defer caught(&code)
	e, p, err := findCall(call)
	if err == nil {
		p.Cancel()
		e.calls.remove(call)
	}
	return tell(err)
}
