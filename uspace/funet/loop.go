package funet

// This file lets the endpoint run: in a loop of the program, until something happens, or when a
// descriptor becomes readable.

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Poll lets the card run and handles messages that have arrived, without waiting. It returns how
// many it handled. It also returns 0 if another goroutine waits on the endpoint, since that one
// does the same all the time. Poll returns errors that belong to no call (Options.OnError), and why
// the endpoint is unusable.
func (e *Endpoint) Poll() (n int, err error) {
	if err := e.lock(); err != nil {
		return 0, fmt.Errorf("polling: %w", err)
	}
	e.runner.Store(goroutine())
	defer func() {
		e.runner.Store(0)
		e.unlock()
	}()
	return e.PollWithin()
}

// PollWithin is Poll between Enter and Exit.
func (e *Endpoint) PollWithin() (n int, err error) {
	if e.group.MayLead() {
		e.inside++
		e.group.Lead()
		n = e.poll()
		e.group.Leave()
		e.inside--
	}
	if c := e.cause.Load(); c != nil {
		return n, fmt.Errorf("polling: %w", *c)
	}
	if err := e.takeStray(); err != nil {
		return n, fmt.Errorf("polling: %w", err)
	}
	return n, nil
}

// Wait handles messages until done returns true. It calls done with the endpoint's lock held, after
// messages have arrived. So done may look at what handlers have changed without a lock of its own;
// it must not call the endpoint (ErrHandler). Wait also returns errors that belong to no call
// (Options.OnError).
func (e *Endpoint) Wait(ctx context.Context, done func() bool) error {
	return e.until(ctx, done, "waiting")
}

// Run handles messages until the context ends, and returns nil then. It ends earlier with an error
// that belongs to no call (Options.OnError), or with the reason why the endpoint became unusable. A
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

// until waits for a condition; a nil condition waits for ever.
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

// Barrier returns when every node has called it; all nodes call it equally often. A Barrier that
// ended with its context, or with a message that came back, continues where it stopped when it is
// called again.
func (e *Endpoint) Barrier(ctx context.Context) error {
	const doing = "waiting at a barrier"
	if err := e.lock(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	return e.exclusively(ctx, doing, e.am.Barrier)
}

// Fd returns a descriptor for epoll(7) or Go's runtime. It is readable when Poll has something to
// do while Arm is in force. It may be polled, also by an epoll instance, but not read. It belongs
// to the endpoint until Close.
func (e *Endpoint) Fd() (int, error) {
	if err := e.lock(); err != nil {
		return -1, fmt.Errorf("making a descriptor for event loops: %w", err)
	}
	defer e.unlock()
	return e.carrier.Fd()
}

// Arm prepares the descriptor of Fd, and returns true if the program may wait for it. It returns
// false if something has happened meanwhile, or the endpoint is unusable; the next Poll tells
// which. One goroutine of a program does this:
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
// The descriptor also becomes readable when another goroutine has used the endpoint.
func (e *Endpoint) Arm() bool {
	if e.lock() != nil {
		return false
	}
	if e.stray != nil || !e.carrier.Arm() {
		e.unlock()
		return false
	}
	e.armed = true
	e.group.Unlock() // e.unlock would undo it
	return true
}

// rouseLoop makes an event loop that sleeps since Arm look again. Otherwise a call could let the
// card do what would have ended the sleep.
func (e *Endpoint) rouseLoop() {
	if e.armed {
		e.armed = false
		e.carrier.Interrupt()
	}
}

// Disarm undoes Arm.
func (e *Endpoint) Disarm() {
	if e.lock() != nil {
		return
	}
	e.carrier.Disarm()
	e.armed = false
	e.unlock()
}
