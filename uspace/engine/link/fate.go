package link

// This file is what the owner of a direct card is told of the processes behind its peers (design of
// direct ports, section 4). The owner may hear that a process has ended, so that nothing waits for
// PeerTimeout until its silence is believed. Or it hears that a silent process lives, because its
// debugger holds it up.
//
// A process is named by its card's incarnation. News of another life than the one that the card
// knows are late, and change nothing.
//
//	Config.Doubt ──> the owner asks ──> Lives: the silence may last for ConnectTimeout
//	                               └──> Ended: what waits returns with ReasonDeparted, until
//	                                    another life greets, for ConnectTimeout at most
//
// Nothing here is needed for anything but time: news that are lost leave PeerTimeout.

import "github.com/funet/funet/uspace/arctic"

// fate is what the owner has been told of a peer's process.
type fate struct {
	ended uint32 // the incarnation that has ended; 0: the peer may be there
	until int64  // when that is believed no longer; 0: nothing has asked yet
	// the silence (peer.silentSince) that the owner was told of, and for which it vouches
	doubted, vouched int64
}

// Ended tells the card that a life of a peer has ended. What waits for the peer returns with
// ReasonDeparted, and so does what is sent there later, until another life of it greets, Lives
// tells of one, or ConnectTimeout has passed. It does nothing if the peer has another life, as far
// as the card knows, and on a card that is not direct. Call Step afterwards.
func (e *End) Ended(card uint16, life uint32) {
	p := e.peer(card)
	if p == nil || e.fates == nil || life == 0 {
		return
	}
	f := &e.fates[card]
	if p.incarnation != life && p.incarnation != 0 && f.ended == 0 {
		return
	}
	f.ended, f.until = life, 0
	if p.established || p.greetAt != 0 {
		e.lose(p, arctic.ReasonDeparted)
	}
}

// Lives tells the card that a life of a peer is there. If that is the peer's, and it is silent, it
// may be for ConnectTimeout; if the peer's has ended, the card greets it again. It does nothing on
// a card that is not direct.
func (e *End) Lives(card uint16, life uint32) {
	p := e.peer(card)
	if p == nil || e.fates == nil {
		return
	}
	f := &e.fates[card]
	if f.ended != life {
		f.ended = 0
	}
	if p.incarnation == life && p.silentSince != 0 {
		f.vouched = p.silentSince
	}
}

// over reports whether the peer's process has ended, and no other is known of.
func (e *End) over(p *peer) bool {
	if e.fates == nil || e.fates[p.Card].ended == 0 {
		return false
	}
	f := &e.fates[p.Card]
	if f.until == 0 {
		f.until = e.now + int64(e.cfg.ConnectTimeout)
	}
	if e.now >= f.until {
		f.ended = 0
	}
	return f.ended != 0
}

// buried reports whether a greeting is of a life that has ended.
func (e *End) buried(p *peer, g *arctic.Greeting) bool {
	return e.fates != nil && e.fates[p.Card].ended == g.Incarnation && g.Incarnation != 0
}

// vouchedFor reports whether the time is not over that a silence may last for which the owner has
// vouched: nor is it for what the peer, heard again, has not answered yet.
func (e *End) vouchedFor(p *peer) bool {
	if e.fates == nil {
		return false
	}
	since := e.fates[p.Card].vouched
	return since != 0 && e.now-since < int64(e.cfg.ConnectTimeout)
}

// mayBeSilent returns how long the peer may be silent, and asks the owner about one that has been
// for half of that.
func (e *End) mayBeSilent(p *peer) int64 {
	limit := int64(e.cfg.PeerTimeout)
	if p.incarnation == 0 {
		return int64(e.cfg.ConnectTimeout)
	}
	if e.fates == nil || p.silentSince == 0 {
		return limit
	}
	f := &e.fates[p.Card]
	if e.cfg.Doubt != nil && f.doubted != p.silentSince && e.now-p.silentSince >= limit/2 {
		f.doubted = p.silentSince
		e.cfg.Doubt(p.Card, p.incarnation)
	}
	if f.vouched == p.silentSince {
		limit = max(limit, int64(e.cfg.ConnectTimeout))
	}
	return limit
}
