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
	s := c.stream(f, ln.ctx, ln.node, ln.part)
	s.waiting.push(ln)
	c.mayGo(s)
	c.makeReady(f)
}

// dispatch sends what the ready flows may send, replies first, as far as those who pay for
// it have something left in this round, until a transmit ring is full.
func (c *Card) dispatch() {
	if !c.stalled {
		if c.round++; c.spent != nil {
			c.newRound()
		}
	}
	c.stalled = false
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		r := &c.ready[l]
		for f := r.head; f != nil; f = r.head {
			if !c.dispatchFlow(f) {
				c.blocked, c.stalled = true, true
				c.counters.TransmitRingFull++
				break
			}
			r.head = f.nextReady
			f.inReady, f.nextReady = false, nil
		}
	}
}

// dispatchFlow sends what the flow may send. It returns false when the transmit
// ring is full. A flow that waits for an answer, for the end of back-offs or for a
// greeting is done: what it waits for makes it ready again.
func (c *Card) dispatchFlow(f *flow) bool {
	p := f.peer
	if !p.established {
		if f.turns.first != nil && p.greetAt == 0 {
			p.gid = f.upcoming().ctx.gid
			c.greet(p)
		}
		return true
	}
	for again := f.oldest; f.lost > 0 && f.flying < f.window; again++ {
		fr := f.frame(again)
		if fr.state != lost {
			continue
		}
		if !c.transmit(f, again, fr) {
			return false
		}
		f.lost--
		fr.again()
		c.counters.Retransmitted++
	}
	for f.flying < f.window {
		s := c.nextStream(f)
		if s == nil {
			break
		}
		switch mine := s.payer(); {
		case !c.solvent(mine.account):
			c.park(mine)
		case mine.flight >= sharedFlight && c.Shared():
			mine.fill()
		case !c.assemble(f, s):
			return false
		}
	}
	return true
}

// nextStream returns the next stream on turn that may send a new frame, or nil, and takes
// those before it off.
func (c *Card) nextStream(f *flow) *stream {
	if f.next-f.oldest >= Window {
		return nil
	}
	for s := f.upcoming(); s != nil; s = f.upcoming() {
		switch {
		case s.ctx.halted, s.waiting.head == nil:
			c.withdraw(s) // the end of its mode, or a packet, brings it back
		case s.flying >= s.limit:
			c.withdraw(s) // an answer brings it back
		default:
			return s
		}
	}
	return nil
}

// assemble makes a new frame of the stream's waiting lines, no longer than the port's
// frames, and sends it on the account of its user. It returns false when the transmit ring is full.
func (c *Card) assemble(f *flow, s *stream) bool {
	b := c.reserve(f.peer)
	if b == nil {
		return false
	}
	fr := c.train(f, s, len(b), c.cfg.Train)
	a := s.payer().account
	a.dispatch -= int(fr.size) + frameBytes
	c.uses(a)
	// Until it is sent it counts as lost: reading a block's source may end the step (Abandon).
	fr.state = lost
	f.lost++
	if !c.transmit(f, f.next-1, fr) {
		return false
	}
	f.lost--
	return true
}

// trainOf returns the last line of the train that a stream has for a frame of so many
// bytes, how many packets it is, and how many bytes.
func (s *stream) trainOf(size, most int) (last *line, n, bytes int) {
	first := s.waiting.head
	// Rejects that wait to be sent come first in the frame; transmit leaves out
	// those for which there is no room behind the train.
	room := size - arctic.HeaderSize - int(first.size)
	if first.block != nil {
		room = 0 // a block is alone in its frame
	}
	last, n, bytes = first, 1, int(first.size)+first.pieceFor(size)
	for ln := first.next; ln != nil && n < most && room >= int(ln.size) && ln.block == nil; ln = ln.next {
		room -= int(ln.size)
		last, n, bytes = ln, n+1, bytes+int(ln.size)
	}
	return last, n, bytes
}

// train makes the flow's next frame of the stream's first lines.
func (c *Card) train(f *flow, s *stream, size, most int) *frame {
	first := s.waiting.head
	last, n, bytes := s.trainOf(size, most)
	s.waiting.head = last.next
	s.flying++
	last.next = nil
	if int(f.next-f.oldest) == len(f.frames) {
		c.widen(f)
	}
	fr := f.frame(f.next)
	*fr = frame{train: first, size: uint16(bytes)}
	s.payer().sent(bytes)
	c.went(s)
	f.next++
	c.counters.PacketsSent += uint64(n)
	return fr
}
