package link

// This file is how peers come and go while the card runs: hosts join a cluster and leave it, or get
// another NIC.
//
// A peer that is removed keeps its record, because sequence numbers belong to two lives of cards,
// and not to entries of a list. If the peer comes back in the same life, both sides go on counting
// where they were. Meanwhile nothing is sent to it and nothing is taken from it. What waits for it,
// and what processes still send there, returns with ReasonDeparted.

import "github.com/funet/funet/uspace/arctic"

// noPort is the port of a peer that has been removed.
const noPort = -1

func (p *peer) removed() bool { return p.Port == noPort }

// newPeer makes a peer in the memory at room.
func (e *End) newPeer(room *peer, p Peer) *peer {
	const most = arctic.MaxFrame - arctic.EthernetSize
	*room = peer{Peer: p, timer: notTimed, limit: most, said: most, parked: [arctic.Levels]parked{e.fresh(), e.fresh()}}
	room.secure()
	e.byCard.set(p.Card, room)
	return room
}

// secure resets what is known of a peer's key, and begins a record of it if the peer has a key.
func (p *peer) secure() {
	p.secured, p.seal, p.trouble, p.doubt = nil, 0, Unkeyed, Unkeyed
	if p.Key != nil {
		p.secured, p.seal = new(secured), arctic.SealSize
	}
}

// SetPeer adds a peer, or says where one is from now on. If the peer was elsewhere before, what
// waits for it returns with ReasonDeparted, and it is greeted anew. The port must be one of the
// card's, and the peer must not be the card itself.
func (e *End) SetPeer(p Peer) {
	e.view++
	e.byCard.grow(int(p.Card) + 1)
	if e.fates != nil {
		e.fates = append(e.fates, make([]fate, e.byCard.size-len(e.fates))...)
	}
	switch old := e.byCard.at(p.Card); {
	case old == nil:
		e.peers = append(e.peers, e.newPeer(new(peer), p))
		if cap(e.timers.of) < len(e.peers) { // steps do not allocate
			e.timers.of = append(make([]*peer, 0, 2*len(e.peers)), e.timers.of...)
		}
	case old.Peer != p:
		if !old.removed() {
			e.part(old)
		}
		if old.Key != p.Key {
			old.forget() // the present epoch is not to go on with the old key, or without any
			old.Key = p.Key
			old.secure()
		}
		old.Peer = p
		old.take(arctic.MaxFrame)
		old.raiseAt = 0
	}
}

// RemovePeer makes a card a stranger, and tells it so if it is there. What waits for it returns
// with ReasonDeparted. RemovePeer does nothing if the card is not a peer.
func (e *End) RemovePeer(card uint16) {
	if p := e.peer(card); p != nil {
		e.view++
		e.part(p)
		p.Port = noPort
	}
}

// part says goodbye to a peer and returns what waits for it.
func (e *End) part(p *peer) {
	e.leave(p)
	e.lose(p, arctic.ReasonDeparted)
}
