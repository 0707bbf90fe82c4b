package main

// This file sends messages.

// #include "gate.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/funet"
)

//export libfunet_send
func libfunet_send(handle uintptr, node, handler uint32, bytes, length uintptr, milliseconds int64,
	cancel uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	b, err := memory(bytes, length)
	if err != nil {
		return tell(fmt.Errorf("sending to node %d: %w", node, err))
	}
	if milliseconds < 0 && cancel == 0 {
		return tell(e.Send(context.Background(), int(node), handler, b))
	}
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err == nil {
		err = e.Send(ctx, int(node), handler, b)
	}
	return tell(err)
}

//export libfunet_start_send
func libfunet_start_send(handle uintptr, node, handler uint32, bytes, length, send uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return begin(handle, bytes, length, send, milliseconds, cancel,
		func(ctx context.Context, e *endpoint, b []byte) (*funet.Pending, error) {
			return e.StartSend(ctx, int(node), handler, b)
		})
}

// begin begins something with memory of the program, and stores its handle.
func begin(handle, bytes, length, to uintptr, milliseconds int64, cancel uintptr,
	f func(context.Context, *endpoint, []byte) (*funet.Pending, error)) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		b, err := memory(bytes, length)
		if err == nil {
			err = check(to, 8, 8)
		}
		if err != nil {
			return err
		}
		p, err := f(ctx, e, b)
		if err != nil {
			return err
		}
		return store(to, e.calls.put(index(handle), p))
	})
}

// outgoing is a struct funet_outgoing, with the pointer as a number.
type outgoing struct {
	bytes, length uintptr
	node, handler uint32
}

var _ [C.sizeof_struct_funet_outgoing]byte = [unsafe.Sizeof(outgoing{})]byte{}

//export libfunet_send_many
func libfunet_send_many(handle, messages uintptr, n C.int, milliseconds int64, cancel uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil || n == 0 {
		return tell(err)
	}
	list, err := array[outgoing](messages, int(n))
	if err != nil {
		return tell(err)
	}
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err != nil {
		return tell(err)
	}
	sent, err := sendMany(ctx, e, list)
	if code = tell(err); err == nil || sent > 0 {
		return C.int(sent)
	}
	return code
}

// sendMany sends the messages, and returns how many it has sent. The last one lets the card run.
func sendMany(ctx context.Context, e *endpoint, list []outgoing) (sent int, err error) {
	for i := range list {
		m := list[i] // loaded once: another thread may change it
		b, err := memory(m.bytes, m.length)
		if err == nil && i == len(list)-1 {
			err = e.Send(ctx, int(m.node), m.handler, b)
		} else if err == nil {
			err = e.Post(ctx, int(m.node), m.handler, b)
		}
		if err != nil {
			_, _ = e.Poll() // what was posted leaves
			return i, fmt.Errorf("message %d of %d: %w", i+1, len(list), err)
		}
	}
	return len(list), nil
}
