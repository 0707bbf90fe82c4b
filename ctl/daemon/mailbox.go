package daemon

// This file is the mailbox of the card's thread. Accounts take turns there, by measured time.
//
// Each account has a queue. After a command its account rests. Command and rest together take
// stepsFirst+1 times the processor time of the command, times the number of accounts. These are the
// accounts that wait or rest, or that did so less than a rest ago: else one that always asks just
// as its rest ends would not count. So all commands together take at most about a quarter of the
// thread's time from the messages, and each account has an equal part of that quarter. Of the
// accounts that do not rest, the one that has rested for the longest is next. So an account that
// seldom asks waits for at most one command that has begun, however long and however many the
// commands of others are.
//
// A queue holds at most one command of each goroutine that serves a connection, and the goroutine
// waits for its command. So a queue is as bounded as connections are. The daemon's own commands
// have an account of their own.

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
)

const (
	// stepsFirst is the length of an account's rest, in times of its command, when it is alone.
	stepsFirst = 3
	ownAccount = int64(-1) // the account of the daemon itself; no user has a negative number
)

// mailbox holds the commands. Any goroutine may put; the rest belongs to the card's thread.
type mailbox struct {
	mu      sync.Mutex
	arrived []*command   // since the last take; guarded by mu
	fresh   atomic.Int32 // length of arrived

	boxes map[int64]*box
	taken uint64
	due   int64 // earliest time of the next command, of those sorted so far
}

type box struct {
	waiting []*command // in their order
	due     int64      // earliest time of the next command
	counts  int64      // it counts among the accounts until then, though it has nothing
	since   uint64     // breaks ties: taken, when the first command came
}

func (m *mailbox) put(c *command) {
	m.mu.Lock()
	m.arrived = append(m.arrived, c)
	m.mu.Unlock()
	m.fresh.Add(1)
}

// ready reports whether take may find a command. It may miss a command that is just being put; the
// ring that follows (loop.ring) announces that one.
func (m *mailbox) ready(now int64) bool { return m.fresh.Load() > 0 || m.due <= now }

// sort puts new commands into the boxes, unless a goroutine is just putting more.
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
		case b.counts <= now:
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

// rest lets the account of a command rest from now on. The command took the given time, beside the
// given number of accounts.
func (m *mailbox) rest(c *command, now, took, accounts int64) {
	if b := m.boxes[c.account()]; b != nil {
		rest := stepsFirst*took + (stepsFirst+1)*took*(max(accounts, 1)-1)
		b.due, b.counts = now+rest, now+2*rest
	}
}
