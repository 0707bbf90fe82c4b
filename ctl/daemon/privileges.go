package daemon

// This file handles capabilities(7). The daemon needs some to make its card. Afterwards it keeps
// only the one with which it keeps memory whole (memory.go). That one lets it mark files of its own
// user, and do nothing else. To open an interface again it uses descriptors that it still has
// (follow.go), or gets a socket from a process that makes nothing else (sockets.go).

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrPrivileges reports that a capability that the daemon needs is missing.
var ErrPrivileges = errors.New("a capability is missing")

// ErrCGo reports a program built with cgo, in which not all threads can be reached.
var ErrCGo = errors.New("this program was built with cgo, so it cannot drop the capabilities of all its threads; build it with `make build`, or with CGO_ENABLED=0")

// needed lists the capabilities for making the card. AF_XDP sockets need CAP_NET_RAW. Loading the
// NIC program needs CAP_BPF and CAP_PERFMON, attaching it CAP_NET_ADMIN. CAP_PERFMON is needed
// because the program subtracts pointers to find the length of a frame, which the verifier allows
// only with it.
var needed = []struct {
	number int
	name   string
}{{unix.CAP_NET_RAW, "CAP_NET_RAW"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_BPF, "CAP_BPF"},
	{unix.CAP_PERFMON, "CAP_PERFMON"}}

// Capabilities returns the names of the capabilities that the daemon needs to make its card.
func Capabilities() (names []string) {
	for _, c := range needed {
		names = append(names, c.name)
	}
	return names
}

// CheckPrivileges returns ErrPrivileges with the names of missing capabilities, if any.
func CheckPrivileges() error {
	data, err := capabilities()
	if err != nil {
		return err
	}
	var missing []string
	for _, c := range needed {
		if data[c.number/32].Effective>>(c.number%32)&1 == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; run funid as root, or give it what is missing: setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_linux_immutable=ep %s", ErrPrivileges, strings.Join(missing, ", "), os.Args[0])
}

// capabilities returns those of the calling thread.
func capabilities() (data [2]unix.CapUserData, err error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&h, &data[0]); err != nil {
		return data, fmt.Errorf("reading the capabilities: %w", err)
	}
	return data, nil
}

// CanDrop reports whether DropPrivileges can work at all: ErrCGo if not. Call it first, because a
// program that it refuses can only end.
func CanDrop() error {
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); e == syscall.ENOTSUP {
		return ErrCGo
	}
	return nil
}

// DropPrivileges drops all capabilities of all threads for good, except CAP_LINUX_IMMUTABLE if they
// have it. Programs that they execute do not get that one either. Call it when Open has returned:
// open descriptors stay usable. It returns ErrCGo in a program with cgo.
func DropPrivileges() error { return drop(unix.CAP_LINUX_IMMUTABLE) }

func drop(but ...int) error {
	all := func(what string, trap, a1, a2 uintptr) error {
		_, _, e := syscall.AllThreadsSyscall6(trap, a1, a2, 0, 0, 0, 0)
		if e == syscall.ENOTSUP {
			return ErrCGo
		}
		if e != 0 {
			return fmt.Errorf("dropping capabilities: %s: %w", what, e)
		}
		return nil
	}
	if err := all("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return err
	}
	data, err := capabilities()
	if err != nil {
		return err
	}
	// With no new privileges an executed program gets at most the capabilities kept here. They
	// leave the bounding set, which needs CAP_SETPCAP, so the program gets none. Each of these
	// calls stops funid until every thread has made it. Beside busy processes that takes long.
	if data[0].Effective>>unix.CAP_SETPCAP&1 == 1 {
		for _, c := range but {
			if err := all("the bounding set", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c)); err != nil {
				return err
			}
		}
	}
	if err := all("the ambient set", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); err != nil {
		return err
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var left [2]unix.CapUserData
	for _, c := range but {
		left[c/32].Effective |= data[c/32].Effective & (1 << (c % 32))
	}
	for i := range left {
		left[i].Permitted = left[i].Effective
	}
	return all("the sets of the process", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&h)),
		uintptr(unsafe.Pointer(&left[0])))
}
