package engine

// This file has the methods with which the card's owner names peers and observes frames. Package
// link does the work.

import (
	"fmt"

	"github.com/funet/funet/uspace/engine/link"
)

// Outcome says how a frame ended.
type Outcome = link.Outcome

// The outcomes that users of cards name; package link has all.
const (
	Sent        = link.Sent
	Accepted    = link.Accepted
	Rejected    = link.Rejected
	BadChecksum = link.BadChecksum
	Deferred    = link.Deferred
	Outcomes    = link.Outcomes
)

// KeyState says what a card knows of a peer's key; see package link.
type KeyState = link.KeyState

// The states of a peer's key in a PeerState.
const (
	Unkeyed    = link.Unkeyed
	Sealed     = link.Sealed
	Waiting    = link.Waiting
	NoKeyThere = link.NoKeyThere
	NoKeyHere  = link.NoKeyHere
	OtherKey   = link.OtherKey
)

// Fate is a frame's outcome and, if packets of the frame were rejected, the reason for the first.
type Fate = link.Fate

// Observe has see called for each frame that the card sends, before the port gets the frame. It
// also has see called for each received frame, as soon as the frame's fate is known. see gets the
// number of the port and the bytes, which are valid until see returns and must not be changed. A
// received frame during which a process's memory failed (Abandon) is not shown. nil ends the calls.
// see is called within Step, and must be quick.
func (c *Card) Observe(see func(port int, frame []byte, fate Fate)) { c.link.See = see }

// Introduce greets peers that the card has not met, from index at of its list on, each once and
// without waiting for an answer. It returns the index from which to go on after the next Step, and
// -1 at the end. A peer that knew an earlier incarnation of the card then returns the packets that
// wait for that incarnation. Otherwise its first packets for the present incarnation would be taken
// for packets to the earlier one, and come back with ReasonRestarted.
func (c *Card) Introduce(at int) (next int) { return c.link.Introduce(at) }

// Greet greets one peer once, whether the card has met it or not. The peer answers, so the key
// state in PeerState is soon up to date. Greet returns false when the transmit ring is full, or the
// card is not one of the peers. Call Step afterwards.
func (c *Card) Greet(card uint16) bool { return c.link.Greet(card) }

// SetPeer adds a peer, or changes the place of one. If the peer was elsewhere before, packets that
// wait for it return with ReasonDeparted, and it is greeted anew. Set the routes that lead there
// afterwards (SetRoute, SetGroupRoutes), then call Step. For the card's own number, or a port that
// does not exist, SetPeer returns ErrConfig and changes nothing.
func (c *Card) SetPeer(p Peer) error {
	if p.Card == c.cfg.Card {
		return fmt.Errorf("setting peer %d: %w: that is the card's own number", p.Card, ErrConfig)
	}
	if err := c.cfg.checkPort(p); err != nil {
		return fmt.Errorf("setting peer %d: %w", p.Card, err)
	}
	c.link.SetPeer(p)
	c.in.parted()
	return nil
}

// RemovePeer makes a peer a stranger, and tells that card so if it is reachable. It does nothing if
// the card is not one of the peers. Packets on routes that still lead there return with
// ReasonDeparted. Call Step afterwards.
func (c *Card) RemovePeer(card uint16) {
	c.link.RemovePeer(card)
	c.in.parted()
}

// Ended tells a direct card that the process of a node has ended. life is the incarnation of the
// node's card. Packets that wait for the node, and later ones, return with ReasonDeparted. This
// lasts until the node greets with another incarnation, Lives reports one, or ConnectTimeout has
// passed. News of an incarnation that the card has not met changes nothing. Call Step afterwards.
func (c *Card) Ended(card uint16, life uint32) {
	c.link.Ended(card, life)
	c.in.parted()
}

// Lives tells a direct card that the process of a node is there. life is the incarnation of the
// node's card. If the node is silent, it may stay so for ConnectTimeout. Call Step afterwards.
func (c *Card) Lives(card uint16, life uint32) { c.link.Lives(card, life) }

// parted returns the packets that waited for a peer that was removed or has moved.
func (d *delivery) parted() {
	d.settleLines()
	for _, x := range d.table.all {
		if len(x.owed) > 0 && !x.away {
			x.publish()
		}
	}
}

// SetLimit sets the length in bytes of the longest frame to a peer, as far as the caller knows it.
// The card finds out itself whether longer frames pass. Values below the frame length for
// arctic.MinMTU count as that length; values above the port's longest frame mean no limit. SetLimit
// does nothing if the card is not one of the peers. Call Step afterwards.
func (c *Card) SetLimit(card uint16, bytes int) { c.link.SetLimit(card, bytes) }

// Limit returns the length in bytes of the longest frame to a peer, 0 if the card is not one of the
// peers.
func (c *Card) Limit(card uint16) int { return c.link.Limit(card) }

// Contended reports whether more than one account uses the card, or Beside was called.
func (c *Card) Contended() bool { return c.link.Contended() }

// Beside tells the card that others, which do not use it, want its processor. For a tenth of a
// second after now its steps are as short as on a card that accounts share.
func (c *Card) Beside(now int64) { c.link.Beside(now) }
