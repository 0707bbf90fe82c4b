package am

// This file is the state of the messages with tags between this node and another: their order and
// their limits.
//
// There are three spaces of such messages. Each has numbers and a limit of its own, so that
// unreceived messages of one do not hold up those of another.

// Spaces, bits 1:0 of the first word of an envelope.
const (
	programSpace = 0 // the program's own tags, below GroupTag
	groupSpace   = 1 // tags of collective calls, from GroupTag on
	wideSpace    = 2
	spaces       = 3
	// partsSpace stands in an envelope for wideSpace, for a message in parts (parts.go).
	partsSpace = 3
)

const (
	// WideWindow is how many wide messages of a node may have arrived unreceived; further ones wait
	// at the sender. Each takes 176 bytes of the receiver's memory, and 64 for each class of its
	// receives (classes.go). The memory is made as it is needed, and kept for later messages.
	WideWindow = 1 << 17

	// A receiver tells the sender how many messages it has received after so many.
	tagLag  = TagWindow / 2
	wideLag = 1 << 10
)

// pair is the state of the messages between this node and another, in one space.
type pair struct {
	node   uint16
	space  uint32
	window uint32
	lag    uint32
	busy   bool
	gone   bool // the node has left; later messages belong to another pair
	// Of messages to the node:
	sends   int    // how many are under way
	sent    uint32 // number of the next
	matched uint32 // how many the node says it has received
	waiting list[tagSend]
	offered list[tagSend] // also those that have moved
	void    fifo[uint32]  // first words of returned envelopes, which the receiver must not wait for
	voided  uint32        // the last of them
	parted  uint32        // messages sent in parts
	freed   uint32        // how many of those the node says it has received
	// Of messages from the node:
	next   uint32 // number of the next to take
	taken  uint32 // how many were received
	told   uint32 // the value of taken that the node was told
	early  ring
	wanted int    // receives that wait for a message of this node only, or get one
	long   int    // long ones that wait for a receive
	parts  int    // blocks in use
	merged uint32 // how many were received that came in parts
	merges uint32 // the value of merged that the node was told
	tell   fifo[telling]
}

// telling is a message that the other node of a pair has yet to be sent.
type telling struct{ form, mine, theirs, want uint32 }

// pair returns the state between this node and another in a space.
func (t *tags) pair(space uint32, node uint16) *pair {
	if t.pairs[space] == nil {
		t.pairs[space] = make([]*pair, t.nodes)
	}
	p := t.pairs[space][node]
	if p == nil {
		p = &pair{node: node, space: space, window: TagWindow, lag: tagLag}
		if space == wideSpace {
			p.window, p.lag = WideWindow, wideLag
		}
		t.pairs[space][node] = p
	}
	return p
}

// ring holds messages that have arrived before their turn, by their numbers. Its size is a power of
// two above the distance of each from the next number to take. So no two have one place.
type ring []*envelope

// at returns the message of a number, or nil. ahead is the distance.
func (r ring) at(number, ahead uint32) *envelope {
	if ahead >= uint32(len(r)) {
		return nil
	}
	return r[number&uint32(len(r)-1)]
}

// add adds a message.
func (r *ring) add(n *envelope, ahead uint32) {
	if size := uint32(len(*r)); ahead >= size {
		for size = max(size, 8); size <= ahead; size *= 2 {
		}
		longer := make(ring, size)
		for _, m := range *r {
			if m != nil {
				longer[m.number&(size-1)] = m
			}
		}
		*r = longer
	}
	(*r)[n.number&uint32(len(*r)-1)] = n
}

// turn returns the next message in order and removes it, if all of it has arrived.
func (p *pair) turn() *envelope {
	n := p.early.at(p.next, 0)
	if n == nil || n.missing != 0 {
		return nil
	}
	p.early[p.next&uint32(len(p.early)-1)] = nil
	return n
}

// due reports whether the node is to be told how many messages were received.
func (p *pair) due() bool {
	return (p.taken-p.told)&numberMask >= p.lag || p.merged-p.merges >= partsLag
}

// expect records whose message a receive waits for or gets; nil: any node's.
func (t *tags) expect(r *tagReceive, p *pair) {
	if r.pair != nil {
		r.pair.wanted--
	}
	if p != nil {
		p.wanted++
	}
	r.pair = p
}

// fail ends the sends and receives of a pair. Long messages that wait for a receive are forgotten,
// because their sender would not send them. Others can still be received.
func (t *tags) fail(p *pair, err error) {
	if p.sends > 0 {
		for s := range t.sends.used {
			if s.pair == p {
				t.dropSend(s, err)
			}
		}
	}
	if p.wanted > 0 {
		for r := range t.receives.used {
			if r.pair == p {
				t.dropReceive(r, err)
			}
		}
	}
	if p.long == 0 {
		return
	}
	for n := t.kept.first; n != nil; {
		next := n.next
		if n.pair == p && n.form == formLong {
			t.unkeep(n)
			t.received(n)
			t.free(n)
		}
		n = next
	}
	for c := range t.claims.used {
		if c.envelope != nil && c.pair == p && c.form == formLong {
			t.received(c.envelope)
			t.free(c.envelope)
			c.envelope, c.err = nil, err
		}
	}
}

// failNode ends sends to a node, and receives from it. Receives from any node continue.
func (t *tags) failNode(node int, err error) {
	for _, pairs := range t.pairs {
		if pairs != nil && pairs[node] != nil {
			t.fail(pairs[node], err)
		}
	}
}

// failAll is failNode for all nodes.
func (t *tags) failAll(err error) {
	for node := range t.nodes {
		t.failNode(node, err)
	}
}

// depart ends everything that waits for a node that has left, and forgets agreements with it.
// Messages that it has sent completely can still be received.
func (t *tags) depart(node int, err error) {
	t.failNode(node, err)
	for _, pairs := range t.pairs {
		if pairs == nil || pairs[node] == nil {
			continue
		}
		p := pairs[node]
		pairs[node] = nil
		p.gone, p.void, p.tell = true, fifo[uint32]{}, fifo[telling]{}
		for _, n := range p.early {
			if n != nil {
				t.free(n)
			}
		}
		p.early = nil
	}
}
