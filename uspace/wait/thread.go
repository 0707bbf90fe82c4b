package wait

// This file holds the system calls of a thread that waits.

import "golang.org/x/sys/unix"

// shortSlice is the time slice that threads ask for that wait for messages, in nanoseconds: the
// shortest there is.
const shortSlice = 100_000

// YieldProcessor lets another thread of the processor run, if one wants to (sched_yield(2)).
func YieldProcessor() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Sleep sleeps until one of the descriptors is ready, which it then reports, with its events in the
// list, or the given number of nanoseconds have passed. A signal ends it early, which does no harm.
// The first time it asks for a short time slice for its thread, so that this is run soon after it
// wakes up.
func (w *Waiter) Sleep(fds []unix.PollFd, nanoseconds int64) bool {
	if thread := unix.Gettid(); thread != w.thread {
		w.thread = thread
		ShortSlice()
	}
	t := unix.NsecToTimespec(nanoseconds)
	n, err := unix.Ppoll(fds, &t, nil)
	return n > 0 && err == nil
}

// ShortSlice asks the kernel for the shortest time slice for the calling thread: when it wakes up
// it then goes before one with a longer slice, and its share of the processor stays the same
// (Linux, Documentation/scheduler/sched-eevdf.rst). That needs no privilege. A thread with a policy
// other than SCHED_OTHER is left as it is, and so is everything before Linux 6.12. Any goroutine
// may call it; the thread keeps the slice, and those that it makes have it as well.
func ShortSlice() {
	if a, err := unix.SchedGetAttr(0, 0); err == nil && a.Policy == unix.SCHED_NORMAL {
		a.Runtime = shortSlice
		_ = unix.SchedSetAttr(0, a, 0)
	}
}
