package engine

// This file is how peers come and go while the card runs: hosts join a cluster and leave it,
// or get another NIC.
//
// A peer that is removed keeps its record, because sequences are of two lives of cards and not
// of a list's: if it comes back in the life that it had, both sides go on counting where they
// were. Nothing is sent to it and nothing taken from it meanwhile; what waits for it, and what
// processes still send there, returns with ReasonDeparted.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
)

// noPort is the port of a peer that has been removed.
const noPort = -1

func (p *peer) removed() bool { return p.Port == noPort }

// newPeer makes a peer in the room for it.
func (c *Card) newPeer(room *peer, p Peer) *peer {
	*room = peer{Peer: p, timer: notTimed, limit: arctic.MaxFrame - arctic.EthernetSize, kept: [arctic.Levels]kept{c.fresh(), c.fresh()}}
	c.byCard[p.Card] = room
	return room
}

// SetPeer adds a peer, or says where one is from now on. If it was elsewhere before, what waits
// for it returns with ReasonDeparted, and it is greeted anew. Routes that lead there are set
// afterwards (SetRoute, SetGroupRoutes). Call Step afterwards. It returns ErrConfig, and changes nothing, for the card's
// own number and a port that there is not.
func (c *Card) SetPeer(p Peer) error {
	if p.Card == c.cfg.Card {
		return fmt.Errorf("setting peer %d: %w: that is the card's own number", p.Card, ErrConfig)
	}
	if err := c.cfg.checkPort(p); err != nil {
		return fmt.Errorf("setting peer %d: %w", p.Card, err)
	}
	if int(p.Card) >= len(c.byCard) {
		c.byCard = append(c.byCard, make([]*peer, int(p.Card)+1-len(c.byCard))...)
	}
	switch old := c.byCard[p.Card]; {
	case old == nil:
		c.peers = append(c.peers, c.newPeer(new(peer), p))
		if cap(c.timers.heap) < len(c.peers) { // steps do not allocate
			c.timers.heap = append(make([]*peer, 0, 2*len(c.peers)), c.timers.heap...)
		}
	case old.Peer != p:
		if !old.removed() {
			c.part(old)
		}
		old.Peer = p
		old.take(arctic.MaxFrame)
		old.raiseAt = 0
	}
	return nil
}

// RemovePeer makes a card a stranger, and tells it so if it is there. It does nothing if the card is
// none of the peers. Routes may still lead there: packets on them return with ReasonDeparted.
// Call Step afterwards.
func (c *Card) RemovePeer(card uint16) {
	if p := c.peer(card); p != nil {
		c.part(p)
		p.Port = noPort
	}
}

// part says goodbye to a peer and returns what waits for it.
func (c *Card) part(p *peer) {
	c.leave(p)
	c.lose(p, arctic.ReasonDeparted)
	for _, x := range c.contexts {
		if len(x.owed) > 0 && !x.away {
			x.publish()
		}
	}
}
