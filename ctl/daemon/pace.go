package daemon

// This file bounds the time that connections and requests of an account take. The kernel runs the
// threads of the daemon in turn, and the Go runtime its goroutines. Many busy connections would
// keep the card's thread and other users waiting, for instance connections that have memory made
// and freed as fast as possible.
//
// So the requests of an account are carried out one after the other, and each is paid for
// afterwards. The account is charged the measured processor time that the connection's thread has
// used (CLOCK_THREAD_CPUTIME_ID), and that of the card's thread for its commands. Elapsed time
// would charge a user for the computing of others. The cost is costFactor times that processor
// time, because the runtime's own part, such as waking the goroutine, cannot be measured.
//
// Debt is paid off by time. A user that owes more than burst waits until it owes no more than that.
// So a user gets half of a processor, however large its requests are and however many of its
// connections wait.
//
// While a request waits for others, such as packets under way, another of the account goes on.

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/funet/funet/ctl/ports"
	"github.com/funet/funet/uspace/attach"
)

const (
	// costFactor multiplies the time of requests. connectionFactor multiplies the time of making a
	// connection, most of which is locks of the runtime that the card's thread may want.
	costFactor       = 2
	connectionFactor = 40
	// burst is the debt for which no request has to wait.
	burst      = 100 * time.Millisecond
	manyPurses = 64 // the number of purses from which on unused ones are removed
)

// purse is the debt of an account, and the turns of its requests.
type purse struct {
	// line is held by the next request, which waits until the debt is at most burst. work is held
	// by the request that is carried out. A holder of work may take the mutexes of connections; a
	// holder of such a mutex must not take work.
	line, work chan struct{}
	debt       debt
	users      int // connections and doors; guarded by Daemon.mu, as is debt
}

// debt is the time at which the account's debt will be paid off.
type debt time.Time

func (d *debt) add(now time.Time, cost time.Duration) {
	paid := time.Time(*d)
	if paid.Before(now) {
		paid = now
	}
	*d = debt(paid.Add(cost))
}

// wait returns how long the account has to wait before a request: until its debt is at most burst.
func (d debt) wait(now time.Time) time.Duration {
	return max(time.Time(d).Sub(now), burst) - burst // a debt of nobody lies before all times
}

// purseOf returns an account's purse, for one more user. Undo it with leavePurse.
func (d *Daemon) purseOf(account uint32) *purse {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.purses) >= manyPurses {
		now := time.Now()
		for a, p := range d.purses {
			if p.users == 0 && time.Time(p.debt).Before(now) {
				delete(d.purses, a)
			}
		}
	}
	p := d.purses[account]
	if p == nil {
		p = &purse{line: make(chan struct{}, 1), work: make(chan struct{}, 1)}
		d.purses[account] = p
	}
	p.users++
	return p
}

func (d *Daemon) leavePurse(p *purse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.users--
}

func (d *Daemon) pay(p *purse, cost time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.debt.add(time.Now(), cost)
}

// owes returns how long the account has to wait.
func (d *Daemon) owes(p *purse) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return p.debt.wait(time.Now())
}

// enter waits until a request of the account may be carried out, and measures its time from then
// on. It returns errGone if the process or the daemon ends meanwhile. No mutex may be held. The
// goroutine that serves the connection calls enter and exit.
func (c *connection) enter() error {
	c.purse.line <- struct{}{}
	for wait := c.d.owes(c.purse); wait > 0; wait = c.d.owes(c.purse) {
		if c.endsWithin(wait) {
			<-c.purse.line
			return errGone
		}
	}
	c.work()
	<-c.purse.line
	return nil
}

// work is enter without regard to debts.
func (c *connection) work() {
	c.purse.work <- struct{}{}
	c.working = true
	c.measure(true)
}

// exit ends the work that enter has begun, if any, and charges its time.
func (c *connection) exit() {
	if !c.working {
		return
	}
	c.measure(false)
	c.working = false
	c.d.pay(c.purse, costFactor*c.spent)
	c.spent = 0
	<-c.purse.work
}

// measure begins or ends the measuring of the goroutine's processor time. Meanwhile the goroutine
// is locked to its thread.
func (c *connection) measure(so bool) {
	if so {
		runtime.LockOSThread()
		c.since = ports.ThreadTime()
		return
	}
	c.spent += ports.ThreadTime() - c.since
	runtime.UnlockOSThread()
}

// endsWithin waits, and reports whether the process hung up, or the connection was closed,
// meanwhile. Other requests of the account go on. It must not be called while another goroutine
// receives, nor with a mutex held.
func (c *connection) endsWithin(wait time.Duration) bool {
	raw, err := c.conn.SyscallConn()
	if err != nil || c.conn.SetReadDeadline(time.Now().Add(wait)) != nil {
		return true
	}
	// asked again whenever something happens
	err = raw.Read(func(fd uintptr) bool { return attach.DescriptorHungUp(int(fd)) })
	return !errors.Is(err, os.ErrDeadlineExceeded) || c.conn.SetReadDeadline(time.Time{}) != nil
}

// pause interrupts a request for a time. It reports whether the connection was closed meanwhile.
func (c *connection) pause(wait time.Duration) (gone bool) {
	c.exit()
	return c.endsWithin(wait) || c.enter() != nil
}
