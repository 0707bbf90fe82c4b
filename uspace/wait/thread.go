package wait

// This file holds the system calls of a thread that waits.

import "golang.org/x/sys/unix"

// shortSlice is the time slice that threads ask for when they wait for messages, in nanoseconds. It
// is the shortest there is.
const shortSlice = 100_000

// YieldProcessor lets another thread of the processor run, if one wants to (sched_yield(2)).
func YieldProcessor() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Sleep sleeps until a descriptor is ready or the given nanoseconds have passed. It reports whether
// a descriptor is ready, with its events in the list. A signal ends the sleep early, which does no
// harm. The first Sleep on a thread asks for a short time slice, so that the thread is run soon
// after it wakes up.
func (w *Waiter) Sleep(fds []unix.PollFd, nanoseconds int64) bool {
	if thread := unix.Gettid(); thread != w.thread {
		w.thread = thread
		ShortSlice()
	}
	t := unix.NsecToTimespec(nanoseconds)
	n, err := unix.Ppoll(fds, &t, nil)
	return n > 0 && err == nil
}

// ShortSlice asks the kernel for the shortest time slice for the calling thread. When the thread
// wakes up, it then goes before one with a longer slice; its share of the processor stays the same
// (Linux, Documentation/scheduler/sched-eevdf.rst). That needs no privilege. A thread with a policy
// other than SCHED_OTHER is left as it is, and so is every thread before Linux 6.12. Any goroutine
// may call it. The thread keeps the slice, and threads that it makes inherit it.
func ShortSlice() {
	if a, err := unix.SchedGetAttr(0, 0); err == nil && a.Policy == unix.SCHED_NORMAL {
		a.Runtime = shortSlice
		_ = unix.SchedSetAttr(0, a, 0)
	}
}
