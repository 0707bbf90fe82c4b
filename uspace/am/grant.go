package am

// This file is the receiver of long messages: it grants memory, counts arriving words, runs
// handlers, and answers senders.

import (
	"slices"

	"github.com/funet/funet/uspace/funi"
)

const (
	// mostGrants is how many messages may be arriving at a time; the next one waits.
	mostGrants = 1 << ticketBits
	// mostAsked is how many messages of a node may wait for grants. The sender keeps to that limit.
	mostAsked = 8
)

// The kind of a message, bits 18:16 of the word behind its id.
const (
	kindBytes  = 0 // for a handler of bytes
	kindReply  = 1 // the same, sent by a request handler: the handler runs as a reply handler
	kindCall   = 2 // of a call: ticket (remotelong.go)
	kindAnswer = 3 // the answer: ticket, status
	// with a tag, announced by its envelope (fetch.go): the receive; at the sender, the send
	kindTagged = 4
	kindMask   = 7

	kindShift = 16
	// quietBit, beside the kind, asks the receiver to report only a message that was not taken. The
	// answer of a call serves as the report for one that was.
	quietBit = 1 << 19
)

// grant is memory that a node may write a message to.
type grant struct {
	key    uint32 // place and number; bit 31 is 0
	node   uint16
	id     uint32 // of the message, at its sender
	second uint32 // handler, life, kind
	words  [2]uint32
	bytes  int
	left   int // words still to come
	extent
}

// asking is a message that waits for a grant.
type asking struct {
	node   uint16
	id     uint32
	second uint32
	words  [2]uint32
	bytes  int
}

// receiving is the state of the messages that are arriving.
type receiving struct {
	grants  pool[grant]
	waiting []asking // in order of arrival
	polls   int      // since they began to wait
	next    int      // grant whose node is probed next
}

// readyArrived handles a sender's announcement of a message: id, handler and the like, length, and
// two words of its kind. It grants memory at once if some is free and no other message waits.
func (x *byteMessages) readyArrived(m *Message, id uint32) {
	if m.level != funi.Request {
		x.unknown++
		return
	}
	a := asking{uint16(m.Source), id, m.Words[0], [2]uint32(m.Words[2:]), int(m.Words[1])}
	switch {
	case kindOf(a.second) == kindTagged:
		x.unknown++
	case !x.mayRun(m, typeReady, a.second): // its sender is told of the new life
	case x.landing == nil || x.pace != nil || m.Words[1] > uint32(x.landing.most()) || a.bytes == 0:
		x.taken(m, id, statusMemory)
	case len(x.waiting) == 0 && x.grant(&a, m):
	case x.peer(m.Source).waiting == mostAsked:
		x.unknown++
		x.taken(m, id, statusMemory)
	default:
		x.peer(m.Source).waiting++
		x.waiting = append(x.waiting, a)
		x.busy = true
	}
}

// grant opens memory for a message and tells the sender, at once if m is not nil. It returns false
// if there is no memory.
func (x *byteMessages) grant(a *asking, m *Message) bool {
	if !x.grants.room() {
		return false
	}
	memory, ok := x.landing.room(a.bytes)
	if !ok {
		return false
	}
	g, key := x.grants.take()
	*g = grant{key, a.node, a.id, a.second, a.words, a.bytes, (a.bytes + 15) / 16 * 4, memory}
	x.tell(m, g.told(x.e))
	return true
}

// told returns the message that tells a sender of its grant.
func (g *grant) told(e *Endpoint) control {
	l := e.bytes.landing
	return control{node: g.node, typ: typeGrant, n: 4,
		words: [5]uint32{g.id, g.key, l.base + uint32(g.at), e.bytes.lease(int(g.node))}}
}

// find returns the grant with a key to a node, or nil.
func (x *receiving) find(node int, key uint32) *grant {
	if g := x.grants.find(key); g != nil && int(g.node) == node {
		return g
	}
	return nil
}

// partArrived counts a part of a long message, or of one in a slot of a lease, and delivers the
// message with the last part.
func (x *byteMessages) partArrived(m *Message, n funi.Notice) {
	if m.Source >= x.nodes {
		x.unknown++
		return
	}
	if n.Argument>>31 != 0 {
		x.leasedArrived(m, n)
		return
	}
	g := x.receiving.find(m.Source, n.Argument)
	if g == nil || m.level != funi.Request || uint64(n.Address) < uint64(x.landing.base)+uint64(g.at) ||
		uint64(n.Address)+4*uint64(n.Words) > uint64(x.landing.base)+uint64(g.at+g.size) || n.Words > g.left {
		x.unknown++ // late, after the message was given up
		return
	}
	if g.left -= n.Words; g.left > 0 {
		return
	}
	was := *g
	x.grants.give(g.key) // its memory is the handler's until that ends
	status := uint32(statusPanicked)
	defer func() { // also when the handler panics; the panic goes on
		x.landing.giveBack(was.extent, &x.landing.extents)
		x.busy = true // others may wait for the memory
		if status != statusDone || was.second&quietBit == 0 || kindOf(was.second) != kindCall {
			x.taken(m, was.id, status)
		}
	}()
	status = x.deliver(m, kindOf(was.second), was.second&handlerMask, was.words, x.landing.bytes(was.extent, was.bytes))
}

// deliver hands a whole message to its handler, call or receive, and returns the status for its
// sender.
func (x *byteMessages) deliver(m *Message, kind, handler uint32, words [2]uint32, b []byte) uint32 {
	ran := false
	switch {
	case kind == kindCall && m.level == funi.Request:
		x.e.remote.run(m, words[0], handler, b)
		return statusDone // the answer says what became of it
	case kind == kindAnswer:
		x.e.remote.conclude(m, words[0], words[1], b)
		return statusDone
	case kind == kindTagged && m.level == funi.Request:
		x.e.tags.fetched(m.Source, words[0], b)
		return statusDone
	case kind == kindBytes && m.level == funi.Request, kind == kindReply && m.level == funi.Reply:
		ran = x.run(m, handler, b)
	case kind == kindReply:
		reply := &x.message[funi.Reply]
		reply.Source, reply.Words = m.Source, nil
		x.depth[funi.Reply] = true
		// no slot of that level is held, whatever happens
		defer func() { x.depth[funi.Reply] = false }()
		ran = x.run(reply, handler, b)
	default:
		x.unknown++
	}
	if !ran {
		return statusNoHandler
	}
	return statusDone
}

// taken tells the sender of a message its outcome.
func (x *byteMessages) taken(m *Message, word, status uint32) {
	x.tell(m, control{node: uint16(m.Source), typ: typeTaken, n: 2, words: [5]uint32{word, status}})
}

// abortArrived closes a grant whose sender has given the message up.
func (x *byteMessages) abortArrived(m *Message, key uint32) {
	if g := x.receiving.find(m.Source, key); g != nil && m.level == funi.Request {
		x.landing.close(g.extent, &x.landing.extents)
		x.grants.give(g.key)
		x.busy = true
		x.unfetched(g, ErrAborted)
	}
}

// unfetched ends the receive, if any, of a grant that was closed.
func (x *byteMessages) unfetched(g *grant, err error) {
	if kindOf(g.second) == kindTagged {
		x.e.tags.failFetch(int(g.node), g.words[0], err)
	}
}

// kindOf returns the kind in the word behind the id of a message.
func kindOf(second uint32) uint32 { return second >> kindShift & kindMask }

// grantWaiting grants memory to waiting messages, in order. However, messages that fit the common
// memory do not wait for those that need a segment of their own. Now and then it probes a node that
// holds a grant; if the node is gone its memory becomes free.
func (x *byteMessages) grantWaiting() {
	var full [2]bool // of messages that fit, and of those that do not
	left := x.waiting[:0]
	for _, a := range x.waiting {
		class := 0
		if a.bytes > x.landing.longest {
			class = 1
		}
		granted, refused := false, false
		if !full[class] {
			if granted = x.grant(&a, nil); !granted && class == 1 {
				refused = x.landing.grow(a.bytes)
				granted = !refused && x.grant(&a, nil)
			}
		}
		switch {
		case !granted && !refused:
			full[class] = true
			left = append(left, a)
			continue
		case refused:
			x.tell(nil, control{node: a.node, typ: typeTaken, n: 2, words: [5]uint32{a.id, statusMemory}})
		}
		if kindOf(a.second) != kindTagged {
			x.peer(int(a.node)).waiting--
		}
	}
	x.waiting = left
	if x.polls++; len(x.waiting) == 0 {
		x.polls = 0
	} else if x.polls%firstProbe == 0 {
		for range x.grants.all {
			g := x.grants.all[x.next%len(x.grants.all)]
			if x.next = (x.next + 1) % len(x.grants.all); x.grants.find(g.key) != nil {
				x.tell(nil, control{node: g.node, typ: typeProbe, n: 1})
				break
			}
		}
	}
}

// forgetSender gives up the messages that a node was sending, and ends their receives with err. It
// tells the node if that may be present after all.
func (x *byteMessages) forgetSender(node uint16, there bool, err error) {
	lost := func(id uint32) {
		if there {
			x.tell(nil, control{node: node, typ: typeTaken, n: 2, words: [5]uint32{id, statusLost}})
		}
	}
	for g := range x.grants.used {
		if g.node == node {
			x.landing.close(g.extent, &x.landing.extents)
			x.grants.give(g.key)
			lost(g.id)
			x.unfetched(g, err)
		}
	}
	waiting := x.waiting
	x.waiting = slices.DeleteFunc(slices.Clone(waiting), func(a asking) bool { return a.node == node })
	for _, a := range waiting {
		if a.node == node {
			lost(a.id)
			x.unfetched(&grant{node: node, second: a.second, words: a.words}, err)
		}
	}
	if x.peers != nil && x.peers[node] != nil {
		x.peers[node].waiting = 0
	}
	x.busy = true
}
