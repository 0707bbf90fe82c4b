package daemon

// This file manages the doorbell pages. Each user with a context has one, from its first context to
// its last. A user with a row also has pages for its far doorbells, from its first row to its last
// context. So no user can take another user's rings (engine.Card.Doorbells).

import (
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// bells is a user's pages.
type bells struct {
	*region
	page     *funi.Doorbells
	attached int                          // attachments that ring here; guarded by Daemon.mu
	distant  atomic.Pointer[distantBells] // nil: the user has had no row
}

// distantBells is a user's far doorbells.
type distantBells struct {
	*region
	far *funi.FarDoorbells
}

// takeBells returns a user's pages, for one more attachment. The caller gives them back with
// giveBells.
func (d *Daemon) takeBells(user uint32, far bool) (*bells, error) {
	b, err := d.takeNear(user)
	if err != nil || !far {
		return b, err
	}
	if err := d.addFar(user, b); err != nil {
		d.giveBells(user, b)
		return nil, err
	}
	return b, nil
}

// addFar makes a user's far doorbells, unless there are some.
func (d *Daemon) addFar(user uint32, b *bells) error {
	if b.distant.Load() != nil {
		return nil
	}
	r, err := d.memory.make(fmt.Sprintf("far-doorbells.%d", user), funi.FarDoorbellsSize, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", attach.ErrFull, err)
	}
	far, err := funi.SharedFarDoorbells(r.bytes)
	if err != nil || !b.distant.CompareAndSwap(nil, &distantBells{r, far}) {
		r.close() // another connection was first
	}
	return err
}

// takeNear returns a user's pages, made if the user has none.
func (d *Daemon) takeNear(user uint32) (*bells, error) {
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

// haveBells counts one more attachment on the user's page, made if the user has none.
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
	b.attached++
	return b
}

// giveBells undoes takeBells. The card must no longer use the page.
func (d *Daemon) giveBells(user uint32, b *bells) {
	d.mu.Lock()
	b.attached--
	last := b.attached == 0
	if last && d.bells[user] == b {
		delete(d.bells, user)
	}
	d.mu.Unlock()
	if last {
		b.erase(0) // nobody rings there, and a process that keeps the page has nothing
		b.close()
		if d := b.distant.Load(); d != nil {
			d.erase(0)
			d.close()
		}
	}
}

// has reports whether the pages are in the region.
func (b *bells) has(r *region) bool {
	d := b.distant.Load()
	return b.region == r || d != nil && d.region == r
}

// spoil takes a failed page away from its user, whose later contexts get another.
func (d *Daemon) spoil(r *region) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for user, b := range d.bells {
		if b.has(r) {
			delete(d.bells, user)
		}
	}
}
