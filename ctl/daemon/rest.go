package daemon

// This file is what the card's thread does while there is nothing to do. With spin it
// goes on looking. With sleep it sleeps at once: the kernel wakes it when a frame
// arrives, a process writes its eventfd, or a connection rings. Adaptive, it looks for a
// while first, because a sleep costs tens of microseconds at either end.
//
// While it looks it yields the processor (sched_yield(2)) now and then, and at every look
// if that let somebody run: daemons and processes that share processors pass them on that
// way within microseconds. After a yield that took as long as a time slice, somebody
// computes beside it: then it does not look but sleeps, for a while, because one who
// yields to a process that never does is kept waiting for a time slice each time.
//
// Before it sleeps it says so to all processes (engine.Card.Doze), steps once more, and
// sleeps only if that step found nothing either.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Polling says what the card's thread does while there is nothing to do.
type Polling uint8

// The ways of polling.
const (
	Adaptive Polling = iota
	Spin
	Sleep
)

var pollings = map[Polling]string{Adaptive: "adaptive", Spin: "spin", Sleep: "sleep"}

// String returns the name that the configuration uses.
func (p Polling) String() string { return pollings[p] }

// ParsePolling reads a name.
func ParsePolling(s string) (Polling, error) {
	for p, name := range pollings {
		if s == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("polling %q: use adaptive, spin or sleep", s)
}

const (
	// spins is how many looks at the clock in vain, glance steps apart, pass before the
	// processor is yielded: some 10 us.
	spins = 8
	// someoneRan: a yield that took longer let another thread run.
	someoneRan = int64(2 * time.Microsecond)
	// someoneComputes: a yield that took longer let one run that does not yield.
	someoneComputes = int64(time.Millisecond)
	// beside is how long after that the thread does not look but sleeps.
	beside = int64(200 * time.Millisecond)
	// awake is how long the thread looks in vain before it sleeps.
	awake = int64(200 * time.Microsecond)
	// longestSleep bounds a sleep.
	longestSleep = int64(time.Second)
)

// rest is what the thread knows about its wait.
type rest struct {
	worked   bool  // in the last turn
	idle     int   // looks at the clock in vain
	patience int   // of them until the next yield
	since    int64 // when something was last done
	until    int64 // no looking before
}

// waiting follows a step in vain; next is when the engine wants to run again.
func (l *loop) waiting(next int64) {
	r := &l.rest
	if l.polling == Sleep {
		l.sleep()
		return
	}
	switch {
	case l.turns%glance == 0:
	case r.patience == 1 && l.polling == Adaptive:
		l.now = l.clock() // somebody else wants the processor
	default:
		return // the clock was not looked at
	}
	if r.idle++; l.polling == Spin {
		return
	}
	if l.now < r.until || l.now-r.since > awake {
		l.sleep()
		return
	}
	if r.idle < max(r.patience, 1) {
		return
	}
	r.idle = 0
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	took := l.clock() - l.now
	switch {
	case took > someoneComputes:
		r.until = l.now + took + beside
	case took > someoneRan:
		r.patience = 1
		// Others had the processor: that is not time that this thread looked in vain.
		r.since += took
	default:
		r.patience = spins
	}
}

// sleep sleeps until something happens or the engine wants to run.
func (l *loop) sleep() {
	l.asleep.Store(true)
	l.card.Doze()
	if len(l.mailbox) == 0 {
		l.now = l.clock()
		before := l.card.Progress()
		next := l.step()
		if l.rest.worked = l.card.Progress() != before; !l.rest.worked {
			if d := min(longestSleep, next-l.now); d > 0 {
				l.pause(d)
			}
		}
	}
	l.card.Rouse()
	l.asleep.Store(false)
	l.now = l.clock()
	l.rest.idle = 0
	l.rest.since = l.now - awake/2 // what woke the thread may have been for another
}

// pause waits for one of the descriptors, at most for so many nanoseconds. A signal ends
// it early, which does no harm.
func (l *loop) pause(d int64) {
	t := unix.NsecToTimespec(d)
	fds := [1]unix.PollFd{{Fd: int32(l.epoll), Events: unix.POLLIN}}
	if n, _ := unix.Ppoll(fds[:], &t, nil); n > 0 {
		_, _ = unix.EpollWait(l.epoll, l.events[:], 0) // takes what is edge-triggered
	}
}
