package engine

// This file is how the card's owner names peers and observes frames. Package link does the work.

import (
	"fmt"

	"github.com/funet/funet/uspace/engine/link"
)

// Outcome says how a frame ended.
type Outcome = link.Outcome

// The outcomes; see package link.
const (
	Sent         = link.Sent
	Accepted     = link.Accepted
	Rejected     = link.Rejected
	Duplicate    = link.Duplicate
	OutOfWindow  = link.OutOfWindow
	Stale        = link.Stale
	ForeignGroup = link.ForeignGroup
	Stranger     = link.Stranger
	Misrouted    = link.Misrouted
	NotFUNet     = link.NotFUNet
	CutShort     = link.CutShort
	OtherVersion = link.OtherVersion
	BadLength    = link.BadLength
	BadChecksum  = link.BadChecksum
	BadReserved  = link.BadReserved
	BadTrain     = link.BadTrain
	Forged       = link.Forged
	Replayed     = link.Replayed
	WrongKey     = link.WrongKey
	OtherPort    = link.OtherPort
	Outcomes     = link.Outcomes
)

// KeyState says what a card knows of a peer's key; see package link.
type KeyState = link.KeyState

// What a PeerState says of a peer's key.
const (
	Unkeyed    = link.Unkeyed
	Sealed     = link.Sealed
	Waiting    = link.Waiting
	NoKeyThere = link.NoKeyThere
	NoKeyHere  = link.NoKeyHere
	OtherKey   = link.OtherKey
)

// Fate is an outcome and, if packets of the frame were rejected, the reason for the first.
type Fate = link.Fate

// Observe has see called for each frame that the card sends, before the port gets the frame. It
// also has see called for each frame that the card has received, when the frame's fate is known.
// see gets the number of the port and the bytes, which are valid until see returns and must not be
// changed. A received frame during which a process's memory failed (Abandon) is not shown. nil ends
// the calls. see is called within Step, and must be quick.
func (c *Card) Observe(see func(port int, frame []byte, fate Fate)) { c.link.Observe(see) }

// Introduce greets peers that the card has not met, from index at of its list on, each once and
// without waiting for an answer. It returns the index to go on at, after the next Step, and -1 at
// the end. A peer that has known an earlier life of the card then returns what waits for that life.
// Otherwise the first packets that it has for this life would be taken for the earlier one's, and
// come back with ReasonRestarted.
func (c *Card) Introduce(at int) (next int) { return c.link.Introduce(at) }

// Greet greets one peer once, whether the card has met it or not, and the peer answers: what
// PeerState says of its key soon is of now. It returns false when the transmit ring is full, or the
// card is none of the peers. Call Step afterwards.
func (c *Card) Greet(card uint16) bool { return c.link.Greet(card) }

// SetPeer adds a peer, or says where one is from now on. If the peer was elsewhere before, packets
// that wait for it return with ReasonDeparted, and it is greeted anew. Routes that lead there are
// set afterwards (SetRoute, SetGroupRoutes). Call Step afterwards. It returns ErrConfig, and
// changes nothing, for the card's own number and a port that there is not.
func (c *Card) SetPeer(p Peer) error {
	if p.Card == c.cfg.Card {
		return fmt.Errorf("setting peer %d: %w: that is the card's own number", p.Card, ErrConfig)
	}
	if err := c.cfg.checkPort(p); err != nil {
		return fmt.Errorf("setting peer %d: %w", p.Card, err)
	}
	c.link.SetPeer(p)
	c.parted()
	return nil
}

// RemovePeer makes a card a stranger, and tells that card so if it is there. RemovePeer does
// nothing if the card is none of the peers. Routes may still lead there: packets on them return
// with ReasonDeparted. Call Step afterwards.
func (c *Card) RemovePeer(card uint16) {
	c.link.RemovePeer(card)
	c.parted()
}

// Ended tells a direct card that the process of a node has ended, by the incarnation of the node's
// card. What waits for the node, and what is sent to it from now on, returns with ReasonDeparted.
// This lasts until another life of the node greets, Lives tells of one, or ConnectTimeout has
// passed. News of another life than the one that the card has met changes nothing. Call Step
// afterwards.
func (c *Card) Ended(card uint16, life uint32) {
	c.link.Ended(card, life)
	c.parted()
}

// Lives tells a direct card that the process of a node is there, by the incarnation of its card: if
// it is silent it may be for ConnectTimeout. Call Step afterwards.
func (c *Card) Lives(card uint16, life uint32) { c.link.Lives(card, life) }

// parted returns the packets that waited for a peer that is gone.
func (c *Card) parted() {
	c.settleLines()
	for _, x := range c.contexts {
		if len(x.owed) > 0 && !x.away {
			x.publish()
		}
	}
}

// SetLimit says how long frames to a peer may be, in bytes, from now on, as far as somebody knows:
// the card finds out itself whether longer ones pass. Less than every path takes counts as that
// much, and more than the port sends as no limit. It does nothing if the card is none of the peers.
// Call Step afterwards.
func (c *Card) SetLimit(card uint16, bytes int) { c.link.SetLimit(card, bytes) }

// Limit returns the length in bytes of the longest frame to a peer, 0 if the card is none of the
// peers.
func (c *Card) Limit(card uint16) int { return c.link.Limit(card) }

// Contended reports whether more than one account uses the card, or Beside was called.
func (c *Card) Contended() bool { return c.link.Contended() }

// Beside tells the card that others want its processor who do not use it. For a tenth of a second
// after now its steps are as short as where accounts share it.
func (c *Card) Beside(now int64) { c.link.Beside(now) }
