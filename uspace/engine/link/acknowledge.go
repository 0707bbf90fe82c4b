package link

// This file is the acknowledgment controller of the Dispatch Unit (thesis 5.2.4). It applies
// acknowledgments and rejects: it settles or requeues the lines of each answered frame.

import (
	mathbits "math/bits"

	"github.com/funet/funet/uspace/arctic"
)

const (
	// reordered is how many frames may overtake one before it counts as lost (RFC 5681 section
	// 3.2).
	reordered = 3
	// beyondInARow is how many acknowledgments of frames never sent, in a row, make the cards begin
	// anew.
	beyondInARow = 3
)

// acknowledged applies an acknowledgment and its selective bits: the packets of those frames were
// delivered, and their lines are free, unless a line has more of its block to send. It widens the
// congestion window by one for each frame up to the threshold (slow start), then by one a window
// (RFC 5681 section 3.1).
func (e *End) acknowledged(f *flow, ack uint32, selective uint64) {
	p := f.peer
	if ack-f.sndUna > f.sndNext-f.sndUna && int32(ack-f.sndUna) > 0 {
		e.Counters.NeverSent++ // one of the two cards is wrong about the sequence
		if p.beyond++; p.beyond >= beyondInARow {
			e.resynchronise(p)
		}
		return
	}
	p.beyond = 0
	progress, rtt, highest, end := false, int64(-1), ack, ack
	if selective != 0 {
		end += 1 + uint32(mathbits.Len64(selective))
	}
	for s := f.sndUna; s != f.sndNext && int32(end-s) > 0; s++ {
		if beyond := s - ack; int32(beyond) >= 0 {
			if beyond == 0 || selective>>(beyond-1)&1 == 0 {
				continue
			}
			highest = s
		}
		fr := f.frame(s)
		if fr.state == idle || fr.state == answered {
			continue
		}
		progress = true
		if fr.retries == 0 { // else rtt is unknown (RFC 6298 section 3)
			rtt = e.now - fr.sentAt
		}
		ln := fr.train
		if t := ln.Owner.Follower; t != nil {
			t.Answered(ln, Verdict{})
		}
		st := ln.stream
		st.backoff, st.met, st.yields = 0, true, false
		st.limit = min(st.limit+1, Window)
		for ; ln != nil; ln = fr.train {
			fr.train = ln.next
			if ln.Block != nil && ln.goesOn() {
				e.sendRest(f, st, ln)
			} else {
				e.settle(ln, Delivered, arctic.ReasonNone)
			}
		}
		if p.suspect != 0 || fr.probe != 0 {
			e.passed(p, fr)
		}
		e.close(f, fr, st)
		if f.window < Window {
			if f.growth++; f.window < f.threshold || f.growth >= f.window {
				f.window, f.growth = f.window+1, 0
			}
		}
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

// close marks a frame of the stream as answered.
func (e *End) close(f *flow, fr *frame, s *stream) {
	switch fr.state {
	case flying:
		f.flying--
	case lost:
		f.lost--
	case held: // a copy has arrived all the same
		f.held--
		s.held = false
		e.withdraw(s)
	}
	fr.state = answered
	s.flying--
	f.recent = s
	mine := s.payer
	if mine.flight -= int(fr.size); mine.full {
		mine.refill()
	}
	e.answered = mine.account
	if s.waiting.head != nil {
		e.mayGo(s)
	}
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
			f.loses(fr)
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
		verdict := Verdict{sequence: r.Sequence}
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
func (e *End) reject(f *flow, r *Verdict) {
	fr := f.frame(r.sequence)
	if fr.state == idle || fr.state == answered {
		return
	}
	if fr.retries == 0 {
		f.measured(e.now - fr.sentAt)
	}
	if t := fr.train.Owner.Follower; t != nil {
		t.Answered(fr.train, *r)
	}
	s := fr.train.stream
	again := fr.void && r.RetryReason == arctic.ReasonTooLong
	s.met = s.met || !again
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
				e.sendRest(f, s, ln)
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
	if s.yields {
		s.yields = false
	} else if again {
		e.wasTooLong(f.peer, f.peer.length(fr))
	}
}
