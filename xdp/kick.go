// This file wakes the kernel: Kick to send, WakeRx to receive, Wait to sleep.

package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	kickFrames = 32 // how many frames one sendto sends in copy mode (TX_BATCH_SIZE, net/xdp/xsk.c)
	// kickSpare is how many more sendtos a Kick makes than the ring's frames need. It bounds how
	// long Kick tolerates a busy driver.
	kickSpare = 4
)

// Kick makes the kernel send what is in the tx ring. In copy mode the frames are sent inside the
// call, 32 a system call. Kick goes on until the ring is empty or its bound is reached (frames/32 +
// 4 calls). In zero-copy mode one call starts the NIC, and only if the ring says that it must be
// woken. With nothing to send, or on a closed socket, it makes no call.
//
// ErrTxPending reports frames that are left, because the completion ring is full, the driver is
// busy, or several descriptors were invalid (one costs a call). ErrNetDown and ErrNoInterface are
// as their names say; the frames stay in the ring. Any other error is the kernel's errno. None is
// allocated.
//
// Kick uses a raw system call that the Go scheduler does not see: it saves some
// 50 ns, and blocks the scheduler's P for the few microseconds that sending
// takes. Call it from a goroutine that has locked its OS thread, one at a time.
func (s *Socket) Kick() error {
	pending := min(s.tx.prod-s.tx.consumer.Load(), s.tx.size)
	if pending == 0 || s.zeroCopy && s.info.NeedWakeup && !s.tx.NeedWakeup() {
		return nil
	}
	completion := &s.pair.completion
	for calls := pending/kickFrames + kickSpare; calls > 0; calls-- {
		// The call sends no data and never blocks.
		_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		if e != 0 && !transient(e) {
			return kickError(e)
		}
		// The kernel stores its index when it has found the ring empty, so it
		// may be further than it seems, but never less far.
		if s.zeroCopy || s.tx.consumer.Load() == s.tx.prod {
			return nil
		}
		if completion.Len() == completion.Cap() {
			break
		}
	}
	return ErrTxPending
}

// transient reports whether the next call may get further after this errno. It does after 32 frames
// or with a busy driver (EAGAIN), a frame that the driver dropped and completed (EBUSY), no memory
// for a frame just now (ENOBUFS, ENOMEM), or a signal.
func transient(e unix.Errno) bool {
	switch e {
	case unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		return true
	}
	return false
}

// kickError returns the sentinel of an errno without allocating.
func kickError(e unix.Errno) error {
	switch e {
	case unix.ENETDOWN:
		return ErrNetDown
	case unix.ENXIO:
		return ErrNoInterface
	case unix.EBADF:
		return ErrClosed
	}
	return e
}

// WakeRx makes the kernel look for frames where it does not by itself: when the fill ring has
// frames and says that the driver must be woken to see them, or when busy polling was asked for.
// Otherwise a call costs a load, and in copy mode nothing. In copy mode no driver looks into the
// fill ring (only drivers call xsk_set_rx_need_wakeup), so WakeRx does not read the word that would
// say so. That word lies beside the kernel's index, which the sender's processor writes for each
// frame that it copies.
//
// Call WakeRx after Submit to the fill ring, and now and then while nothing arrives. A driver may
// find the ring empty, and ask to be woken, just after a call that saw no such request. The rules
// for callers and the errors are those of Kick.
func (s *Socket) WakeRx() error {
	if fill := &s.pair.fill; !s.busyPoll && (!s.zeroCopy || !fill.NeedWakeup() || fill.Len() == 0) {
		return nil
	}
	return s.recvfrom()
}

// recvfrom makes the call that wakes reception; it brings no data.
func (s *Socket) recvfrom() error {
	_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	if e == 0 || transient(e) {
		return nil
	}
	return kickError(e)
}

// Wait sleeps until there is something to receive or the timeout has passed; a negative timeout is
// endless. It reports whether the rx ring has an entry. In copy mode the kernel also sends what is
// in the tx ring (xsk_poll). After a timeout Wait looks at the interface, because poll(2) does not
// report one that went down: ErrNetDown, ErrNoInterface. Any goroutine may call it. The scheduler
// knows that it blocks, and waking from it costs tens of microseconds.
func (s *Socket) Wait(timeout time.Duration) (readable bool, err error) {
	if s.fd < 0 {
		return false, fmt.Errorf("wait for frames: the socket is %w; open a new one", ErrClosed)
	}
	deadline := time.Now().Add(timeout)
	fds := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
	for {
		var left *unix.Timespec
		if timeout >= 0 {
			ts := unix.NsecToTimespec(max(0, time.Until(deadline).Nanoseconds()))
			left = &ts
		}
		n, err := unix.Ppoll(fds[:], left, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, sysFault("wait for frames on "+s.info.Interface, err)
		case n > 0 && fds[0].Revents&unix.POLLIN != 0:
			return true, nil
		}
		if err := s.recvfrom(); err != nil {
			return false, fmt.Errorf("wait for frames on %s: %w", s.info.Interface, err)
		}
		return false, nil
	}
}
