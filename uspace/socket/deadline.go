package socket

// This file implements the common part of connections and packet connections, and deadlines: a
// channel that is closed when a deadline has passed.

import (
	"errors"
	"net"
	"sync"
	"time"
)

// end is the part that a connection and a packet connection have in common.
type end struct {
	s       *Stack
	local   Addr
	in, out side
	closed  bool
}

// side is one direction.
type side struct {
	mu sync.Mutex // one goroutine at a time
	waiter
	deadline
}

func (s *Stack) newEnd(local Addr) end {
	return end{s: s, local: local, in: side{waiter: s.group.NewWaiter()}, out: side{waiter: s.group.NewWaiter()}}
}

// LocalAddr returns this end's address, an Addr.
func (e *end) LocalAddr() net.Addr { return e.local }

// SetDeadline sets both deadlines, also for calls that already wait; the zero time removes them.
func (e *end) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

// SetReadDeadline is described with SetDeadline.
func (e *end) SetReadDeadline(t time.Time) error { return e.setDeadline(&e.in, t) }

// SetWriteDeadline is described with SetDeadline.
func (e *end) SetWriteDeadline(t time.Time) error { return e.setDeadline(&e.out, t) }

func (e *end) setDeadline(d *side, t time.Time) error {
	e.s.group.Lock()
	defer e.s.group.Unlock()
	if e.closed {
		return wrong("set", e.local, nil, net.ErrClosed)
	}
	d.set(t)
	return nil
}

// deadline belongs to one direction of a connection, or to a listener. The zero value never passes.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{} // nil: no deadline was ever set
	number int           // of the deadline, so that a timer of an earlier one changes nothing
}

// set sets the deadline; zero: none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	over := false
	select {
	case <-d.passed:
		over = true
	default:
	}
	if d.passed == nil || over {
		d.passed = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(d.passed)
		return
	}
	number := d.number
	d.timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.number == number {
			close(d.passed)
		}
	})
}

// done returns the channel; a later set may use another only if this one is closed.
func (d *deadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.passed == nil {
		d.passed = make(chan struct{})
	}
	return d.passed
}

// over reports whether the deadline has passed.
func over(passed <-chan struct{}) bool {
	select {
	case <-passed:
		return true
	default:
		return false
	}
}
