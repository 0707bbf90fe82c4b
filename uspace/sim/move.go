package sim

// This file moves processes between cards, as package attach does between daemons (engine,
// move.go). The memory of a process stays in its place, because all cards of a world can reach it.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

type move struct {
	from, to   *Card
	old, new   *engine.Card // the lives of the two
	sign, next *engine.Context
	image      []byte
	page       funi.Page
	segments   []funi.Segment
	gid, node  uint16
	tag        uint64
	stays      int64 // the time when the move is given up, if the context has not left
	over       func(moved bool, sign *engine.Context)
	process    *Process
}

// Move moves a process to another card. It stops the process meanwhile. It calls over with true and
// the sign of the process's context when the process is there, and with false when the process
// stays or has ended. The process stays if what it has sent is not accepted by the time stays, or
// if the other card goes down before the context has left. The process ends if the other card
// cannot take it after that.
//
// Move reports whether the move has begun. It does not begin if the process has ended, is stopped,
// or is not on this card. Nor does it begin if to is this card, or if either card is down.
func (c *Card) Move(p *Process, to *Card, tag uint64, stays int64, over func(moved bool, sign *engine.Context)) bool {
	if p.ended || p.stopped || p.card != c || to == c || c.engine == nil || to.engine == nil ||
		!slices.Contains(c.processes, p) {
		return false
	}
	p.stopped = true
	m := &move{from: c, to: to, old: c.engine, new: to.engine, gid: p.context.GID(), node: p.context.Node(), tag: tag,
		stays: stays, over: over, process: p,
		segments: p.context.Segments()}
	p.move = m
	m.look()
	return true
}

// look carries the move on as far as possible, and calls itself again later.
func (m *move) look() {
	p, w := m.process, m.from.world
	gone := p.ended || m.from.engine != m.old || m.to.engine != m.new
	switch {
	case gone && m.image == nil:
		m.end(false)
		if !p.ended && m.from.engine == m.old { // the other card has gone
			m.old.Stay(p.context)
			m.resume()
		}
		return
	case gone:
		m.fail()
		return
	case m.image == nil && !m.leave(), m.image != nil && !m.arrive():
		if p.move == m {
			w.At(w.now+switchLook, m.look)
		}
	case p.move == m:
		w.At(w.now+switchLook, m.look)
	}
}

// leave asks the old card to let the context go. If it does, leave returns what arrive returns,
// otherwise false.
func (m *move) leave() bool {
	p := m.process
	image, err := m.old.Export(p.context, uint16(m.to.number))
	m.from.wake(m.from.world.now)
	switch {
	case errors.Is(err, engine.ErrNotReady) && m.from.world.now < m.stays:
		return false
	case err != nil:
		if !errors.Is(err, engine.ErrNotReady) {
			panic(fmt.Errorf("sim: moving: %w", err))
		}
		m.old.Stay(p.context)
		m.end(false)
		m.resume()
		return false
	}
	m.image, m.page, m.sign = image, *p.memory.Page, p.context
	return m.arrive() // before any card is told that the process is there
}

// arrive makes the new card take the context. It returns true when the move is over, and false
// while it has to wait.
func (m *move) arrive() bool {
	p := m.process
	if m.next == nil {
		x, err := m.new.Arrive(p.memory, m.gid, m.node, m.tag)
		if err != nil { // as where the card is full
			m.fail()
			return true
		}
		for _, s := range m.segments {
			if err := x.Register(s); err != nil {
				panic(fmt.Errorf("sim: moving: %w", err))
			}
		}
		m.next = x
	}
	if left, home := m.sign.Told(); left > 0 || !home {
		return false
	}
	*p.memory.Page = m.page
	switch err := m.new.Import(m.next, m.image); {
	// somebody has given the card another route table meanwhile
	case errors.Is(err, engine.ErrNotReady):
		m.fail()
		return true
	case err != nil:
		panic(fmt.Errorf("sim: moving: %w", err))
	}
	i := slices.Index(m.from.processes, p)
	m.from.processes = slices.Delete(m.from.processes, i, i+1)
	m.to.processes = append(m.to.processes, p)
	p.card, p.context = m.to, m.next
	m.end(true)
	m.resume()
	m.to.wake(m.to.world.now)
	return true
}

// fail ends a process that has left its card and cannot go on.
func (m *move) fail() {
	p := m.process
	p.Kill()
	if m.from.engine == m.old {
		if i := slices.Index(m.from.processes, p); i >= 0 {
			m.from.processes = slices.Delete(m.from.processes, i, i+1)
		}
		if m.sign != nil {
			m.old.Detach(m.sign)
		}
		m.from.wake(m.from.world.now)
	}
	if m.next != nil && m.to.engine == m.new {
		m.new.Detach(m.next)
		m.to.wake(m.to.world.now)
	}
	m.end(false)
}

func (m *move) end(moved bool) {
	m.process.move = nil
	m.over(moved, m.sign)
}

func (m *move) resume() {
	p := m.process
	p.stopped = false
	p.card.wake(p.world.now)
	if p.due == Never {
		p.turnAt(p.world.now)
	}
}
