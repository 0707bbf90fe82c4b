package main

// This file lets endpoints run, and has what functions that wait have in common.

// #include "gate.h"
import "C"

import "context"

// on calls f with an endpoint. It is for functions that take much longer than a function value
// costs, as the next two are.
func on(handle uintptr, f func(*endpoint) error) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err == nil {
		err = f(e)
	}
	return tell(err)
}

// number is on for an f that returns what C is to get.
func number(handle uintptr, f func(*endpoint) (int, error)) C.int {
	n := 0
	code := on(handle, func(e *endpoint) (err error) { n, err = f(e); return err })
	if code == 0 {
		return C.int(n)
	}
	return code
}

// with is on with the context of a wait.
func with(handle uintptr, milliseconds int64, cancel uintptr, f func(context.Context, *endpoint) error) C.int {
	return on(handle, func(e *endpoint) error { return e.waiting(milliseconds, cancel, f) })
}

// waiting calls f with the context of a wait.
func (e *endpoint) waiting(milliseconds int64, cancel uintptr, f func(context.Context, *endpoint) error) error {
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err != nil {
		return err
	}
	return f(ctx, e)
}

//export libfunet_progress
func libfunet_progress(handle uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	n, err := e.poll()
	if err != nil {
		return tell(err)
	}
	return C.int(n)
}

//export libfunet_run
func libfunet_run(handle uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error { return e.Run(ctx) })
}

//export libfunet_wait
func libfunet_wait(handle, done, argument uintptr, milliseconds int64, cancel uintptr) C.int {
	return with(handle, milliseconds, cancel, func(ctx context.Context, e *endpoint) error {
		if done == 0 {
			return errArgument
		}
		return e.Wait(ctx, func() bool { return C.libfunet_condition(C.uintptr_t(done), C.uintptr_t(argument)) != 0 })
	})
}

//export libfunet_fd
func libfunet_fd(handle uintptr) C.int {
	return number(handle, func(e *endpoint) (int, error) { return e.Fd() })
}

//export libfunet_arm
func libfunet_arm(handle uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil || e.inbox.some() || !e.Arm() {
		return tell(err)
	}
	return 1
}

//export libfunet_disarm
func libfunet_disarm(handle uintptr) C.int {
	return on(handle, func(e *endpoint) error { e.Disarm(); return nil })
}
