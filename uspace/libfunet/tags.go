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
		from, of := int(source), tag
		if source == 1<<32-1 {
			from = funet.AnySource
		} else if from >= e.Nodes() {
			return fmt.Errorf("receiving from node %d: %w", source, funet.ErrNode)
		}
		if tag == 1<<32-1 {
			of = funet.AnyTag
		}
		got, err := e.Recv(ctx, from, of, b)
		if err2 := store(what, received{uint64(got.Bytes), uint32(got.Source), got.Tag}); err2 != nil && err == nil {
			err = err2
		}
		return err
	})
}
