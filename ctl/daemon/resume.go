package daemon

// This file takes over direct jobs and their ports from the daemon before this one, which has ended: the helper has kept them, and their
// processes have gone on. Their launchers ask for the same jobs again, and the processes show their tickets; what nobody has asked
// for within adoptWithin ends.

import (
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

// adoptWithin is how long jobs and ports wait for those they belong to; a little longer than these try (package attach).
const adoptWithin = 40 * time.Second

// heirs are the jobs and ports of a daemon before this one that nobody has asked for yet. Daemon.mu guards them.
type heirs struct {
	jobs  map[uint16]ports.Job // by GID
	ports map[place]ports.Held
}

// inherit asks the helper for them.
func (d *Daemon) inherit() error {
	d.heirs = heirs{map[uint16]ports.Job{}, map[place]ports.Held{}}
	if d.cfg.Ports == nil {
		return nil
	}
	jobs, held, err := d.cfg.Ports.Held()
	if err != nil {
		return err
	}
	for _, j := range jobs {
		d.heirs.jobs[j.Job.GID] = j
	}
	for _, p := range held {
		d.heirs.ports[place{p.Of.Job.GID, p.Of.Node}] = p
	}
	if len(jobs)+len(held) > 0 {
		d.cfg.Logger.Info(fmt.Sprintf("%d direct jobs with %d ports go on from the daemon before", len(jobs), len(held)))
	}
	return nil
}

// disinherit ends what nobody has asked for in time.
func (d *Daemon) disinherit() {
	if d.cfg.Ports == nil || !d.sleep(adoptWithin) {
		return
	}
	d.mu.Lock()
	left := d.heirs
	d.heirs = heirs{map[uint16]ports.Job{}, map[place]ports.Held{}}
	d.mu.Unlock()
	for _, p := range left.ports {
		go d.endHeld(p) // which waits for its process
	}
	for gid, j := range left.jobs {
		if err := d.cfg.Ports.RemoveJob(j.Job); err != nil {
			d.cfg.Logger.Warn(fmt.Sprintf("ending job %d of the daemon before: %v", gid, err), "job", gid)
		}
	}
	if n := len(left.ports) + len(left.jobs); n > 0 {
		d.cfg.Logger.Info(fmt.Sprintf("%d direct jobs and %d ports of the daemon before have ended: nobody asked for them", len(left.jobs), len(left.ports)))
	}
}

// endHeld ends a port of the daemon before, and waits until it is gone.
func (d *Daemon) endHeld(p ports.Held) {
	if _, err := d.cfg.Ports.End(p.ID); err != nil {
		d.cfg.Logger.Warn(fmt.Sprintf("ending the port of node %d of job %d: %v", p.Of.Node, p.Of.Job.GID, err), "job", p.Of.Job.GID)
		return
	}
	d.awaitGone(p.ID, nil)
}

// takeJob takes a job over that the switch has already, and reports whether it did.
func (d *Daemon) takeJob(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	held, ok := d.heirs.jobs[j.gid]
	if !ok || held.Job != j.key() || held.Nodes != len(j.cards) {
		return false
	}
	delete(d.heirs.jobs, j.gid)
	return true
}

// others reports whether a GID is that of a job which nobody has asked for yet, and which has another tag. The caller holds mu.
func (h *heirs) others(gid uint16, tag uint64) bool {
	j, ok := h.jobs[gid]
	return ok && j.Job.Tag != tag
}

// resume carries out KindResume.
func (c *connection) resume(message []byte) error {
	r, err := attach.DecodeResumeRequest(message)
	if err == nil {
		err = c.takePort(&r)
	}
	if err != nil {
		return fmt.Errorf("going on with the port of node %d of group %d: %w", r.Node, r.GID, err)
	}
	answer, err := attach.EncodeBody(attach.KindResume|attach.AnswerBit, nil)
	if err != nil {
		return err
	}
	return c.send(answer)
}

// takePort takes a port over.
func (c *connection) takePort(r *attach.ResumeRequest) error {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attachment != nil || c.job != nil || c.port != nil {
		return attach.ErrAttached
	}
	at := place{r.GID, r.Node}
	j, err := d.join(c, &attach.AttachRequest{GID: r.GID, Node: r.Node, Token: r.Token}, true)
	if err != nil {
		return err
	}
	d.mu.Lock()
	held, ok := d.heirs.ports[at]
	ok = ok && held.Of.Job == j.key() && subtle.ConstantTimeCompare(held.Ticket[:], r.Ticket[:]) == 1
	if ok {
		delete(d.heirs.ports, at)
	}
	d.mu.Unlock()
	use := usage{contexts: 1, pieces: 1, bytes: pages(held.Bytes)}
	if !ok {
		err = fmt.Errorf("there is no such port any more: %w", attach.ErrNode)
	} else if err = d.take(c.peer.account, c.rule, use); err != nil {
		go d.endHeld(held)
	}
	if err != nil {
		d.leave(j, r.Node)
		return err
	}
	c.port = &directPort{job: j, node: r.Node, id: held.ID, use: use}
	return nil
}

// vacate ends the port that a process had which was this node before, if it is gone: attach.ErrTaken if it is not.
func (d *Daemon) vacate(at place) error {
	d.mu.Lock()
	held, ok := d.heirs.ports[at]
	d.mu.Unlock()
	if !ok {
		return nil
	}
	alive, err := d.cfg.Ports.Alive(held.ID)
	if err != nil {
		return err
	}
	if alive {
		return fmt.Errorf("its process before this one goes on: %w", attach.ErrTaken)
	}
	d.mu.Lock()
	if _, ok = d.heirs.ports[at]; ok {
		delete(d.heirs.ports, at)
	}
	d.mu.Unlock()
	if ok { // else somebody else did
		go d.endHeld(held)
	}
	return nil
}
