package daemon

// This file sets the priority of the card's thread: the daemon's other threads give way to it
// (setpriority(2)). That needs no privilege. The card's thread keeps the nice value that the daemon
// was started with. It takes turns with processes by yielding to them (rest.go), which works well
// among equals. It must not have a real-time policy: it looks for work all the time, and would keep
// the kernel's own threads from its processor.

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// givenWay is added to the nice value of the other threads, so they get about a third of what
	// the card's thread gets (sched(7)). Much less time would keep it waiting for what they hold,
	// such as locks of the Go runtime.
	givenWay = 5
	mostNice = 19 // the highest nice value
)

// nice returns the nice value of a thread.
func nice(thread int) (int, error) {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	return 20 - n, err // getpriority(2), C library/kernel differences
}

// GiveWay puts all threads of the process, and those made later, behind the card's thread. It is
// for a process that runs only a daemon. A refusal is logged, and shown in the status.
func (d *Daemon) GiveWay() {
	own, err := nice(int(d.loop.tid.Load()))
	behind := min(own+givenWay, mostNice)
	for changed := true; err == nil && changed; { // until no thread was made meanwhile
		changed, err = giveWay(int(d.loop.tid.Load()), behind)
	}
	if err != nil {
		d.priority = fmt.Sprintf("nice %d, as the others have: %v", own, err)
		d.cfg.Logger.Warn("putting the card's thread before the daemon's others: " + err.Error())
		return
	}
	d.priority = fmt.Sprintf("nice %d, the daemon's others %d", own, behind)
}

// giveWay gives all threads but one a nice value, and reports whether it changed that of any.
func giveWay(but, behind int) (changed bool, err error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, err
	}
	for _, task := range tasks {
		thread, err := strconv.Atoi(task.Name())
		if err != nil || thread == but {
			continue
		}
		has, err := nice(thread)
		if err != nil || has >= behind {
			continue // it has ended, or has it
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, thread, behind); err != nil && err != unix.ESRCH {
			return false, fmt.Errorf("setting the nice value of a thread to %d: %w", behind, err)
		}
		changed = true
	}
	return changed, nil
}
