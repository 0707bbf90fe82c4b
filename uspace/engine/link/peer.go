package link

// This file is the peer: another card, with its flows, the acknowledgments that it is owed, and its
// timer.

import "github.com/funet/funet/uspace/arctic"

// peer is the card's record of another card, kept for as long as the card knows of that one. With
// its places in byCard and in the heap it takes no more than 304 bytes.
type peer struct {
	Peer
	handshake
	established bool
	inAckNow    bool
	seal        uint8 // how many bytes of each frame to the peer sealing takes
	// why the two cards have begun an epoch, until NextAnew reports it; or ReasonNone
	anew     arctic.Reason
	gid      uint16   // group of the last frame received, so that the peer has it
	defers   bool     // it takes frames that a switch may answer (defer.go)
	nextAnew int32    // see End.anew
	readable bool     // sealed frames are not encrypted
	trouble  KeyState // why its greeting was refused; Unkeyed: it was not
	beyond   uint8    // acknowledgments in a row of frames never sent
	// why a greeting was refused in the name of an established peer; see PeerState
	doubt   KeyState
	secured *secured // nil: there is no key
	greetAt int64    // when the next greeting is due; 0: none
	answers budget   // of greetings that it makes this card send
	resyncs budget   // of resynchronisations
	// silentSince is when the first frame after the last sign of life was sent;
	// 0: nothing waits for the peer.
	silentSince int64
	ackAt       int64 // when to acknowledge; 0: nothing owed
	nextAckNow  *peer
	timer       int32 // index in the heap, or notTimed
	greetGap    int32 // nanoseconds to the greeting after the next
	// the longest frame that the way there takes, in bytes behind the Ethernet header
	limit   uint16
	said    uint16 // the longest that the peer's port carries, as its greeting says, counted alike
	replies uint16 // see PeerState.Replies
	// length of a frame that was too long, or lost by chance, counted alike; 0: none (limit.go)
	suspect uint16
	raiseAt int64 // when longer frames are tried; 0: never
	wake    int64 // key in the heap
	// next look at the flows (park.go); 0: when the timer next fires
	lookAt int64
	flows  [arctic.Levels]*flow  // nil: quiet
	parked [arctic.Levels]parked // of flows that are nil
}

// due does what is due for the peer and returns when something is due next.
func (e *End) due(p *peer) int64 {
	next := int64(Never)
	if s := p.secured; s != nil && s.session != nil {
		s.session.Renew(e.now)
	}
	if p.ackAt != 0 {
		if p.ackAt <= e.now {
			e.oweNow(p)
		} else {
			next = min(next, p.ackAt)
		}
	}
	for _, l := range arctic.ByPriority {
		f := p.flows[l]
		if f == nil {
			continue
		}
		if f.turns.first != nil {
			e.makeReady(f)
		}
		if f.deadline != 0 {
			if f.deadline <= e.now {
				e.timeout(f)
			}
			if f.deadline != 0 {
				next = min(next, f.deadline)
			}
		}
	}
	if p.greetAt != 0 {
		if p.greetAt <= e.now {
			e.greetAgain(p)
		}
		if p.greetAt != 0 {
			next = min(next, p.greetAt)
		}
	}
	return min(next, e.tidy(p))
}

// nextDue returns when something is due for the peer of a card that is about to sleep, or Never. A
// look (tidy) may be late by asleepLook. nextDue returns the time of the timer as it is if that is
// also the time of a look, or if a flow has something to send.
func (p *peer) nextDue() int64 {
	next := int64(Never)
	note := func(at int64) {
		if at != 0 {
			next = min(next, at)
		}
	}
	note(p.ackAt)
	note(p.greetAt)
	if p.lookAt != 0 {
		note(p.lookAt + asleepLook)
	}
	for _, f := range p.flows {
		if f == nil {
			continue
		}
		note(f.deadline)
		if p.lookAt == 0 || f.turns.first != nil {
			return p.wake
		}
	}
	return next
}

// silent reports whether the peer has been silent for too long.
func (e *End) silent(p *peer) bool {
	return p.silentSince != 0 && e.now-p.silentSince >= e.mayBeSilent(p)
}

// timeout handles a retransmission timeout: everything in flight counts as lost and is sent again,
// one frame first (RFC 5681 section 3.1). If the peer has been silent for too long, it is lost. If
// only the flow's oldest frame has waited too long for an answer, the flow is abandoned.
func (e *End) timeout(f *flow) {
	if e.silent(f.peer) {
		e.lose(f.peer, arctic.ReasonSilent)
		return
	}
	e.Counters.Timeouts++
	if f.peer.Key != nil && f.sndUna == 0 && f.timeouts&1 == 0 {
		// The epoch has just begun, and the greeting that says so to the peer may be lost: to a
		// frame of an epoch that is not its own it gives no answer (stale). Each second time the
		// frame goes alone: where many cards time out at once there may be no room for both.
		e.greetBack(f.peer, f.peer.gid)
	}
	if e.now-f.movedAt >= e.mayBeSilent(f.peer) && !e.vouchedFor(f.peer) {
		// The peer is heard, but does not answer the oldest frame of this flow: something drops
		// just this one, its length for example, or the two disagree about the sequence.
		e.abandon(f, arctic.ReasonSilent)
		e.makeReady(f)
		return
	}
	f.threshold = max(f.flying/2, 2)
	f.window, f.growth = 1, 0
	if f.timeouts < 255 {
		f.timeouts++
	}
	for s := f.sndUna; s != f.sndNext; s++ {
		if fr := f.frame(s); fr.state == flying {
			f.loses(fr)
		}
	}
	f.deadline = e.now + f.rto(&e.cfg)
	e.makeReady(f)
}

// lose gives up on a peer. Everything that waits for it returns to its process with the reason, and
// the peer must be greeted again before more is sent.
func (e *End) lose(p *peer, reason arctic.Reason) {
	e.Counters.PeersLost++
	p.established = false
	p.greetAt, p.silentSince, p.ackAt = 0, 0, 0
	for _, l := range arctic.ByPriority {
		if f := p.flows[l]; f != nil {
			e.abandon(f, reason)
			for _, s := range f.streams {
				for s.waiting.head != nil {
					ln := s.waiting.Pop()
					e.settle(ln, Returned, reason)
				}
				e.withdraw(s)
			}
		} else {
			p.parked[l].window, p.parked[l].growth, p.parked[l].limit = uint16(e.cfg.FirstWindow), 0, 0
		}
	}
}

// abandon returns all packets of unanswered frames to their processes, and moves on. The age in the
// next frame tells the receiver that the sender needs no answer to them.
func (e *End) abandon(f *flow, reason arctic.Reason) {
	for ; f.sndUna != f.sndNext; f.sndUna++ {
		fr := f.frame(f.sndUna)
		for fr.train != nil {
			ln := fr.train
			fr.train = ln.next
			e.settle(ln, Returned, reason)
		}
		fr.state = idle
	}
	f.flying, f.lost, f.held = 0, 0, 0
	f.deadline, f.timeouts = 0, 0
	for c := f.classes; c != nil; c = c.beside {
		c.flight = 0
		c.refill()
	}
	for _, s := range f.streams {
		e.withdraw(s)
		s.flying, s.limit, s.hold, s.backoff = 0, 1, 0, 0
		s.held, s.yields, s.deferredAt = false, false, 0
		e.mayGo(s)
	}
	f.window, f.growth = e.cfg.FirstWindow, 0
	e.watch(f.peer)
}
