// What processes that this one forks have of its UMEM and rings: nothing.

package xdp

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept returns for each mapping that begins at an address or is of a socket whether children do not
// get it (proc_pid_smaps(5): "dc").
func kept(t *testing.T, begins ...uintptr) (all []bool) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	must(t, err)
	defer f.Close()
	ours := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		line := lines.Text()
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			ours = strings.Contains(line, "socket:[") ||
				slices.ContainsFunc(begins, func(at uintptr) bool { return from <= at && at < to })
		} else if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && ours {
			all = append(all, slices.Contains(strings.Fields(flags), "dc"))
		}
	}
	return all
}

// Rule (keepFromChildren): neither a UMEM, of a file or anonymous, nor the four rings are mapped in
// children.
func TestChildrenHaveNoMappings(t *testing.T) {
	l := newLab(t, labOptions{})
	p := l.openPort(0, portConfig{})
	shared, err := NewUMEM(UMEMConfig{FrameCount: 16, File: newMemfd(t, 16*4096)})
	must(t, err)
	t.Cleanup(func() { must(t, shared.Close()) })
	start := func(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
	all := kept(t, start(p.umem.mapping), start(shared.mapping))
	if len(all) != 6 || slices.Contains(all, false) {
		t.Errorf("of two UMEMs and four rings these are kept from children: %v", all)
	}
}

// Rule: a child that was forked and not executed another program cannot touch the UMEM, and what
// this process stores there after the fork is what it reads.
func TestForkLeavesTheUMEM(t *testing.T) {
	u, err := NewUMEM(UMEMConfig{FrameCount: 1})
	must(t, err)
	t.Cleanup(func() { must(t, u.Close()) })
	u.Span(0, 2048)[0] = 1
	at := unsafe.Pointer(unsafe.SliceData(u.mem))
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if pid == 0 { // a copy of this thread alone: it may only make system calls
		_, _, errno = unix.RawSyscall(unix.SYS_MADVISE, uintptr(at), 4096, unix.MADV_NORMAL)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	var status unix.WaitStatus
	_, err = unix.Wait4(int(pid), &status, 0, nil)
	must(t, err)
	// nothing is mapped there
	if !status.Exited() || unix.Errno(status.ExitStatus()) != unix.ENOMEM {
		t.Errorf("the child ended with %v", status)
	}
}
