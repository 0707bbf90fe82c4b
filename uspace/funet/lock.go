package funet

// This file implements the lock of an endpoint, which is that of its group (package lead): any
// goroutine may call the endpoint, one at a time is inside. No goroutine but a handler keeps the
// lock while it waits.

// lock takes the lock, or returns why the endpoint is unusable. It returns ErrHandler if the
// calling goroutine already holds the lock.
func (e *Endpoint) lock() error {
	if !e.group.TryLock() {
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
	e.group.Lock()
	return nil
}

// unlock releases the lock.
func (e *Endpoint) unlock() {
	e.rouseLoop()
	if e.inside == 0 && e.cause.Load() != nil {
		e.part()
	}
	e.group.Unlock()
}

// yield lets another goroutine have the leader's lock, if one wants it.
func (e *Endpoint) yield() {
	if e.group.Wanted() {
		me := e.runner.Swap(0)
		e.group.Yield()
		e.runner.Store(me)
	}
}
