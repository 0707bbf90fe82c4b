package daemon

// This file manages the doorbell pages. Each user with a context has one, from its first context to
// its last. So no user can take another user's rings (engine.Card.Doorbells).

import (
	"fmt"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// bells is a user's page.
type bells struct {
	*region
	page     *funi.Doorbells
	contexts int // guarded by Daemon.mu
}

// takeBells returns a user's page, for one more context. The caller gives it back with giveBells.
func (d *Daemon) takeBells(user uint32) (*bells, error) {
	if b := d.haveBells(user, nil); b != nil {
		return b, nil
	}
	r, err := d.memory.make(fmt.Sprintf("doorbells.%d", user), funi.DoorbellsSize, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", attach.ErrFull, err)
	}
	page, err := funi.SharedDoorbells(r.bytes)
	if err != nil {
		r.close()
		return nil, err
	}
	made := &bells{region: r, page: page}
	b := d.haveBells(user, made)
	if b != made {
		r.close() // another connection was first
	}
	return b, nil
}

// haveBells counts one more context on the user's page, made if the user has none.
func (d *Daemon) haveBells(user uint32, made *bells) *bells {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.bells[user]
	if b == nil {
		if made == nil {
			return nil
		}
		b = made
		d.bells[user] = b
	}
	b.contexts++
	return b
}

// giveBells undoes takeBells. The card must no longer use the page.
func (d *Daemon) giveBells(user uint32, b *bells) {
	d.mu.Lock()
	b.contexts--
	last := b.contexts == 0
	if last && d.bells[user] == b {
		delete(d.bells, user)
	}
	d.mu.Unlock()
	if last {
		b.erase(0) // nobody rings there, and a process that keeps the page has nothing
		b.close()
	}
}

// spoil takes a failed page away from its user, whose later contexts get another.
func (d *Daemon) spoil(r *region) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for user, b := range d.bells {
		if b.region == r {
			delete(d.bells, user)
		}
	}
}
