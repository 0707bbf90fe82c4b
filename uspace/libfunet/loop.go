package main

// This file lets endpoints run, and has what functions that wait have in common.

// #include "gate.h"
import "C"

import "context"

// with calls f with an endpoint and the context of its wait. It is for functions that take much
// longer than a function value costs.
func with(handle uintptr, milliseconds int64, cancel uintptr, f func(context.Context, *endpoint) error) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	ctx, release, err := until(milliseconds, cancel)
	defer release()
	if err == nil {
		err = f(ctx, e)
	}
	return tell(err)
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
func libfunet_fd(handle uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err != nil {
		return tell(err)
	}
	fd, err := e.Fd()
	if err != nil {
		return tell(err)
	}
	return C.int(fd)
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
func libfunet_disarm(handle uintptr) (code C.int) {
	defer caught(&code)
	e, err := endpoints.find(handle)
	if err == nil {
		e.Disarm()
	}
	return tell(err)
}
