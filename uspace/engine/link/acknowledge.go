package link

// This file is the acknowledgment controller of the Dispatch Unit (thesis 5.2.4). It applies
// acknowledgments and rejects: it settles or requeues the lines of each answered frame.

import (
	mathbits "math/bits"

	"github.com/funet/funet/uspace/arctic"
)

// reordered is how many frames may overtake one before it counts as lost (RFC 5681 section 3.2).
const reordered = 3

// acknowledged applies an acknowledgment and its selective bits: the packets of those frames were
// delivered, and their lines are free.
func (e *End) acknowledged(f *flow, ack uint32, selective uint64) {
	if ack-f.sndUna > f.sndNext-f.sndUna && int32(ack-f.sndUna) > 0 {
		e.neverSent(f.peer)
		return
	}
	f.peer.beyond = 0
	if ack == f.sndNext && ack-f.sndUna == 1 && selective == 0 && e.onlyOne(f) {
		return
	}
	progress := false
	rtt := int64(-1)
	for s := f.sndUna; int32(ack-s) > 0; s++ {
		progress = e.accepted(f, s, &rtt) || progress
	}
	highest := ack
	for bits := selective; bits != 0; bits &= bits - 1 {
		s := ack + 1 + uint32(mathbits.TrailingZeros64(bits))
		if s-f.sndUna >= f.sndNext-f.sndUna {
			continue // answered before, or never sent
		}
		progress = e.accepted(f, s, &rtt) || progress
		highest = s
	}
	if !progress {
		return
	}
	if rtt >= 0 {
		f.measured(rtt)
	}
	f.timeouts = 0
	if selective != 0 {
		e.overtaken(f, highest)
	}
	e.progressed(f)
}

// onlyOne applies the acknowledgment of the only frame of a flow, as in a dialogue. The frame must
// have been sent once and have one line without a block, and no follower, probe or suspected length
// may depend on it. Otherwise onlyOne does nothing and returns false.
func (e *End) onlyOne(f *flow) bool {
	fr, p := f.frame(f.sndUna), f.peer
	ln := fr.train
	if fr.state != flying || ln.next != nil || ln.Block != nil || ln.Owner.Follower != nil ||
		fr.retries|fr.probe != 0 || p.suspect != 0 {
		return false
	}
	f.measured(e.now - fr.sentAt)
	s := e.stream(f, ln.Owner, ln.Node, ln.sort())
	s.backoff = 0
	s.limit = min(s.limit+1, Window)
	fr.train = nil
	e.settle(ln, Delivered, arctic.ReasonNone)
	e.close(f, fr, s)
	fr.state = idle
	f.grow()
	f.timeouts = 0
	f.sndUna++
	f.movedAt, f.deadline = e.now, 0
	if f.turns.first != nil {
		e.makeReady(f)
	}
	return true
}

// beyondInARow is how many acknowledgments of frames never sent, in a row, make the cards begin
// anew.
const beyondInARow = 3

// neverSent notes that a peer acknowledges a frame that was never sent to it. One of the two cards
// is wrong about the sequence.
func (e *End) neverSent(p *peer) {
	e.Counters.NeverSent++
	if p.beyond++; p.beyond >= beyondInARow {
		e.resynchronise(p)
	}
}

// accepted frees the lines of frame s and reports whether it was still open. The
// round-trip time of a frame that was sent once goes to rtt (RFC 6298 section 3).
func (e *End) accepted(f *flow, s uint32, rtt *int64) bool {
	fr := f.frame(s)
	if fr.state != flying && fr.state != lost {
		return false
	}
	if fr.retries == 0 {
		*rtt = e.now - fr.sentAt
	}
	if t := fr.train.Owner.Follower; t != nil {
		t.Answered(fr.train, Verdict{})
	}
	st := e.stream(f, fr.train.Owner, fr.train.Node, fr.train.sort())
	st.backoff = 0
	st.limit = min(st.limit+1, Window)
	for fr.train != nil {
		ln := fr.train
		fr.train = ln.next
		if ln.goesOn() {
			st.waiting.prepend(ln, ln)
		} else {
			e.settle(ln, Delivered, arctic.ReasonNone)
		}
	}
	e.passed(f.peer, fr)
	e.close(f, fr, st)
	f.grow()
	return true
}

// close marks a frame of the stream as answered.
func (e *End) close(f *flow, fr *frame, s *stream) {
	if fr.state == flying {
		f.flying--
	} else {
		f.lost--
	}
	fr.state = answered
	s.flying--
	mine := s.payer()
	mine.answered(int(fr.size))
	e.answered = mine.account
	e.mayGo(s)
}

// progressed moves sndUna over answered frames, sets the retransmission timer anew
// (RFC 6298 section 5) and lets the flow send on.
func (e *End) progressed(f *flow) {
	for f.sndUna != f.sndNext && f.frame(f.sndUna).state == answered {
		f.frame(f.sndUna).state = idle
		f.sndUna++
		f.movedAt = e.now
	}
	if f.flying+f.lost == 0 {
		f.deadline = 0
	} else {
		f.deadline = e.now + f.rto(&e.cfg)
		if fr := f.frame(f.sndUna); fr.state == flying && fr.retries > 0 {
			// Nothing but the timer finds out that it was lost again, so the
			// progress of others must not put that off.
			f.deadline = max(min(f.deadline, fr.sentAt+f.rto(&e.cfg)), e.now+1)
		}
		e.timers.set(f.peer, f.deadline)
	}
	if f.lost > 0 || f.turns.first != nil {
		e.makeReady(f)
	}
}

// overtaken counts frames as lost that later frames have overtaken. It does so at most once for
// each frame; after that the timer decides.
func (e *End) overtaken(f *flow, highest uint32) {
	found := false
	for s := f.sndUna; int32(highest-s) >= reordered; s++ {
		if fr := f.frame(s); fr.state == flying && fr.retries == 0 {
			fr.state = lost
			f.flying--
			f.lost++
			found = true
		}
	}
	if found {
		f.threshold = max(f.window/2, 2)
		f.window, f.growth = f.threshold, 0
	}
}

// rejected applies the rejects in a frame. A packet rejected for a transient reason waits for
// another try in another frame. One rejected for a permanent reason returns to its process. The
// other packets of the same frame were delivered.
func (e *End) rejected(p *peer, f arctic.Frame) {
	for i := 0; i < f.Rejects(); i++ {
		r := f.Reject(i)
		verdict := rejected{Verdict: Verdict{sequence: r.Sequence}}
		verdict.take(r)
		if i+1 < f.Rejects() {
			if twin := f.Reject(i + 1); twin.Sequence == r.Sequence && twin.Level == r.Level {
				verdict.take(twin)
				i++
			}
		}
		if fl := p.flows[r.Level]; fl != nil && r.Sequence-fl.sndUna < fl.sndNext-fl.sndUna {
			e.reject(fl, &verdict)
		}
	}
}

// reject settles a frame in which the peer rejected packets.
func (e *End) reject(f *flow, r *rejected) {
	fr := f.frame(r.sequence)
	if fr.state != flying && fr.state != lost {
		return
	}
	if fr.retries == 0 {
		f.measured(e.now - fr.sentAt)
	}
	if t := fr.train.Owner.Follower; t != nil {
		t.Answered(fr.train, r.Verdict)
	}
	s := e.stream(f, fr.train.Owner, fr.train.Node, fr.train.sort())
	again := fr.void && r.RetryReason == arctic.ReasonTooLong
	var first, last *Line
	moved := false
	for bit := uint64(1); fr.train != nil; bit <<= 1 {
		ln := fr.train
		fr.train = ln.next
		switch {
		case r.Fail&bit != 0:
			e.ByPeers.Add(r.FailReason)
			e.settle(ln, Returned, r.FailReason)
		case r.Retry&bit != 0 && ln.Owner.Ended:
			e.ByPeers.Add(r.RetryReason)
			e.settle(ln, Discarded, r.RetryReason)
		case r.Retry&bit != 0 && r.RetryReason == arctic.ReasonMoved:
			e.Counters.RejectsReceived++
			ln.Owner.Retried++
			e.ByPeers.Add(r.RetryReason)
			ln.piece = 0
			e.settle(ln, Moved, r.RetryReason)
			moved = true
		case r.Retry&bit != 0:
			if !again {
				e.Counters.RejectsReceived++
				ln.Owner.Retried++
				e.ByPeers.Add(r.RetryReason)
			}
			if first == nil {
				first = ln
			} else {
				last.next = ln
			}
			last = ln
		default:
			s.backoff = 0 // the node takes some
			if ln.goesOn() {
				s.waiting.prepend(ln, ln)
			} else {
				e.settle(ln, Delivered, arctic.ReasonNone)
			}
		}
	}
	f.timeouts = 0
	if first != nil {
		s.waiting.prepend(first, last)
	}
	if moved || first != nil && !again {
		e.withdraw(s)
		s.holdOff(e.now, &e.cfg, e.tryGap(), e.random.Uint64())
	}
	e.close(f, fr, s)
	e.progressed(f)
	if again {
		e.wasTooLong(f.peer, f.peer.length(fr))
	}
}
