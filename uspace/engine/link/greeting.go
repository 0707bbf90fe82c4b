package link

// This file is the greeting: how two cards learn each other's incarnation before
// they exchange packets.
//
// A card believes a peer's incarnation only when the peer has echoed a nonce that
// was drawn for this attempt. So a frame that the network held back since an
// earlier life of the peer can neither be accepted nor make the card forget the
// present one. Both sides draw a nonce; the echo of one travels with the nonce of
// the other:
//
//	A: hello, my incarnation a, nonce x            ->
//	                        <- B: hello a, I am b, nonce y, echo x   (A believes b)
//	A: hello b, I am a, echo y                     ->                (B believes a)
//
// A nonce of zero asks for no echo: the sender already believes. Greetings are
// repeated with growing gaps while packets wait for the peer.

import "github.com/funet/funet/uspace/arctic"

const (
	// firstGreetGap and lastGreetGap bound the time between greetings, in
	// nanoseconds.
	firstGreetGap = 1e6
	lastGreetGap  = 100e6
	// staleGreetGap is the least time between greetings that answer frames of
	// unknown incarnations, so that a flood of them is not answered with another.
	staleGreetGap = 100e3
)

// greet starts greeting a peer that packets wait for.
func (e *End) greet(p *peer) {
	if p.greetAt != 0 {
		return
	}
	if p.removed() {
		p.greetAt = e.now // what waits for it is returned when the timers are served
		e.timers.set(p, p.greetAt)
		return
	}
	if p.silentSince == 0 {
		p.silentSince = e.now
	}
	p.greetGap = firstGreetGap
	p.greetAt = e.now + p.greetGap
	e.timers.set(p, p.greetAt)
	e.sendGreeting(p)
}

// introduceAtOnce is how many peers a call of Introduce greets at most.
const introduceAtOnce = 64

// Introduce greets peers that the card has not met, from place at of its list on, each once and without waiting for an
// answer; it returns the place to go on at, after the next Step, and -1 at the end. Who has known an earlier life of the card
// then returns what waits for that; otherwise the first packets that it has for this life would be
// taken for the earlier one's, and come back with ReasonRestarted.
func (e *End) Introduce(at int) (next int) {
	for end := at + introduceAtOnce; at < len(e.peers); at++ {
		if at == end {
			return at
		}
		p := e.peers[at]
		if p.established || p.removed() {
			continue
		}
		p.gid = e.resident.after(p.gid) // as in greetAgain
		if !e.sendGreeting(p) {
			return at // the transmit ring is full
		}
	}
	return -1
}

// greetAgain repeats a greeting that was not answered, or gives the peer up.
func (e *End) greetAgain(p *peer) {
	switch {
	case p.removed():
		e.lose(p, arctic.ReasonDeparted)
		return
	case e.silent(p):
		e.lose(p, arctic.ReasonSilent)
		return
	}
	// The peer answers only groups that it has: each greeting names the next group
	// that has a context here, so that none can keep the others from meeting the peer.
	p.gid = e.resident.after(p.gid)
	if !e.sendGreeting(p) {
		p.greetAt = e.now + staleGreetGap // the transmit ring was full
		return
	}
	p.greetGap = min(2*p.greetGap, lastGreetGap)
	p.greetAt = e.now + p.greetGap
}

// stale answers a frame that the peer's present life did not send or that was
// meant for an earlier life of this card.
func (e *End) stale(p *peer) {
	e.counters.Stale++
	if e.now-p.greetedAt >= staleGreetGap {
		e.sendGreeting(p)
	}
}

// sendGreeting sends one greeting, with a nonce unless the peer's candidate
// incarnation is already believed. It returns false when the transmit ring is full; the
// timer or the peer will ask again.
func (e *End) sendGreeting(p *peer) bool {
	b := e.reserve(p)
	if b == nil {
		return false
	}
	nonce := uint32(0)
	if !p.established || p.candidate != p.incarnation {
		for p.nonce == 0 {
			p.nonce = uint32(e.random.Uint64())
		}
		nonce = p.nonce
	}
	e.out = arctic.Header{
		To: p.Address, From: p.Local, Hello: true, GID: p.gid, Route: uint32(p.Card),
		SourceCard: e.cfg.Card, DestinationCard: p.Card,
		SourceIncarnation: e.cfg.Incarnation, DestinationIncarnation: p.candidate,
		Sequence: nonce,
	}
	e.out.Acks[arctic.Request] = p.theirs
	e.out.Encode(b)
	e.send(p, b, arctic.HeaderSize)
	e.counters.Greetings++
	p.greetedAt = e.now
	e.more = true // an answer to a greeting is composed after this step has flushed
	return true
}

// greeted handles a greeting.
func (e *End) greeted(p *peer, h *arctic.Header) {
	p.candidate, p.theirs = h.SourceIncarnation, h.Sequence
	forMe := h.DestinationIncarnation == e.cfg.Incarnation
	if forMe && p.nonce != 0 && h.Acks[arctic.Request] == p.nonce {
		e.believe(p, h.SourceIncarnation)
	}
	if h.Sequence != 0 || !p.established || p.candidate != p.incarnation {
		e.sendGreeting(p)
	}
	p.theirs = 0
}

// believe accepts the peer's incarnation, which it has just proven.
func (e *End) believe(p *peer, incarnation uint32) {
	if p.incarnation != incarnation {
		if p.incarnation != 0 {
			e.counters.PeersRestarted++
		}
		for _, l := range arctic.ByPriority {
			reached := nextTurn(p.parked[l].reached)
			p.parked[l] = e.fresh()
			p.parked[l].reached = reached
			if f := p.flows[l]; f != nil {
				e.abandon(f, arctic.ReasonRestarted)
				f.sndNext, f.sndUna = 0, 0
				f.srtt, f.rttvar = 0, 0
				e.forgetReceived(f)
			}
		}
		if p.incarnation != 0 {
			e.restart(p)
		}
		p.incarnation, p.ackAt = incarnation, 0
	}
	p.established = true
	p.nonce, p.greetAt = 0, 0
	p.heard()
	for _, l := range arctic.ByPriority {
		if f := p.flows[l]; f != nil {
			e.makeReady(f)
		}
	}
}

// restart lets the owner know that a peer lives anew (NextRestarted).
func (e *End) restart(p *peer) {
	if !p.restarted {
		p.restarted, p.nextRestart = true, e.restarts
		e.restarts = int32(p.Card) + 1
	}
}
