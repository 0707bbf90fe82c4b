// This file starts programs in a host of the lab. The host's thread starts them, they are tied to
// it, and they end with the lab.

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a process that Start started. The pidfd names it even after its pid is used again.
type child struct {
	pid   int
	pidfd int
}

// Command prepares a program for Start on host. The program will have its own process group and die
// with the lab. Start reports a bad host or a program that is not found.
func (l *Lab) Command(host int, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if _, err := l.space(host); err != nil && cmd.Err == nil {
		cmd.Err = err
	}
	cmd.SysProcAttr = bound(cmd.SysProcAttr)
	return cmd
}

// bound returns attr with the settings that tie a child to the lab.
func bound(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	var a syscall.SysProcAttr
	if attr != nil {
		a = *attr
	}
	// A group of its own keeps the terminal's Ctrl-C away from it, for the caller to forward to
	// -pid; a new session is a new group too.
	a.Setpgid = !a.Setsid
	// Sent when the thread that forked ends, not the process (prctl(2)): the host's thread.
	a.Pdeathsig = syscall.SIGKILL
	return &a
}

// Start starts cmd inside the namespace of host, otherwise as cmd.Start does; cmd need not come
// from Command. The child leads a process group, which gets the signals sent to -cmd.Process.Pid.
// The child is killed when this process ends, however it ends, unless its program is set-user-ID or
// has capabilities (prctl(2)). Close kills it at the latest. Wait for the child as usual. Errors:
// those of cmd.Start, ErrNoHost, ErrClosed.
func (l *Lab) Start(host int, cmd *exec.Cmd) error {
	s, err := l.space(host)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = bound(cmd.SysProcAttr)
	if cmd.Dir == "" {
		// The thread no longer follows the process's working directory (unshare(2), CLONE_FS).
		if cmd.Dir, err = os.Getwd(); err != nil {
			// it has been deleted, and has no path
			cmd.Dir = fmt.Sprintf("/proc/%d/cwd", os.Getpid())
		}
	}
	err = s.do(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			return ErrClosed
		}
		l.children = slices.DeleteFunc(l.children, (*child).forget)
		if err := cmd.Start(); err != nil {
			return err
		}
		// Nobody can have waited for it yet, so the pid is still its own.
		pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
		if err != nil {
			err = fmt.Errorf("open a pidfd: %w", err)
			return join(err, cmd.Process.Kill(), cmd.Wait())
		}
		l.children = append(l.children, &child{cmd.Process.Pid, pidfd})
		return nil
	})
	if err != nil {
		return fmt.Errorf("start %s on host %d: %w", cmd.Path, host, err)
	}
	return nil
}

// signalGroup is PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h. With it pidfd_send_signal(2) signals
// the group that the process leads or led. Linux before 6.9 answers EINVAL.
const signalGroup = 1 << 2

// forget closes the pidfd of a child and returns true, if it was waited for and its group is empty.
func (c *child) forget() bool {
	waited := unix.Waitid(unix.P_PIDFD, c.pidfd, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if waited != unix.ECHILD || unix.PidfdSendSignal(c.pidfd, 0, nil, signalGroup) == nil {
		return false
	}
	unix.Close(c.pidfd)
	return true
}

// killDeadline bounds the wait for a killed child. It is long because the kernel may be busy
// closing the child's sockets.
const killDeadline = 10 * time.Second

// endAll kills the children and their groups, waits for the children and closes their pidfds.
func endAll(children []*child) error {
	var errs []error
	for _, c := range children {
		// The group first: it has what the child started. Without members, or on a kernel that
		// cannot, there is only the child.
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, signalGroup)
		err := unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("kill process %d: %w", c.pid, err))
		}
	}
	deadline := time.Now().Add(killDeadline)
	for _, c := range children {
		if err := c.wait(deadline); err != nil {
			errs = append(errs, err)
		}
		unix.Close(c.pidfd)
	}
	return join(errs...)
}

// wait waits until the child has ended, and reaps it unless that was done elsewhere.
func (c *child) wait(deadline time.Time) error {
	if err := c.awaitEnd(deadline); err != nil {
		return err
	}
	err := unix.Waitid(unix.P_PIDFD, c.pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
	if err != nil && err != unix.ECHILD {
		return fmt.Errorf("reap process %d: %w", c.pid, err)
	}
	return nil
}

// awaitEnd waits until the process has ended.
func (c *child) awaitEnd(deadline time.Time) error {
	for {
		left := max(0, time.Until(deadline))
		// A pidfd becomes readable when its process ends (pidfd_open(2)).
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", c.pid, err)
		case n == 0:
			return fmt.Errorf("%w: process %d, %v after SIGKILL", ErrKill, c.pid, killDeadline)
		}
		return nil
	}
}
