package wait

// This file ends sleeps from outside: an eventfd among the descriptors of who sleeps, which any
// goroutine may have written.
//
// Who is about to sleep says so, and looks once more; who calls says so first, looks whether
// anybody sleeps, and writes the descriptor only then (rule 6 of doc.go). So a call while nobody
// sleeps costs two words of memory, and no call is lost: it ends the sleep that is under way, or
// the next one.

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alarm ends sleeps. Any goroutine may use Call, also after Close; the other methods are for the
// one that sleeps.
type Alarm struct {
	called atomic.Bool // since the last sleep or Arm
	asleep atomic.Bool // in Sleep
	armed  atomic.Bool // somebody waits for the descriptor, in an event loop
	mu     sync.Mutex  // so that Close does not take the descriptor from under a Call
	fd     int         // -1: closed
}

// NewAlarm makes an alarm, which has a descriptor until Close.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("making an eventfd: %w", err)
	}
	return &Alarm{fd: fd}, nil
}

// FD returns the descriptor, which is readable when a sleep is to end: one of those given to Sleep.
func (a *Alarm) FD() int { return a.fd }

// Call ends the sleep that is under way, or the next one.
func (a *Alarm) Call() {
	a.called.Store(true)
	if !a.asleep.Load() && !a.armed.Load() {
		return // who sleeps next looks at the word first
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd >= 0 {
		_, _ = unix.Write(a.fd, []byte{1, 1, 1, 1, 1, 1, 1, 1}) // a full counter is readable, too
	}
}

// Sleep is Waiter.Sleep that a call ends as well; fds has the alarm's descriptor, which is not
// readable afterwards. It reports whether a descriptor is ready.
func (a *Alarm) Sleep(w *Waiter, fds []unix.PollFd, nanoseconds int64) bool {
	a.asleep.Store(true)
	ready := false
	if !a.called.Load() {
		ready = w.Sleep(fds, nanoseconds)
	}
	a.asleep.Store(false)
	called := a.called.Swap(false)
	for i := range fds {
		called = called || ready && int(fds[i].Fd) == a.fd && fds[i].Revents != 0
	}
	if called {
		a.drain()
	}
	return ready
}

// Arm has the next call make the descriptor readable, for an event loop that waits for it. It
// returns false, and does nothing, if there has been a call since the last Sleep or Arm.
func (a *Alarm) Arm() bool {
	a.armed.Store(true)
	if a.called.Swap(false) {
		a.Disarm()
		return false
	}
	return true
}

// Armed reports whether Arm is in force.
func (a *Alarm) Armed() bool { return a.armed.Load() }

// Disarm takes Arm back. The descriptor is not readable afterwards, unless somebody is in Call.
func (a *Alarm) Disarm() {
	a.armed.Store(false)
	a.called.Store(false)
	a.drain()
}

// drain does not wait, so Go's runtime, whose monitor that would wake, need not know of the system
// call.
func (a *Alarm) drain() {
	var count [8]byte
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(a.fd), uintptr(unsafe.Pointer(&count[0])), uintptr(len(count)))
}

// Close gives the descriptor back.
func (a *Alarm) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	fd := a.fd
	a.fd = -1
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}
