package main

// This file makes contexts of the deadlines and handles for cancellation that a program gives.

// #include "gate.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cancellation is what a struct funet_cancellation of C stands for: an eventfd that funet_cancel
// writes to, since a signal handler may do no more, and a context that ends then.
type cancellation struct {
	ctx   context.Context
	event *os.File
}

//export libfunet_cancel_new
func libfunet_cancel_new(to uintptr) (code C.int) {
	defer caught(&code)
	return tell(newCancellation(to))
}

func newCancellation(to uintptr) error {
	if err := check(to, 8, 8); err != nil {
		return err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("making a handle for cancellation: %w", err)
	}
	ctx, end := context.WithCancelCause(context.Background())
	c := &cancellation{ctx, os.NewFile(uintptr(fd), "funet_cancel")}
	handle := cancels.put(c)
	if handle == 0 {
		end(errFull)
		return errors.Join(errFull, c.event.Close())
	}
	go func() {
		if _, err := c.event.Read(make([]byte, 8)); err == nil {
			end(errCancelled)
		} else {
			end(err) // the handle was freed
		}
	}()
	C.libfunet_signal(C.uint32_t(index(handle)), C.uintptr_t(handle), C.int(fd))
	return store(to, handle)
}

//export libfunet_cancel_free
func libfunet_cancel_free(handle uintptr) (code C.int) {
	defer caught(&code)
	c, err := cancels.find(handle)
	if err == nil {
		C.libfunet_signal(C.uint32_t(index(handle)), 0, -1)
		cancels.remove(handle)
		c.event.Close() // ends the goroutine
	}
	return tell(err)
}

// ended is a context whose time is over.
var ended, _ = context.WithTimeout(context.Background(), 0)

// nothing is what to do about a context that holds nothing.
func nothing() {}

// until returns the context of a wait. The caller calls release when the wait is over.
func until(milliseconds int64, handle uintptr) (ctx context.Context, release func(), err error) {
	ctx = context.Background()
	if handle != 0 {
		c, err := cancels.find(handle)
		if err != nil {
			return ctx, nothing, fmt.Errorf("until.cancel: %w", err)
		}
		ctx = c.ctx
	}
	switch {
	case milliseconds < 0 || milliseconds > int64(time.Hour/time.Millisecond)*24*365:
		return ctx, nothing, nil
	case milliseconds == 0 && ctx.Err() == nil:
		return ended, nothing, nil
	}
	bound, release := context.WithTimeout(ctx, time.Duration(milliseconds)*time.Millisecond)
	return bound, release, nil
}
