package daemon

// This file bounds the time that requests of a user take. The kernel runs the threads of
// the daemon in turn, and the Go runtime its goroutines: many connections that keep it busy, be it
// with memory made and freed as fast as can be, would keep the card's thread waiting. So
// each request has a cost, about twice the time that it takes, and a user whose debt
// is more than a burst's waits before the next: he gets half of a processor.

import "time"

const (
	// requestCost is the cost of any request.
	requestCost = 100 * time.Microsecond
	// routeCost is the cost of a node of a job.
	routeCost = 50 * time.Nanosecond
	// byteCost is the cost of a byte of new memory, which is made, mapped, locked and freed.
	byteCost = 2 * time.Nanosecond
	// burst is the debt that nobody waits for.
	burst = 100 * time.Millisecond
	// longestPace bounds a wait, and glancePace how late the end of a process is noticed that
	// waits.
	longestPace = 500 * time.Millisecond
	glancePace  = 10 * time.Millisecond
	// manyDebts is how many users' debts are looked through for those that are paid.
	manyDebts = 64
)

// debts says until when each user has used his time up.
type debts map[uint32]time.Time

// add adds the cost of a request and returns how long the user has to wait before it.
func (d debts) add(uid uint32, now time.Time, cost time.Duration) time.Duration {
	if len(d) >= manyDebts {
		for u, until := range d {
			if until.Before(now) {
				delete(d, u)
			}
		}
	}
	until := d[uid]
	if until.Before(now) {
		until = now
	}
	until = until.Add(min(cost, longestPace))
	if most := now.Add(burst + longestPace); until.After(most) {
		until = most
	}
	d[uid] = until
	return max(until.Sub(now)-burst, 0)
}

// pace makes the connection wait until its user may have a request of that cost, and
// returns errGone if the process ends meanwhile. Nothing must be locked.
func (c *connection) pace(cost time.Duration) error {
	d := c.d
	d.mu.Lock()
	now := time.Now()
	end := now.Add(d.debts.add(c.peer.uid, now, cost))
	d.mu.Unlock()
	for left := end.Sub(now); left > 0; left = time.Until(end) {
		t := time.NewTimer(min(left, glancePace))
		select {
		case <-t.C:
		case <-d.quit:
			t.Stop()
			return nil
		}
		if c.hungUp() {
			return errGone
		}
	}
	return nil
}

// routesCost is the cost of so many routes, of which the card's thread takes its part.
func routesCost(nodes int) time.Duration { return time.Duration(nodes) * routeCost }

// memoryCost is the cost of making so much memory.
func memoryCost(bytes int64) time.Duration { return time.Duration(bytes) * byteCost }
