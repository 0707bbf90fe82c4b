package link

// This file is about switches that answer for a card which is not reached (bpf/nic.c). The first
// frame of a stream may meet a host where nobody has its group. It says that a switch may answer it
// (arctic.SetDefer), if the peer takes such frames. The switch sends its header back, a deferral,
// and the peer's card is not woken.
//
//	stream not met ──> frame, may be deferred ──> switch: group here?  yes ──> the card answers
//	                     ^                             │ no
//	                     └── back-off of the stream <──┘ deferral
//
// A deferral settles nothing. The frame keeps its number and its packets, and is sent again after
// the stream's back-off, until a card answers it. So it does not matter whether the deferral is
// forged, repeated or late, or whether another copy of the frame has arrived: whoever sends
// deferrals can delay a stream, for ConnectTimeout at most. Then the frame is sent so that only the
// card can answer it, and has the last word. A card without keys takes deferrals, and sealed frames
// are never deferred.
//
// A frame whose receiver does not know its number is a hole in the sequence that all groups share.
// So a void frame (limit.go) takes the number of a deferred frame as soon as others have gone by,
// or its owner is to be still. Its packets go in another frame after the back-off.

import "github.com/funet/funet/uspace/arctic"

// deferRoom is how many frames may go by a deferred one. Selective acknowledgments reach further.
const deferRoom = 16

// defers reports whether the frame of a stream may be deferred. The stream has no other in flight.
func (e *End) defers(p *peer, s *stream) bool {
	return p.defers && !s.met && (s.deferredAt == 0 || e.now-s.deferredAt < int64(e.cfg.ConnectTimeout))
}

// settleDebts sends what the peer is owed, before a frame that may not reach it. It returns false
// when the transmit ring is full.
func (e *End) settleDebts(p *peer) bool {
	for p.ackAt != 0 {
		if !e.acknowledgeOnce(p) {
			return false
		}
	}
	return true
}

// deferred takes a deferral: the frame's stream backs off.
func (e *End) deferred(p *peer, h *arctic.Header) {
	f := p.flows[h.Level]
	if f == nil || h.Sequence-f.sndUna >= f.sndNext-f.sndUna {
		e.drop(&e.Counters.Duplicates, Duplicate)
		return
	}
	fr := f.frame(h.Sequence)
	if fr.state != flying && fr.state != lost || fr.void || fr.train.Owner.GID != h.GID ||
		!e.defers(p, fr.train.stream) {
		e.drop(&e.Counters.Duplicates, Duplicate)
		return
	}
	e.Counters.Deferred++
	e.Fate.Outcome = Deferred
	if fr.state == flying {
		f.flying--
	} else {
		f.lost--
	}
	if fr.retries == 0 {
		f.measured(e.now - fr.sentAt)
	}
	s := fr.train.stream
	s.payer.account.deferredAt = max(e.now, 1)
	fr.state, fr.retries = held, 0
	f.held++
	s.held, s.heldSeq = true, h.Sequence
	if s.deferredAt == 0 {
		s.deferredAt = max(e.now, 1)
	}
	// It is no sign of life of the card: frames that wait for the card wait as before.
	if f.flying+f.lost == 0 {
		f.deadline, f.timeouts, f.movedAt = 0, 0, e.now
		if o := p.flows[h.Level^1]; o == nil || o.flying+o.lost == 0 {
			p.silentSince = 0
		}
	}
	e.withdraw(s)
	s.holdOff(e.now, &e.cfg, e.tryGap(), e.random.Uint64())
	e.mayGo(s)
	e.makeReady(f)
}

// spaces reports whether the first frame of a stream has to wait, because others of its account
// have been deferred of late: then it counts as a try (hold.go). A switch answers a host only so
// often, so no account may use up the answers by itself.
func (e *End) spaces(s *stream) bool {
	a := s.payer.account
	if s.met || s.deferredAt != 0 || !s.flow.peer.defers || a.deferredAt == 0 ||
		e.now-a.deferredAt > 2*int64(e.cfg.MaxHold) {
		return false
	}
	s.deferredAt = max(e.now, 1)
	s.hold = a.try(e.now, e.tryGap())
	return s.hold > e.now
}

// release sends the deferred frame of a stream again.
func (e *End) release(s *stream) {
	f := s.flow
	fr := f.frame(s.heldSeq)
	s.held, s.yields = false, fr.void || s.owner.Halted
	fr.void = s.yields
	fr.state = lost
	f.held--
	f.lost++
	e.watchOver(f)
	e.makeReady(f)
}

// makeRoom has void frames take the numbers of deferred frames that others have gone by.
func (e *End) makeRoom(f *flow) {
	for seq := f.sndUna; f.held > 0 && f.sndNext-seq > deferRoom; seq++ {
		if fr := f.frame(seq); fr.state == held {
			fr.void = true
			e.withdraw(fr.train.stream)
			e.release(fr.train.stream)
		}
	}
}
