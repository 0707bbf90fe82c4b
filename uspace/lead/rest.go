package lead

// This file implements the keeper's sleep: on the card's descriptor, an alarm and a timer, in the
// poller of Go's runtime. So a sleep occupies no thread, and ends as fast as a read from a TCP
// connection.
//
// None of its system calls waits, so the runtime need not know of them (RawSyscall), and the timer
// is the kernel's, not the runtime's. A system call that the runtime knows of, and a timer of the
// runtime, would also wake the runtime's monitor, a thread that finds nothing to do. That was a
// third of the cost of an idle process, and one more thread switch before each message that ends a
// sleep.

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

// rest is the keeper's sleep. Any goroutine may call the method call; the other methods are the
// keeper's.
type rest struct {
	// The card's own alarm would not do, since any goroutine that lets the card run meanwhile takes
	// back its signal.
	alarm *wait.Alarm
	timer int           // a timerfd
	rings time.Duration // when the timer expires, since start; 0: not set
	start time.Time
	file  *os.File // an epoll instance
	conn  syscall.RawConn
	card  int // the card's descriptor
}

// ringsAlike is the tolerance of the timer. It is not set anew if the end of a sleep differs by
// less from that of the sleep before.
const ringsAlike = time.Millisecond

// oneShot disables the descriptor after its first event, until the next sleep. Otherwise each frame
// that arrives while a goroutine polls would wake a thread of the runtime's poller. The kernel does
// that on the processor of the frame's sender, and it costs more than the frame.
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

// call ends the current sleep, or the next one.
func (r *rest) call() { r.alarm.Call() }

// ready lets a call end the next sleep; false: a call has already been made.
func (r *rest) ready() bool { return r.alarm.Arm() }

// sleep sleeps until the card has something to do, call is called, or the given time has passed; 0:
// no time limit. It may end earlier.
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
