package funet

// This file lets the endpoint run: in a loop of the program, until something happens, or when a
// descriptor says so.

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Poll lets the card run and handles what has come, without waiting, and returns how many messages
// that were; 0 also where another goroutine waits on the endpoint, which does the same all the
// time. It returns errors that belong to no call (Options.OnError), and why the endpoint is of no
// more use.
func (e *Endpoint) Poll() (n int, err error) {
	if err := e.lock(); err != nil {
		return 0, fmt.Errorf("polling: %w", err)
	}
	defer e.unlock()
	if !e.leading && e.claims == 0 {
		e.enterWait()
		e.leading = true
		n = e.poll()
		e.leave()
		e.leaveWait()
	}
	if c := e.cause.Load(); c != nil {
		return n, fmt.Errorf("polling: %w", *c)
	}
	if err := e.takeStray(); err != nil {
		return n, fmt.Errorf("polling: %w", err)
	}
	return n, nil
}

// Wait handles what comes until done, which is asked, with the endpoint's lock, after messages have
// come. It may look at what handlers have changed without a lock of its own, and must not call the
// endpoint (ErrHandler). Wait also returns errors that belong to no call (Options.OnError).
func (e *Endpoint) Wait(ctx context.Context, done func() bool) error {
	return e.until(ctx, done, "waiting")
}

// Run handles what comes until the context ends, and returns nil then; or until an error that
// belongs to no call (Options.OnError), or the end of the endpoint's use, which it returns. A
// server's main program calls it; other goroutines may use the endpoint meanwhile.
func (e *Endpoint) Run(ctx context.Context) error {
	err := e.until(ctx, nil, "serving")
	if ctx.Err() != nil && e.Err() == nil {
		return nil
	}
	return err
}

// Flush waits until the card has taken everything that was posted.
func (e *Endpoint) Flush(ctx context.Context) error {
	return e.until(ctx, func() bool { return e.iface.Unsent(funi.Request) == 0 }, "flushing")
}

// until waits for a condition; nil: for ever.
func (e *Endpoint) until(ctx context.Context, done func() bool, doing string) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	w := e.waiter()
	defer e.recycle(w)
	w.holds, w.strays = done, true
	return e.await(ctx, w, doing)
}

// Barrier returns when every node has called it; all nodes call it equally often. One that ended
// with its context, or with a message that came back, goes on where it stopped when it is called
// again.
func (e *Endpoint) Barrier(ctx context.Context) error {
	const doing = "waiting at a barrier"
	if err := e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	return e.exclusively(ctx, doing, e.am.Barrier)
}

// Fd returns a descriptor for epoll(7), or Go's runtime, that is readable when Poll has something
// to do, while Arm is in force. It may be polled, also by an epoll instance, and not read; it is
// the endpoint's until Close.
func (e *Endpoint) Fd() (int, error) {
	if err := e.lock(); err != nil {
		return -1, fmt.Errorf("making a descriptor for event loops: %w", err)
	}
	defer e.unlock()
	return e.carrier.Fd()
}

// Arm readies the descriptor of Fd, and returns true if the program may wait for it. It returns
// false if something has happened meanwhile, or the endpoint is of no more use: Poll says what. One
// goroutine of a program does this:
//
//	for {
//		n, err := e.Poll()
//		if err != nil { ... }
//		if n == 0 && e.Arm() {
//			wait until the descriptor is readable, or something else happens
//			e.Disarm()
//		}
//	}
//
// The descriptor becomes readable, too, when another goroutine has used the endpoint.
func (e *Endpoint) Arm() bool {
	if e.lock() != nil {
		return false
	}
	if e.stray != nil || !e.carrier.Arm() {
		e.unlock()
		return false
	}
	e.armed = true
	e.mu.Unlock() // which unlock would undo
	return true
}

// Disarm takes Arm back.
func (e *Endpoint) Disarm() {
	if e.lock() != nil {
		return
	}
	e.carrier.Disarm()
	e.armed = false
	e.unlock()
}
