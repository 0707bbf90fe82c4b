package link

// This file has the news that the owner of a direct card gives it of the processes behind its peers
// (ctl/ports). The owner may report that a process has ended, so that packets for it need not wait
// for PeerTimeout. Or it may report that a silent process lives, because a debugger holds it up.
//
// A process is named by its card's incarnation. News of a life other than the one that the card
// knows are late, and change nothing.
//
//	Config.Doubt ──> the owner asks ──> Lives: the silence may last for ConnectTimeout
//	                               └──> Ended: what waits returns with ReasonDeparted, until
//	                                    another life greets, for ConnectTimeout at most
//
// All of this saves time and is needed for nothing else: if news are lost, PeerTimeout decides.

import "github.com/funet/funet/uspace/arctic"

// fate is what the owner has told the card of a peer's process.
type fate struct {
	ended uint32 // the incarnation that has ended; 0: the peer may be there
	until int64  // when that is believed no longer; 0: over has not been asked yet
	// doubted is the silence (peer.silentSince) of which the owner was told, vouched the one for
	// which the owner vouches
	doubted, vouched int64
}

// Ended tells the card that a life of a peer has ended. What waits for the peer returns with
// ReasonDeparted, and so does what is sent there later. That lasts until another life of the peer
// greets, Lives tells of one, or ConnectTimeout has passed. Ended does nothing if the peer has
// another life, as far as the card knows, or if this card is not direct. Call Step afterwards.
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

// Lives tells the card that a life of a peer is there. If the peer has that life and is silent, its
// silence may last for ConnectTimeout. If another life of the peer was reported to have ended, that
// no longer counts, and the card greets the peer again. Lives does nothing on a card that is not
// direct.
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

// over reports whether the peer's process has ended, and no other life of it is known.
// ConnectTimeout after the first call it reports false again.
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

// vouchedFor reports whether the owner has vouched for a silence of the peer that began less than
// ConnectTimeout ago. For that long the flow waits for answers of the peer, also after the peer was
// heard again.
func (e *End) vouchedFor(p *peer) bool {
	if e.fates == nil {
		return false
	}
	since := e.fates[p.Card].vouched
	return since != 0 && e.now-since < int64(e.cfg.ConnectTimeout)
}

// mayBeSilent returns how long the peer may be silent. That is ConnectTimeout for a peer never met,
// else PeerTimeout, and at least ConnectTimeout for a silence for which the owner vouches. When
// half of PeerTimeout has passed it asks the owner (Config.Doubt).
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
