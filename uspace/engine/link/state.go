package link

// This file shows the owner its peers, beyond the counters.

import (
	"time"
)

// PeerState describes how a card stands to a peer.
type PeerState struct {
	Card        uint16
	Established bool   // it has been greeted, and not been lost since
	Epoch       uint64 // of the sequence state with it; 0: there is none
	// RoundTrip is the smoothed time from a frame to its first acknowledgment, and Variation how
	// much it varies (RFC 6298 section 2); 0: not measured. The acknowledgment may have waited up
	// to the peer's Config.AckDelay for a packet to ride on. Of the two levels' times it is the
	// shorter, because acknowledgments of that level wait less.
	RoundTrip, Variation time.Duration
	InFlight             int // frames without an answer
	Key                  KeyState
	Identity             uint32 // of the card's key for the peer (Key.Identity); 0: there is none
	Readable             bool   // frames to the peer are authenticated, and not encrypted
	// Doubt says what was wrong with the key of a greeting in the name of an established peer,
	// whose key is known to be right. (A peer without a key is right if this card has none for it.)
	// Unkeyed: no such greeting has come since a right one. The peer's host may have another key
	// now, or another station sent the greeting.
	Doubt KeyState
	// Replies counts the greetings of the peer that answered one of the card's, modulo 65,536.
	// Those with a wrong key count, too.
	Replies uint16
	// Life is the incarnation that the peer had when it was last met; 0: never. SilentSince is when
	// the first frame after the peer's last sign of life was sent, in nanoseconds of Step's clock;
	// 0: nothing waits for the peer.
	Life        uint32
	SilentSince int64
}

// PeerStates calls see for up to most peers, starting at index from. It returns the index of the
// next, or 0 after the last. Peers that come or go between two calls may be seen or not.
func (e *End) PeerStates(from, most int, see func(PeerState)) (next int) {
	end := min(from+most, len(e.peers))
	for i := from; i < end; i++ {
		if p := e.peers[i]; !p.removed() {
			see(p.stateOf())
		}
	}
	if end >= len(e.peers) {
		return 0
	}
	return end
}

// PeerState returns how the card stands to one peer; ok is false if the card is not a peer.
func (e *End) PeerState(card uint16) (s PeerState, ok bool) {
	p := e.peer(card)
	if p == nil {
		return s, false
	}
	return p.stateOf(), true
}

func (p *peer) stateOf() PeerState {
	s := PeerState{Card: p.Card, Established: p.established, Epoch: p.epoch, Key: p.keyState(), Doubt: p.doubt,
		Replies: p.replies, Life: p.incarnation, SilentSince: p.silentSince}
	if p.Key != nil {
		s.Identity = p.Key.Identity()
	}
	s.Readable = s.Key == Sealed && p.readable
	for l := range p.parked {
		srtt, rttvar := p.parked[l].srtt, p.parked[l].rttvar
		if f := p.flows[l]; f != nil {
			srtt, rttvar = f.srtt, f.rttvar
			s.InFlight += int(f.sndNext - f.sndUna)
		}
		if srtt != 0 && (s.RoundTrip == 0 || time.Duration(srtt) < s.RoundTrip) {
			s.RoundTrip, s.Variation = time.Duration(srtt), time.Duration(rttvar)
		}
	}
	return s
}
