package ports

// This file is funid's part of a take-over: another helper replaces its own (takeover.go).

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/bpf"
)

// note records what the helper has after an answer.
func (c *Client) note(r *request, a *answer) {
	switch r.Op {
	case opMake:
		c.has.ports[a.ID] = true
	case opGone:
		if a.Gone {
			delete(c.has.ports, r.ID)
		}
	case opAddJob:
		c.has.jobs[r.Job] = true
	case opRemoveJob:
		delete(c.has.jobs, r.Job)
	}
}

// again waits for a helper that replaces the one that has ended, and reports whether there is one.
// If an earlier wait was in vain it tries only once. The caller holds mu.
func (c *Client) again() bool {
	if c.returns == nil || c.lineage == 0 || c.returns.ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(c.returns.ctx, backWithin)
	defer cancel()
	if c.waited {
		return c.meet(ctx) == nil
	}
	c.returns.tell(fmt.Sprintf("%v: waiting for the next; direct ports go on", c.broken))
	for {
		err := c.meet(ctx)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, ErrHelper): // it has no use
			c.waited = true
			c.broken = err
			return false
		}
		select {
		case <-ctx.Done():
			c.waited = true
			return false
		case <-time.After(lookForHelper):
		}
	}
}

// meet connects to the next helper, which has the ports of the previous one. It has that helper
// forget ports and jobs that funid does not know: the previous helper ended before it answered.
func (c *Client) meet(ctx context.Context) error {
	conn, err := c.returns.dial(ctx)
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrHelper, err)
	}
	before := c.broken
	c.conn.Swap(conn).Close()
	if c.returns.ctx.Err() != nil { // Close has ended the connection before
		conn.Close()
		return ErrHelper
	}
	c.broken = nil
	if err := c.agree(); err != nil {
		if c.broken == nil {
			c.broken = before
		}
		return err
	}
	c.waited = false
	c.returns.tell("the process that makes ports is there again, with all ports")
	return nil
}

// agree compares the jobs and ports of the next helper with those that funid knows.
func (c *Client) agree() error {
	jobs, ports, of, err := listed(c.once)
	if err != nil {
		return err
	}
	if of.number != c.lineage {
		return fmt.Errorf("%w: it came back without its ports", ErrLost)
	}
	c.spoken = of.version
	for _, p := range ports {
		if !c.has.ports[p.ID] {
			if _, _, err := c.once(&request{Op: opEnd, ID: p.ID, Forget: true}, 0); err != nil {
				return err
			}
		}
	}
	for _, j := range jobs {
		if !c.has.jobs[j.Job] {
			if _, _, err := c.once(&request{Op: opRemoveJob, Job: j.Job}, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// has is what the helper has of funid's, according to its answers. Funid asks for nothing else.
type has struct {
	ports map[uint32]bool
	jobs  map[bpf.Job]bool
}
