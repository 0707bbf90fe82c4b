package funet

// This file implements waiting, with a leader and followers (package lead, without a keeper). A
// poll that completes an operation rouses the goroutine that waits for it. No thread stands between
// the card and a waiting goroutine.
//
// A parked goroutine selects on its context. The leader looks at its own context now and then, and
// has the context end a sleep of the card.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
)

const (
	// glance is how many polls and messages pass between two looks at the leader's context, some
	// microseconds.
	glance = 64
	// patience is the number of polls in vain after which the leader arranges that the end of its
	// context ends a sleep of the card, some 10 us. With one processor, other goroutines may also
	// run after that many polls in vain.
	patience = 256
	// turn applies with more than one processor. Other goroutines may run after turn times patience
	// polls in vain. That is rare, because they mostly run on other processors. When a goroutine
	// yields, Go resumes it on another thread, which has to be woken.
	turn = 64
	// firstProbe is the time of waiting in vain, in nanoseconds, after which nodes that owe answers
	// are probed. Each further interval is twice as long, up to lastProbe. Counting polls would not
	// do, since a daemon's client sleeps in some of them.
	firstProbe = int64(20 * time.Millisecond)
	lastProbe  = int64(time.Second)
)

// waiter is a goroutine that waits, or is about to.
type waiter struct {
	lead.Waiter
	done   bool        // set by complete
	err    error       // the error of complete
	answer []byte      // the answer of a call
	what   am.Received // the message of a receive
	holds  func() bool // a condition to test after each poll; nil: none
	strays bool        // an error that belongs to no call ends the wait, too

	finish func(answer []byte, err error) // answered, as a value; likewise sent and received
	sent   func(error)
	got    func(am.Received, error)
}

func (e *Endpoint) newWaiter() *waiter {
	w := &waiter{Waiter: e.group.NewWaiter()}
	w.finish, w.sent, w.got = w.answered, w.complete, w.received
	return w
}

// answered ends a call; the answer is valid until it returns.
func (w *waiter) answered(answer []byte, err error) {
	w.answer = append(w.answer, answer...)
	w.complete(err)
}

// received ends a receive.
func (w *waiter) received(what am.Received, err error) {
	w.what = what
	w.complete(err)
}

// complete ends the wait.
func (w *waiter) complete(err error) {
	w.done, w.err = true, err
	w.Rouse()
}

// over reports whether a waiter's wait has ended.
func (e *Endpoint) over(w *waiter) bool {
	return w.done || w.strays && e.stray != nil || w.holds != nil && w.holds()
}

// waiter returns a waiter from the pool.
func (e *Endpoint) waiter() *waiter {
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return w
	}
	return e.newWaiter()
}

// recycle puts a waiter back into the pool; nothing completes it any more.
func (e *Endpoint) recycle(w *waiter) {
	w.Calm()
	*w = waiter{Waiter: w.Waiter, finish: w.finish, sent: w.sent, got: w.got}
	e.idle = append(e.idle, w)
}

// await waits until a waiter is over. The lock is held, and may be released in between. It returns
// the waiter's error, the reason why the endpoint is unusable, or the end of the context. doing
// describes the operation in the error.
func (e *Endpoint) await(ctx context.Context, w *waiter, doing string) error {
	e.enterWait()
	defer e.leaveWait()
	for {
		switch c := e.cause.Load(); {
		case c != nil:
			return fmt.Errorf("%s: %w", doing, *c)
		case e.over(w):
			if w.done {
				return w.err
			}
			if w.strays && e.stray != nil {
				return fmt.Errorf("%s: %w", doing, e.takeStray())
			}
			return nil
		case ctx.Err() != nil:
			return cancelled(ctx, doing)
		case e.sweep == nil && e.group.MayLead():
			e.lead(ctx, w)
		default:
			e.park(ctx, w)
		}
	}
}

// enterWait notes that a goroutine is about to run code of package am and of the program; leaveWait
// ends that. In between the goroutine releases the lock now and then, and the carrier must not be
// closed.
func (e *Endpoint) enterWait() {
	e.inside++
	e.runner.Store(goroutine())
}

func (e *Endpoint) leaveWait() {
	e.runner.Store(0)
	e.inside--
}

// park waits without polling, except for another library too (beside.go).
func (e *Endpoint) park(ctx context.Context, w *waiter) {
	if w.holds != nil || w.strays {
		e.conditions = append(e.conditions, w)
	}
	me := e.runner.Swap(0)
	e.rouseLoop()
	if e.sweep != nil {
		e.carrier.Look() // what was begun leaves now
		e.group.Await(&w.Waiter, ctx.Done())
	} else {
		e.group.Park(&w.Waiter, ctx.Done())
	}
	e.runner.Store(me)
	if w.holds != nil || w.strays {
		e.conditions = slices.DeleteFunc(e.conditions, func(x *waiter) bool { return x == w })
	}
	if ctx.Err() != nil || e.over(w) {
		e.group.PassOn() // it may have been roused to lead
	}
}

// lead polls until a waiter is over, its context has ended, the endpoint is unusable, or another
// goroutine must lead.
func (e *Endpoint) lead(ctx context.Context, w *waiter) {
	e.group.Lead()
	var stop func() bool // nil: the end of the context does not interrupt the card yet
	defer func() {
		if stop != nil {
			stop()
		}
		e.group.Leave()
	}()
	done := ctx.Done()
	probe, idle := firstProbe, int64(0) // since when nothing has come; 0: not looked yet
	for vain, since := 0, 0; !e.over(w) && e.cause.Load() == nil && !e.group.Claimed(); {
		n := e.poll()
		if vain++; n > 0 {
			vain, idle = 0, 0
		}
		if since += 1 + n; since >= glance {
			since = 0
			select {
			case <-done:
				return
			default:
			}
		}
		if vain > 0 && vain%patience == 0 {
			if stop == nil && done != nil {
				stop = context.AfterFunc(ctx, e.carrier.Interrupt)
			}
			switch now := e.carrier.Now(); {
			case idle == 0:
				idle = max(now, 1)
			case now-idle >= probe:
				idle, probe = now, min(2*probe, lastProbe)
				e.probe(ctx)
			}
		}
		if vain > 0 && vain%e.turns == 0 {
			runtime.Gosched()
		}
	}
}

// probe asks the nodes that owe something whether they are still there, on behalf of all that wait.
// While much is unsent it asks nothing. Messages under way come back from a node that is gone, and
// the probe would wait for room.
func (e *Endpoint) probe(ctx context.Context) {
	if e.iface.Unsent(funi.Request) > e.iface.Slots()/2 {
		return
	}
	e.am.Bind(ctx)
	e.report(e.guard(e.am.ProbeCalled))
	e.report(e.guard(e.am.ProbeSends))
	e.am.Bind(context.Background())
}

// exclusively runs a function of package am that polls by itself. The calling goroutine leads, and
// the endpoint is bound to the context.
func (e *Endpoint) exclusively(ctx context.Context, doing string, f func() error) error {
	e.enterWait()
	defer e.leaveWait()
	w := e.waiter()
	defer e.recycle(w)
	e.group.Claim(func() bool { return e.cause.Load() != nil || ctx.Err() != nil }, func() { e.park(ctx, w) })
	switch c := e.cause.Load(); {
	case c != nil:
		e.group.PassOn()
		return fmt.Errorf("%s: %w", doing, *c)
	case ctx.Err() != nil:
		e.group.PassOn()
		return cancelled(ctx, doing)
	}
	e.group.Lead()
	defer e.group.Leave()
	bound, abort := context.WithCancelCause(ctx)
	e.abort = abort
	defer func() { e.abort = nil; abort(nil) }()
	e.am.Bind(bound)
	defer e.am.Bind(context.Background())
	err := e.guard(f)
	e.report(e.am.Failed())
	if c := e.cause.Load(); c != nil {
		err = *c
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// drive lets the card run, for package am. In a poll of the leader it also lets other goroutines
// have the lock.
func (e *Endpoint) drive() {
	e.carrier.Drive()
	if e.windows != nil {
		e.windows.rma.Poll()
	}
	if e.sweep != nil {
		e.sweep()
	}
	if !e.group.Leads() || e.am.InHandler() {
		return
	}
	if len(e.events.late) > 0 {
		e.events.pass()
	}
	e.stir()
	e.yield()
}

// stir rouses the parked goroutines whose conditions hold.
func (e *Endpoint) stir() {
	for _, w := range e.conditions {
		if e.over(w) {
			w.Rouse()
		}
	}
}

// poll lets the card run and handles messages that have arrived. It returns how many it handled.
func (e *Endpoint) poll() int {
	n, err := e.guardedPoll()
	if err != nil {
		e.report(err)
	}
	if len(e.events.late) > 0 {
		e.events.pass()
	}
	return n
}

// guardedPoll is guard around a poll, without a function value for each.
func (e *Endpoint) guardedPoll() (n int, err error) {
	ended := false
	defer func() {
		if !ended {
			err = e.panicked(recover(), debug.Stack())
		}
	}()
	n, err = e.am.Poll()
	ended = true
	return n, err
}

// guard runs code that may call handlers. A panic in it ends the endpoint, and nothing else.
func (e *Endpoint) guard(f func() error) (err error) {
	ended := false
	defer func() {
		if !ended {
			err = e.panicked(recover(), debug.Stack())
		}
	}()
	err = f()
	ended = true
	return err
}

// panicked ends the endpoint. Its context leaves the card at once, so that the other nodes see it.
func (e *Endpoint) panicked(value any, stack []byte) error {
	p := &PanicError{Value: value, Stack: stack}
	e.fail(p)
	e.detach = true
	return p
}

// report handles an error of a poll.
func (e *Endpoint) report(err error) {
	if err == nil {
		return
	}
	var u *am.Undelivered
	var p *am.PanicError
	switch {
	case errors.As(err, &p):
		e.panicked(p.Value, p.Stack)
	case errors.Is(err, am.ErrCancelled): // of an exclusive call, which sees it itself
	case errors.As(err, &u):
		if !u.Library { // else somebody waits for it, and is told
			e.wentWrong(err)
		}
	default:
		if c := e.carrier.Err(); c != nil && !errors.Is(err, c) {
			err = fmt.Errorf("%w (%w)", err, c)
		}
		e.fail(err)
	}
}

// wentWrong takes an error that belongs to no waiting call: a message came back after its Send had
// returned. Without OnError the next call that can return the error does so.
func (e *Endpoint) wentWrong(err error) {
	if e.onError != nil {
		e.onError(err)
		return
	}
	if e.stray == nil {
		e.stray = err // drive rouses who waits for it
	}
}

// handlerFailed takes the error of a handler. Without OnError the endpoint becomes unusable.
func (e *Endpoint) handlerFailed(err error) {
	if e.onError != nil {
		e.onError(err)
		return
	}
	e.fail(err)
}

// takeStray returns an error that belongs to no call, once; nil: there is none.
func (e *Endpoint) takeStray() error {
	err := e.stray
	e.stray = nil
	return err
}

// fail makes the endpoint unusable. Everything that waits returns the error, and so does every
// later call.
func (e *Endpoint) fail(err error) {
	if !e.cause.CompareAndSwap(nil, &err) {
		return
	}
	if e.recall != nil {
		e.recall()
	}
	if e.sweep != nil {
		e.group.RouseAll()
	} else {
		e.group.End()
	}
	if e.abort != nil {
		e.abort(err)
	}
}
