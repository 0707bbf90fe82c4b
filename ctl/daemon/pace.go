package daemon

// This file bounds the time that connections and requests of a user take. The kernel runs the
// threads of the daemon in turn, and the Go runtime its goroutines: many connections that keep them
// busy, for instance with memory made and freed as fast as possible, would keep the card's thread
// waiting. So each request has a cost, about twice the time that it takes, which is added to its
// user's debt. Debt is paid off by time. A user who owes more than a burst waits until it is paid: he gets
// half of a processor, however large his requests are and however many of his connections wait.

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// requestCost is the cost of any request.
	requestCost = 100 * time.Microsecond
	// connectionCost is the cost of a connection. It takes a tenth of that, most of it with
	// locks of the runtime that the card's thread may want.
	connectionCost = time.Millisecond
	// lookCost is the cost of having the card's thread look at a context.
	lookCost = 20 * time.Microsecond
	// routeCost is the cost of a node of a job.
	routeCost = 50 * time.Nanosecond
	// byteCost is the cost of a byte of new memory, which is made, mapped, locked and freed.
	byteCost = 2 * time.Nanosecond
	// burst is the debt that nobody waits for.
	burst = 100 * time.Millisecond
	// manyDebts is how many users' debts are looked through for those that are paid.
	manyDebts = 64
)

// debts says when what each user owes will be paid.
type debts map[uint32]time.Time

// add adds the cost of a request and returns how long the user has to wait before it. What he
// Only what was owed before counts, so that a large request of one who owes nothing begins at once.
func (d debts) add(account uint32, now time.Time, cost time.Duration) time.Duration {
	if len(d) >= manyDebts {
		for u, paid := range d {
			if paid.Before(now) {
				delete(d, u)
			}
		}
	}
	paid := d[account]
	if paid.Before(now) {
		paid = now
	}
	d[account] = paid.Add(cost)
	return max(paid.Sub(now)-burst, 0)
}

// forgive takes back the cost of a request that did not begin.
func (d debts) forgive(account uint32, cost time.Duration) {
	if paid, ok := d[account]; ok {
		d[account] = paid.Add(-cost)
	}
}

// pace makes the connection wait until its user may have a request of that cost, and
// returns errGone if the process or the daemon ends meanwhile. Nothing must be locked.
func (c *connection) pace(cost time.Duration) error {
	d := c.d
	d.mu.Lock()
	wait := d.debts.add(c.peer.account, time.Now(), cost)
	d.mu.Unlock()
	if wait == 0 || !c.endsWithin(wait) {
		return nil
	}
	d.mu.Lock()
	d.debts.forgive(c.peer.account, cost)
	d.mu.Unlock()
	return errGone
}

// endsWithin waits, and reports whether the process hung up, or the connection was closed,
// meanwhile. It must not be called while another goroutine receives.
func (c *connection) endsWithin(wait time.Duration) bool {
	raw, err := c.conn.SyscallConn()
	if err != nil || c.conn.SetReadDeadline(time.Now().Add(wait)) != nil {
		return true
	}
	err = raw.Read(func(fd uintptr) bool { return hungUp(int(fd)) }) // asked again whenever something happens
	return !errors.Is(err, os.ErrDeadlineExceeded) || c.conn.SetReadDeadline(time.Time{}) != nil
}

// hungUp reports whether the process at the other end of a socket is gone.
func hungUp(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, _ := unix.Poll(p[:], 0)
	return n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

// routesCost is the cost of a number of routes; the card's thread bears its part.
func routesCost(nodes int) time.Duration { return time.Duration(nodes) * routeCost }

// memoryCost is the cost of making so much memory, for a user who may have as much as his rule
// says: more is refused before it is made.
func memoryCost(bytes uint64, r *Rule) time.Duration {
	if bytes > uint64(r.Bytes) {
		return 0
	}
	return time.Duration(bytes) * byteCost
}
