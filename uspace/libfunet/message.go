package main

// This file runs handlers of the program.

// #include <stdlib.h>
// #include "gate.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/funet/funet/uspace/funet"
)

// running is a handler of the program that runs. Within it the program names it by a token.
type running struct {
	m      *funet.Message
	serves bool // it answers a call
	answer []byte
	short  *C.struct_libfunet_short // memory of C, for answers that C keeps; nil: not allocated
	err    error
}

// refusal is an error of a handler, for the node that called.
type refusal struct {
	code uint32
	text string
}

// Error returns the text.
func (r *refusal) Error() string { return r.text }

// Code is the code that travels.
func (r *refusal) Code() uint32 { return r.code }

// run runs a handler of the program, and returns what it answered.
func (e *endpoint) run(m *funet.Message, number uint32, serves bool, function, argument uintptr) ([]byte, error) {
	depth := len(e.running)
	if depth < cap(e.running) {
		e.running = e.running[:depth+1] // with its memory for answers
	} else {
		e.running = append(e.running, running{})
	}
	r := &e.running[depth]
	r.m, r.serves, r.answer, r.err = m, serves, r.answer[:0], nil
	var short *C.struct_libfunet_short
	if serves {
		if r.short == nil {
			r.short = (*C.struct_libfunet_short)(C.malloc(C.sizeof_struct_libfunet_short))
		}
		short = r.short
		short.set = 0
	}
	token := uint64(e.handle) | uint64(depth)<<tokenShift
	// The bytes lie where they arrived, in memory that Go does not move.
	code := C.libfunet_handler(C.uintptr_t(function), C.uintptr_t(argument),
		C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(m.Bytes)))), C.size_t(len(m.Bytes)), C.uint32_t(m.Source),
		C.uint32_t(number), C.uint64_t(token), short)
	r = &e.running[depth] // it may have moved
	answer, err := r.answer, r.err
	if short != nil && short.set != 0 {
		answer = unsafe.Slice((*byte)(&short.bytes[0]), short.length)
	}
	if r.m = nil; err == nil && code != 0 {
		err = fmt.Errorf("it returned %d", int(code))
	}
	e.running = e.running[:depth]
	return answer, err
}

// tokenShift is where the depth of a handler is in its token, above the endpoint's handle.
const tokenShift = 60

// handler returns the handler that a token names.
func handler(token uint64) (*endpoint, *running, error) {
	e, err := endpoints.find(uintptr(token & (1<<tokenShift - 1)))
	if err != nil {
		return nil, nil, fmt.Errorf("not a message of a handler that runs: %w", err)
	}
	depth := int(token >> tokenShift)
	if depth >= len(e.running) || e.running[depth].m == nil {
		return nil, nil, fmt.Errorf("not a message of a handler that runs: %w", errHandle)
	}
	return e, &e.running[depth], nil
}

//export libfunet_handle
func libfunet_handle(handle uintptr, number uint32, function, argument uintptr) C.int {
	return on(handle, func(e *endpoint) error {
		if function == 0 {
			return fmt.Errorf("registering handler %d, which is NULL: %w", number, errArgument)
		}
		return e.Handle(number, func(m *funet.Message) error {
			_, err := e.run(m, number, false, function, argument)
			return err
		})
	})
}

//export libfunet_serve
func libfunet_serve(handle uintptr, number uint32, function, argument uintptr) C.int {
	return on(handle, func(e *endpoint) error {
		if function == 0 {
			return fmt.Errorf("registering handler %d for calls, which is NULL: %w", number, errArgument)
		}
		return e.Serve(number, func(m *funet.Message) ([]byte, error) {
			return e.run(m, number, true, function, argument)
		})
	})
}

//export libfunet_reply
func libfunet_reply(token uint64, number uint32, bytes, length uintptr) (code C.int) {
	defer caught(&code)
	_, r, err := handler(token)
	if err == nil && r.serves {
		err = fmt.Errorf("replying to a call, which is answered: %w", funet.ErrHandler)
	}
	if err != nil {
		return tell(err)
	}
	b, err := memory(bytes, length)
	if err == nil {
		err = r.m.Reply(number, b)
	}
	return tell(err)
}

//export libfunet_answer
func libfunet_answer(token uint64, bytes, length uintptr) (code C.int) {
	defer caught(&code)
	_, r, err := handler(token)
	if err != nil {
		return tell(err)
	}
	if !r.serves {
		return tell(fmt.Errorf("answering a message, which is no call: %w", funet.ErrHandler))
	}
	if length > C.FUNET_MAX_BYTES {
		r.err = fmt.Errorf("an answer of %d bytes: %w", length, funet.ErrLong)
		return tell(r.err)
	}
	b, err := memory(bytes, length)
	if err == nil {
		r.answer = append(r.answer[:0], b...)
	}
	return tell(err)
}

//export libfunet_refuse
func libfunet_refuse(token uint64, number uint32, why, length uintptr) (code C.int) {
	defer caught(&code)
	_, r, err := handler(token)
	if err != nil {
		return tell(err)
	}
	b, err := memory(why, length)
	switch {
	case err != nil:
	case !r.serves:
		err = fmt.Errorf("refusing a message, which is no call: %w", funet.ErrHandler)
	case number < C.FUNET_FIRST_CODE:
		err = fmt.Errorf("code %d: %w; codes are at least %d", number, errArgument, C.FUNET_FIRST_CODE)
	default:
		r.err = &refusal{number, string(b)}
	}
	return tell(err)
}
