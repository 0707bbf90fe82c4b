package daemon

// This file is the priority of the card's thread: it comes before the daemon's other threads,
// and before processes, where that is allowed. It is a matter of nice values (setpriority(2)),
// because a thread that looks for work all the time must not have a real-time policy: it would
// keep the kernel's own threads from its processor. With sched_autogroup (sched(7)) a nice value
// counts within a session only, which the daemon's other threads are in.

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// cardNice is the nice value of the card's thread.
const cardNice = -10

// prefer gives the calling thread cardNice, and says what it has, and if that is less, why.
func prefer() (has string) {
	refused := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), cardNice)
	nice := 0
	if n, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()); err == nil {
		nice = 20 - n // getpriority(2), C library/kernel differences
	}
	if refused != nil && nice > cardNice {
		return fmt.Sprintf("nice %d: %v; to put it before other threads start funid as root, or with CAP_SYS_NICE or LimitNICE=%d", nice, refused, cardNice)
	}
	return fmt.Sprintf("nice %d", nice)
}
