package am

// This file implements cancellation: the end of a context.Context ends calls that wait.
//
// When the context ends, another goroutine sets a flag. A call that waits tests it in the places
// where it tests whether the card is gone: in Poll, and where a request handler waits for room in
// the send queue. So the cost is one load of a word that never changes while nothing is cancelled.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrCancelled reports that the context of Bind has ended. Errors that wrap it also wrap the
// context's cause (context.Cause).
var ErrCancelled = errors.New("am: cancelled")

// binding is a context and its flag. Each call of Bind makes one, so that the end of an earlier
// context is not taken for the end of a later one.
type binding struct {
	ctx   context.Context
	ended atomic.Bool
	stop  func() bool // nil: the context cannot end
	wake  func()      // ends a sleep of the card; nil: not possible
}

// Bind ties the calls that wait to a context. When the context ends, every call that waits on the
// endpoint, or would have to wait later, returns an error that wraps ErrCancelled and the context's
// cause. The calls that wait are those that poll: Poll itself, the waits, collective calls, and
// sends while the send queue is full. A call that need not wait does not test the context. Handlers
// run as before, but a Reply that has to wait for room returns that error. Afterwards the endpoint
// is in the same state as after an Undelivered error. An interrupted Barrier or reduction can be
// called again and continues where it stopped. A get or put that was requested stays under way.
//
// A card that sleeps while the program waits is woken (Wakes). Without Wakes the endpoint sees the
// flag when the card wakes by itself: after 1 ms on a card in the process, 8 ms on that of a
// daemon.
//
// A later Bind replaces an earlier one. So a program gives a part of its work a deadline by binding
// a context that has one, and afterwards the former context. context.Background() removes any
// binding. An endpoint starts unbound. Main program or handler; like every call, on the endpoint's
// own goroutine. Any goroutine may end the context.
func (e *Endpoint) Bind(ctx context.Context) {
	if e.bound.stop != nil {
		e.bound.stop()
	}
	wake := e.bound.wake
	e.bound = &binding{ctx: ctx, wake: wake}
	b := e.bound
	switch {
	case ctx.Done() == nil:
	case ctx.Err() != nil:
		b.ended.Store(true)
	default:
		b.stop = context.AfterFunc(ctx, func() {
			b.ended.Store(true)
			if wake != nil {
				wake()
			}
		})
	}
}

// Wakes tells the endpoint how to end a sleep in its drive function from another goroutine.
// interrupt is the method Interrupt of the card that it is on. It takes effect with the next Bind.
// Main program or handler.
func (e *Endpoint) Wakes(interrupt func()) { e.bound.wake = interrupt }

// ended returns the reason why waits must end, or nil. The context of Bind has ended, the
// endpoint's context has left the card (funi.ErrDetached), or a handler of bytes has failed
// (Failed).
func (c *core) ended(doing string) error {
	switch err := c.iface.Err(); {
	case c.bound.ended.Load():
		return fmt.Errorf("%s on node %d: %w: %w", doing, c.node, ErrCancelled, context.Cause(c.bound.ctx))
	case c.failed != nil:
		return c.failed
	case err != nil:
		return fmt.Errorf("%s on node %d: %w", doing, c.node, err)
	}
	return nil
}
