package attach

// This file is what a client does while it waits: it looks at its registers, then yields
// the processor between looks, as the card may want it, and then asks the card to wake it
// and sleeps (poll(2) on an eventfd and on the socket).
//
// The times are those of package card, whose cards rest for the same reasons.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/funi"
)

const (
	// glance is how many calls of Drive pass between two looks at the registers.
	glance = 16
	// spins is how many looks in vain pass before the processor is yielded: some 10 us
	// of a program that polls.
	spins = 32
	// someoneRan: a yield that took longer let another process run.
	someoneRan = int64(2 * time.Microsecond)
	// someoneComputes: a yield that took longer let one run that does not yield.
	someoneComputes = int64(time.Millisecond)
	// sharing is how long after that a client sleeps whenever it waits.
	sharing = int64(200 * time.Millisecond)
	// wakeful is how long a client yields in vain before it sleeps.
	wakeful = int64(50 * time.Microsecond)
	// firstNap and longestNap bound a sleep in Drive: a timer of the program's own may
	// have to be served. Each that was in vain is twice as long as the one before.
	firstNap   = time.Millisecond
	longestNap = 8 * time.Millisecond
)

// What a sleep waits for.
const (
	onSocket = iota
	onEvent  // of the card
	onCancel // our own: the context of a Wait has ended
)

// rest is what a client knows about its wait.
type rest struct {
	fds      [3]unix.PollFd
	idle     int   // looks in vain
	patience int   // of them until the next yield
	since    int64 // first yield in vain; 0: none yet
	until    int64 // end of sharing
	nap      time.Duration
	tid      int // of the thread that slept last
}

func newRest(sock, event, cancel int) rest {
	r := rest{fds: [3]unix.PollFd{{Fd: int32(sock), Events: unix.POLLRDHUP}, {Fd: int32(event), Events: unix.POLLIN}, {Fd: int32(cancel), Events: unix.POLLIN}}}
	r.stir()
	r.patience = spins
	return r
}

// stir ends a wait. Whether somebody else wants the processor stays known.
func (r *rest) stir() { r.idle, r.since, r.nap = 0, 0, firstNap }

// tired counts a look in vain, yields now and then, and reports whether it is time to
// sleep.
func (r *rest) tired(now func() int64) bool {
	if r.idle++; r.idle < r.patience {
		return false
	}
	r.idle = 0
	at := now()
	if r.since == 0 {
		r.since = at
	}
	if at < r.until || at-r.since > wakeful {
		return true
	}
	yield()
	switch took := now() - at; {
	case took > someoneComputes:
		r.until = at + took + sharing
	case took > someoneRan:
		r.patience = 1
		r.since += took // others had the processor: that is not time waited in vain
	default:
		r.patience = spins
	}
	return false
}

func yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// sleep waits for the card's wake, something on the socket, or the time to pass.
func (r *rest) sleep(d time.Duration) {
	if tid := unix.Gettid(); tid != r.tid {
		r.tid = tid
		ShortSlice() // so that it is run soon after it is woken
	}
	t := unix.NsecToTimespec(int64(d))
	if n, err := unix.Ppoll(r.fds[:], &t, nil); n <= 0 || err != nil { // a signal ends it early, which does no harm
		r.fds[onSocket].Revents = 0
		return
	}
	for _, f := range r.fds[onEvent:] {
		if f.Revents != 0 {
			var count [8]byte
			_, _ = unix.Read(int(f.Fd), count[:])
		}
	}
}

// Drive lets the card run. It does next to nothing while the program finds something in
// its queues between calls; when nothing has happened for some time it yields the
// processor, and then sleeps until the card does something for the process, at most for
// 8 ms at a time. When the context is gone it returns at once; then Err says why, and
// package am returns funi.ErrDetached.
func (c *Client) Drive() {
	if c.polls++; c.polls%glance != 0 || c.err != nil {
		return
	}
	if p := c.page.Published(); p != c.seen {
		c.seen = p
		c.rest.stir()
		c.look(p)
		return
	}
	if !c.rest.tired(c.Now) {
		return
	}
	if c.spin {
		yield()
		c.rest.sleep(0) // is the daemon still there?
		c.rest.since = 0
		c.listen()
		return
	}
	// The program has looked into its queues since they were last seen as they are.
	c.page.Arm()
	if c.page.Published() == c.seen {
		c.rest.sleep(c.rest.nap)
		c.rest.nap = min(2*c.rest.nap, longestNap)
		c.listen()
	}
	c.page.Disarm()
}

// Wait blocks until a message or a return waits in the queues, the queues are halted for
// the program (funi.Interface.Halt), or the card has given slots of a send queue back or
// changed CNTL since the last Wait, or ctx ends: then it returns context.Cause. It may
// return nil although nothing has happened. ErrLost and funi.ErrDetached say that the
// context of the card is gone.
func (c *Client) Wait(ctx context.Context) error {
	for {
		p := c.page.Published()
		if c.look(p); c.err != nil {
			return fmt.Errorf("waiting: %w", c.err)
		}
		if p != c.told || c.page.Halted() || c.iface != nil && c.iface.Waiting() {
			c.told = p
			c.rest.stir()
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting: %w", context.Cause(ctx))
		}
		if c.rest.tired(c.Now) {
			c.block(ctx)
		}
	}
}

// longestBlock bounds a sleep in Wait, which everything that it waits for ends.
const longestBlock = time.Second

// block sleeps until something has happened since the last Wait, or the context ends.
func (c *Client) block(ctx context.Context) {
	defer c.wakeAtEnd(ctx)()
	c.page.Arm()
	if c.page.Published() == c.told && !c.page.Halted() {
		c.rest.sleep(longestBlock)
		c.listen()
	}
	c.page.Disarm()
}

// wakeAtEnd has the end of a context end a sleep, until the function that it returns is called.
func (c *Client) wakeAtEnd(ctx context.Context) (leave func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		wake(c.cancel)
		close(woken)
	})
	return func() {
		if !stop() {
			<-woken // the descriptor must not be used after Close
		}
	}
}

// look notes the end of the context if the card has published it.
func (c *Client) look(p funi.Published) {
	if p.Gone && c.err == nil {
		c.lost(fmt.Errorf("the daemon has ended the context: %w", cmp.Or(c.page.Err(), funi.ErrDetached)))
	}
}

// listen notes the end of the daemon if the socket has seen it.
func (c *Client) listen() {
	if c.rest.fds[onSocket].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0 && !c.page.Gone() {
		c.lost(fmt.Errorf("attached at %s: %w", c.socket, ErrLost))
	}
}

// wake writes an eventfd.
func wake(fd int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(fd, one[:]); errors.Is(err, unix.EINTR) {
		_, _ = unix.Write(fd, one[:]) // it does not fail otherwise, nor twice in a row
	}
}
