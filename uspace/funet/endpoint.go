package funet

// This file is the endpoint: what it consists of, words under its lock, and its end.

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Endpoint is a process's place in a job. All methods are for any goroutine, but for handlers: one
// of these may use its Message, and otherwise only what does not wait (ErrHandler).
type Endpoint struct {
	carrier Carrier
	iface   *funi.Interface
	end     context.CancelCauseFunc // of the carrier's own context, which ends its waits
	onError func(error)             // nil: none

	mu   sync.Mutex   // everything below, but for the atomic ones
	want atomic.Int32 // goroutines that have not got it at once
	// the goroutine that may be in code of the program, with mu; 0: none
	runner atomic.Uintptr
	cause  atomic.Pointer[error] // why the endpoint is of no more use; nil: it is

	am *am.Endpoint
	// polls in vain between two times that other goroutines may run
	turns      int
	leading    bool                    // a goroutine polls (wait.go)
	lent       bool                    // the leader waits for the lock that it has let others have
	inside     int                     // goroutines in a wait
	claims     int                     // goroutines that want to lead themselves
	abort      context.CancelCauseFunc // ends what polls in package am; nil: nothing does
	parked     []*waiter               // the others
	conditions []*waiter               // those of them that have one
	idle       []*waiter               // a pool
	stray      error                   // that belongs to no call and was not returned yet
	armed      bool                    // an event loop sleeps (loop.go)
	memory     memory
	together   together
	events     events
	windows    *Windows   // nil: not asked for
	messages   [2]Message // of the handlers that run
	depth      int

	detach   bool          // the context is to leave the card as soon as nobody polls
	closing  bool          // Close was called
	left     chan struct{} // closed when nobody is inside any more, for Close
	released chan struct{} // closed when the carrier is; nil: not begun
	ended    error         // of the carrier, when released is closed
}

// lingerMost is how long Close waits when its context has no deadline: as long as a daemon does.
const lingerMost = time.Minute

// grace is how long a carrier has to end its wait at the deadline by itself, and to say what was
// left.
const grace = 5 * time.Millisecond

// newEndpoint puts the parts together.
func newEndpoint(c Carrier, node, nodes int, seed uint64, end context.CancelCauseFunc,
	onError func(error)) (*Endpoint, error) {
	e := &Endpoint{carrier: c, iface: c.Interface(), end: end, onError: onError}
	if e.turns = turn * patience; runtime.GOMAXPROCS(0) == 1 {
		e.turns = patience
	}
	var err error
	if e.am, err = am.New(e.iface, node, nodes, e.drive, seed); err != nil {
		return nil, err
	}
	e.am.Wakes(c.Interrupt)
	e.together.init(e)
	return e, nil
}

// Node returns this process's number in the job, from 0.
func (e *Endpoint) Node() int { return e.am.Node() }

// Nodes returns how many processes the job has.
func (e *Endpoint) Nodes() int { return e.am.Nodes() }

// Carrier returns the card, for its clock, counters and faults. Only Now of an open endpoint may be
// called beside others.
func (e *Endpoint) Carrier() Carrier { return e.carrier }

// Err returns why the endpoint is of no more use: ErrClosed, the error or panic of a handler, that
// the daemon has gone; nil while it is. Handlers may call it.
func (e *Endpoint) Err() error {
	if c := e.cause.Load(); c != nil {
		return *c
	}
	return nil
}

// AM gives f the active messages of the endpoint, with its lock: words, transfers and shared memory
// (package am), whose rules hold. Whatever f waits for all others wait for, too. It returns what f
// does; ErrHandler within a handler.
func (e *Endpoint) AM(f func(*am.Endpoint) error) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("taking the endpoint of node %d: %w", e.Node(), err)
	}
	defer func() {
		e.report(e.am.Failed())
		e.runner.Store(0)
		e.passOn()
		e.unlock()
	}()
	e.runner.Store(goroutine())
	return f(e.am)
}

// Close waits until everything sent has been delivered, at most until the context ends (without a
// deadline a minute), and gives the place in the job back. Messages that have not been handled are
// discarded: where others may still send something, a Barrier comes first. Everything that waits on
// the endpoint returns ErrClosed, and so does a second Close. It returns an error when something
// was left undelivered. ErrHandler within a handler.
func (e *Endpoint) Close(ctx context.Context) error {
	if !e.mu.TryLock() {
		if err := e.contend(); err != nil {
			return fmt.Errorf("closing the endpoint of node %d: %w", e.Node(), err)
		}
	}
	if e.closing {
		e.unlock()
		return fmt.Errorf("closing the endpoint of node %d: %w", e.Node(), ErrClosed)
	}
	e.closing = true
	e.fail(ErrClosed)
	if e.inside > 0 {
		left := make(chan struct{})
		e.left = left
		e.unlock()
		e.carrier.Interrupt()
		<-left // they have all been woken
		e.mu.Lock()
	}
	linger := lingerMost
	if end, ok := ctx.Deadline(); ok {
		linger = max(time.Until(end), 0)
	}
	if e.released != nil { // a handler panicked
		e.unlock()
		<-e.released
		return e.ended
	}
	e.released = make(chan struct{})
	e.sayLeave(ctx)
	e.unlock()
	defer context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			time.Sleep(grace)
		}
		e.end(context.Cause(ctx))
		e.carrier.Interrupt()
	})()
	e.release(linger)
	return e.ended
}

// part is called when nobody is inside an endpoint any more that has failed or is being closed.
func (e *Endpoint) part() {
	if e.left != nil {
		close(e.left)
		e.left = nil
	} else if e.detach && e.released == nil {
		e.released = make(chan struct{})
		go e.release(0)
	}
}

// release closes the carrier, without the lock: nobody uses it any more.
func (e *Endpoint) release(linger time.Duration) {
	e.ended = e.carrier.Close(linger)
	e.end(ErrClosed)
	if e.events.to != nil {
		close(e.events.to)
	}
	close(e.released)
}
