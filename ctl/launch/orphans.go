package launch

// This file ends processes that outlive their parents. A node may start processes that leave its
// process group (setsid(2)), and end. The kernel then makes the agent their parent
// (PR_SET_CHILD_SUBREAPER, prctl(2)), over any number of generations, so none gets away. The agent
// reaps those that end, and kills all when the job has ended.

import (
	"os"
	"os/signal"
	"slices"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// orphans are the children of this process that it did not start.
type orphans struct {
	ends chan os.Signal // of any child; coalesced
	gone chan struct{}
}

// adopt makes this process the parent of all descendants that lose theirs.
func adopt(l *local) (*orphans, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	o := &orphans{ends: make(chan os.Signal, 1), gone: make(chan struct{})}
	signal.Notify(o.ends, unix.SIGCHLD)
	go func() {
		defer close(o.gone)
		for range o.ends {
			l.bury()
		}
	}()
	return o, nil
}

// bury reaps orphans that have ended. Those that this process started have waits of their own.
func (l *local) bury() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range children() {
		own := slices.ContainsFunc(l.processes, func(p *process) bool { return p.cmd.Process.Pid == c.PID })
		if c.State == "Z" && !own {
			_, _ = unix.Wait4(c.PID, nil, unix.WNOHANG, nil) // it has ended
		}
	}
}

// end kills the orphans and their descendants until none is left. All children that this process
// started must have ended.
func (o *orphans) end() {
	signal.Stop(o.ends)
	close(o.ends)
	<-o.gone
	for {
		left := children()
		if len(left) == 0 {
			return
		}
		for _, c := range left {
			_ = unix.Kill(c.PID, unix.SIGKILL) // it keeps its number until it is waited for
		}
		_, _ = unix.Wait4(-1, nil, 0, nil) // as those end theirs become this process's
	}
}

// children returns the child processes of this process.
func children() (list []procfs.ProcStat) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil // without /proc nobody is found
	}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == os.Getpid() {
			list = append(list, stat)
		}
	}
	return list
}
