package engine

// This file is a step of the card, in two forms: one for a card whose units take no time, and one
// for the card of a modelled machine. Both are sequences of the same units.

import (
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
	c.clock.begin(now)
	c.table.serving = nil
	if !c.sched.dozing && !c.sched.napping {
		c.sched.resumes = Never
	}
	if now >= c.routes.patience {
		c.routes.patience = Never // who still waits for a node says so in this step
	}
	c.table.touched = c.table.touched[:0]
	if len(c.sched.awake) < len(c.table.all) || c.clock.step%napEvery == 0 {
		c.sched.look()
	}
	c.link.Begin(now)
	if c.late.next() <= now {
		c.keepLate()
	}
	if min(c.unanswered[0].due(), c.unanswered[1].due()) <= now {
		c.giveUpUnanswered()
	}
	if c.missesDue <= now {
		c.giveUpMisses()
	}
	c.table.serving = nil
	if len(c.tellers) > 0 || c.signsDue <= now {
		c.tellSigns()
	}
	if c.units == nil {
		c.stepNative()
	} else {
		c.stepTimed()
	}
	if len(c.table.dead) > 0 {
		c.table.bury()
	}
	if c.clock.more || c.link.Again() {
		return c.clock.now
	}
	return min(c.link.Next(), c.clock.loopNext, c.routes.patience, c.missesDue, c.late.next(), c.unanswered[0].due(),
		c.unanswered[1].due(), c.signsDue, c.sched.resumes)
}

// stepNative is a step of a card whose units take no time.
func (c *Card) stepNative() {
	if x := c.sched.solo; x == nil || c.clock.now-c.sched.charged <= link.LongestRest {
		c.sched.visitAll()
	} else if !x.calm || !x.iface.Still(x.seen) { // else nobody wants anything, as in most steps
		c.sched.visitSolo(x)
	}
	c.table.serving = nil
	c.link.Send()
	c.link.Flush()
	c.arrived = false
	for i := range c.cfg.Ports {
		c.receive(i)
	}
	if c.flushes { // an answer is under way
		c.flushes = false
		c.link.Flush()
	}
	c.link.Expire()
	if c.link.Settles() {
		c.settleLines()
	}
	if len(c.table.touched) > 0 {
		c.publish()
	} else if c.sched.tickets && !c.arrived {
		c.sched.publishTickets()
	}
}

// stepTimed is a step of a modelled machine's card: its units advance as far as the time allows.
func (c *Card) stepTimed() {
	before := c.Progress()
	for _, x := range c.sched.awake {
		c.table.touch(x) // its units may move packets without being asked
		c.sched.attend(x)
	}
	c.runUnits() // what ends now may leave in this step
	c.link.SendTimed()
	c.link.Flush()
	c.runReceive()
	c.link.Expire()
	c.settleLines()
	c.runUnits() // what arrived may be next
	for _, x := range c.table.touched {
		x.publish()
	}
	if c.sched.tickets && (c.Progress() == before || c.clock.step%64 == 0) {
		c.sched.publishTickets()
	}
	c.clock.loopNext = min(c.units.next, c.units.receive.next)
	for _, x := range c.sched.awake {
		// a write may wait for its process to read, which tells nobody
		if x.looping && !x.halted && !x.forBus {
			c.clock.loopNext = min(c.clock.loopNext, x.loopHold)
		}
	}
}

// publish makes the results of the step visible to the processes.
func (c *Card) publish() {
	for _, x := range c.table.touched {
		c.table.serving = x
		if !x.calm && x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n != 0 {
			c.drain(x)
		}
		x.publish()
	}
	if c.sched.tickets && c.clock.step%64 == 0 {
		c.sched.publishTickets()
	}
	c.table.serving = nil
}

// receive takes one batch of frames from port i. The port gets them back before the next batch; by
// then the packets that they called for have been sent.
func (c *Card) receive(i int) {
	p := c.cfg.Ports[i]
	p.Release()
	most := c.batchOfFrames()
	n := p.Receive(c.received[:most])
	if n == 0 {
		return
	}
	c.arrived = true
	for _, b := range c.received[:n] {
		c.preprocess(i, b)
	}
	if n == most {
		c.clock.more = true
	}
}

// batchOfFrames returns the highest number of frames that a step takes from a port.
func (c *Card) batchOfFrames() int {
	if c.Contended() {
		return contendedReceive
	}
	return receiveBatch
}
