package daemon

// This file contains failures: each ends the context or connection that it belongs to, no others.
//
//   - A load or store of the card's thread that fails because there is no page (SIGBUS): a hole
//     where the machine may not promise more memory than it has, or memory that the hardware has
//     lost. It belongs to the contexts that use the memory. The Go runtime turns it into a panic
//     (debug.SetPanicOnFault).
//   - Any other panic of the card's thread, which is a mistake of the card or of the daemon that a
//     process has found. It belongs to the context that the card was serving (engine.Card.Serving).
//     Without one it belongs to the command that was being carried out: to its attachment and its
//     connection.
//   - A panic, or a failed load or store, of a connection's goroutine. It belongs to that
//     connection, whose end frees everything that it has.
//
// A panic ends the turn that is under way; the engine is made for that (engine.Card.Abandon).
// Before the next turn memory that reads as 0 replaces the memory that failed, the contexts are
// abandoned, and their connections end. A command that was interrupted may have left changes half
// made. They belong to a context or a group of its connection, and go with that.
//
// A panic of the card's thread that belongs to no context and no command ends the daemon. The
// sequences that the card shares with its peers may then be half changed. Only a card with another
// incarnation tells the peers that the state they agreed on is gone. A second panic while the first
// is being cleared away ends the daemon, too.

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/engine"
)

// errTorn reports a command that the card's thread did not carry out to its end.
var errTorn = errors.New("the card failed while it carried out the request, which is a mistake of funid's; its log has the details")

// tear is the cause of an aborted turn: memory that failed, or the panic and the context served.
type tear struct {
	memory  *region // nil: none
	context *engine.Context
	failure failure
}

// failure is a panic, in words.
type failure struct {
	what, why string
	stack     []byte
}

// mostStack is how many bytes of a panic's stack are logged, the innermost calls first.
const mostStack = 4096

func newFailure(what string, e any) failure {
	stack := debug.Stack()
	return failure{what: what, why: fmt.Sprint(e), stack: stack[:min(len(stack), mostStack)]}
}

const (
	// failureLines is how many panics are logged at once. One more is allowed each failureEvery.
	failureLines = 10
	failureEvery = 10 * time.Second
)

// fail counts a panic and logs it. It may wait for the log.
func (d *Daemon) fail(f failure) {
	d.panics.Add(1)
	if ok, before := d.failureLog.may(time.Now()); ok {
		d.cfg.Logger.Error("panic in "+f.what+", which ends that and nothing else: "+f.why, "left_out", before, "stack",
			string(f.stack))
	}
}

// contained is deferred by the goroutine of a connection, and recovers from its panics.
func (c *connection) contained() {
	if e := recover(); e != nil {
		c.d.fail(newFailure(fmt.Sprintf("a request of process %d of user %d", c.peer.pid, c.peer.uid), e))
	}
}

// guarded takes turns until the thread is to stop or a turn ends in a panic. It reports true
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

// caught records what a panic belongs to. It panics again if that is no context and no connection.
func (l *loop) caught() {
	e := recover()
	if e == nil {
		return
	}
	t := &tear{}
	if fault, ok := e.(interface{ Addr() uintptr }); ok {
		t.memory = l.memory.at(fault.Addr())
	}
	if t.memory == nil {
		t.context = l.card.Serving()
		if c := l.doing; c != nil && t.context == nil && c.attachment != nil {
			t.context = c.attachment.ctx
		}
		switch {
		case l.mending, t.context == nil && (l.doing == nil || l.doing.connection == nil):
			panic(e)
		case t.context != nil:
			t.failure = newFailure(fmt.Sprintf("the card, for node %d of group %d", t.context.Node(),
				t.context.GID()), e)
		default:
			p := &l.doing.connection.peer
			t.failure = newFailure(fmt.Sprintf("the card, for process %d of user %d", p.pid, p.uid), e)
		}
	}
	l.torn = t
}

// mend ends the contexts and the connection of a recorded panic, and finishes the aborted turn.
func (l *loop) mend() {
	t := l.torn
	if t == nil {
		return
	}
	l.torn, l.mending = nil, true
	if t.memory != nil {
		l.mendMemory(t.memory)
	} else {
		l.mendPanic(t)
	}
	l.mending = false
	l.call()
	l.asleep.Store(false)
	l.card.Rouse()
}

// mendMemory ends the contexts that use memory that failed.
func (l *loop) mendMemory(r *region) {
	l.faults.Add(1)
	if err := l.memory.replace(r); err != nil {
		panic(fmt.Errorf("the memory of a process is gone, and nothing can take its place: %w", err))
	}
	l.spoil(r)
	for _, a := range l.byBell[:l.belled] {
		if a != nil && a.uses(r) {
			l.lose(a)
		}
	}
	l.finish(nil) // the asker finds his context gone
}

// mendPanic ends the context and the connection that a panic belongs to.
func (l *loop) mendPanic(t *tear) {
	go l.report(t.failure) // the log may wait
	if x := t.context; x != nil {
		if a := l.byBell[x.Bell()]; a != nil && a.ctx == x {
			l.lose(a)
		} else {
			l.card.Abandon(x) // it was not listed yet, or not any more
		}
	}
	if c := l.doing; c != nil {
		if c.connection != nil {
			go c.connection.end()
		}
		l.finish(errTorn)
	}
}

// uses reports whether the card uses the memory for the context.
func (a *attachment) uses(r *region) bool { return r.whose == a.first() || a.bells.has(r) }

// lose ends a context whose memory must not be touched.
func (l *loop) lose(a *attachment) {
	l.strike(a)
	l.card.Abandon(a.ctx)
	a.lost = true
	if a.row != nil {
		if a.row.ending {
			return // of another of its contexts
		}
		a.row.ending = true
	}
	wakeUp(a.process)
	go a.conn.end() // closing may take time
}

// replace maps memory that reads as 0 and cannot be written in place of the region. That needs
// neither a page nor a promise of one. A region that has been given back is no longer mapped.
func (m *memory) replace(r *region) error {
	m.mu.Lock() // as giving it back begins with leave
	defer m.mu.Unlock()
	if _, there := m.all[r]; !there {
		return nil
	}
	at := unsafe.Pointer(unsafe.SliceData(r.bytes))
	got, err := unix.MmapPtr(-1, 0, at, uintptr(len(r.bytes)), unix.PROT_READ,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED)
	if err == nil && got != at {
		err = errors.New("it was mapped elsewhere")
	}
	return err
}
