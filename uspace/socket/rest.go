package socket

// This file is a sleep: on the card's descriptor and an alarm, in the poller of Go's runtime, so that a sleep keeps no thread, and its end
// takes as long as that of a read from a TCP connection.

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/funet/funet/uspace/wait"
	"golang.org/x/sys/unix"
)

// rest is where the sleeper sleeps. call may come from any goroutine; the other methods are the sleeper's.
type rest struct {
	alarm *wait.Alarm // the card's own would not do, since whoever lets the card run in between takes back what it says
	file  *os.File    // an epoll instance
	conn  syscall.RawConn
	card  int // the card's descriptor
}

// oneShot: the descriptor wakes nobody after its first event, until the next sleep. Otherwise each frame that comes while somebody polls would
// wake a thread of the runtime's poller, which costs the sender of the frame, on whose processor the kernel does that, more than the frame.
const oneShot = unix.EPOLLIN | unix.EPOLLONESHOT

// newRest makes one for the card's descriptor.
func newRest(fd int) (_ *rest, err error) {
	r := &rest{card: fd}
	if r.alarm, err = wait.NewAlarm(); err != nil {
		return nil, err
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making an epoll instance: %w", err), r.alarm.Close())
	}
	err = errors.Join(unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: oneShot, Fd: int32(fd)}),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, r.alarm.FD(), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(r.alarm.FD())}))
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

// sleep sleeps until the card has something to do, somebody calls, or a time has passed, 0: for ever.
func (r *rest) sleep(most time.Duration) {
	var until time.Time
	if most > 0 {
		until = time.Now().Add(most)
	}
	_ = r.file.SetReadDeadline(until)
	fds := []unix.PollFd{{Events: unix.POLLIN}}
	armed := false
	_ = r.conn.Read(func(fd uintptr) bool { // the deadline is a reason to look, too
		if fds[0].Fd = int32(fd); !armed {
			armed = true
			if err := unix.EpollCtl(int(fd), unix.EPOLL_CTL_MOD, r.card, &unix.EpollEvent{Events: oneShot, Fd: int32(r.card)}); err != nil {
				return true // and polls
			}
		}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
	r.alarm.Disarm()
}

func (r *rest) close() error { return errors.Join(r.file.Close(), r.alarm.Close()) }
