package chaos

// This file has the faults that last for a time, and their ends.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/sim"
)

// strike begins an episode and arranges for its end.
func (r *run) strike(e *episode) {
	x := e.random
	i := x.IntN(r.cards)
	card := r.world.Cards()[i]
	m := r.members[x.IntN(len(r.members))]
	switch e.kind {
	case Partition:
		a, b := r.halves(e)
		r.ethernet.Sever(sim.Cut{From: a, To: b}, e.ends)
		r.ethernet.Sever(sim.Cut{From: b, To: a}, e.ends)
	case Cut:
		a, b := r.halves(e)
		r.ethernet.Sever(sim.Cut{From: a, To: b}, e.ends)
	case Pause:
		if x.IntN(3) == 0 {
			card.Pause(e.ends)
		} else if m.process != nil {
			m.process.Pause(e.ends)
		}
	case Slow:
		times := 2 << x.IntN(9)
		if x.IntN(3) == 0 {
			card.Slow(times)
			r.world.At(e.ends, func() { card.Slow(1) })
		} else if p := m.process; p != nil {
			p.Slow(times)
			r.world.At(e.ends, func() { p.Slow(1) })
		}
	case Crash:
		if m.process != nil {
			r.kill(e, m)
		}
	case Restart:
		if card.Engine() == nil {
			return
		}
		card.Crash()
		r.down(e, i)
	case Switch:
		if p := m.process; p != nil {
			c := p.Card()
			c.SwitchOut(p, nil)
			r.world.At(e.ends, func() {
				if m.process == p {
					c.SwitchIn(p)
				}
			})
		}
	case Moves:
		r.moves(e, m)
	case Ports:
		r.unsettle(e, i)
	case Jobs:
		r.endJob(e, m.gid)
	case Narrow:
		r.narrow(e)
	case Forge, Replay:
		for range 20 + x.IntN(60) {
			r.world.At(e.at+x.Int64N(e.ends-e.at), func() {
				if f := r.spy.frame(e.kind, r); f != nil {
					r.ethernet.Inject(f)
				}
			})
		}
	}
}

// endJob ends the job that has a GID, on one card after another, and begins the next job there. For
// a time each of the two has a part of the cards. What the processes of the old job have sent is
// still under way.
func (r *run) endJob(e *episode, gid uint16) {
	r.newest[gid]++
	number := r.newest[gid]
	for i := range r.cards {
		if len(r.membersOf(half{gid, i})) == 0 && r.scenario.Faults&Moves == 0 {
			continue
		}
		at := r.world.Now() + e.random.Int64N(int64(5*time.Millisecond))
		again := at
		if e.random.IntN(2) == 0 {
			again += e.random.Int64N(int64(3 * time.Millisecond))
		}
		r.world.At(at, func() { r.endHalf(e, half{gid, i}, number, again) })
	}
}

func (r *run) membersOf(h half) (here []*member) {
	for _, m := range r.byCard[h.card] {
		if m.gid == h.gid {
			here = append(here, m)
		}
	}
	return here
}

// endHalf ends the part of a job on a card, and makes the next job's processes there at the given
// time.
func (r *run) endHalf(e *episode, h half, number uint32, again int64) {
	r.jobs[h] = max(r.jobs[h], number)
	if r.gates != nil { // the port is that of the job
		r.endCard(&episode{ends: again, random: e.random}, h.card)
		return
	}
	if e := r.world.Cards()[h.card].Engine(); e != nil && r.scenario.Faults&Moves != 0 {
		for _, sign := range r.signs[h] {
			e.Detach(sign)
		}
		delete(r.signs, h)
		r.routesOf(e, h.gid) // the new job's
	}
	for _, m := range r.membersOf(h) {
		r.endIn(m, again)
	}
}

// endIn ends a member's process because its job has ended, and makes the next job's process at the
// given time.
func (r *run) endIn(m *member, again int64) {
	p := m.process
	if p == nil {
		return // it comes back for the next job, once it is detached
	}
	c := r.world.Cards()[m.card]
	life := c.Engine()
	m.die()
	c.Detach(p)
	m.bury()
	r.returns(m, life, again)
}

// returns makes the member's next process at the given time, if its card still has the same life.
func (r *run) returns(m *member, life *engine.Card, at int64) {
	r.world.At(max(at, r.world.Now()), func() {
		if r.world.Cards()[m.card].Engine() == life {
			r.attach(m)
		}
	})
}

// kill ends a process. Some time later either the process's context is detached, or the card ends
// with all its processes, saying goodbye.
func (r *run) kill(e *episode, m *member) {
	p := m.process
	p.Kill()
	m.die()
	c, life := p.Card(), p.Card().Engine()
	r.world.At(r.world.Now()+e.random.Int64N(int64(5*time.Millisecond)), func() {
		switch {
		case c.Engine() != life:
		case e.random.IntN(2) == 0:
			r.leave(c)
			r.down(e, m.card)
		default:
			c.Detach(p)
			m.bury()
			m.deaths++ // also what came for the dead in the meantime
			r.returns(m, life, e.ends)
		}
	})
}

// leastFrame and mostFrame are the shortest and the longest limit of a narrow path, in bytes.
const (
	leastFrame = arctic.EthernetSize + arctic.MinMTU
	mostFrame  = 3600
)

// narrow makes the paths from some cards to the others carry only short frames. Some of the cards
// are told so, or are told something false.
func (r *run) narrow(e *episode) {
	x := e.random
	a, b := r.halves(e)
	bytes := leastFrame + x.IntN(mostFrame-leastFrame)
	if x.IntN(4) > 0 {
		until := e.ends
		if x.IntN(4) == 0 {
			until = sim.Never
		}
		r.ethernet.Narrow(sim.Cut{From: a, To: b}, bytes, until)
	}
	for i, card := range r.world.Cards() {
		if !a.Has(uint16(i)) || x.IntN(2) == 0 {
			continue
		}
		for j := range r.cards {
			said := bytes
			if x.IntN(4) == 0 {
				said = x.IntN(mostFrame)
			}
			if !b.Has(uint16(j)) {
				continue
			}
			if r.gates == nil {
				card.SetLimit(j, said)
			} else if r.members[i].gid == r.members[j].gid {
				card.SetLimit(int(r.members[j].node), said)
			}
		}
	}
}

// halves draws a partition of the cards.
func (r *run) halves(e *episode) (a, b sim.Set) {
	var as, bs []int
	first := e.random.IntN(r.cards) // never on both sides the same
	for i := range r.cards {
		if i == first || i != (first+1)%r.cards && e.random.IntN(2) == 0 {
			as = append(as, i)
		} else {
			bs = append(bs, i)
		}
	}
	return sim.SetOf(as...), sim.SetOf(bs...)
}

// down buries the processes of a card that has gone, and brings the card back at the end of the
// episode.
func (r *run) down(e *episode, card int) {
	r.part(card)
	for _, m := range r.byCard[card] {
		m.die()
		m.bury()
		m.deaths++ // also what came for the dead while their card did not know
	}
	delay := e.random.Int64N(int64(3 * time.Millisecond))
	if e.random.IntN(2) == 0 {
		delay = 0
	}
	r.world.At(max(e.ends, r.world.Now()), func() {
		if r.world.Cards()[card].Engine() == nil {
			r.start(card, delay)
		}
	})
}

// die notes the death of a process. It excuses what the process had sent and was to get.
func (m *member) die() {
	if m.process != nil {
		m.process = nil
		m.deaths++
	}
}
