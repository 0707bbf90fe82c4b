package launch

// This file is the thread that starts the processes of a job. It lives as long as the job,
// because the kernel ends the children with the thread, not with the process (PR_SET_PDEATHSIG,
// prctl(2)). It may have another user than the process: users and capabilities belong to
// threads (credentials(7), capabilities(7)).

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread runs functions one after the other on an operating system thread of its own.
type thread struct {
	requests chan func()
	quit     chan struct{}
	gone     chan struct{}
}

// newThread starts the thread and has it become the user; nil leaves it who it is.
func newThread(u *User) (*thread, error) {
	t := &thread{requests: make(chan func()), quit: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error, 1)
	go t.run(u, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return t, nil
}

// run is the life of the thread. It is never unlocked, so that it ends with the goroutine.
func (t *thread) run(u *User, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end before the process and stands for it in /proc/self. While
		// this goroutine holds it, another gets another thread.
		another := make(chan error)
		go t.run(u, another)
		ready <- <-another
		runtime.UnlockOSThread()
		return
	}
	defer close(t.gone)
	if u != nil {
		if err := become(u); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for {
		select {
		case f := <-t.requests:
			f()
		case <-t.quit:
			return
		}
	}
}

// do runs f on the thread. f must not wait long.
func (t *thread) do(f func() error) error {
	done := make(chan error, 1)
	t.requests <- func() { done <- f() }
	return <-done
}

// stop ends the thread, and with it the processes that it started.
func (t *thread) stop() {
	close(t.quit)
	<-t.gone
}

// become makes the calling thread the user's, without any capability and without a way to get
// one back, or to become yet another user, not even by a set-user-ID program (no_new_privs,
// prctl(2)).
func become(u *User) error {
	if os.Geteuid() != 0 {
		if u.uid == os.Geteuid() {
			return nil
		}
		return fmt.Errorf("--user %s: %w: only root starts programs as another user", u.Name, ErrUser)
	}
	refused := func(what string, err error) error {
		return fmt.Errorf("--user %s: %w: %s: %w", u.Name, ErrUser, what, err)
	}
	for c := uintptr(0); ; c++ {
		// EINVAL: the last one that the kernel knows has been dropped.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break
		} else if err != nil {
			return refused("dropping capabilities", err)
		}
	}
	// The calls of package syscall change all threads; these only this one.
	groups := make([]uint32, len(u.groups)+1) // one more, so that there is an address
	for i, g := range u.groups {
		groups[i] = uint32(g)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(u.groups)), uintptr(unsafe.Pointer(&groups[0])), 0); e != 0 {
		return refused("setting its groups", e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(u.gid), uintptr(u.gid), uintptr(u.gid)); e != 0 {
		return refused("setting its group", e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(u.uid), uintptr(u.uid), uintptr(u.uid)); e != 0 {
		return refused("setting the user", e)
	}
	// From here on a set-user-ID program runs as the user who starts it, whoever it belongs to.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return refused("setting no_new_privs", err)
	}
	// Inheritable capabilities outlast the change of user, and root keeps all of them.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return refused("dropping capabilities", err)
	}
	return nil
}
