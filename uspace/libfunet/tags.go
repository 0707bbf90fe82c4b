package main

// This file is messages with tags.

// #include "gate.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/funet"
)

//export libfunet_send_tag
func libfunet_send_tag(handle uintptr, node, tag uint32, bytes, length uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		b, err := memory(bytes, length)
		if err != nil {
			return err
		}
		return e.SendTag(ctx, int(node), tag, b)
	})
}

// received is a struct funet_received.
type received struct {
	length      uint64
	source, tag uint32
}

var _ [C.sizeof_struct_funet_received]byte = [unsafe.Sizeof(received{})]byte{}

//export libfunet_receive
func libfunet_receive(handle uintptr, source, tag uint32, bytes, room, what uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		b, err := memory(bytes, room)
		if err != nil {
			return err
		}
		from, of, err := e.pattern(source, tag)
		if err != nil {
			return err
		}
		got, err := e.Recv(ctx, from, of, b)
		if err2 := store(what, received{uint64(got.Bytes), uint32(got.Source), got.Tag}); err2 != nil && err == nil {
			err = err2
		}
		return err
	})
}

// pattern returns which messages a receive is for.
func (e *endpoint) pattern(source, tag uint32) (from int, of uint32, err error) {
	from, of = int(source), tag
	if source == 1<<32-1 {
		from = funet.AnySource
	} else if from >= e.Nodes() {
		return 0, 0, fmt.Errorf("receiving from node %d: %w", source, funet.ErrNode)
	}
	if tag == 1<<32-1 {
		of = funet.AnyTag
	}
	return from, of, nil
}

//export libfunet_start_send_tag
func libfunet_start_send_tag(handle uintptr, node, tag uint32, bytes, length, send uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return begin(handle, bytes, length, send, milliseconds, cancel,
		func(ctx context.Context, e *endpoint, b []byte) (*funet.Pending, error) {
			return e.StartSendTag(ctx, int(node), tag, b)
		})
}

//export libfunet_start_receive
func libfunet_start_receive(handle uintptr, source, tag uint32, bytes, room, receive uintptr, milliseconds int64,
	cancel uintptr) C.int {
	return begin(handle, bytes, room, receive, milliseconds, cancel,
		func(ctx context.Context, e *endpoint, b []byte) (*funet.Pending, error) {
			from, of, err := e.pattern(source, tag)
			if err != nil {
				return nil, err
			}
			return e.StartRecv(ctx, from, of, b)
		})
}

//export libfunet_finish_receive
func libfunet_finish_receive(handle, what uintptr, milliseconds int64, cancel uintptr) (code C.int) {
	defer caught(&code)
	return finish(handle, milliseconds, cancel, func(p *funet.Pending, _ []byte, err error) error {
		got := p.Received()
		if err2 := store(what, received{uint64(got.Bytes), uint32(got.Source), got.Tag}); err2 != nil && err == nil {
			err = err2
		}
		return err
	})
}
