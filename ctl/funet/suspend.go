package main

// This file is `funet run` under job control: Ctrl-Z, fg and bg of the terminal's shell
// (termios(3)).

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/output"
)

// suspend stops this process, and returns when it is continued. If its process group is orphaned
// (setpgid(2)), no process could continue it, so suspend returns at once. The kernel treats Ctrl-Z
// in the same way.
func suspend() {
	if orphaned() {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// a thread's signal to itself arrives before the call returns
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// orphaned reports whether the process group has no parent process in the same session.
func orphaned() bool {
	group, parent := unix.Getpgrp(), unix.Getppid()
	for parent > 1 {
		if of, err := unix.Getpgid(parent); err != nil || of != group {
			break
		}
		above, err := procfs.NewProc(parent)
		var stat procfs.ProcStat
		if err == nil {
			stat, err = above.Stat()
		}
		if err != nil {
			return true
		}
		parent = stat.PPID
	}
	own, _ := unix.Getsid(0) // of this process there is one
	theirs, err := unix.Getsid(parent)
	return err != nil || theirs != own
}

// typed reads the terminal while this process is in the foreground. In the background it waits, and
// leaves typed input to other processes.
type typed struct{ terminal *os.File }

// looksForeground is the interval at which a background process looks whether it is in the
// foreground again. A shell does not tell it.
const looksForeground = 200 * time.Millisecond

// Read reads typed input. In the background the kernel stops a process that reads (SIGTTIN), even
// in the middle of a read that began earlier. On a thread that blocks the signal the read fails
// with EIO instead.
func (t typed) Read(b []byte) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stops, was unix.Sigset_t
	stops.Val[0] = 1 << (unix.SIGTTIN - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &stops, &was); err != nil {
		return 0, os.NewSyscallError("sigprocmask", err)
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil) }() // as it was
	fd := int(t.terminal.Fd())
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EIO && !foreground(fd):
			time.Sleep(looksForeground)
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// foreground reports whether this process is in the foreground of its terminal, or has no terminal.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == syscall.Getpgrp()
}

// input returns the standard input of node 0. It is this process's, or nil if that is the terminal
// and this process was started in the background.
func input() io.Reader {
	switch {
	case !output.Terminal(os.Stdin):
		return os.Stdin
	case !foreground(int(os.Stdin.Fd())):
		return nil
	}
	return typed{os.Stdin}
}
