// This file has the raw system calls behind a socket: options, ring mappings and bind.

package xdp

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const busyStep = 2 * time.Millisecond

// busyWait is how long bind may return EBUSY before that is final. A kernel worker releases a
// closed socket's queue after an RCU grace period (xp_put_pool in net/xdp/xsk_buff_pool.c);
// until then bind returns EBUSY. Beside many processes that compute, and namespaces that are
// made and unmade under the same lock, that takes seconds. Only tests change it.
var busyWait = 10 * time.Second

func setsockopt(fd, level, option int, value unsafe.Pointer, size uintptr) error {
	_, _, e := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(value), size, 0)
	if e != 0 {
		return e
	}
	return nil
}

// getsockopt reads one SOL_XDP option into a T. A kernel older than T leaves the fields that it
// does not know zero.
func getsockopt[T any](fd, option int) (T, error) {
	var value T
	size := uint32(unsafe.Sizeof(value))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return value, e
	}
	return value, nil
}

// mmapOffsets returns where the indices and slots lie in each ring's mapping. The flags word came
// with Linux 5.4; without it the package cannot work.
func mmapOffsets(fd int) (unix.XDPMmapOffsets, error) {
	off, err := getsockopt[unix.XDPMmapOffsets](fd, unix.XDP_MMAP_OFFSETS)
	if err == nil && off.Cr.Flags == 0 {
		err = unix.EOPNOTSUPP
	}
	return off, err
}

// sameNamespace compares the network namespaces of two sockets, because interface indices repeat in
// each. A kernel before 5.14 does not tell; then the two are taken to be the same.
func sameNamespace(a, b int) bool {
	x, _ := unix.GetsockoptUint64(a, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	y, _ := unix.GetsockoptUint64(b, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return x == y
}

// setBusyPoll sets those of the three options that were asked for. It notes the first refusal,
// which does not stop the socket from working.
func (s *Socket) setBusyPoll(b BusyPoll) {
	if b == (BusyPoll{}) {
		return
	}
	prefer := 0
	if b.Prefer {
		prefer = 1
	}
	for _, o := range []struct {
		name          string
		option, value int
	}{
		{"SO_PREFER_BUSY_POLL", unix.SO_PREFER_BUSY_POLL, prefer},
		{"SO_BUSY_POLL", unix.SO_BUSY_POLL, b.Micros},
		{"SO_BUSY_POLL_BUDGET", unix.SO_BUSY_POLL_BUDGET, b.Budget},
	} {
		if o.value == 0 {
			continue
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o.option, o.value); err != nil {
			s.info.BusyPollErr = sysFault(fmt.Sprintf("set %s to %d", o.name, o.value), err)
			return
		}
	}
	s.info.BusyPoll, s.busyPoll = true, true
}

// bind takes the queue in a mode and reads which mode it got.
func (s *Socket) bind(c *SocketConfig, mode BindMode, deadline time.Time) error {
	addr := unix.SockaddrXDP{Ifindex: uint32(s.info.Index), QueueID: s.info.Queue}
	doing := "bind " + mode.String()
	if c.Shared != nil {
		// xsk_bind: shared sockets have no flags of their own.
		addr.Flags, addr.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(c.Shared.fd)
		doing += " with shared UMEM"
	} else {
		if c.NeedWakeup {
			addr.Flags |= unix.XDP_USE_NEED_WAKEUP
		}
		if c.MultiBuffer {
			addr.Flags |= unix.XDP_USE_SG
		}
		if mode == BindZeroCopy {
			addr.Flags |= unix.XDP_ZEROCOPY
		} else {
			addr.Flags |= unix.XDP_COPY
		}
	}
	// A refused bind leaves the socket as it was (xsk_bind), so it can be repeated.
	err := patiently(deadline, unix.EBUSY, func() error { return unix.Bind(s.fd, &addr) })
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	options, err := getsockopt[uint32](s.fd, unix.XDP_OPTIONS)
	if err != nil {
		return fmt.Errorf("read mode: %w", err)
	}
	s.zeroCopy = options&unix.XDP_OPTIONS_ZEROCOPY != 0
	s.info.Mode = BindCopy
	if s.zeroCopy {
		s.info.Mode = BindZeroCopy
	}
	return nil
}

// patiently calls f until it returns something other than that errno, or the deadline has passed.
func patiently(deadline time.Time, errno unix.Errno, f func() error) error {
	err := f()
	for errors.Is(err, errno) && time.Now().Before(deadline) {
		time.Sleep(busyStep)
		err = f()
	}
	return err
}
