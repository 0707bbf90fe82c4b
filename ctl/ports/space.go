package ports

// This file is the network namespace of the inner ends. A thread stays in it, because entering it
// again would take CAP_SYS_ADMIN. The helper hands out no descriptor of it: its holder could enter.

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type space struct {
	file   *os.File
	handle *netlink.Handle
	work   chan func()
	spent  time.Duration // processor time of the thread for its work
}

// newSpace makes a new namespace, or enters that of a previous helper. It owns the file before.
func newSpace(before *os.File) (*space, error) {
	s, made := &space{file: before, work: make(chan func())}, make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := s.prepare()
		made <- err
		if err != nil {
			return
		}
		for f := range s.work {
			f()
		}
	}()
	if err := <-made; err != nil {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
		return nil, fmt.Errorf("making a network namespace for ports, or entering it: %w", err)
	}
	return s, nil
}

func (s *space) prepare() (err error) {
	if s.file != nil {
		if err := unix.Setns(s.fd(), unix.CLONE_NEWNET); err != nil {
			return err
		}
		s.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("%w; it takes CAP_SYS_ADMIN for a moment: run the process that makes ports as a unit of its own (funid unit --ports), or funid as root", err)
	}
	// Else inner ends send what IPv6 says by itself. A kernel without IPv6 has no such file.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("switching IPv6 off: %w", err)
	}
	if s.file, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	s.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
	return err
}

func (s *space) fd() int { return int(s.file.Fd()) }

func (s *space) do(f func() error) (err error) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		begin := ThreadTime()
		err = f()
		s.spent += ThreadTime() - begin
	}
	<-done
	return err
}

// ThreadTime returns the processor time that the calling thread has used (clock_gettime(2)).
func ThreadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // every kernel has it
	}
	return time.Duration(t.Nano())
}

// close leaves the namespace, which ends with what is in it.
func (s *space) close() {
	close(s.work)
	s.handle.Close()
	_ = s.file.Close() // nothing was written
}
