package main

// This file operates on windows of other nodes.

// #include "gate.h"
import "C"

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

// withs is a struct funet_with.
type withs struct {
	flags, zero uint32
	tag         uint64
	signal      target
	value       uint64
}

var _ [C.sizeof_struct_funet_with]byte = [unsafe.Sizeof(withs{})]byte{}

// withAt returns the With at an address; address 0: the zero value.
func withAt(address uintptr) (w rma.With, err error) {
	if address == 0 {
		return w, nil
	}
	a, err := array[withs](address, 1)
	if err != nil {
		return w, err
	}
	x := a[0]
	const signals = C.FUNET_SIGNAL | C.FUNET_SIGNAL_ADD
	if x.flags >= 2*C.FUNET_COUNT || x.flags&signals == signals {
		return w, fmt.Errorf("flags %#x: %w", x.flags, errArgument)
	}
	w = rma.With{Ack: x.flags&C.FUNET_ACK != 0, Silent: x.flags&C.FUNET_SILENT != 0,
		Ordered: x.flags&C.FUNET_ORDERED != 0, Notify: x.flags&C.FUNET_NOTIFY != 0, Tag: x.tag,
		Count: x.flags&C.FUNET_COUNT != 0}
	if x.flags&signals != 0 {
		t, err := x.signal.rma()
		if err != nil {
			return w, err
		}
		w.Signal = &rma.Signal{Target: t, Add: x.flags&C.FUNET_SIGNAL_ADD != 0, Value: x.value}
	}
	return w, nil
}

// issue begins an operation, and stores its ID.
func issue(handle, to, how, id uintptr, milliseconds int64, cancel uintptr,
	f func(r *rma.Endpoint, t rma.Target, w rma.With) (rma.ID, error)) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(to)
		if err != nil {
			return err
		}
		w, err := withAt(how)
		if err != nil {
			return err
		}
		var got rma.ID
		err = e.windows.Do(ctx, func(r *rma.Endpoint) (err error) {
			got, err = f(r, t, w)
			return err
		})
		if err != nil {
			return err
		}
		return store(id, uint32(got))
	})
}

//export libfunet_put
func libfunet_put(handle, to, bytes, length, how, id uintptr, milliseconds int64, cancel uintptr) C.int {
	return move(handle, to, bytes, length, how, id, milliseconds, cancel, (*rma.Endpoint).Put)
}

//export libfunet_get
func libfunet_get(handle, from, bytes, length, how, id uintptr, milliseconds int64, cancel uintptr) C.int {
	return move(handle, from, bytes, length, how, id, milliseconds, cancel, (*rma.Endpoint).Get)
}

// move begins a put or a get of memory of the program.
func move(handle, other, bytes, length, how, id uintptr, milliseconds int64, cancel uintptr,
	f func(*rma.Endpoint, rma.Target, []byte, rma.With) (rma.ID, error)) C.int {
	return issue(handle, other, how, id, milliseconds, cancel,
		func(r *rma.Endpoint, t rma.Target, w rma.With) (rma.ID, error) {
			b, err := memory(bytes, length)
			if err != nil {
				return 0, err
			}
			return f(r, t, b, w)
		})
}

// needs is how many operands an operation has for each number.
func needs(operation arctic.Operation) (int, error) {
	switch {
	case operation == arctic.RemoteRead:
		return 0, nil
	case operation == arctic.RemoteCompareSwap, operation == arctic.RemoteMaskedSwap:
		return 2, nil
	case operation >= arctic.RemoteWrite && operation < arctic.RemoteMaskedSwap:
		return 1, nil
	}
	return 0, fmt.Errorf("operation %d: %w; use an enum funet_operation", operation, errArgument)
}

//export libfunet_apply
func libfunet_apply(handle, to uintptr, operation, element uint32, count C.int, operands, how, id uintptr,
	milliseconds int64, cancel uintptr) C.int {
	return issue(handle, to, how, id, milliseconds, cancel,
		func(r *rma.Endpoint, t rma.Target, w rma.With) (rma.ID, error) {
			op, of := arctic.Operation(min(operation, 255)), arctic.Element(min(element, 255))
			n, err := needs(op)
			if err == nil && (count < 1 || count > arctic.MaxElements || of.Size() == 0) {
				err = fmt.Errorf("%d numbers of type %d: %w", count, element, errArgument)
			}
			if err != nil {
				return 0, err
			}
			bytes := int(count) * of.Size()
			b, err := memory(operands, uintptr(n*bytes))
			if err != nil {
				return 0, err
			}
			return r.Apply(t, op, of, b, bytes, w)
		})
}

//export libfunet_element
func libfunet_element(handle, to uintptr, operation uint32, first, second uint64, old uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(to)
		if err != nil {
			return err
		}
		op := arctic.Operation(operation)
		n, err := needs(op)
		if err != nil {
			return err
		}
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], first)
		binary.LittleEndian.PutUint64(b[8:], second)
		var id rma.ID
		err = e.windows.Do(ctx, func(r *rma.Endpoint) (err error) {
			id, err = r.Apply(t, op, arctic.Uint64, b[:8*n], 8, rma.With{})
			return err
		})
		if err != nil {
			return err
		}
		got, err := e.windows.Wait(ctx, id)
		if err != nil {
			return err
		}
		return store(old, got.Uint64())
	})
}

//export libfunet_complete
func libfunet_complete(handle uintptr, id uint32, answer, room, length uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		b, err := memory(answer, room)
		if err != nil {
			return err
		}
		got, err := e.windows.Wait(ctx, rma.ID(id))
		if err != nil {
			return err
		}
		if answer != 0 {
			copy(b, got.Answer[:min(got.Bytes, len(got.Answer))])
		}
		return store(length, uintptr(got.Bytes))
	})
}

//export libfunet_quiet
func libfunet_quiet(handle uintptr, milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		return e.windows.Quiet(ctx)
	})
}

//export libfunet_fence
func libfunet_fence(handle uintptr, node uint32, milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		if err := e.member(node); err != nil {
			return err
		}
		return e.windows.Do(ctx, func(r *rma.Endpoint) error { return r.Fence(uint16(node)) })
	})
}

// Pauses between two tries of a lock.
const (
	firstPause = 2 * time.Microsecond
	lastPause  = 512 * time.Microsecond
)

//export libfunet_lock
func libfunet_lock(handle, of uintptr, milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(of)
		if err != nil {
			return err
		}
		// Between two tries other threads have the endpoint, so that one of them may unlock.
		for pause := firstPause; ; pause = min(2*pause, lastPause) {
			if had, err := e.tryLock(ctx, t); had || err != nil {
				return err
			}
			if _, err := e.Poll(); err != nil {
				return err
			}
			time.Sleep(pause)
		}
	})
}

// tryLock takes a lock if it is free.
func (e *endpoint) tryLock(ctx context.Context, t rma.Target) (had bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("waiting for the lock of a window of node %d: %w", t.Node, context.Cause(ctx))
	}
	err = e.windows.Do(ctx, func(r *rma.Endpoint) (err error) {
		had, err = r.TryLock(t)
		return err
	})
	return had, err
}

//export libfunet_try_lock
func libfunet_try_lock(handle, of uintptr) C.int {
	had := false
	code := withWindows(handle, -1, 0, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(of)
		if err == nil {
			had, err = e.tryLock(ctx, t)
		}
		return err
	})
	if had {
		return 1
	}
	return code
}

//export libfunet_unlock
func libfunet_unlock(handle, of uintptr) C.int {
	return withWindows(handle, -1, 0, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(of)
		if err != nil {
			return err
		}
		return e.windows.Do(ctx, func(r *rma.Endpoint) error { return r.Unlock(t) })
	})
}

// short returns a number of 16 bits; greater ones are the greatest, which package rma refuses.
func short(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }

// next is a struct funet_next.
type next struct{ node, members uint32 }

//export libfunet_join
func libfunet_join(handle uintptr, chain uint32, first C.int, parent uint32, list uintptr, n C.int) C.int {
	return withWindows(handle, -1, 0, func(ctx context.Context, e *endpoint) error {
		c := funi.Chain{Number: short(chain), First: first != 0, Parent: short(parent)}
		if n < 0 || n > funi.MaxNext {
			return fmt.Errorf("%d next members: %w", n, rma.ErrChain)
		}
		if n > 0 {
			a, err := array[next](list, int(n))
			if err != nil {
				return err
			}
			for _, x := range a {
				c.Next = append(c.Next, funi.Next{Node: short(x.node), Members: short(x.members)})
			}
		}
		return e.windows.Do(ctx, func(r *rma.Endpoint) error { return r.Join(c) })
	})
}

//export libfunet_leave
func libfunet_leave(handle uintptr, chain uint32) C.int {
	return withWindows(handle, -1, 0, func(ctx context.Context, e *endpoint) error {
		return e.windows.Do(ctx, func(r *rma.Endpoint) error { return r.Leave(short(chain)) })
	})
}

// delivery is a struct funet_delivery.
type delivery struct{ delivered, failed, doubtful uint32 }

var (
	_ [C.sizeof_struct_funet_next]byte     = [unsafe.Sizeof(next{})]byte{}
	_ [C.sizeof_struct_funet_delivery]byte = [unsafe.Sizeof(delivery{})]byte{}
)

//export libfunet_multicast
func libfunet_multicast(handle uintptr, first, chain, members uint32, to, bytes, length, outcome uintptr,
	milliseconds int64, cancel uintptr) C.int {
	return withWindows(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		t, err := targetAt(to)
		if err != nil {
			return err
		}
		b, err := memory(bytes, length)
		if err != nil {
			return err
		}
		if err := e.member(first); err != nil {
			return err
		}
		m := funi.MulticastRequest{Chain: short(chain), Members: short(members), Put: true, Key: uint64(t.Key),
			Address: t.Address, Data: b}
		if !m.Valid() {
			return fmt.Errorf("%d members of chain %d, %d bytes: %w", members, chain, length, errArgument)
		}
		var id rma.ID
		err = e.windows.Do(ctx, func(r *rma.Endpoint) (err error) {
			id, err = r.StartMulticast(uint16(first), m)
			return err
		})
		if err != nil {
			return err
		}
		got, err := e.windows.Wait(ctx, id)
		d := got.Delivery()
		if err2 := store(outcome, delivery{uint32(d.Delivered), uint32(d.Failed), uint32(d.Doubtful)}); err == nil {
			err = err2
		}
		return err
	})
}
