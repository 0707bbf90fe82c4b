package am

// This file transports messages with a tag of more than mostPieced bytes, as long messages of bytes
// are transported (bytes.go).
//
// The journey: the envelope carries an offer, the id of a message of bytes that is not announced
// otherwise. So its place in the order is the envelope's. Until a receive takes the envelope, the
// receiver has nothing else of the message. Then the receive waits for memory among the other
// messages that do, and the offer gets the grant. The bytes arrive in that memory, and are copied
// from there into the memory of the receive.
//
//	sender                                          receiver
//	typeTagged number, tag, length, offer    ->     the receive that takes it asks for memory
//	                                         <-     typeGrant offer, key, address
//	transfers, argument: key                 ->     copies to the receive when there are all
//	                                         <-     typeTaken offer, status
//
// The receiver answers the envelope with typeTold if either node has no memory for messages
// (UseMemory), or if the message is longer than the receiver's memory. The message then travels in
// pieces (pieces.go). At most half of MaxSends offers are open. Further messages travel in pieces,
// too, so that sends without tags never wait for receives.

import "slices"

const (
	// mostPieced is the longest message with a tag, in bytes, that travels faster in pieces than as
	// a transfer. In pieces, 4 KiB took 0.83 to 0.91 of the time of a transfer, 64 KiB took 1.7
	// times and 1 MiB twice that time. BenchmarkTagged of package funet measured this on two hosts
	// of a lab.
	mostPieced = 4096
	mostOffers = MaxSends / 2
)

// makeOffer makes the offer of a send, if the send gets one.
func (t *tags) makeOffer(s *tagSend) {
	x := &t.e.bytes
	if len(s.b) <= mostPieced || len(s.b) > MaxBytes || x.landing == nil || t.pace != nil ||
		x.sends.under() >= mostOffers {
		return
	}
	if s.moved == nil {
		s.moved = func(err error) {
			s.offer = 0
			t.unlist(s)
			t.endSend(s, err)
		}
	}
	s.offer = x.add(int(s.pair.node), kindTagged, 0, [2]uint32{s.ticket}, gather{first: s.b}, len(s.b), s.moved).id
}

// endOffer ends the offer of a send that ends, or that travels in pieces. told says that the
// receiver may still take the offer, and must then be told that the message will not come.
func (t *tags) endOffer(s *tagSend, told bool) {
	o := t.e.bytes.sends.find(s.offer)
	if s.offer == 0 || o == nil {
		return
	}
	s.offer, o.done = 0, nil
	t.e.bytes.endSend(o, ErrCancelled, told)
}

// dropOffer frees the offer of a send that was given up and whose receiver asks for pieces.
func (x *byteMessages) dropOffer(node uint16, word uint32) {
	for o := range x.sends.used {
		if o.state == sendGivenUp && o.key == 0 && o.node == node && kindOf(o.second) == kindTagged &&
			o.words[0] == word {
			x.freeSend(o)
		}
	}
}

// fetch asks for memory for the message that a receive has taken, and grants it to the offer. It
// returns false if the message cannot be fetched this way. m is a message of the sender that is
// being handled, or nil.
func (t *tags) fetch(r *tagReceive, offer uint32, m *Message) bool {
	x := &t.e.bytes
	if x.landing == nil || t.pace != nil || r.want == 0 || r.received.Bytes > x.landing.longest {
		return false
	}
	r.offer = offer
	a := asking{node: uint16(r.received.Source), id: offer, second: kindTagged << kindShift, words: [2]uint32{r.ticket},
		bytes: r.received.Bytes}
	if len(x.waiting) > 0 || !x.grant(&a, m) {
		x.waiting = append(x.waiting, a)
		x.busy = true
	}
	return true
}

// fetching returns the receive with a number whose message from a node is under way as transfers,
// or nil.
func (t *tags) fetching(node int, number uint32) *tagReceive {
	r := t.receives.find(number)
	if r == nil || r.state != opMoving || r.offer == 0 || r.received.Source != node {
		return nil
	}
	return r
}

// fetched gives a message that has arrived to its receive, unless the receive has ended.
func (t *tags) fetched(node int, number uint32, b []byte) {
	r := t.fetching(node, number)
	if r == nil || len(b) != r.received.Bytes {
		return
	}
	copy(r.b, b)
	t.endReceive(r, truncated(r))
}

// failFetch ends a receive whose message will not come.
func (t *tags) failFetch(node int, number uint32, err error) {
	if r := t.fetching(node, number); r != nil {
		t.endReceive(r, err)
	}
}

// stopFetch cancels the wait for memory of a receive that ends. Its sender is told that the message
// is done, as if the bytes had arrived: a send is complete when a receive has taken it.
func (t *tags) stopFetch(r *tagReceive) {
	x := &t.e.bytes
	if r.offer == 0 {
		return
	}
	i := slices.IndexFunc(x.waiting, func(a asking) bool {
		return kindOf(a.second) == kindTagged && a.words[0] == r.ticket
	})
	if i < 0 {
		return
	}
	node := x.waiting[i].node
	x.waiting = slices.Delete(x.waiting, i, i+1)
	x.tell(nil, control{node: node, typ: typeTaken, n: 2, words: [5]uint32{r.offer, statusDone}})
}
