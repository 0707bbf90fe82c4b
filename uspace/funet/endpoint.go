package funet

// This file defines the endpoint, its parts, and how it ends.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/lead"
)

// Endpoint is a process's place in a job. Any goroutine may call its methods. A handler may use its
// Message, and otherwise only methods that do not wait (ErrHandler).
type Endpoint struct {
	carrier Carrier
	iface   *funi.Interface
	end     context.CancelCauseFunc // of the carrier's own context, which ends its waits
	onError func(error)             // nil: none

	group *lead.Group // its lock guards everything below but the atomic fields
	// the goroutine that holds the lock and may be running code of the program; 0: none
	runner atomic.Uintptr
	cause  atomic.Pointer[error] // why the endpoint is unusable; nil: it is usable

	am *am.Endpoint
	// number of polls in vain between two chances for other goroutines to run
	turns      int
	inside     int                     // goroutines in a wait
	abort      context.CancelCauseFunc // ends a poll in package am; nil: there is none to end
	conditions []*waiter               // parked goroutines whose waits end by more than complete
	idle       []*waiter               // a pool
	stray      error                   // an error that belongs to no call and was not returned yet
	armed      bool                    // an event loop sleeps (loop.go)
	memory     memory
	together   together
	events     events
	windows    *Windows   // nil: not asked for
	sweep      func()     // of the library that drives the card (beside.go); nil: there is none
	messages   [2]Message // of the handlers that run
	depth      int

	recall func() // of Watch; nil: there is none

	detach   bool          // the context must leave the card as soon as no goroutine polls
	closing  bool          // Close was called
	left     chan struct{} // closed when no goroutine is inside any more, for Close
	released chan struct{} // closed when the carrier is closed; nil: not begun
	ended    error         // of the carrier, when released is closed
}

// lingerMost is how long Close waits when its context has no deadline: as long as a daemon does.
const lingerMost = time.Minute

// grace is the time that a carrier has, at the deadline, to end its wait by itself and to report
// what was left undelivered.
const grace = 5 * time.Millisecond

// newEndpoint puts the parts together.
func newEndpoint(c Carrier, g *lead.Group, node, nodes int, end context.CancelCauseFunc,
	onError func(error)) (*Endpoint, error) {
	e := &Endpoint{carrier: c, group: g, iface: c.Interface(), end: end, onError: onError}
	if e.turns = turn * patience; runtime.GOMAXPROCS(0) == 1 {
		e.turns = patience
	}
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // it never fails
	var err error
	if e.am, err = am.New(e.iface, node, nodes, e.drive, binary.LittleEndian.Uint64(seed[:])); err != nil {
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

// Carrier returns the card, for its clock, counters and faults. On an open endpoint only Now may be
// called at the same time as other methods.
func (e *Endpoint) Carrier() Carrier { return e.carrier }

// Err returns nil while the endpoint is usable, and otherwise the reason: ErrClosed, the error or
// panic of a handler, or the loss of the daemon. Handlers may call it.
func (e *Endpoint) Err() error {
	if c := e.cause.Load(); c != nil {
		return *c
	}
	return nil
}

// AM calls f with the active messages of the endpoint, holding its lock: words, transfers and
// shared memory (package am), whose rules apply. While f waits, all other goroutines wait, too. AM
// returns the error of f, or ErrHandler within a handler.
func (e *Endpoint) AM(f func(*am.Endpoint) error) error {
	a, err := e.Enter()
	if err != nil {
		return err
	}
	defer e.Exit()
	return f(a)
}

// Enter begins what AM does without a function, for a caller to which that is dear. Exit ends it,
// in the same goroutine, also after a panic. In between the caller may call Push and PollWithin,
// and what Windows.Do passes to its function, but does not wait.
func (e *Endpoint) Enter() (*am.Endpoint, error) {
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("taking the endpoint of node %d: %w", e.Node(), err)
	}
	e.runner.Store(goroutine())
	return e.am, nil
}

// Exit ends what Enter began.
func (e *Endpoint) Exit() {
	if err := e.am.Failed(); err != nil {
		e.report(err)
	}
	e.runner.Store(0)
	e.group.PassOn()
	e.unlock()
}

// Close waits until everything sent has been delivered, and gives the place in the job back. It
// waits at most until the context ends, or a minute without a deadline. Messages that have not been
// handled are discarded; so if others may still send something, a Barrier comes first. Everything
// that waits on the endpoint returns ErrClosed, and so does a second Close. Close returns an error
// when something was left undelivered, and ErrHandler within a handler.
func (e *Endpoint) Close(ctx context.Context) error {
	if !e.group.TryLock() {
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
		e.group.Lock()
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

// part closes an endpoint that has failed or is being closed, once no goroutine is inside it.
func (e *Endpoint) part() {
	if e.left != nil {
		close(e.left)
		e.left = nil
	} else if e.detach && e.released == nil {
		e.released = make(chan struct{})
		go e.release(0)
	}
}

// release closes the carrier, without the lock, since no goroutine uses it any more.
func (e *Endpoint) release(linger time.Duration) {
	e.ended = e.carrier.Close(linger)
	e.end(ErrClosed)
	if e.events.to != nil {
		close(e.events.to)
	}
	close(e.released)
}
