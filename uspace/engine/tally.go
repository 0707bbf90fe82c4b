package engine

// This file shows the owner the card's traffic beyond the counters: the traffic of each context,
// packets rejected by reason, and the response time of each peer. The data path adds to a number
// next to data that it touches anyway. The owner reads the numbers between two steps.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// Traffic counts a context's packets and bytes since it was attached. Bytes are those of payloads
// as they travel; those of a transfer include the words with its addresses.
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
	// from others to this context, rejected by the card
	Refused uint64 `json:"packets_refused"`
}

// Add adds the numbers of another Traffic.
func (t *Traffic) Add(u *Traffic) {
	t.Sent += u.Sent
	t.SentBytes += u.SentBytes
	t.Received += u.Received
	t.ReceivedBytes += u.ReceivedBytes
	t.Retried += u.Retried
	t.Returned += u.Returned
	t.Refused += u.Refused
}

// Traffic returns the context's traffic.
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

// Rejections counts packets by the reason for rejecting them.
type Rejections = link.Rejections

// Rejections returns the totals of packets that the card rejected, and of its packets that peers
// rejected. A packet is counted at each rejection.
func (c *Card) Rejections() (here, byPeers Rejections) { return c.in.rejections, c.link.ByPeers }

// rejected counts a packet for the context that was rejected; x is nil for a node that is not here.
func (d *delivery) rejected(x *Context, why arctic.Reason) {
	d.rejections.Add(why)
	if x != nil {
		x.traffic.Refused++
	}
}

// PeerState is the state of a peer as a card sees it.
type PeerState = link.PeerState

// PeerState returns the state of one peer; ok is false if the card is not one of the peers.
func (c *Card) PeerState(card uint16) (s PeerState, ok bool) { return c.link.PeerState(card) }

// PeerStates calls see for up to most peers, beginning at an index. It returns the index of the
// next peer, or 0 after the last. A peer that is added or removed between two calls may or may not
// be seen.
func (c *Card) PeerStates(from, most int, see func(PeerState)) (next int) {
	return c.link.PeerStates(from, most, see)
}
