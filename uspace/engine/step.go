package engine

// This file is a step of the card, in two forms: one for a card whose units take no time, and one
// for the card of a modelled machine. Both are sequences of the same units.

import (
	"math"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Step does the work that is due at the given time, and returns when the card next wants to run.
// The time is in nanoseconds from 0 to 2^62, of any clock that does not run backwards. Step returns
// a time not after now if work was left over. It returns Never if only a frame or a process can
// give it work.
//
// It sends before it receives, and does bookkeeping last. So what the process did since the last
// step, such as replying, leaves at once. Packets that a received frame or a timer calls for leave
// in the next step.
func (c *Card) Step(now int64) int64 {
	k := &c.clock
	k.now, k.more, k.loopNext = now, false, Never
	k.step++
	c.table.serving = nil
	if !c.sched.dozing && !c.sched.napping {
		c.sched.resumes = Never
	}
	c.table.touched = c.table.touched[:0]
	if n := len(c.table.all); n > alwaysAwake || len(c.sched.awake) < n {
		c.sched.look()
	}
	c.link.Begin(now)
	if k.due <= now {
		c.overdue()
	}
	if len(c.move.tellers) > 0 {
		c.move.tellSigns()
	}
	if c.model == nil {
		c.stepNative()
	} else {
		c.stepTimed()
	}
	if len(c.table.dead) > 0 {
		c.table.bury()
	}
	if k.more {
		return now
	}
	return min(c.link.Next(), k.loopNext, k.due, c.sched.resumes)
}

// overdue does what is due by now.
func (c *Card) overdue() {
	if c.clock.at[nodeDue] <= c.clock.now {
		c.clock.set(nodeDue, Never) // who still waits for a node says so in this step
	}
	c.out.keepLate()
	c.remote.giveUpUnanswered()
	if c.clock.at[pathDue] <= c.clock.now {
		c.ultra.overdue()
	}
	c.remote.giveUpSilent()
	if c.clock.at[routeDue] <= c.clock.now {
		c.out.giveUpMisses()
	}
	c.table.serving = nil
	if c.clock.at[signDue] <= c.clock.now {
		c.move.lookAtSigns()
	}
}

// stepNative is a step of a card whose units take no time.
func (c *Card) stepNative() {
	s := &c.sched
	// The only context that is awake, while no account rests, is served here: by visitAll a round
	// trip takes 7 % more instructions. Contexts that this wakes are served in the next step. In
	// most steps nothing is asked for.
	if x := s.solo; x == nil || c.clock.now-s.charged <= link.LongestRest {
		s.visitAll()
	} else if !x.calm || !x.iface.Still(x.seen) || x.paths.open() {
		a := x.account
		a.refill(c.link.Quantum, c.clock.step)
		served := a.local > 0 && a.retrieval > 0
		if served {
			s.serve(x)
			if a.stored.head != nil {
				s.issue(a, 0)
			}
		}
		if !served || s.solo != x {
			c.clock.more = true
		}
	}
	c.table.serving = nil
	c.link.Send()
	c.in.arrived = false
	for i := range c.cfg.Ports {
		c.in.receive(i)
	}
	if c.in.flushes { // an answer is under way
		c.in.flushes = false
		for _, p := range c.cfg.Ports {
			p.Flush()
		}
	}
	c.link.Expire()
	if c.link.Settles {
		c.in.settleLines()
	}
	if len(c.table.touched) > 0 {
		for _, x := range c.table.touched { // what the step did becomes visible to the processes
			c.table.serving = x
			if !x.calm && x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n != 0 {
				c.in.drain(x)
			}
			x.publish()
		}
		c.table.serving = nil
	}
	if s.tickets && (c.clock.step%64 == 0 || len(c.table.touched) == 0 && !c.in.arrived) {
		s.publishTickets()
	}
}

// stepTimed is a step of a modelled machine's card: its units advance as far as the time allows.
func (c *Card) stepTimed() {
	before := c.Progress()
	for _, x := range c.sched.awake {
		c.table.touch(x) // its units may move packets without being asked
		c.sched.attend(x)
		if x.paths.open() {
			c.ultra.look(x)
		}
		c.sched.issue(x.account, math.MinInt)
	}
	c.model.runUnits() // what ends now may leave in this step
	c.link.Send()
	c.model.runReceive()
	c.link.Expire()
	c.in.settleLines()
	c.model.runUnits() // what arrived may be next
	for _, x := range c.table.touched {
		x.publish()
	}
	if c.sched.tickets && (c.Progress() == before || c.clock.step%64 == 0) {
		c.sched.publishTickets()
	}
	c.clock.loopNext = min(c.model.next, c.model.receive.next)
	for _, x := range c.sched.awake {
		// a write may wait for its process to read, which tells nobody
		if x.looping && !x.halted && !x.forBus {
			c.clock.loopNext = min(c.clock.loopNext, x.loopHold)
		}
		if x.paths != nil && x.paths.news {
			c.clock.more = true
		}
	}
}

// receive takes one batch of frames from port i. The port gets them back before the next batch; by
// then the packets that they called for have been sent.
func (d *delivery) receive(i int) {
	p := d.cfg.Ports[i]
	p.Release()
	most := d.batchOfFrames()
	n := p.Receive(d.received[:most])
	if n == 0 {
		return
	}
	d.arrived = true
	for _, b := range d.received[:n] {
		if t := d.link.Arrive(i, b); t != nil {
			d.judge(t)
			d.table.serving = nil
		} else {
			d.link.SpendsForAnswer()
		}
		d.handled(i, b)
	}
	if n == most {
		d.clock.more = true
	}
}

// batchOfFrames returns the highest number of frames that a step takes from a port.
func (d *delivery) batchOfFrames() int {
	if d.link.Contended() {
		return contendedReceive
	}
	return receiveBatch
}
