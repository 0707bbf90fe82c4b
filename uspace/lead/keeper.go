package lead

// This file implements a group with a keeper.
//
// A goroutine that stops leading arms nothing, since it will mostly lead again in microseconds. A
// timer checks after a moment whether it did.

import (
	"runtime"
	"time"

	"github.com/funet/funet/uspace/wait"
)

const (
	// spin is how long, in nanoseconds, a wait polls. A sleep costs some 10 us at both its ends,
	// and a round trip a few.
	spin = 50_000
	// longSpin replaces spin after a sleep that ended within nap. A sleep and its end take longer
	// than spin. So two processes that answer each other would otherwise both sleep each time, each
	// because of the other's sleep. After settled short waits, spin applies again.
	longSpin = 300_000
	nap      = 1_000_000
	settled  = 1000
	// share is how long, in nanoseconds, a poller keeps other goroutines from its processor;
	// threads is the same for other threads.
	share   = 1_000
	threads = 5_000
	// beforeRest is how long, in nanoseconds, the keeper polls before it sleeps, since another
	// goroutine mostly leads again at once. Arming and disarming the card's descriptor takes
	// several system calls.
	beforeRest = 10_000
	// moment is the time without a leader after which the keeper takes over.
	moment = 100 * time.Microsecond
	// glance is how many polls pass between two looks at the clock and at other waiting goroutines.
	glance = 16
)

// Work is what the leaders and the keeper of a group do, with the lock held.
type Work struct {
	// Poll lets the card run, rouses the goroutines for which something has arrived, and reports
	// whether anything has.
	Poll func() bool
	// Pass does the periodic work, each Tick nanoseconds. Idle reports that there is none.
	Pass func(now int64)
	Idle func() bool
	Tick int64
}

// keeper is the goroutine that drives the card when no other does.
type keeper struct {
	*Group
	Work
	armed   bool // the card's descriptor is armed for the keeper
	resting bool // the keeper sleeps, and was not called since
	due     bool // the timer is set
	closing bool
	seen    uint32 // value of moves when the timer was set
	timer   *time.Timer
	spin    int64         // how long a wait polls at present, in nanoseconds
	quick   int           // waits in a row that were shorter than spin
	ticks   int64         // time of the next tick
	kick    chan struct{} // one slot: the keeper is to take over
	rest    *rest         // where it sleeps
	gone    chan struct{} // the keeper has ended
}

// Keep starts the keeper of a group, before any goroutine waits.
func (g *Group) Keep(w Work) error {
	fd, err := g.card.Fd()
	if err != nil {
		return err
	}
	k := &keeper{Group: g, Work: w, spin: spin, kick: make(chan struct{}, 1), gone: make(chan struct{})}
	if k.rest, err = newRest(fd); err != nil {
		return err
	}
	g.keeper = k
	k.timer = time.AfterFunc(time.Hour, k.relieve)
	go k.keep()
	k.rouseKeeper()
	return nil
}

// Dismiss ends the keeper, and releases the lock.
func (g *Group) Dismiss() {
	k := g.keeper
	k.closing = true
	g.Unlock()
	k.timer.Stop()
	g.card.Interrupt()
	g.mu.Lock()
	k.rouseKeeper()
	g.mu.Unlock()
	<-k.gone
	_ = k.rest.close()
}

// rouseKeeper makes the keeper take over. A keeper that is awake needs no call, which would only
// prevent its next sleep.
func (k *keeper) rouseKeeper() {
	if k.resting {
		k.resting = false
		k.rest.call()
		return
	}
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// handOver ensures that some goroutine drives the card when the lock is released.
func (k *keeper) handOver() {
	k.moves++
	switch {
	case k.leads || k.closing:
	case k.armed:
		// What was done may be more than what the keeper is armed for. It sleeps on if the card is
		// content, as after most writes.
		if !k.card.Arm() {
			k.armed = false
			k.rouseKeeper()
		}
	case len(k.parked) > 0:
		k.rouseKeeper() // it finds out soon enough if somebody leads again
	case !k.due:
		k.due, k.seen = true, k.moves
		k.timer.Reset(moment)
	}
}

// relieve is the timer's function: the keeper takes over if no goroutine has led since.
func (k *keeper) relieve() {
	if !k.mu.TryLock() {
		k.timer.Reset(moment)
		return
	}
	defer k.mu.Unlock()
	switch {
	case k.closing:
		k.due = false
	case k.leads || k.moves != k.seen:
		k.seen = k.moves
		k.timer.Reset(moment)
	default:
		k.due = false
		k.rouseKeeper()
	}
}

// Breathe lets goroutines run that want the lock or have news. The caller does not lead.
func (g *Group) Breathe() {
	if g.awaited() {
		g.GiveWay(runtime.Gosched)
	}
}

// awaited reports whether goroutines want the lock or have news.
func (g *Group) awaited() bool { return g.roused > 0 || g.want.Load() > 0 }

// yield lets other goroutines and threads run.
func yield() {
	runtime.Gosched()
	wait.YieldProcessor()
}

// Await waits in a group with a keeper, until a waiter has news or cancel is closed. It may return
// earlier, so the caller looks again.
func (g *Group) Await(w *Waiter, cancel <-chan struct{}) {
	w.Calm()
	calls := g.calls
	// Goroutines that the last message made runnable run before anybody polls. Without that a
	// leader whose news always comes soon would keep the lock and the processor.
	g.GiveWay(runtime.Gosched)
	if g.MayLead() && g.nothing(w, calls) {
		g.keeper.lead(w, calls, cancel)
	}
	if g.nothing(w, calls) { // others had the lock meanwhile
		g.Park(w, cancel)
	}
}

// nothing reports whether a waiter has no news, and nobody has called all since there were so many
// calls.
func (g *Group) nothing(w *Waiter, calls uint32) bool { return !w.news && !g.ended && g.calls == calls }

// lead polls for a while.
func (k *keeper) lead(w *Waiter, calls uint32, cancel <-chan struct{}) {
	k.Lead()
	start := k.card.Now()
	gave, ceded := start, start
	for n := 1; k.nothing(w, calls); n++ {
		if k.Poll(); !w.news && k.awaited() {
			k.lend(runtime.Gosched)
		}
		if n%glance != 0 {
			continue
		}
		if now := k.card.Now(); now-gave > share {
			if now-ceded > threads {
				k.lend(yield)
				ceded = now
			} else {
				k.lend(runtime.Gosched)
			}
			gave = k.card.Now()
			if gave-now > wait.SomeoneComputes {
				break
			}
		}
		select {
		case <-cancel:
			n = -1
		default:
		}
		now := k.card.Now()
		k.pass(now)
		if n < 0 || now-start > k.spin {
			break
		}
	}
	if k.quick++; w.news && k.quick > settled {
		k.spin = spin
	} else if k.spin > spin && k.card.Now()-start > spin {
		k.quick = 0
	}
	k.Leave()
}

// Tend does the periodic work of a group with a keeper when it is time, for a leader of the group
// that waits by itself.
func (g *Group) Tend() { g.keeper.pass(g.card.Now()) }

// pass does the periodic work when it is time.
func (k *keeper) pass(now int64) {
	if now >= k.ticks {
		k.ticks = now + k.Tick
		k.Pass(now)
	}
}

// keep is the keeper's loop.
func (k *keeper) keep() {
	defer close(k.gone)
	for range k.kick {
		k.mu.Lock()
		idle := k.card.Now() // since when nothing has come
		gave := false        // way to goroutines that have not run since they called
		for !k.leads && !k.closing && !k.ended {
			some, now := k.Poll(), k.card.Now()
			k.pass(now)
			if some {
				idle = now
			}
			if gave {
				k.Breathe()
			} else {
				gave = true
				k.GiveWay(runtime.Gosched)
			}
			if now-idle < beforeRest || k.leads || k.closing || k.ended {
				continue
			}
			if !k.card.Arm() {
				idle = now
				continue
			}
			if !k.rest.ready() {
				k.card.Disarm()
				continue
			}
			k.sleep()
		}
		end := k.closing
		k.mu.Unlock()
		if end {
			return
		}
	}
}

// sleep sleeps, with the card's descriptor armed.
func (k *keeper) sleep() {
	k.armed, k.resting = true, true
	start := k.card.Now()
	most := time.Duration(max(k.ticks-start, 1))
	if k.Idle() {
		most = 0
	}
	k.mu.Unlock()
	k.rest.sleep(most)
	k.mu.Lock()
	k.resting = false
	now := k.card.Now()
	if k.ticks-now < k.Tick/2 {
		// mostly a peer's probe has ended the sleep: two idle processes wake each other up only
		// once
		k.ticks = now
	}
	if k.quick = 0; now-start < nap {
		k.spin = longSpin
	} else {
		k.spin = spin
	}
	if k.armed {
		k.armed = false
		k.card.Disarm()
	}
}
