package socket

// This file is a sleep: on the card's descriptor, an alarm and a timer, in the poller of Go's
// runtime. So a sleep keeps no thread, and its end takes as long as that of a read from a TCP
// connection.
//
// None of its system calls waits, so the runtime need not know of them (RawSyscall), and the timer
// is the kernel's, not the runtime's. A system call that the runtime knows of, and a timer of its
// own, would wake the runtime's monitor as well, a thread that finds nothing to do. That was a
// third of what an idle process cost, and one more switch of threads before each message that
// somebody sleeps for.

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/wait"
	"golang.org/x/sys/unix"
)

// rest is where the sleeper sleeps. call may come from any goroutine; the other methods are the
// sleeper's.
type rest struct {
	// the card's own would not do, since whoever lets the card run in between takes back what it
	// says
	alarm *wait.Alarm
	timer int           // a timerfd
	rings time.Duration // when the timer expires, after start; 0: it is not set
	start time.Time
	file  *os.File // an epoll instance
	conn  syscall.RawConn
	card  int // the card's descriptor
}

// ringsAlike: the timer is left as it is if the end of a sleep differs by less from that of the
// sleep before.
const ringsAlike = time.Millisecond

// oneShot: the descriptor wakes nobody after its first event, until the next sleep. Otherwise each
// frame that comes while somebody polls would wake a thread of the runtime's poller, which costs
// the sender of the frame, on whose processor the kernel does that, more than the frame.
const oneShot = unix.EPOLLIN | unix.EPOLLONESHOT

// newRest makes one for the card's descriptor.
func newRest(fd int) (_ *rest, err error) {
	r := &rest{card: fd, start: time.Now()}
	if r.alarm, err = wait.NewAlarm(); err != nil {
		return nil, err
	}
	if r.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("making a timer: %w", err), r.alarm.Close())
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making an epoll instance: %w", err), unix.Close(r.timer), r.alarm.Close())
	}
	err = errors.Join(unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: oneShot, Fd: int32(fd)}),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, r.alarm.FD(),
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(r.alarm.FD())}),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, r.timer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(r.timer)}))
	if err == nil {
		err = unix.SetNonblock(epoll, true) // so that os gives it to the runtime's poller
	}
	r.file = os.NewFile(uintptr(epoll), "epoll")
	if err == nil {
		r.conn, err = r.file.SyscallConn()
	}
	if err == nil {
		err = r.file.SetReadDeadline(time.Time{}) // which fails where the poller does not take it
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a descriptor to sleep on: %w", err), r.close())
	}
	return r, nil
}

// call ends the sleep that is under way, or the next one.
func (r *rest) call() { r.alarm.Call() }

// ready makes a call end the sleep that follows; false: there has been one.
func (r *rest) ready() bool { return r.alarm.Arm() }

// sleep sleeps until the card has something to do, somebody calls, or a time has passed, 0: for
// ever. It may end early.
func (r *rest) sleep(most time.Duration) {
	defer r.alarm.Disarm()
	if err := r.ring(most); err != nil {
		return // and polls
	}
	armed := false
	_ = r.conn.Read(func(fd uintptr) bool {
		if !armed {
			armed = true
			if err := unix.EpollCtl(int(fd), unix.EPOLL_CTL_MOD, r.card,
				&unix.EpollEvent{Events: oneShot, Fd: int32(r.card)}); err != nil {
				return true // and polls
			}
		}
		var events [1]unix.EpollEvent
		n, _, err := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&events[0])), 1, 0, 0, 0)
		return n > 0 || err != 0 && err != unix.EINTR
	})
}

// ring sets the timer. One that has expired is not readable any more, unless it is left as it is
// (ringsAlike).
func (r *rest) ring(most time.Duration) error {
	rings := time.Duration(0)
	if most > 0 {
		rings = time.Since(r.start) + most
	}
	if (rings > 0) == (r.rings > 0) && (rings-r.rings).Abs() < ringsAlike {
		return nil
	}
	t := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(most))}
	if err := unix.TimerfdSettime(r.timer, 0, &t, nil); err != nil {
		return err
	}
	r.rings = rings
	return nil
}

func (r *rest) close() error {
	return errors.Join(r.file.Close(), unix.Close(r.timer), r.alarm.Close())
}
