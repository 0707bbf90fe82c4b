package scoreboard

// This file has the units of a group, their scoreboard, and the issue of requests to them.

import (
	"errors"
	"fmt"
)

// ErrConfig reports a group that cannot be made.
var ErrConfig = errors.New("scoreboard: no such group of units")

// Config describes a group of units.
type Config struct {
	Units  int // 1 to MaxUnits
	Stages int // of each unit, 1 to MaxStages
	Queue  int // requests in the issue queue, 1 to MaxQueue
	Policy Policy
}

// Limits of a Config.
const (
	MaxUnits  = 16
	MaxStages = 16
	MaxQueue  = 1 << 16
)

// Group is the units of one type, with their issue queue.
type Group struct {
	policy Policy
	queue  ring
	units  []unit
	issued uint64
}

// unit is a functional unit. Its stages and its wait queue are its part of the scoreboard: they
// have the key of every request that was issued to the unit and has not left it.
type unit struct {
	stages []stage // the first is where a request enters
	wait   ring
	n      int // requests in stages and wait queue
}

// stage is a pipeline stage.
type stage struct {
	busy bool
	Request
}

// New returns a group. Errors: ErrConfig.
func New(c Config) (*Group, error) {
	if c.Units < 1 || c.Units > MaxUnits || c.Stages < 1 || c.Stages > MaxStages || c.Queue < 1 || c.Queue > MaxQueue ||
		!c.Policy.good() {
		return nil, fmt.Errorf("%w: %+v; use up to %d units, %d stages, a queue of %d, a window of %d, and waits of %d",
			ErrConfig, c, MaxUnits, MaxStages, MaxQueue, MaxWindow, MaxWait)
	}
	g := &Group{policy: c.Policy, queue: newRing(c.Queue)}
	for range c.Units {
		g.units = append(g.units, unit{stages: make([]stage, c.Stages), wait: newRing(c.Policy.Wait)})
	}
	return g, nil
}

// Offer puts a request at the end of the issue queue. It returns false if the queue is full; the
// request then stays with the caller, who offers it again.
func (g *Group) Offer(r Request) bool { return g.queue.push(r) }

// Room returns how many requests the issue queue has room for.
func (g *Group) Room() int { return len(g.queue.of) - g.queue.n }

// Queued returns the number of requests in the issue queue.
func (g *Group) Queued() int { return g.queue.n }

// Busy returns the number of requests in units and wait queues.
func (g *Group) Busy() (n int) {
	for i := range g.units {
		n += g.units[i].n
	}
	return n
}

// Issued returns the number of requests that were issued so far.
func (g *Group) Issued() uint64 { return g.issued }

// Slot carries out a time slot. Each unit offers the request in its last stage to take, which
// returns false to leave it there. The requests behind move by a stage where the next one is free.
// Then the policy issues requests; they are in a first stage, or in a wait queue, during the slot.
// take must not call methods of the group, but for Room, Queued, Busy and Issued.
func (g *Group) Slot(take func(Request) bool) {
	for i := range g.units {
		g.units[i].advance(take)
	}
	left := g.policy.Issues
	for looked, i := 0, 0; looked < g.policy.Window && i < g.queue.n && left > 0; looked++ {
		u := g.place(g.queue.at(i).Key)
		if u == nil {
			// It is blocked, and those behind it may be looked at. One with its key is blocked as
			// well, since units only fill up until the slot ends. So it does not pass.
			i++
			continue
		}
		u.enter(g.queue.remove(i))
		g.issued++
		left--
	}
}

// place returns the unit that a request with the key may be issued to, or nil. This is the unit
// that has the key. If none has, it is one whose first stage is free, or else one whose wait queue
// has room. Of several it is the one with the fewest requests. The thesis leaves that choice open.
func (g *Group) place(k Key) (best *unit) {
	for i := range g.units {
		u := &g.units[i]
		if u.has(k) {
			if u.room() {
				return u
			}
			return nil
		}
		if u.room() && (best == nil || u.better(best)) {
			best = u
		}
	}
	return best
}

// better reports whether a request without a key in a unit had better go to u than to v.
func (u *unit) better(v *unit) bool {
	if u.free() != v.free() {
		return u.free()
	}
	return u.n < v.n
}

// has reports whether a request with the key is in the unit: the unit's part of the scoreboard.
func (u *unit) has(k Key) bool {
	for i := range u.stages {
		if s := &u.stages[i]; s.busy && s.Key == k {
			return true
		}
	}
	return u.wait.has(k)
}

// free reports whether a request would enter the first stage at once.
func (u *unit) free() bool { return !u.stages[0].busy && u.wait.n == 0 }

// room reports whether the unit can be given a request.
func (u *unit) room() bool { return u.free() || u.wait.n < len(u.wait.of) }

// enter gives the unit a request. The unit has room.
func (u *unit) enter(r Request) {
	if u.n++; u.free() {
		u.stages[0] = stage{true, r}
		return
	}
	u.wait.push(r)
}

// advance moves the unit's requests by a stage, the last one out of the unit if take takes it.
func (u *unit) advance(take func(Request) bool) {
	last := len(u.stages) - 1
	if s := &u.stages[last]; s.busy && take(s.Request) {
		s.busy = false
		u.n--
	}
	for i := last; i > 0; i-- {
		if !u.stages[i].busy && u.stages[i-1].busy {
			u.stages[i], u.stages[i-1].busy = u.stages[i-1], false
		}
	}
	if !u.stages[0].busy && u.wait.n > 0 {
		u.stages[0] = stage{true, u.wait.remove(0)}
	}
}
