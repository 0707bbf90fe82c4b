package engine

// This file shows the owner the card's traffic beyond the counters: what each context has moved,
// for which reasons packets were rejected, and how long each peer takes to answer. The data path
// adds to a number next to what it touches anyway; the owner reads the numbers between two steps.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Traffic counts what a context has moved since it was attached. Bytes are those of payloads as
// they travel: those of a transfer include the words that say where it goes.
type Traffic struct {
	// taken from the send queues; a block of a transfer is one
	Sent          uint64 `json:"packets_sent"`
	SentBytes     uint64 `json:"bytes_sent"`
	Received      uint64 `json:"packets_received"` // put into receive queues or memory
	ReceivedBytes uint64 `json:"bytes_received"`
	// rejected by the receiver for a transient reason, to be sent again
	Retried uint64 `json:"packets_retried"`
	// to the process, because they could not be delivered
	Returned uint64 `json:"packets_returned"`
	// of others for this context, which the card rejected
	Refused uint64 `json:"packets_refused"`
}

// Add adds another's.
func (t *Traffic) Add(u *Traffic) {
	t.Sent += u.Sent
	t.SentBytes += u.SentBytes
	t.Received += u.Received
	t.ReceivedBytes += u.ReceivedBytes
	t.Retried += u.Retried
	t.Returned += u.Returned
	t.Refused += u.Refused
}

// Traffic returns what the context has moved.
func (x *Context) Traffic() Traffic {
	t := x.traffic
	t.Retried += x.owner.Retried
	return t
}

// took counts a packet that was delivered to the context.
func (x *Context) took(bytes int) {
	x.card.counters.PacketsDelivered++
	x.traffic.Received++
	x.traffic.ReceivedBytes += uint64(bytes)
}

// Rejections are packets by the reason for which they were rejected.
type Rejections = link.Rejections

// Rejections returns the totals of packets that the card rejected, and of those that peers
// rejected. A packet is counted each time.
func (c *Card) Rejections() (here, byPeers Rejections) { return c.rejectedHere, *c.link.ByPeers() }

// rejected counts a packet that came for the context, nil for a node that is not here, and was
// rejected.
func (c *Card) rejected(x *Context, why arctic.Reason) {
	c.rejectedHere.Add(why)
	if x != nil {
		x.traffic.Refused++
	}
}

// PeerState is how a card stands to a peer.
type PeerState = link.PeerState

// PeerState returns how the card stands to one peer; ok is false if the card is none of the peers.
func (c *Card) PeerState(card uint16) (s PeerState, ok bool) { return c.link.PeerState(card) }

// PeerStates calls see for up to most peers, from an index on, and returns the index of the next,
// or 0 after the last. Peers that come or go between two calls may be seen or not.
func (c *Card) PeerStates(from, most int, see func(PeerState)) (next int) {
	return c.link.PeerStates(from, most, see)
}
