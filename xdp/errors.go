// This file has the errors that a caller decides on. Every error of this package is one line: what
// was being done, with what, why it failed, and the cure.

package xdp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var (
	// ErrNoInterface reports that this thread's network namespace has no such interface, or that
	// the interface has gone since the socket was bound.
	ErrNoInterface = errors.New("no such interface")
	// ErrNetDown reports that the interface is administratively down.
	ErrNetDown    = errors.New("interface is down")
	ErrPermission = errors.New("permission denied") // reports that a capability is missing
	// ErrMemlock reports a UMEM that is larger than RLIMIT_MEMLOCK allows.
	ErrMemlock = errors.New("locked memory limit reached")
	// ErrQueueRange reports that the interface has no queue of that number.
	ErrQueueRange = errors.New("queue out of range")
	ErrBusy       = errors.New("queue is busy") // reports that another socket has the queue
	// ErrNotSupported reports that the driver or the kernel cannot do what was asked.
	ErrNotSupported = errors.New("not supported")
	// ErrNoHugePages reports that there are fewer free huge pages than the UMEM needs.
	ErrNoHugePages = errors.New("no huge pages")
	// ErrProgramAttached reports that the interface already has an XDP program.
	ErrProgramAttached = errors.New("an XDP program is already attached")
	// ErrConfig reports a configuration that contradicts itself or a documented limit.
	ErrConfig = errors.New("bad configuration")
	ErrInUse  = errors.New("still in use")   // reports that memory is still used by an open socket
	ErrClosed = errors.New("already closed") // reports that the object was closed before
	// ErrTxPending reports that Kick left frames in the tx ring. Take completions and kick again.
	ErrTxPending = errors.New("frames are left in the tx ring; take completions and kick again")

	// errGeneric reports that zero-copy was asked for beside a program in generic mode.
	errGeneric = errors.New("no zero-copy beside a program in generic mode, whose frames the kernel has copied")
)

func refuse(doing, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", doing, ErrConfig, fmt.Sprintf(format, args...))
}

// fault joins what was being done, the sentinel, the kernel's answer and the cure.
func fault(doing string, sentinel, cause error, cure string) error {
	return fmt.Errorf("%s: %w (%w); %s", doing, sentinel, cause, cure)
}

// sysFault gives an errno of socket, setsockopt, mmap or bind its sentinel and
// its cure. Errnos without a meaning of their own are wrapped as they are.
func sysFault(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fault(doing, ErrPermission, err, "run as root or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF")
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fault(doing, ErrNoInterface, err, "check the name and the network namespace with 'ip link'")
	case errors.Is(err, unix.ENETDOWN):
		return fault(doing, ErrNetDown, err, "set it up with 'ip link set dev NAME up'")
	case errors.Is(err, unix.EBUSY):
		return fault(doing, ErrBusy, err, "close the other AF_XDP socket, share its UMEM, or take another queue")
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ENOPROTOOPT):
		return fault(doing, ErrNotSupported, err, "use copy mode, or a driver and kernel that have the feature")
	case errors.Is(err, unix.ENOBUFS):
		return fault(doing, ErrMemlock, err, "raise RLIMIT_MEMLOCK ('ulimit -l') or grant CAP_IPC_LOCK")
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%s: %w; use fewer frames and smaller rings", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
