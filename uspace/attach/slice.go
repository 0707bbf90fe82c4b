package attach

// This file is the time slice of threads that wait for messages.

import "golang.org/x/sys/unix"

// shortSlice is the time slice that they ask for, in nanoseconds: the shortest there is.
const shortSlice = 100_000

// ShortSlice asks the kernel for the shortest time slice for the calling thread: when it wakes up it
// then goes before one with a longer slice, and its share of the processor stays the same (Linux,
// Documentation/scheduler/sched-eevdf.rst). That needs no privilege. A thread with a policy other
// than SCHED_OTHER is left alone, as is everything before Linux 6.12. Any goroutine may
// call it; the thread keeps the slice, and those that it makes have it as well.
func ShortSlice() {
	if a, err := unix.SchedGetAttr(0, 0); err == nil && a.Policy == unix.SCHED_NORMAL {
		a.Runtime = shortSlice
		_ = unix.SchedSetAttr(0, a, 0)
	}
}
