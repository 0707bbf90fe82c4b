package daemon

// This file handles a load or store of the card's thread that fails, since there is no
// page where it goes (SIGBUS): a hole where the machine may not promise more memory than it has, or
// memory that the hardware has lost. It ends the contexts that the memory is of, and no others.
//
// The Go runtime makes a panic of it (debug.SetPanicOnFault), which ends the turn that is under way;
// the engine is made for that (engine.Card.Abandon). Before the next turn memory that reads as 0 takes
// the place of what failed, the contexts are abandoned, and their connections end.

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded takes turns until the thread is to stop or a turn ends in a fault. It reports true
// when the thread has stopped.
func (l *loop) guarded() (stopped bool) {
	defer l.caught()
	l.mend()
	for !l.stop {
		l.turn()
	}
	l.card.Rouse()
	return true
}

// caught notes the memory of a fault. Every other panic goes on.
func (l *loop) caught() {
	e := recover()
	if e == nil {
		return
	}
	var r *region
	if fault, ok := e.(interface{ Addr() uintptr }); ok {
		r = l.memory.at(fault.Addr())
	}
	if r == nil {
		panic(e)
	}
	l.torn = r
}

// mend ends the contexts of memory that failed, and finishes what the turn left undone.
func (l *loop) mend() {
	r := l.torn
	if r == nil {
		return
	}
	l.torn = nil
	l.faults.Add(1)
	if err := l.memory.replace(r); err != nil {
		panic(fmt.Errorf("the memory of a process is gone, and nothing can take its place: %w", err))
	}
	l.spoil(r)
	for _, a := range l.byBell {
		if a != nil && a.uses(r) {
			l.lose(a)
		}
	}
	if l.doing != nil { // the asker finds his context gone
		close(l.doing)
		l.doing = nil
	}
	l.call()
	l.asleep.Store(false)
	l.card.Rouse()
}

// uses reports whether the card uses the memory for the context.
func (a *attachment) uses(r *region) bool { return r.whose == a || a.bells.region == r }

// lose ends a context whose memory must not be touched.
func (l *loop) lose(a *attachment) {
	l.unwatch(a.card)
	l.strike(a)
	if l.share != nil {
		l.share.leave(a)
	}
	l.card.Abandon(a.ctx)
	a.lost = true
	wakeUp(a.process)
	go a.conn.end() // closing may take time
}

// replace maps memory that reads as 0 and cannot be written in place of the region. That
// needs no page, nor a promise of any. A region that has been given back is no longer mapped.
func (m *memory) replace(r *region) error {
	m.mu.Lock() // as giving it back begins with leave
	defer m.mu.Unlock()
	if _, there := m.all[r]; !there {
		return nil
	}
	at := unsafe.Pointer(unsafe.SliceData(r.bytes))
	got, err := unix.MmapPtr(-1, 0, at, uintptr(len(r.bytes)), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED)
	if err == nil && got != at {
		err = errors.New("it was mapped elsewhere")
	}
	return err
}
