package daemon

// This file is how the card's thread waits while there is nothing to do. With spin it goes on
// looking. With sleep it sleeps at once: the kernel wakes it when a frame arrives, a process writes
// its eventfd, or a connection rings. With adaptive it follows package wait. It looks for a while
// first, because a sleep costs tens of microseconds at either end. It yields the processor now and
// then, so that daemons and processes that share processors pass them on within microseconds.
//
// Before it sleeps it tells all processes (engine.Card.Doze), steps once more, and sleeps only if
// that step found nothing either.

import (
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/uspace/wait"
)

// waiting decides how to wait after an idle step.
func (l *loop) waiting() {
	switch {
	case l.polling == config.Sleep:
		l.sleep()
		return
	case l.turns%glance == 0:
	case l.polling == config.Adaptive && l.wait.Contended():
		l.now = l.clock() // every step is a look then
	default:
		return // the clock was not looked at
	}
	if l.polling == config.Spin || !l.wait.Tired() {
		return
	}
	switch l.wait.Next(l.now) {
	case wait.Yield:
		wait.YieldProcessor()
		l.wait.Yielded(l.now, l.clock())
	case wait.Sleep:
		l.sleep()
	}
}

// sleep sleeps until something happens or the engine wants to run.
func (l *loop) sleep() {
	l.asleep.Store(true)
	l.card.Doze()
	l.pause(l.wait.Nap())
	l.wait.Slept(l.now)
}

// nap sleeps until there is something to do for users who do not rest, or something arrives, at
// most for longestRest. It reports whether that time passed without any, and without work.
func (l *loop) nap() (quiet bool) {
	l.asleep.Store(true)
	l.card.Nap()
	return l.pause(longestRest)
}

// pause steps once more, now that the card dozes. If that step was idle it waits for one of the
// descriptors, at most for the given number of nanoseconds. Then the card dozes no more. It reports
// whether it has waited for all that time in vain.
func (l *loop) pause(most int64) (vain bool) {
	l.now = l.clock()
	if !l.mailbox.ready(l.now) {
		before := l.card.Progress()
		l.card.Retime()
		next := l.step()
		if l.worked = l.card.Progress() != before; l.worked {
			l.wait.Found()
		} else if d := min(most, next-l.now, l.mailbox.due-l.now); d > 0 {
			ready := l.wait.Sleep(l.polled[:], d)
			if ready {
				_, _ = unix.EpollWait(l.epoll, l.events[:], 0) // takes what is edge-triggered
			}
			vain = !ready && d == most
		}
	}
	l.card.Rouse()
	l.asleep.Store(false)
	l.now = l.clock()
	return vain
}
