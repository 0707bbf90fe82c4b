package engine

// This file is the Dispatch Unit (thesis 5.2.4): it schedules waiting lines for
// transmission as trains, and frames that were lost once more.

import "github.com/funet/funet/uspace/arctic"

// readyList is the flows of one level that may have something to send now.
type readyList struct {
	head, tail *flow
}

// makeReady puts a flow on the ready list of its level if it is not there.
func (c *Card) makeReady(f *flow) {
	if f.inReady {
		return
	}
	f.inReady, f.nextReady = true, nil
	r := &c.ready[f.level]
	if r.head == nil {
		r.head = f
	} else {
		r.tail.nextReady = f
	}
	r.tail = f
}

// queue adds a loaded line to its flow.
func (c *Card) queue(p *peer, l arctic.Level, ln *line) {
	f := c.flow(p, l)
	f.waiting.push(ln)
	c.makeReady(f)
}

// dispatch sends what the ready flows may send, replies first, until a transmit
// ring is full.
func (c *Card) dispatch() {
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		r := &c.ready[l]
		for f := r.head; f != nil; f = r.head {
			if !c.dispatchFlow(f) {
				c.blocked = true
				c.counters.TransmitRingFull++
				break
			}
			r.head = f.nextReady
			f.inReady, f.nextReady = false, nil
		}
	}
}

// dispatchFlow sends what the flow may send. It returns false when the transmit
// ring is full. A flow that waits for an answer, for the end of a back-off or for
// a greeting is done: what it waits for makes it ready again.
func (c *Card) dispatchFlow(f *flow) bool {
	p := f.peer
	if !p.established {
		if f.waiting.head != nil {
			p.gid = f.waiting.head.ctx.gid
			c.greet(p)
		}
		return true
	}
	for resend := f.oldest; f.lost > 0 && f.flying < f.window; resend++ {
		fr := &f.frames[resend%Window]
		if fr.state != lost {
			continue
		}
		if !c.transmit(f, resend, fr) {
			return false
		}
		f.lost--
		fr.retries++
		c.counters.Retransmitted++
	}
	for f.waiting.head != nil && f.flying < f.window && f.next-f.oldest < Window {
		if f.hold != 0 {
			if f.hold > c.now {
				c.timers.set(p, f.hold)
				break
			}
			f.hold = 0
		}
		if !c.assemble(f) {
			return false
		}
	}
	return true
}

// assemble makes a new frame of the waiting lines that may share one: same
// context, same destination node, and no longer than the port's frames.
func (c *Card) assemble(f *flow) bool {
	b := c.reserve(f.peer)
	if b == nil {
		return false
	}
	first := f.waiting.head
	// Rejects that wait to be sent come first in the frame; transmit leaves out
	// those for which there is no room behind the train.
	room := len(b) - arctic.HeaderSize - int(first.size)
	last, n := first, 1
	for ln := first.next; ln != nil && n < c.cfg.Train && ln.ctx == first.ctx && ln.node == first.node && room >= int(ln.size); ln = ln.next {
		room -= int(ln.size)
		last, n = ln, n+1
	}
	f.waiting.head = last.next
	last.next = nil
	fr := &f.frames[f.next%Window]
	*fr = frame{train: first}
	f.next++
	c.counters.PacketsSent += uint64(n)
	return c.transmit(f, f.next-1, fr)
}
