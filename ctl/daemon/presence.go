package daemon

// This file tells the NIC programs which groups are here. They answer the first frames for a group
// that is absent, so that the card is not woken for them and their senders wait (bpf/doc.go, Absent
// groups). A group that counts as here by mistake costs the card its answer, and one that counts as
// absent by mistake holds its senders up. So a group is here before its job is made, and for
// connect_timeout after its job has ended: what was on its way then comes back at once.

import (
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// arrive has the NIC programs let in all frames of a group. The caller holds Daemon.mu.
func (d *Daemon) arrive(gid uint16) error {
	if t := d.departing[gid]; t != nil {
		t.Stop()
		delete(d.departing, gid)
	}
	return d.setAbsent(gid, false)
}

// depart makes a group without a job absent after a while. The caller holds Daemon.mu.
func (d *Daemon) depart(gid uint16) {
	var t *time.Timer
	t = time.AfterFunc(d.cfg.ConnectTimeout, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.departing[gid] == t { // else another job has had the group since
			delete(d.departing, gid)
			_ = d.setAbsent(gid, true) // else the card goes on to answer
		}
	})
	d.departing[gid] = t
}

func (d *Daemon) setAbsent(gid uint16, so bool) error {
	var errs []error
	for _, l := range d.links {
		errs = append(errs, l.nic.SetAbsent(gid, so))
	}
	return errors.Join(errs...)
}

// empty makes all groups absent behind an interface, but the system's.
func (l *link) empty() error {
	for gid := uint16(1); gid <= arctic.MaxGID; gid++ {
		if err := l.nic.SetAbsent(gid, true); err != nil {
			return fmt.Errorf("opening interface %s: %w", l.configured, err)
		}
	}
	return nil
}
