package lead

// This file implements the lock of a group, and goroutines that are parked.
//
// A goroutine that finds the lock free takes it with one atomic operation. Otherwise it registers
// its wish and ends the sleep of the goroutine that polls, which then releases the lock between two
// polls. So the lock is obtained soon, and taking it needs no context.

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Card is the part of a card that a group uses (funet.Carrier). Any goroutine may call Interrupt,
// which ends a sleep of the card. The other methods are called with the lock held.
type Card interface {
	Now() int64
	Interrupt()
	Fd() (int, error)
	Arm() bool
	Disarm()
}

// Group is the goroutines that share a card. Its methods need the lock, except those that take it.
type Group struct {
	card   Card
	mu     sync.Mutex
	want   atomic.Int32 // goroutines that failed to take mu at once
	moves  uint32       // how often the lock was taken or a leader ended
	leads  bool         // a goroutine polls, and its wait is not over
	lent   bool         // the leader waits for the lock that it has let others have
	ended  bool         // the card is of no more use
	claims int          // goroutines that need to lead themselves
	parked []*Waiter    // goroutines that wait and do not lead
	roused int          // of parked, those with news that have not run since
	calls  uint32       // how often all goroutines were to look again
	keeper *keeper      // nil: none
}

// New returns the group of a card, without a keeper.
func New(card Card) *Group { return &Group{card: card} }

// Waiter is a goroutine that waits, or is about to.
type Waiter struct {
	group  *Group
	wake   chan struct{} // one slot
	news   bool          // something has happened
	parked bool          // it is parked and was not roused yet
	at     int           // index in Group.parked
}

// NewWaiter returns a Waiter; it needs no lock.
func (g *Group) NewWaiter() Waiter { return Waiter{group: g, wake: make(chan struct{}, 1)} }

// Rouse makes the goroutine look again.
func (w *Waiter) Rouse() {
	w.news = true
	if w.parked {
		w.parked = false
		w.group.roused++
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Calm forgets earlier calls of Rouse.
func (w *Waiter) Calm() {
	w.news = false
	select {
	case <-w.wake:
	default:
	}
}

// TryLock takes the lock if it is free.
func (g *Group) TryLock() bool { return g.mu.TryLock() }

// Lock takes the lock; a leader gives way.
func (g *Group) Lock() {
	if !g.mu.TryLock() {
		g.want.Add(1)
		g.card.Interrupt()
		g.mu.Lock()
		g.want.Add(-1)
	}
}

// Unlock releases the lock. In a group with a keeper some goroutine drives the card afterwards.
func (g *Group) Unlock() {
	if g.keeper != nil {
		g.keeper.handOver()
	}
	g.mu.Unlock()
}

// Wanted reports whether goroutines want the lock. It needs no lock.
func (g *Group) Wanted() bool { return g.want.Load() > 0 }

// Leads reports whether a goroutine leads.
func (g *Group) Leads() bool { return g.leads }

// MayLead reports whether the calling goroutine may begin to lead.
func (g *Group) MayLead() bool { return !g.leads && g.claims == 0 }

// Claimed reports whether a goroutine needs to lead instead of the leader (Claim).
func (g *Group) Claimed() bool { return g.claims > 0 }

// Lead makes the calling goroutine the leader until Leave.
func (g *Group) Lead() {
	g.leads = true
	if k := g.keeper; k != nil && k.armed {
		k.armed = false
		g.card.Disarm()
	}
}

// Leave ends the calling goroutine's role as the leader.
func (g *Group) Leave() {
	g.leads = false
	g.moves++
	g.PassOn()
}

// Claim waits until no goroutine leads, before any other that waits. It gives up when over returns
// true. The caller then leads, or passes on.
func (g *Group) Claim(over func() bool, park func()) {
	for g.claims++; g.leads && !over(); {
		park()
	}
	g.claims--
}

// PassOn rouses a parked goroutine that may lead.
func (g *Group) PassOn() {
	switch {
	case g.leads:
	case g.ended || g.claims > 0:
		g.RouseAll() // one of them claims to lead
	case g.keeper == nil && len(g.parked) > 0:
		g.parked[0].Rouse()
	}
}

// End says that the card is of no more use: all goroutines look again.
func (g *Group) End() {
	g.ended = true
	g.RouseAll()
}

// RouseAll makes all goroutines that wait look again, parked or not (Await).
func (g *Group) RouseAll() {
	g.calls++
	for _, w := range g.parked {
		w.Rouse()
	}
}

// Yield lets others have the leader's lock, if they want it. A goroutine that gets it then does not
// yield in turn. It may be in the middle of an operation when that lets the card run, and no other
// goroutine may begin one then.
func (g *Group) Yield() {
	if g.want.Load() > 0 && g.leads && !g.lent {
		g.lend(runtime.Gosched) // to the goroutine that Unlock has made ready
	}
}

// lend is GiveWay of the leader.
func (g *Group) lend(run func()) {
	g.lent = true
	g.GiveWay(run)
	g.lent = false
}

// GiveWay lets other goroutines run, with the lock if they want it. It counts the caller among
// those that want the lock. Otherwise a goroutine that holds it then, and need not wait, would keep
// it.
func (g *Group) GiveWay(run func()) {
	g.want.Add(1)
	g.mu.Unlock()
	run()
	g.mu.Lock()
	g.want.Add(-1)
}

// Park waits, without the lock, until a waiter is roused or cancel is closed.
func (g *Group) Park(w *Waiter, cancel <-chan struct{}) {
	w.at, w.parked = len(g.parked), true
	g.parked = append(g.parked, w)
	g.Unlock()
	select {
	case <-w.wake:
	case <-cancel:
	}
	g.Lock()
	if !w.parked {
		g.roused--
	}
	w.parked = false
	last := len(g.parked) - 1
	g.parked[w.at] = g.parked[last]
	g.parked[w.at].at = w.at
	g.parked[last] = nil
	g.parked = g.parked[:last]
}
