package link

// This file is the time that the Dispatch Unit and the Transmit Scheduler take (thesis 5.2.4,
// 5.6.3) when the card is that of a modelled machine: Config.Dispatch and Config.Transmit. If both
// are zero, frames leave as in dispatch.go. On a card whose packets have times of their own
// (Config.Timed) the Transmit Scheduler also works for those times. It may then be busy after a
// packet has left, and acknowledgments leave at once.
//
// The Dispatch Unit works on one frame at a time, for Dispatch for each packet of its train. Then
// it puts the frame into the Send Queue: its lines are outstanding, its sequence number is taken.
// The Transmit Scheduler works on one frame at a time, on acknowledgments before the Send Queue. It
// composes the frame when the frame's time is over. An acknowledgment for the card that the next
// frame of the Send Queue goes to rides on that frame. Replies are dispatched before requests,
// flows of one level in turn.
//
// The Send Queue holds as many frames as a context has lines (5.5). While it is full the Dispatch
// Unit waits. While the transmit ring is full the Transmit Scheduler waits, with its frame.
// Greetings, farewells and packets for this very card take no time: Arctic's cards had no such
// frames.

import "github.com/funet/funet/uspace/arctic"

// timedSend is both units and the queue between them.
type timedSend struct {
	dispatch, transmit int64 // time for a packet, for a frame

	// The Dispatch Unit, which works on the first flow of ready[level].
	busy    bool
	level   arctic.Level
	owner   *Owner // the frame's owner; nil: the frame was lost before
	packets int
	until   int64

	queue    []queued // a ring
	first, n int

	// The Transmit Scheduler, which works on an acknowledgment for peer or, if that is nil, on the
	// first frame of queue.
	sending bool
	peer    *peer
	sent    int64 // when its work ends
	free    int64 // before then it does not begin with the next frame (Line.Behind)

	next int64 // when one of them next has something to do, or Never
}

// queued is an entry of the Send Queue. The entry is stale once its frame was answered or given up.
type queued struct {
	flow *flow
	seq  uint32
}

func newTimedSend(cfg *Config) *timedSend {
	return &timedSend{dispatch: int64(cfg.Dispatch), transmit: int64(cfg.Transmit),
		queue: make([]queued, cfg.Lines), next: Never}
}

// WorksFor returns the owner of the packet that the Dispatch Unit of a modelled machine works on,
// or nil.
func (e *End) WorksFor() *Owner {
	if e.timed == nil || !e.timed.busy {
		return nil
	}
	return e.timed.owner
}

// sendTimed is Send of a modelled machine: it finishes work whose time is over, and starts what a
// free unit can start.
func (e *End) sendTimed() {
	e.timed.next = Never
	if e.cfg.Timed && e.ackNow != nil {
		e.acknowledge(true)
	}
	for again := true; again; {
		again = e.runTransmit()
		again = e.runDispatch() || again
	}
}

// sendsNow reports whether a unit that is free has something to do.
func (e *End) sendsNow() bool {
	u := e.timed
	return e.ackNow != nil && (!u.sending && u.free <= e.now || e.cfg.Timed) ||
		(e.ready[arctic.Reply].head != nil || e.ready[arctic.Request].head != nil) && !u.busy && u.n < len(u.queue)
}

// runDispatch lets the Dispatch Unit go on, and reports whether it has queued a frame.
func (e *End) runDispatch() (did bool) {
	u := e.timed
	for u.n < len(u.queue) {
		if !u.busy && !e.choose() {
			return did
		}
		if u.until > e.now {
			u.next = min(u.next, u.until)
			return did
		}
		u.busy, u.owner = false, nil
		r := &e.ready[u.level]
		f := r.head
		did = e.enqueue(f) || did
		r.pop()
		e.makeReady(f) // behind the others
	}
	return did
}

// choose gives the idle Dispatch Unit its next frame. It takes flows that may send nothing off
// their lists: the event that they wait for makes them ready again.
func (e *End) choose() bool {
	u := e.timed
	for _, l := range arctic.ByPriority {
		r := &e.ready[l]
		for f := r.head; f != nil; f = r.head {
			if u.packets = 0; e.mayDispatch(f) {
				if fr := f.unqueued(); fr != nil {
					for ln := fr.train; ln != nil; ln = ln.next {
						u.packets++
					}
				} else if s := e.nextStream(f); s != nil {
					u.owner = s.owner
					_, u.packets, _ = s.trainOf(e.room(f.peer), e.cfg.Train)
				}
			}
			if u.packets > 0 {
				u.busy, u.level, u.until = true, l, e.now+int64(u.packets)*u.dispatch
				return true
			}
			r.pop()
		}
	}
	return false
}

// mayDispatch reports whether the congestion window of the flow has room for a frame. A peer that
// is not established is greeted instead.
func (e *End) mayDispatch(f *flow) bool {
	if !e.met(f) {
		return false
	}
	u := e.timed
	waiting := 0
	for i := range u.n {
		if q := u.at(i); q.flow == f && q.frame() != nil {
			waiting++
		}
	}
	return f.flying+waiting < f.window
}

// unqueued returns the oldest frame of the flow that is lost and not in the Send Queue.
func (f *flow) unqueued() *frame {
	for s, left := f.sndUna, f.lost; left > 0; s++ {
		if fr := f.frame(s); fr.state == lost {
			if !fr.queued {
				return fr
			}
			left--
		}
	}
	return nil
}

// enqueue puts the frame that the Dispatch Unit has worked on into the Send Queue. If the frame may
// not be sent any more, because its context has halted or its peer is lost, nothing happens. If
// another frame has taken its place on the flow, that one has no more packets than the unit had
// time for.
func (e *End) enqueue(f *flow) bool {
	if !e.mayDispatch(f) {
		return false
	}
	u := e.timed
	fr := f.unqueued()
	if fr != nil {
		fr.again()
		e.Counters.Retransmitted++
	} else {
		s := e.nextStream(f)
		if s == nil {
			return false
		}
		fr = e.couple(f, s, e.room(f.peer), u.packets)
		fr.state = lost // to be sent, as those are
		f.lost++
		e.watchOver(f)
	}
	fr.queued = true
	seq := f.sndUna
	for f.frame(seq) != fr {
		seq++
	}
	u.queue[(u.first+u.n)%len(u.queue)] = queued{f, seq}
	u.n++
	return true
}

func (u *timedSend) at(i int) *queued { return &u.queue[(u.first+i)%len(u.queue)] }

// frame returns the frame of an entry of the Send Queue, or nil if the entry is stale.
func (q *queued) frame() *frame {
	if q.seq-q.flow.sndUna >= q.flow.sndNext-q.flow.sndUna || !q.flow.peer.established {
		return nil
	}
	if fr := q.flow.frame(q.seq); fr.state == lost && fr.queued {
		return fr
	}
	return nil
}

// drop takes the first frame off the Send Queue.
func (u *timedSend) drop() {
	*u.at(0) = queued{}
	u.first = (u.first + 1) % len(u.queue)
	u.n--
}

// runTransmit lets the Transmit Scheduler go on, and reports whether a frame was sent.
func (e *End) runTransmit() (did bool) {
	u := e.timed
	for u.sending || e.chooseFrame() {
		if u.sent > e.now {
			u.next = min(u.next, u.sent)
			return did
		}
		if !e.sendChosen() {
			e.blocked = true
			e.Counters.TransmitRingFull++
			return did
		}
		u.sending, u.peer = false, nil
		did = true
	}
	return did
}

// chooseFrame gives the idle Transmit Scheduler its next frame.
func (e *End) chooseFrame() bool {
	u := e.timed
	for u.n > 0 && u.at(0).frame() == nil {
		u.drop()
	}
	if u.free > e.now {
		if u.n > 0 {
			u.next = min(u.next, u.free)
		}
		return false
	}
	if !e.cfg.Timed {
		u.peer = e.takeOwed()
	}
	if u.peer == nil && u.n == 0 {
		return false
	}
	u.sending, u.sent = true, e.now+u.transmit
	if e.cfg.Timed {
		for ln := u.at(0).frame().train; ln != nil; ln = ln.next {
			u.sent += int64(ln.Takes)
		}
	}
	return true
}

// takeOwed takes the peer that has waited longest for an acknowledgment off the list of those that
// are owed one. It passes over the peer to which an acknowledgment is about to leave on data.
func (e *End) takeOwed() *peer {
	u := e.timed
	var found *peer
	var before **peer // points to it
	for at := &e.ackNow; *at != nil; {
		p := *at
		if p.ackAt == 0 || !p.established {
			*at = p.nextAckNow
			p.inAckNow, p.nextAckNow = false, nil
			continue
		}
		if u.n == 0 || u.at(0).flow.peer != p {
			found, before = p, at
		}
		at = &p.nextAckNow
	}
	if found != nil {
		*before = found.nextAckNow
		found.inAckNow, found.nextAckNow = false, nil
	}
	return found
}

// sendChosen sends the frame that the Transmit Scheduler has worked on, if it is still to
// be sent. It returns false when the transmit ring is full.
func (e *End) sendChosen() bool {
	u := e.timed
	if p := u.peer; p != nil {
		return p.ackAt == 0 || !p.established || e.acknowledgeOnce(p)
	}
	q := u.at(0)
	if fr := q.frame(); fr != nil {
		if !e.transmit(q.flow, q.seq, fr) {
			return false
		}
		q.flow.lost--
		fr.queued = false
		if e.cfg.Timed {
			u.free = e.now
			for ln := fr.train; ln != nil; ln = ln.next {
				u.free += int64(ln.Behind)
			}
		}
	}
	u.drop()
	return true
}
