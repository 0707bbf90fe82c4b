package daemon

// This file handles misses and forbidden accesses, for which the daemon is the card's operating
// system (Tokyo, sections 2.1, 3.1 and 3.3; engine.Config.Fault). It counts them for the job of the
// process that they concern. If its configuration says so, it also has windows suspended.
//
// A job's processes hold the keys of each other's windows. Any of them may be on another host, and
// that host can say what it likes in the name of its own processes. So only an access that no
// outsider can make counts towards a suspension. Such an access has the window's key, comes from
// the card where the job's table puts its node, and asks for bytes or an operation that the window
// forbids. Guessed keys do not count, nor do failures of an ordinary program, such as another's
// lock or a lack of credit. Each node has a count of its own, so several nodes cannot reach the
// limit together.
//
// A process has windows suspended at most once in connect_timeout, whichever nodes try. So an owner
// that brings them back (funi.ResumeWindow) can be held up no more often. A window without
// notifications is left alone: its owner would not hear of it. A suspension delays only the
// processes that use the window, all of the same job.

import (
	"fmt"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/uspace/arctic"
)

// suspects is the number of nodes that a process counts refused accesses of: the first ones.
const suspects = 16

// place names a context by its group and node.
type place struct{ gid, node uint16 }

// suspicion counts refused accesses to one process, by node. It belongs to the card's thread.
type suspicion struct {
	counts [suspects]struct{ node, refused uint32 } // refused is 0 in an unused entry
	rest   int64                                    // when a window may be suspended again
}

// refused counts an access of a node, and reports whether the node has reached the limit.
func (s *suspicion) refused(node uint16, limit int) bool {
	for i := range s.counts {
		if e := &s.counts[i]; e.refused == 0 || e.node == uint32(node) {
			e.node = uint32(node)
			e.refused++
			return int(e.refused) >= limit
		}
	}
	return false
}

// faulted carries out engine.Config.Fault. The card's thread calls it, within a step.
func (d *Daemon) faulted(gid, node, source uint16, reason arctic.Reason) (hold bool) {
	l := d.loop
	whose := place{gid, node}
	if reason == arctic.ReasonNoRoute {
		// and nothing waits: the job's table has all nodes of the job, and there will be no others
		whose.node = source
	}
	a := l.byPlace[whose]
	if a == nil {
		return false
	}
	f := &a.job.faults
	f.Count(reason)
	l.faulted.Count(reason)
	if d.cfg.Accesses != config.SuspendWindows || l.now < a.suspicion.rest || !forbidden(reason) ||
		!a.suspicion.refused(source, d.cfg.RefusedLimit) {
		return false
	}
	a.suspicion = suspicion{rest: l.now + int64(d.cfg.ConnectTimeout)}
	f.Suspended++
	l.faulted.Suspended++
	d.logSuspended(a, source, reason)
	return true
}

// forbidden reports whether a refused access had the window's key and the window forbids it.
func forbidden(reason arctic.Reason) bool {
	switch reason {
	case arctic.ReasonRange, arctic.ReasonRights, arctic.ReasonAlignment, arctic.ReasonOperation:
		return true
	}
	return false
}

// logSuspended logs a suspension, without having the card's thread wait for the log.
func (d *Daemon) logSuspended(a *attachment, source uint16, reason arctic.Reason) {
	go d.userLine(&a.conn.peer,
		fmt.Sprintf("a window of node %d of job %d is suspended: %d accesses of node %d were refused, the last one because of: %v",
			a.node, a.job.gid, d.cfg.RefusedLimit, source, reason), "job", a.job.gid, "node", a.node)
}
