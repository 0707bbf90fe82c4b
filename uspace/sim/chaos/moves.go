package chaos

// This file moves processes to other cards, again and again as long as an episode lasts.

import (
	"slices"
	"time"

	"github.com/funet/funet/uspace/engine"
)

// moves moves a member at random times until the episode is over.
func (r *run) moves(e *episode, m *member) {
	again := func() {
		at := r.world.Now() + e.random.Int64N(int64(2*time.Millisecond)) + 1
		if at < e.ends {
			r.world.At(at, func() { r.moves(e, m) })
		}
	}
	to := e.random.IntN(r.cards)
	p := m.process
	if p == nil || r.jobs[half{m.gid, to}] != m.job {
		again()
		return
	}
	from, cards := m.card, r.world.Cards()
	lives := make([]*engine.Card, r.cards)
	for i, c := range cards {
		lives[i] = c.Engine()
	}
	begun := p.Card().Move(p, r.world.Cards()[to], r.tag(m.job), e.ends, func(moved bool, sign *engine.Context) {
		ended, _ := p.Ended()
		switch {
		case moved:
			r.moved++
			// cards that lose each other begin to count anew, and then nobody knows when a transfer
			// began (engine/life.go)
			if r.scenario.Faults&^calm != 0 {
				m.moved++
			}
			r.signs[half{m.gid, from}] = append(r.signs[half{m.gid, from}], sign)
			r.settles(m, to)
			for i, c := range cards {
				if e := c.Engine(); e != nil && e != lives[i] { // it has missed that
					r.routesOf(e, m.gid)
				}
			}
			// which has ended there meanwhile
			if m.process == p && r.jobs[half{m.gid, to}] != m.job {
				r.endIn(m, r.world.Now())
			}
		case ended && m.process == p: // between the two cards, one of which has gone
			m.die()
			m.bury()
			m.deaths++
			r.settles(m, from)
			r.world.At(max(e.ends, r.world.Now()), func() { r.comesBack(m) })
		case ended:
			r.settles(m, from) // whoever has ended it brings it back
		}
		again()
	})
	if !begun {
		again()
	}
}

// comesBack makes a new process for a member whose card may have gone meanwhile.
func (r *run) comesBack(m *member) {
	if r.world.Cards()[m.card].Engine() != nil {
		r.attach(m)
	} // else it comes back with its card
}

// settles notes where a member is from now on. Cards hear of a move from each other. If a card has
// gone before all had heard of it, the launcher of the job tells all, as `funet route set` does.
func (r *run) settles(m *member, card int) {
	table := r.homes[m.gid]
	if table == nil {
		table = r.routes
	}
	table = slices.Clone(table)
	table[m.node] = uint32(card)
	r.homes[m.gid] = table
	was := m.card
	if was != card {
		r.byCard[was] = slices.DeleteFunc(r.byCard[was], func(o *member) bool { return o == m })
		r.byCard[card] = append(r.byCard[card], m)
		m.card = card
		return
	}
	for _, c := range r.world.Cards() {
		if c.Engine() != nil {
			r.routesOf(c.Engine(), m.gid)
		}
	}
}

// routesOf gives a card the routes of groups some of whose processes have moved.
func (r *run) routesOf(e *engine.Card, gids ...uint16) {
	for _, gid := range gids {
		if table := r.homes[gid]; table != nil {
			succeed(e.SetGroupRoutes(gid, table))
		}
	}
}
