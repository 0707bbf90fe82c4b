package funet

// This file implements the lock of an endpoint: any goroutine may call it, one at a time is inside.
//
// A goroutine that finds the lock free takes it with one atomic operation. Otherwise it registers
// its wish and ends the sleep of the goroutine that polls (wait.go), which then releases the lock
// between two polls. No goroutine but a handler keeps the lock while it waits. So the lock is
// obtained soon, and taking it needs no context.

import "runtime"

// lock takes the lock, or returns why the endpoint is unusable. It returns ErrHandler if the
// calling goroutine already holds the lock.
func (e *Endpoint) lock() error {
	if !e.mu.TryLock() {
		if err := e.contend(); err != nil {
			return err
		}
	}
	if c := e.cause.Load(); c != nil {
		e.unlock()
		return *c
	}
	return nil
}

// contend takes the lock when another goroutine holds it.
func (e *Endpoint) contend() error {
	if e.runner.Load() == goroutine() {
		return ErrHandler
	}
	e.want.Add(1)
	e.carrier.Interrupt()
	e.mu.Lock()
	e.want.Add(-1)
	return nil
}

// unlock releases the lock. An event loop that sleeps since Arm looks again, because this call may
// have let the card do what would have ended the sleep.
func (e *Endpoint) unlock() {
	if e.armed {
		e.armed = false
		e.carrier.Interrupt()
	}
	if e.inside == 0 && e.cause.Load() != nil {
		e.part()
	}
	e.mu.Unlock()
}

// yield lets another goroutine have the leader's lock, if one wants it. That goroutine does not
// yield in turn. It may be in the middle of an operation of package am when package am lets the
// card run, and no other goroutine may enter package am then.
func (e *Endpoint) yield() {
	if e.want.Load() == 0 || e.lent {
		return
	}
	e.lent = true
	me := e.runner.Swap(0)
	e.mu.Unlock()
	runtime.Gosched() // to the goroutine that Unlock has made ready
	e.mu.Lock()
	e.runner.Store(me)
	e.lent = false
}
