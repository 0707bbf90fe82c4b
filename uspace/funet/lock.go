package funet

// This file is the lock of an endpoint: any goroutine may call it, one at a time is inside.
//
// Who finds the lock free takes it with one atomic operation. Who does not says that it wants it,
// and ends the sleep of the goroutine that polls (wait.go), which then gives the lock up between
// two polls. Nobody keeps the lock while it waits for something, but for a handler that does: so
// who wants it gets it soon, and needs no context.

import "runtime"

// lock takes the lock, or returns why the endpoint is of no more use; ErrHandler if this very
// goroutine has it.
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

// contend takes the lock when another has it.
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

// unlock gives the lock back. An event loop that sleeps since Arm looks again: the card may have
// done on this call what would have ended its sleep.
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

// yield has the leader let another goroutine have the lock, if one wants it. That one does not
// yield in turn: what it begins in package am is not done when package am lets the card run, and
// nobody may be in there meanwhile.
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
