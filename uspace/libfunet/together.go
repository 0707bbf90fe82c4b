package main

// This file is operations of all nodes, and nodes that die and join again.

// #include "gate.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

//export libfunet_barrier
func libfunet_barrier(handle uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error { return e.Barrier(ctx) })
}

//export libfunet_broadcast
func libfunet_broadcast(handle uintptr, root uint32, bytes, length uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		b, err := memory(bytes, length)
		if err != nil {
			return err
		}
		return e.Broadcast(ctx, int(root), b)
	})
}

// blocks returns the memory of an operation at two addresses, with a number of blocks each.
func blocks(from, froms, to, tos, length uintptr) (a, b []byte, err error) {
	if most := max(froms, tos, 1); length > highest/most {
		return nil, nil, fmt.Errorf("blocks of %d bytes: %w", length, errMemory)
	}
	if a, err = memory(from, froms*length); err == nil {
		b, err = memory(to, tos*length)
	}
	return a, b, err
}

// if1 returns n if it is so, and 0 otherwise.
func if1[N any](so bool, n N) (none N) {
	if so {
		return n
	}
	return none
}

//export libfunet_gather
func libfunet_gather(handle uintptr, root uint32, from, length, to uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		a, b, err := blocks(from, 1, to, if1(e.Node() == int(root), uintptr(e.Nodes())), length)
		if err != nil {
			return err
		}
		return e.Gather(ctx, int(root), a, b)
	})
}

//export libfunet_scatter
func libfunet_scatter(handle uintptr, root uint32, from, to, length uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		a, b, err := blocks(from, if1(e.Node() == int(root), uintptr(e.Nodes())), to, 1, length)
		if err != nil {
			return err
		}
		return e.Scatter(ctx, int(root), a, b)
	})
}

//export libfunet_all_gather
func libfunet_all_gather(handle, from, length, to uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		a, b, err := blocks(from, 1, to, uintptr(e.Nodes()), length)
		if err != nil {
			return err
		}
		return e.AllGather(ctx, a, b)
	})
}

//export libfunet_all_to_all
func libfunet_all_to_all(handle, from, to, length uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		a, b, err := blocks(from, uintptr(e.Nodes()), to, uintptr(e.Nodes()), length)
		if err != nil {
			return err
		}
		return e.AllToAll(ctx, a, b)
	})
}

// combine calls the reduction for the type of its numbers.
func combine(e *endpoint, operation, element uint32, numbers, count uintptr, ints func(am.Operation, []int64) error,
	doubles func(am.Operation, []float64) error) error {
	var op am.Operation
	switch operation {
	case C.FUNET_ADD:
		op = am.Sum
	case C.FUNET_MIN:
		op = am.Min
	case C.FUNET_MAX:
		op = am.Max
	default:
		return fmt.Errorf("operation %d: %w; use FUNET_ADD, FUNET_MIN or FUNET_MAX", operation, errArgument)
	}
	switch {
	case count > highest:
		return fmt.Errorf("%d numbers: %w", count, errMemory)
	case element == C.FUNET_I64 && count == 0:
		return ints(op, nil)
	case element == C.FUNET_F64 && count == 0:
		return doubles(op, nil)
	case element == C.FUNET_I64:
		v, err := array[int64](numbers, int(count))
		if err != nil {
			return err
		}
		return ints(op, v)
	case element == C.FUNET_F64:
		v, err := array[float64](numbers, int(count))
		if err != nil {
			return err
		}
		return doubles(op, v)
	}
	return fmt.Errorf("numbers of type %d: %w; use FUNET_I64 or FUNET_F64", element, errArgument)
}

//export libfunet_reduce
func libfunet_reduce(handle uintptr, root, operation, element uint32, numbers, count uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		return combine(e, operation, element, numbers, count,
			func(op am.Operation, v []int64) error { return funet.Reduce(ctx, e.Endpoint, int(root), op, v) },
			func(op am.Operation, v []float64) error { return funet.Reduce(ctx, e.Endpoint, int(root), op, v) })
	})
}

//export libfunet_all_reduce
func libfunet_all_reduce(handle uintptr, operation, element uint32, numbers, count uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		return combine(e, operation, element, numbers, count,
			func(op am.Operation, v []int64) error { return funet.AllReduce(ctx, e.Endpoint, op, v) },
			func(op am.Operation, v []float64) error { return funet.AllReduce(ctx, e.Endpoint, op, v) })
	})
}

//export libfunet_scan
func libfunet_scan(handle uintptr, operation, element uint32, numbers, count uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		return combine(e, operation, element, numbers, count,
			func(op am.Operation, v []int64) error { return funet.Scan(ctx, e.Endpoint, op, v) },
			func(op am.Operation, v []float64) error { return funet.Scan(ctx, e.Endpoint, op, v) })
	})
}

// event is a struct funet_event.
type event struct{ node, life, joined uint32 }

var _ [C.sizeof_struct_funet_event]byte = [unsafe.Sizeof(event{})]byte{}

//export libfunet_events
func libfunet_events(handle, events uintptr, n C.int) C.int {
	return number(handle, func(e *endpoint) (int, error) {
		to, err := array[event](events, int(n))
		if err != nil {
			return 0, err
		}
		for i := range to {
			select {
			case x, ok := <-e.Events():
				if !ok {
					return i, nil
				}
				to[i] = event{uint32(x.Node), uint32(x.Life), if1[uint32](x.Kind == funet.Joined, 1)}
			default:
				return i, nil
			}
		}
		return len(to), nil
	})
}

//export libfunet_life
func libfunet_life(handle uintptr, node uint32) C.int {
	return number(handle, func(e *endpoint) (int, error) { return e.Life(int(node)), e.member(node) })
}

//export libfunet_present
func libfunet_present(handle uintptr, node uint32) C.int {
	return number(handle, func(e *endpoint) (int, error) {
		err := e.member(node)
		return if1(err == nil && e.Present(int(node)), 1), err
	})
}

//export libfunet_agree
func libfunet_agree(handle uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error { return e.Agree(ctx) })
}
