package engine

// This file is what an owner sees of the card's traffic besides the counters: what each context has moved,
// for which reasons packets were rejected, and how long each peer takes to answer. The data path
// adds to a number that lies beside what it touches anyway; what is asked for is read between two steps.

import (
	"time"

	"github.com/funet/funet/uspace/arctic"
)

// Traffic is what a context has moved since it was attached. Bytes are those of payloads as they travel: of
// a transfer with the words that say where it goes.
type Traffic struct {
	Sent          uint64 `json:"packets_sent"` // taken from the send queues; a block of a transfer is one
	SentBytes     uint64 `json:"bytes_sent"`
	Received      uint64 `json:"packets_received"` // put into receive queues or memory
	ReceivedBytes uint64 `json:"bytes_received"`
	Retried       uint64 `json:"packets_retried"`  // rejected by the receiver for a transient reason, to be sent again
	Returned      uint64 `json:"packets_returned"` // to the process, which could not be delivered
	Refused       uint64 `json:"packets_refused"`  // of others, for this context
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
func (x *Context) Traffic() Traffic { return x.traffic }

// took counts a packet that was delivered to the context.
func (x *Context) took(bytes int) {
	x.card.counters.PacketsDelivered++
	x.traffic.Received++
	x.traffic.ReceivedBytes += uint64(bytes)
}

// Rejections are packets by the reason for which they were rejected. Of reasons that this version does not
// know, which a peer may send, there is one sum.
type Rejections [len(reasons) + 1]uint64

// reasons are those that travel (arctic.Reason).
var reasons = [...]arctic.Reason{arctic.ReasonQueueFull, arctic.ReasonSwitching, arctic.ReasonTooLong, arctic.ReasonUnknownKind, arctic.ReasonNoContext, arctic.ReasonDestination,
	arctic.ReasonTransferForm, arctic.ReasonSourceNode, arctic.ReasonReplaced, arctic.ReasonJob}

// Each calls see for each reason, and for those that are not known with arctic.ReasonNone.
func (r *Rejections) Each(see func(arctic.Reason, uint64)) {
	for i, reason := range reasons {
		see(reason, r[i])
	}
	see(arctic.ReasonNone, r[len(reasons)])
}

// add counts a packet.
func (r *Rejections) add(why arctic.Reason) {
	for i, reason := range reasons {
		if reason == why {
			r[i]++
			return
		}
	}
	r[len(reasons)]++
}

// Rejections returns the totals of packets that the card rejected, and of those that peers rejected. A packet is
// counted each time.
func (c *Card) Rejections() (here, byPeers Rejections) { return c.rejectedHere, c.rejectedThere }

// refused counts a packet that came for the context, nil for one that is not here, and was rejected.
func (c *Card) refused(x *Context, why arctic.Reason) {
	c.rejectedHere.add(why)
	if x != nil {
		x.traffic.Refused++
	}
}

// PeerState is how a card stands to a peer.
type PeerState struct {
	Card        uint16
	Established bool // it has been greeted, and not been lost since
	// RoundTrip is the smoothed time from a frame to its first acknowledgment, and Variation how much it
	// varies (RFC 6298 section 2); 0: not measured. The acknowledgment may have waited up to the peer's Config.AckDelay
	// for a packet to ride on. Of two levels it is the shorter one's, whose acknowledgments wait less.
	RoundTrip, Variation time.Duration
	InFlight             int // frames without an answer
}

// PeerStates calls see for the peers from an index on, at most so many, and returns the index of the next, or 0 after
// the last. Peers that come or go between two calls may be seen or not.
func (c *Card) PeerStates(from, most int, see func(PeerState)) (next int) {
	end := min(from+most, len(c.peers))
	for i := from; i < end; i++ {
		if p := c.peers[i]; !p.removed() {
			see(p.stateOf())
		}
	}
	if end >= len(c.peers) {
		return 0
	}
	return end
}

// stateOf describes the peer.
func (p *peer) stateOf() PeerState {
	s := PeerState{Card: p.Card, Established: p.established}
	for l := range p.kept {
		srtt, rttvar := p.kept[l].srtt, p.kept[l].rttvar
		if f := p.flows[l]; f != nil {
			srtt, rttvar = f.srtt, f.rttvar
			s.InFlight += int(f.next - f.oldest)
		}
		if srtt != 0 && (s.RoundTrip == 0 || time.Duration(srtt) < s.RoundTrip) {
			s.RoundTrip, s.Variation = time.Duration(srtt), time.Duration(rttvar)
		}
	}
	return s
}
