package daemon

// This file takes over direct jobs and their ports from the previous daemon. The helper has kept
// them, and their processes have gone on. Their launchers ask for the same jobs again, and the
// processes show their tickets. Jobs and ports that are not asked for within adoptWithin end.

import (
	"crypto/subtle"
	"fmt"
	"maps"
	"time"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

// adoptWithin is how long jobs and ports wait for their launchers and processes. It is a little
// longer than these try (package attach).
const adoptWithin = 40 * time.Second

// lookForDead is the time between two looks at processes that have not come. They may have died
// while there was no daemon to tell the others.
const lookForDead = time.Second

// heirs holds the jobs and ports of the previous daemon not asked for yet. Daemon.mu guards it.
type heirs struct {
	jobs  map[uint16]ports.Job // by GID
	ports map[place]ports.Held
}

// inherit asks the helper for the jobs and ports of the previous daemon.
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
		d.cfg.Logger.Info(fmt.Sprintf("%d direct jobs with %d ports go on from the daemon before",
			len(jobs), len(held)))
	}
	return nil
}

// disinherit ends the jobs and ports that are not asked for in time.
func (d *Daemon) disinherit() {
	if d.cfg.Table != nil {
		defer d.cfg.Table.Sweep()
	}
	if d.cfg.Ports == nil {
		return
	}
	for until := time.Now().Add(adoptWithin); time.Now().Before(until); {
		if !d.sleep(lookForDead) {
			return
		}
		d.buryHeirs()
	}
	d.mu.Lock()
	left := d.heirs
	d.heirs = heirs{map[uint16]ports.Job{}, map[place]ports.Held{}}
	d.mu.Unlock()
	for _, p := range left.ports {
		d.endHeld(p, d.jobOfPort(p))
	}
	for gid, j := range left.jobs {
		if _, err := d.cfg.Ports.RemoveJob(j.Job); err != nil {
			d.cfg.Logger.Warn(fmt.Sprintf("ending job %d of the daemon before: %v", gid, err), "job", gid)
		}
	}
	if n := len(left.ports) + len(left.jobs); n > 0 {
		d.cfg.Logger.Info(fmt.Sprintf("%d direct jobs and %d ports of the daemon before have ended: nobody asked for them", len(left.jobs), len(left.ports)))
	}
}

// buryHeirs ends the ports of processes that have died without asking for them, if their jobs have
// been taken over.
func (d *Daemon) buryHeirs() {
	d.mu.Lock()
	all := maps.Clone(d.heirs.ports)
	d.mu.Unlock()
	for at, held := range all {
		j := d.jobOfPort(held)
		if j == nil {
			continue
		}
		if alive, err := d.cfg.Ports.Alive(held.ID); alive || err != nil {
			continue
		}
		d.mu.Lock()
		_, ok := d.heirs.ports[at]
		delete(d.heirs.ports, at)
		d.mu.Unlock()
		if ok { // else somebody else did
			d.endHeld(held, j)
		}
	}
}

// endHeld ends a port of the previous daemon, and tells the others of its job, if of is not nil.
func (d *Daemon) endHeld(p ports.Held, of *job) {
	var f attach.Fate
	if of != nil {
		// before the next process of the node is there
		f = d.died(of, p.Of.Node, p.Ticket.Incarnation())
	}
	ended := d.neighbours.leave(place{p.Of.Job.GID, p.Of.Node}, p.ID)
	go func() {
		defer d.giveShared(ended)
		if _, err := d.cfg.Ports.End(p.ID); err != nil {
			d.cfg.Logger.Warn(fmt.Sprintf("ending the port of node %d of job %d: %v", p.Of.Node, p.Of.Job.GID, err),
				"job", p.Of.Job.GID)
			return
		}
		if of != nil {
			of.conn.spread(of, f)
		}
		d.awaitGone(p.ID, nil)
	}()
}

// jobOfPort returns the job of a port of the previous daemon; nil: the job has not been asked for.
func (d *Daemon) jobOfPort(p ports.Held) *job {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[p.Of.Job.GID]; j != nil && j.direct && j.made && j.key() == p.Of.Job {
		return j
	}
	return nil
}

// takeJob takes over a job that the switch already has, and reports whether it did.
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

// others reports whether a GID belongs to a job not asked for yet with another tag. mu is held.
func (h *heirs) others(gid uint16, tag uint64) bool {
	j, ok := h.jobs[gid]
	return ok && j.Job.Tag != tag
}

func (c *connection) resume(r *attach.ResumeRequest) error {
	err := c.takePort(r)
	if err != nil {
		return fmt.Errorf("going on with the port of node %d of group %d: %w", r.Node, r.GID, err)
	}
	if err = c.answer(attach.KindResume, nil); err == nil {
		c.isThere()
	}
	return err
}

func (c *connection) takePort(r *attach.ResumeRequest) error {
	d := c.d
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attachment != nil || c.job != nil || c.port != nil {
		return attach.ErrAttached
	}
	at := place{r.GID, r.Node}
	j, err := d.join(c, &attach.AttachRequest{GID: r.GID, Node: r.Node, Token: r.Token}, 1, true)
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
	} else if err = d.take(c.peer.account, c.rule, use); err == nil {
		if err = c.takeShared(&held); err != nil {
			d.give(c.peer.account, c.rule, use)
		}
	}
	if ok && err != nil {
		d.endHeld(held, j)
	}
	if err != nil {
		d.leave(j, r.Node, 1)
		return err
	}
	life := held.Ticket.Incarnation()
	c.port = &directPort{job: j, node: r.Node, id: held.ID, life: life, returns: d.born(j, r.Node, life), use: use}
	c.enterPort(c.port)
	return nil
}

// vacate ends the port of the process that was this node of the job before, if that process is
// gone. Otherwise it returns attach.ErrTaken.
func (d *Daemon) vacate(j *job, node uint16) error {
	at := place{j.gid, node}
	d.mu.Lock()
	held, ok := d.heirs.ports[at]
	d.mu.Unlock()
	if !ok {
		return nil
	}
	alive, err := d.cfg.Ports.Alive(held.ID)
	d.mu.Lock()
	if _, ok = d.heirs.ports[at]; ok && err == nil && !alive {
		delete(d.heirs.ports, at)
	}
	d.mu.Unlock()
	switch {
	case !ok: // buried meanwhile, and the helper may know the port no more
		return nil
	case err != nil:
		return err
	case alive:
		return fmt.Errorf("its process before this one goes on: %w", attach.ErrTaken)
	}
	d.endHeld(held, j)
	return nil
}
