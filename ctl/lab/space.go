// This file has the spaces: network namespaces, each with the thread that lives in it.

package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// space is a namespace of a lab. Its thread never leaves it and ends with stop. The thread is the
// parent (Pdeathsig) of the children that it forks, so it must outlive them.
type space struct {
	ns       *os.File      // keeps the namespace alive, as the thread does
	requests chan func()   // unbuffered: a request waits until the thread is free
	quit     chan struct{} // closed by stop
	gone     chan struct{} // closed when the thread takes no more requests
}

// newSpace starts a thread. enter moves the thread into a network namespace (unshare or setns), and
// may mount the namespace by name. The thread gets a /sys that shows that namespace.
func newSpace(enter func() error) (*space, error) {
	s := &space{requests: make(chan func()), quit: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error, 1)
	go s.run(enter, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return s, nil
}

// run is the thread's loop. It returns with the goroutine still locked, so that the runtime ends
// the thread. Unlocked, the thread would serve other goroutines in foreign namespaces.
func (s *space) run(enter func() error, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end before the process and stands for it in /proc/self. While
		// this goroutine holds it, another gets another thread.
		moved := make(chan error)
		go s.run(enter, moved)
		ready <- <-moved
		runtime.UnlockOSThread()
		return
	}
	defer close(s.gone)

	home, err := os.Open("/proc/thread-self/ns/net")
	if err == nil {
		// Leaving at the end drops the namespace before gone is closed; the thread itself ends a
		// little later. If it fails, the end of the thread does the same.
		defer home.Close()
		defer func() { _ = unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) }()
		err = enter()
	}
	if err == nil {
		s.ns, err = os.Open("/proc/thread-self/ns/net")
	}
	if err == nil {
		err = ownSys()
	}
	if err != nil {
		if s.ns != nil {
			s.ns.Close()
		}
		ready <- err
		return
	}
	ready <- nil
	defer s.ns.Close()
	for {
		select {
		case f := <-s.requests:
			f()
		case <-s.quit:
			return
		}
	}
}

// ownSys gives the calling thread a mount namespace of its own, with a /sys of its network
// namespace, as ip-netns(8) exec does. A sysfs shows the interfaces of the namespace that mounted
// it (sysfs(5)). The cgroups stay in their place, so that a daemon finds its limit of memory.
func ownSys() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", permission(err))
	}
	// Mounts of the machine still arrive here, those made here stay here.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", permission(err))
	}
	const cgroups = "/sys/fs/cgroup"
	before, err := unix.Open(cgroups, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil && err != unix.ENOENT {
		return fmt.Errorf("look for cgroups: %w", permission(err))
	}
	if err == nil {
		defer unix.Close(before)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount a /sys of the namespace: %w", permission(err))
	}
	if err == nil {
		if err := unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", before), cgroups, "", unix.MS_BIND|unix.MS_REC,
			""); err != nil {
			return fmt.Errorf("mount the cgroups of the machine: %w", permission(err))
		}
	}
	return nil
}

// do runs f on the thread and returns its error. A panic in f is a panic of the process, as in any
// goroutine. runtime.Goexit in f (a test's FailNow) ends the thread, and the space with it.
func (s *space) do(f func() error) error {
	done := make(chan error, 1)
	request := func() {
		err := errors.New("the function left its goroutine")
		defer func() { done <- err }()
		err = f()
	}
	select {
	case s.requests <- request:
		return <-done
	case <-s.gone:
		return ErrClosed
	}
}

// stop ends the thread after the request in progress and waits for it.
func (s *space) stop() {
	close(s.quit)
	<-s.gone
}

// unshareNet moves the calling thread into a new network namespace.
func unshareNet() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", permission(err))
	}
	return nil
}
