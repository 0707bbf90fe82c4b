package wait

// This file ends sleeps from outside, with an eventfd among the sleeper's descriptors. Any
// goroutine may cause a write to it.
//
// The sleeper notes that it is about to sleep, then looks once more. The caller notes its call
// first, then looks whether anybody sleeps, and writes the descriptor only in that case (rule 6 of
// doc.go). So a call while nobody sleeps costs two words of memory. And no call is lost: it ends
// the sleep that is under way, or the next one.

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alarm ends sleeps. Any goroutine may use Call, even after Close; the other methods are for the
// goroutine that sleeps.
type Alarm struct {
	called atomic.Bool // since the last sleep or Arm
	asleep atomic.Bool // in Sleep
	armed  atomic.Bool // somebody waits for the descriptor, in an event loop
	mu     sync.Mutex  // keeps Close from closing fd during a Call
	fd     int         // -1: closed
}

// NewAlarm makes an alarm. It has a descriptor until Close.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("making an eventfd: %w", err)
	}
	return &Alarm{fd: fd}, nil
}

// FD returns the descriptor, one of those to give to Sleep. It is readable when a sleep is to end.
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

// Sleep is Waiter.Sleep, except that Call ends it as well. fds includes the alarm's descriptor,
// which is not readable afterwards. Sleep reports whether a descriptor is ready.
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

// Arm has the next Call make the descriptor readable, for an event loop that waits for it. It
// returns false, and does nothing, if there has been a Call since the last Sleep or Arm.
func (a *Alarm) Arm() bool {
	a.armed.Store(true)
	if a.called.Swap(false) {
		a.Disarm()
		return false
	}
	return true
}

// Disarm undoes Arm. The descriptor is not readable afterwards, unless a Call is under way.
func (a *Alarm) Disarm() {
	a.armed.Store(false)
	a.called.Store(false)
	a.drain()
}

// drain empties the eventfd. It does not wait, so it uses a system call that Go's runtime does not
// see, which does not wake the runtime's monitor.
func (a *Alarm) drain() {
	var count [8]byte
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(a.fd), uintptr(unsafe.Pointer(&count[0])), uintptr(len(count)))
}

// Close closes the descriptor.
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
