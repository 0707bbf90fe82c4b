package daemon

// This file is the mailbox of the card's thread: commands of accounts in turn, by measured time.
//
// Each account has a queue. After a command the account rests for stepsFirst times as long as the
// command took of the thread's processor time, times the number of accounts that have something to
// do. So all commands together take about a quarter of the thread's time from the messages, and
// each account's part of that quarter is the same. Of the accounts that do not rest, the one that
// has rested for the longest is next: whoever asks seldom waits for one command that has begun,
// however long others' commands are and however many wait.
//
// A queue holds at most one command of each goroutine that serves a connection, so it is as bounded
// as connections are, and the goroutine waits for its command. The daemon's own commands are those
// of an account of their own.

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
)

const (
	// stepsFirst is how many times as long as its commands took an account rests, where no other
	// has any.
	stepsFirst = 3
	// ownAccount is that of the daemon itself; no user has a negative number.
	ownAccount = int64(-1)
)

// mailbox holds the commands. Put may be called from any goroutine; the rest belongs to the card's
// thread.
type mailbox struct {
	mu      sync.Mutex
	arrived []*command   // since the last take; guarded by mu
	fresh   atomic.Int32 // how many these are

	boxes map[int64]*box
	taken uint64
	due   int64 // when the next command may begin, of those that had been looked at
}

// box is an account's.
type box struct {
	waiting []*command // in their order
	due     int64      // when the next may begin
	since   uint64     // breaks ties: when the first came, in commands taken
}

// put adds a command.
func (m *mailbox) put(c *command) {
	m.mu.Lock()
	m.arrived = append(m.arrived, c)
	m.mu.Unlock()
	m.fresh.Add(1)
}

// ready reports whether take may find a command. A ring that comes after it (loop.ring) tells of
// one that it has not seen.
func (m *mailbox) ready(now int64) bool { return m.fresh.Load() > 0 || m.due <= now }

// sort puts what has arrived into the boxes, unless somebody is just putting more.
func (m *mailbox) sort() {
	if m.fresh.Load() == 0 || !m.mu.TryLock() {
		return
	}
	arrived := m.arrived
	m.arrived = nil
	m.mu.Unlock()
	m.fresh.Add(-int32(len(arrived)))
	if m.boxes == nil {
		m.boxes = map[int64]*box{}
	}
	for _, c := range arrived {
		account := c.account()
		b := m.boxes[account]
		if b == nil {
			b = &box{}
			m.boxes[account] = b
		}
		if len(b.waiting) == 0 {
			b.since = m.taken
		}
		b.waiting = append(b.waiting, c)
	}
}

// take returns the next command, or nil if none may begin now, and how many accounts wait or rest.
func (m *mailbox) take(now int64) (c *command, accounts int64) {
	m.sort()
	var next *box
	m.due = math.MaxInt64
	for account, b := range m.boxes {
		switch {
		case len(b.waiting) > 0:
			if b.due > now {
				m.due = min(m.due, b.due)
			} else if next == nil || cmp.Or(cmp.Compare(b.due, next.due), cmp.Compare(b.since, next.since),
				cmp.Compare(account, next.waiting[0].account())) < 0 {
				next = b
			}
		case b.due <= now: // it has nothing, and has rested
			delete(m.boxes, account)
			continue
		}
		accounts++
	}
	if next == nil {
		return nil, accounts
	}
	m.due = now // others may be ready, too
	m.taken++
	c = next.waiting[0]
	next.waiting[0] = nil
	next.waiting = next.waiting[1:]
	next.since = m.taken
	return c, accounts
}

// rest has the account of a command that was taken rest from now on, after the command took so long
// beside so many accounts.
func (m *mailbox) rest(c *command, now, took, accounts int64) {
	if b := m.boxes[c.account()]; b != nil {
		b.due = now + stepsFirst*took + (stepsFirst+1)*took*(max(accounts, 1)-1)
	}
}
