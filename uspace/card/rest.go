package card

// This file is what a card does while it waits: it spins, because a sleep costs tens
// of microseconds, but lets other processes run.
//
// Now and then it yields the processor (sched_yield(2)), at every look at the clock
// if that let somebody run: nodes that all wait on each other pass the processor on
// that way within microseconds. But on recent kernels a yield forfeits the rest of a
// time slice, so beside a process that computes, one that yields often would be kept
// waiting for seconds. After a yield that took as long as a time slice the card
// therefore sleeps, for a while, whenever it waits, in poll(2) on its sockets, which
// a frame ends.
//
// A program that lets the card run now and then, between pieces of work, does not wait,
// and neither yields nor sleeps. What tells is the time from one call of Drive to the next.

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/port/afxdp"
)

const (
	// spins is how many looks at the clock in vain, glance calls of Drive apart, pass
	// before the processor is yielded: some 10 us.
	spins = 32
	// atWork is how far calls of Drive are apart, or farther, when the program works in
	// between: many times what a call in vain takes.
	atWork = int64(3 * time.Microsecond)
	// someoneRan: a yield that took longer let another process run.
	someoneRan = int64(5 * time.Microsecond)
	// someoneComputes: a yield that took longer let one run that does not yield.
	someoneComputes = int64(time.Millisecond)
	// sharing is how long after that the card sleeps when it waits.
	sharing = int64(200 * time.Millisecond)
	// longestSleep bounds a sleep: a timer of the program's own may have to be served.
	longestSleep = int64(time.Millisecond)
)

// rest is what a card knows about its wait.
type rest struct {
	idle     int   // looks at the clock in vain
	patience int   // of them until the next yield; 0 stands for spins
	until    int64 // end of sharing
	fds      []unix.PollFd

	at      int64  // the last look at the clock,
	polls   uint64 // and how many calls of Drive there had been
	working bool   // those up to it were far apart
}

// watch adds the sockets of a port to those that end a sleep.
func (r *rest) watch(p *afxdp.Port) {
	for _, fd := range p.FDs() {
		r.fds = append(r.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
}

// looked notes a look at the clock, and finds out whether the program works.
func (r *rest) looked(now int64, polls uint64) {
	r.working = now-r.at > atWork*int64(polls-r.polls)
	r.at, r.polls = now, polls
}

// waiting follows a step in vain, and a look at the clock; so many of them pass before the
// processor is yielded.
func (k *Card) waiting(spins int) {
	r := &k.rest
	if r.idle++; r.idle < max(r.patience, 1) {
		return
	}
	r.idle = 0
	if k.now < r.until {
		k.sleep()
		r.at = k.wall() // a rest is no work
		return
	}
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	r.at = k.wall()
	took := r.at - k.now
	switch {
	case took > someoneComputes:
		r.until = k.now + took + sharing
	case took > someoneRan:
		r.patience = 1
	default:
		r.patience = spins
	}
}

// sleep waits until a frame arrives or the engine wants to run.
func (k *Card) sleep() {
	if d := min(longestSleep, k.next-k.now); d > 0 {
		t := unix.NsecToTimespec(d)
		_, _ = unix.Ppoll(k.rest.fds, &t, nil) // a signal ends it early, which does no harm
	}
}
