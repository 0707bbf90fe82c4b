package socket

// This file implements deadlines: a channel that is closed when a deadline has passed.

import (
	"sync"
	"time"
)

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
