package funet

// This file is waiting: leader and followers. Of all goroutines that wait on an endpoint one polls,
// with the lock: the leader. The others are parked. What a poll completes wakes the goroutine that
// waits for it; when the leader has what it waits for, it wakes a parked one, which leads from then
// on. No thread stands between the card and who waits, and one who waits alone is never parked.
//
// The context of a parked goroutine is in its select. The leader looks at its own now and then, and
// has it end a sleep of the card.

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
)

const (
	// glance is how many polls and messages pass between two looks at the leader's context: some
	// microseconds.
	glance = 64
	// patience is the number of polls in vain after which the end of the leader's context is to end
	// a sleep of the card: some 10 us. With one processor it is also the number of polls in vain
	// between two times that other goroutines may run.
	patience = 256
	// turn is how many times patience pass between two times that other goroutines may run, where
	// there are more processors: they mostly run there. Go has another thread go on with a
	// goroutine that gives way, and that wakes one.
	turn = 64
	// firstProbe is how long, in nanoseconds, one waits in vain before nodes that owe answers are
	// probed; each further time is twice as long, up to lastProbe. Polls do not tell: a daemon's
	// client sleeps in some of them.
	firstProbe = int64(20 * time.Millisecond)
	lastProbe  = int64(time.Second)
)

// waiter is a goroutine that waits, or will.
type waiter struct {
	done   bool        // complete said so
	err    error       // and with which error
	answer []byte      // of a call
	what   am.Received // by a receive
	holds  func() bool // a condition to look at after each poll; nil: none
	strays bool        // an error that belongs to nobody ends the wait, too
	at     int         // in Endpoint.parked

	wake   chan struct{}                  // one slot
	finish func(answer []byte, err error) // answered, as a value; sent and received likewise
	sent   func(error)
	got    func(am.Received, error)
}

func newWaiter() *waiter {
	w := &waiter{wake: make(chan struct{}, 1)}
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
	w.rouse()
}

// rouse has a parked goroutine look again.
func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// over reports whether a waiter need not wait any longer.
func (e *Endpoint) over(w *waiter) bool {
	return w.done || w.strays && e.stray != nil || w.holds != nil && w.holds()
}

// waiter returns one from the pool.
func (e *Endpoint) waiter() *waiter {
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return w
	}
	return newWaiter()
}

// recycle puts a waiter that nobody completes any more back into the pool.
func (e *Endpoint) recycle(w *waiter) {
	select {
	case <-w.wake:
	default:
	}
	*w = waiter{wake: w.wake, finish: w.finish, sent: w.sent, got: w.got}
	e.idle = append(e.idle, w)
}

// await waits, with the lock, until a waiter is over; it may give the lock up in between. It
// returns the waiter's error, why the endpoint is of no more use, or that the context has ended,
// while doing what is said.
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
		case !e.leading && e.claims == 0:
			e.lead(ctx, w)
		default:
			e.park(ctx, w)
		}
	}
}

// enterWait notes that a goroutine is about to be in code of package am and of the program, and
// leaveWait ends that. In between it gives the lock up now and then, and the carrier must not be
// closed.
func (e *Endpoint) enterWait() {
	e.inside++
	e.runner.Store(goroutine())
}

func (e *Endpoint) leaveWait() {
	e.runner.Store(0)
	e.inside--
}

// park waits without polling.
func (e *Endpoint) park(ctx context.Context, w *waiter) {
	w.at = len(e.parked)
	e.parked = append(e.parked, w)
	if w.holds != nil {
		e.conditions = append(e.conditions, w)
	}
	me := e.runner.Swap(0)
	e.unlock()
	select {
	case <-w.wake:
	case <-ctx.Done():
	}
	if !e.mu.TryLock() {
		e.want.Add(1)
		e.carrier.Interrupt()
		e.mu.Lock()
		e.want.Add(-1)
	}
	e.runner.Store(me)
	last := len(e.parked) - 1
	e.parked[w.at] = e.parked[last]
	e.parked[w.at].at = w.at
	e.parked[last] = nil
	e.parked = e.parked[:last]
	if w.holds != nil {
		e.conditions = slices.DeleteFunc(e.conditions, func(x *waiter) bool { return x == w })
	}
	if ctx.Err() != nil || e.over(w) {
		e.passOn() // it may have been woken to lead
	}
}

// lead polls until a waiter is over, its context has ended, the endpoint is of no more use, or
// somebody else must lead.
func (e *Endpoint) lead(ctx context.Context, w *waiter) {
	e.leading = true
	var stop func() bool // nil: the end of the context does not interrupt the card yet
	defer func() {
		if stop != nil {
			stop()
		}
		e.leave()
	}()
	done := ctx.Done()
	probe, idle := firstProbe, int64(0) // since when nothing has come; 0: not looked yet
	for vain, since := 0, 0; !e.over(w) && e.cause.Load() == nil && e.claims == 0; {
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
// While much is unsent nothing is asked: what is under way comes back from a node that is gone, and
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

// exclusively runs something of package am that polls by itself, as the leader, with the endpoint
// bound to a context.
func (e *Endpoint) exclusively(ctx context.Context, doing string, f func() error) error {
	e.enterWait()
	defer e.leaveWait()
	w := e.waiter()
	defer e.recycle(w)
	for e.claims++; e.leading; {
		if c := e.cause.Load(); c != nil || ctx.Err() != nil {
			break
		}
		e.park(ctx, w)
	}
	e.claims--
	switch c := e.cause.Load(); {
	case c != nil:
		e.passOn()
		return fmt.Errorf("%s: %w", doing, *c)
	case ctx.Err() != nil:
		e.passOn()
		return cancelled(ctx, doing)
	}
	e.leading = true
	defer e.leave()
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

// leave ends a goroutine's being the leader.
func (e *Endpoint) leave() {
	e.leading = false
	e.passOn()
}

// passOn wakes a goroutine that may lead.
func (e *Endpoint) passOn() {
	switch {
	case e.leading:
	case e.cause.Load() != nil:
		e.wakeAll()
	case len(e.parked) > 0 && e.claims > 0:
		e.wakeAll() // one of them is who claims to lead
	case len(e.parked) > 0:
		e.parked[0].rouse()
	}
}

// wakeAll has all parked goroutines look again.
func (e *Endpoint) wakeAll() {
	for _, w := range e.parked {
		w.rouse()
	}
}

// drive lets the card run, for package am. In a poll of the leader it also lets others have their
// turn.
func (e *Endpoint) drive() {
	e.carrier.Drive()
	if e.windows != nil {
		e.windows.rma.Poll()
	}
	if !e.leading || e.am.InHandler() {
		return
	}
	if len(e.events.late) > 0 {
		e.events.pass()
	}
	for _, w := range e.conditions {
		if w.holds() {
			w.rouse()
		}
	}
	e.yield()
}

// poll lets the card run and handles what has come. It returns how many messages that were.
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

// guardedPoll is guard of a poll, without a function value for each.
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

// guard runs what may call handlers: what they panic with ends the endpoint, and nothing else.
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

// panicked ends the endpoint: its context leaves the card at once, so that others see it.
func (e *Endpoint) panicked(value any, stack []byte) error {
	p := &PanicError{Value: value, Stack: stack}
	e.fail(p)
	e.detach = true
	return p
}

// report does what is to be done about an error of a poll.
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

// wentWrong takes an error that belongs to no call that waits: a message came back whose Send has
// returned. Without OnError the next call that can return it does.
func (e *Endpoint) wentWrong(err error) {
	if e.onError != nil {
		e.onError(err)
		return
	}
	if e.stray == nil {
		e.stray = err
	}
	for _, w := range e.parked {
		if w.strays {
			w.rouse()
		}
	}
}

// handlerFailed takes the error of a handler. Without OnError it ends the endpoint's use.
func (e *Endpoint) handlerFailed(err error) {
	if e.onError != nil {
		e.onError(err)
		return
	}
	e.fail(err)
}

// takeStray returns an error that belongs to nobody, once; nil: there is none.
func (e *Endpoint) takeStray() error {
	err := e.stray
	e.stray = nil
	return err
}

// fail ends the endpoint's use: everything that waits returns the error, and so does every later
// call.
func (e *Endpoint) fail(err error) {
	if !e.cause.CompareAndSwap(nil, &err) {
		return
	}
	e.wakeAll()
	if e.abort != nil {
		e.abort(err)
	}
}
