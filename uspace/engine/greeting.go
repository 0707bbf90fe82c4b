package engine

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
func (c *Card) greet(p *peer) {
	if p.greetAt != 0 {
		return
	}
	if p.removed() {
		p.greetAt = c.now // what waits for it is returned when the timers are served
		c.timers.set(p, p.greetAt)
		return
	}
	if p.silentSince == 0 {
		p.silentSince = c.now
	}
	p.greetGap = firstGreetGap
	p.greetAt = c.now + p.greetGap
	c.timers.set(p, p.greetAt)
	c.sendGreeting(p)
}

// introduceAtOnce is how many peers a call of Introduce greets at most.
const introduceAtOnce = 64

// Introduce greets peers that the card has not met, from place at of its list on, each once and without waiting for an
// answer; it returns the place to go on at, after the next Step, and -1 at the end. Who has known an earlier life of the card
// then returns what waits for that; otherwise the first packets that it has for this life would be
// taken for the earlier one's, and come back with ReasonRestarted.
func (c *Card) Introduce(at int) (next int) {
	for end := at + introduceAtOnce; at < len(c.peers); at++ {
		if at == end {
			return at
		}
		p := c.peers[at]
		if p.established || p.removed() {
			continue
		}
		if len(c.contexts) > 0 {
			p.gid = c.contexts[0].gid // as in greetAgain
		}
		if !c.sendGreeting(p) {
			return at // the transmit ring is full
		}
	}
	return -1
}

// greetAgain repeats a greeting that was not answered, or gives the peer up.
func (c *Card) greetAgain(p *peer) {
	switch {
	case p.removed():
		c.lose(p, arctic.ReasonDeparted)
		return
	case c.silent(p):
		c.lose(p, arctic.ReasonSilent)
		return
	}
	// The peer answers only groups that it has: each greeting names the group of
	// another context, so that none can keep the others from meeting the peer.
	p.greetings++
	if len(c.contexts) > 0 {
		p.gid = c.contexts[int(p.greetings)%len(c.contexts)].gid
	}
	if !c.sendGreeting(p) {
		p.greetAt = c.now + staleGreetGap // the transmit ring was full
		return
	}
	p.greetGap = min(2*p.greetGap, lastGreetGap)
	p.greetAt = c.now + p.greetGap
}

// stale answers a frame that the peer's present life did not send or that was
// meant for an earlier life of this card.
func (c *Card) stale(p *peer) {
	c.counters.Stale++
	if c.now-p.greetedAt >= staleGreetGap {
		c.sendGreeting(p)
	}
}

// sendGreeting sends one greeting, with a nonce unless the peer's candidate
// incarnation is already believed. It returns false when the transmit ring is full; the
// timer or the peer will ask again.
func (c *Card) sendGreeting(p *peer) bool {
	b := c.reserve(p)
	if b == nil {
		return false
	}
	nonce := uint32(0)
	if !p.established || p.candidate != p.incarnation {
		for p.nonce == 0 {
			p.nonce = uint32(c.random.Uint64())
		}
		nonce = p.nonce
	}
	c.out = arctic.Header{
		To: p.Address, From: p.Local, Hello: true, GID: p.gid, Route: uint32(p.Card),
		SourceCard: c.cfg.Card, DestinationCard: p.Card,
		SourceIncarnation: c.cfg.Incarnation, DestinationIncarnation: p.candidate,
		Sequence: nonce,
	}
	c.out.Acks[arctic.Request] = p.theirs
	c.out.Encode(b)
	c.send(p, b, arctic.HeaderSize)
	c.counters.Greetings++
	p.greetedAt = c.now
	c.more = true // an answer to a greeting is composed after this step has flushed
	return true
}

// greeted handles a greeting.
func (c *Card) greeted(p *peer, h *arctic.Header) {
	p.candidate, p.theirs = h.SourceIncarnation, h.Sequence
	forMe := h.DestinationIncarnation == c.cfg.Incarnation
	if forMe && p.nonce != 0 && h.Acks[arctic.Request] == p.nonce {
		c.believe(p, h.SourceIncarnation)
	}
	if h.Sequence != 0 || !p.established || p.candidate != p.incarnation {
		c.sendGreeting(p)
	}
	p.theirs = 0
}

// believe accepts the peer's incarnation, which it has just proven.
func (c *Card) believe(p *peer, incarnation uint32) {
	if p.incarnation != incarnation {
		if p.incarnation != 0 {
			c.counters.PeersRestarted++
		}
		for l := arctic.Reply; l <= arctic.Reply; l-- {
			reached := nextTurn(p.kept[l].reached)
			p.kept[l] = c.fresh()
			p.kept[l].reached = reached
			if f := p.flows[l]; f != nil {
				c.abandon(f, arctic.ReasonRestarted)
				f.next, f.oldest = 0, 0
				f.srtt, f.rttvar = 0, 0
				c.forgetReceived(f)
			}
		}
		if p.incarnation != 0 {
			c.failTransfers(p, arctic.ReasonRestarted)
		}
		p.incarnation, p.ackAt = incarnation, 0
	}
	p.established = true
	p.nonce, p.greetAt = 0, 0
	p.heard()
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		if f := p.flows[l]; f != nil {
			c.makeReady(f)
		}
	}
}
