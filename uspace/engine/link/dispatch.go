package link

// This file is the Dispatch Unit (thesis 5.2.4): it schedules the transmission of waiting lines, as
// trains, and the retransmission of lost frames.

import "github.com/funet/funet/uspace/arctic"

// readyList is the list of flows of one level that may have something to send now.
type readyList struct {
	head, tail *flow
}

func (e *End) makeReady(f *flow) {
	if f.inReady {
		return
	}
	f.inReady, f.nextReady = true, nil
	r := &e.ready[f.level]
	if r.head == nil {
		r.head = f
	} else {
		r.tail.nextReady = f
	}
	r.tail = f
}

// pop takes the first flow off the list.
func (r *readyList) pop() {
	f := r.head
	r.head, f.inReady, f.nextReady = f.nextReady, false, nil
}

// queue adds a loaded line to its flow.
func (e *End) queue(p *peer, l arctic.Level, ln *Line) {
	f := e.flow(p, l)
	s := e.stream(f, ln.Owner, ln.Node, ln.sort())
	ln.stream = s
	s.waiting.Push(ln)
	e.mayGo(s)
	e.makeReady(f)
}

// dispatch sends what the ready flows may send, replies first, until a transmit ring is full. An
// account sends only while some of its budget of this round is left.
func (e *End) dispatch() {
	if !e.stalled {
		if e.round++; e.spent != nil {
			e.newRound()
		}
	}
	e.stalled = false
	for _, l := range arctic.ByPriority {
		r := &e.ready[l]
		for f := r.head; f != nil; f = r.head {
			if !e.dispatchFlow(f) {
				e.blocked, e.stalled = true, true
				e.Counters.TransmitRingFull++
				break
			}
			r.pop()
		}
	}
}

// dispatchFlow sends what the flow may send. It returns false when the transmit ring is full. A
// flow that waits for an answer, for the end of back-offs or for a greeting is done: that event
// makes it ready again.
func (e *End) dispatchFlow(f *flow) bool {
	if !e.met(f) {
		return true
	}
	if f.held > 0 {
		e.makeRoom(f)
	}
	for again := f.sndUna; f.lost > 0 && f.flying < f.window; again++ {
		fr := f.frame(again)
		if fr.state != lost {
			continue
		}
		if !e.transmit(f, again, fr) {
			return false
		}
		e.Spends(fr.train.Owner.Account, int(fr.size)+FrameTime)
		f.lost--
		fr.again()
		e.Counters.Retransmitted++
	}
	for f.flying < f.window {
		s := e.nextStream(f)
		if s == nil {
			break
		}
		switch mine := s.payer; {
		case !e.solvent(mine.account):
			e.deferClass(mine)
		case mine.flight >= contendedFlight && e.Contended():
			mine.leave() // until some of that is answered
			mine.full = true
		case !e.assemble(f, s):
			return false
		}
	}
	return true
}

// met reports whether a flow's peer is established. If not, it is greeted for what the flow has.
func (e *End) met(f *flow) bool {
	p := f.peer
	if !p.established && f.turns.first != nil && p.greetAt == 0 {
		p.gid = f.upcoming().owner.GID
		e.greet(p)
	}
	return p.established
}

// nextStream returns the next stream on turn that may send a new frame, or nil. It takes streams
// that come before it, and may not send, off their turn.
func (e *End) nextStream(f *flow) *stream {
	if f.sndNext-f.sndUna >= Window {
		return nil
	}
	for s := f.upcoming(); s != nil; s = f.upcoming() {
		switch {
		case !s.sends(), s.waiting.head == nil:
			e.withdraw(s) // the end of its mode, or a packet, brings it back
		case s.flying >= s.limit:
			e.withdraw(s) // an answer brings it back
		case e.spaces(s):
			e.withdraw(s) // the end of its hold brings it back
			e.mayGo(s)
		default:
			return s
		}
	}
	return nil
}

// assemble makes a new frame of the stream's waiting lines, no longer than the port's frames, and
// sends it. It charges the account of the stream's owner. It returns false when the transmit ring
// is full.
func (e *End) assemble(f *flow, s *stream) bool {
	b := e.reserve(f.peer)
	if b == nil {
		return false
	}
	fr := e.couple(f, s, len(b), e.cfg.Train)
	a := s.payer.account
	a.dispatch -= int(fr.size) + frameBytes
	e.Uses(a, int(fr.size)+FrameTime)
	// Until it is sent it counts as lost: reading a block's source may end the step (Abandon).
	fr.state = lost
	f.lost++
	if !e.transmit(f, f.sndNext-1, fr) {
		return false
	}
	f.lost--
	return true
}

// trainOf plans the stream's train for a frame of up to size bytes and most packets. It returns the
// last line of the train, and how many packets and bytes the train has.
func (s *stream) trainOf(size, most int) (last *Line, n, bytes int) {
	first := s.waiting.head
	// Rejects that wait to be sent come first in the frame; transmit leaves out
	// those for which there is no room behind the train.
	room := size - arctic.HeaderSize - int(first.Size)
	if first.Block != nil {
		room = 0 // a block is alone in its frame
	}
	last, n, bytes = first, 1, int(first.Size)+first.pieceFor(size)
	for ln := first.next; ln != nil && n < most && room >= int(ln.Size) && ln.Block == nil; ln = ln.next {
		room -= int(ln.Size)
		last, n, bytes = ln, n+1, bytes+int(ln.Size)
	}
	return last, n, bytes
}

// couple makes the flow's next frame of the stream's first lines.
func (e *End) couple(f *flow, s *stream, size, most int) *frame {
	first := s.waiting.head
	last, n, bytes := s.trainOf(size, most)
	s.waiting.head = last.next
	s.flying++
	last.next = nil
	if int(f.sndNext-f.sndUna) == len(f.frames) {
		e.widen(f)
	}
	fr := f.frame(f.sndNext)
	*fr = frame{train: first, size: uint16(bytes)}
	if t := first.Owner.Follower; t != nil {
		t.Dispatched(f.peer.Card, f.level, f.sndNext, first)
	}
	s.payer.flight += bytes
	e.went(s)
	f.sndNext++
	e.Counters.PacketsSent += uint64(n)
	e.Counters.TrainsSent++
	return fr
}
