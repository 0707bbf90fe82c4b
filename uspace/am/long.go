package am

// This file is the sender of long messages, from start to outcome.

import (
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// MaxSends is how many long messages of an endpoint may be in flight; the next one waits until one
// is delivered.
const MaxSends = 1 << ticketBits

// mostControl is how many answers may wait for room in the send queue. Nodes that keep to the
// protocol do not cause that many.
const mostControl = 2 * mostGrants

// sendState is the progress of a long message.
type sendState uint8

const (
	sendHeld    sendState = iota // mostAsked others are ahead of it
	sendAsked                    // announced to the receiver, or about to be; no memory granted yet
	sendGranted                  // its bytes are being sent
	sendGone                     // all bytes have been sent
	// its bytes must not be read any more; the receiver does not know yet
	sendGivenUp
)

// send is a message under way.
type send struct {
	id      uint32 // place and number, as a ticket
	state   sendState
	node    uint16
	second  uint32 // handler, life, kind
	words   [2]uint32
	gather  gather
	size    int
	kept    int    // bytes that are the library's own copy
	key     uint32 // of the grant
	address uint32 // of the next byte at the receiver
	staged  int    // parts of copies and of shared memory that the card has yet to read
	window  int    // through which the card reads the bytes; -1: none
	done    func(error)
}

// sending is the state of the messages that are sent.
type sending struct {
	sends    pool[send]
	kept     int       // bytes of copied replies
	granted  []uint32  // ids of messages that have bytes to send, in turn
	control  []control // messages of the library that wait for room
	retiring []retiring
	single   singleSend
	finish   func(error) // of single
}

// control is a message of the library about a message. A typeReady is composed when it leaves.
type control struct {
	node  uint16
	typ   uint16
	n     int
	words [5]uint32
}

// retiring is an action that waits until the card has given back the slots of requests up to a
// place in the send queue.
type retiring struct {
	place   uint32
	stage   int // stage that becomes free; -1: none
	id      uint32
	counter *Counter
}

// singleSend is the state of the message whose sender waits; there is one at a time.
type singleSend struct {
	err   error
	ended bool
}

// StartBytes is SendBytes that does not wait. done is called once, when b may be changed, with an
// error if b was not delivered. A message of up to ShortBytes bytes, and one that can leave at
// once, is done before StartBytes returns; then the ID is 0. Otherwise a later Poll of any kind
// calls done, and b must not change before. done runs under the rules of a reply handler: it sends
// nothing. It may be nil.
//
// A long b is not copied if it lies in shared memory (Share, ShareNew) with the right Source, at an
// address that is a multiple of 16. After Cancel the card may still read it; the data is discarded.
//
// While MaxSends messages are in flight StartBytes waits, as well as for room in the send queue.
// After an error of StartBytes itself done is not called.
func (e *Endpoint) StartBytes(node int, handler uint32, b []byte, done func(error)) (ID, error) {
	if len(b) <= ShortBytes && handler < Handlers {
		if err := e.PostBytes(node, handler, b); err != nil {
			return 0, err
		}
		if done != nil {
			e.quietly(func() { done(nil) })
		}
		return 0, nil
	}
	return e.bytes.start(node, kindBytes, handler, [2]uint32{}, gather{first: b}, done)
}

// SendList is SendBytes of several pieces of memory, which arrive as one message in this order
// (gather in MPI and writev).
func (e *Endpoint) SendList(node int, handler uint32, list ...[]byte) error {
	g := gather{rest: list}
	size, ok := g.size()
	if ok && size <= ShortBytes && handler < Handlers {
		var b [ShortBytes]byte
		g.read(b[:])
		return e.SendBytes(node, handler, b[:size])
	}
	return e.bytes.sendGathered(node, handler, g)
}

// StartList is StartBytes of several pieces of memory, which arrive as one message in this order.
func (e *Endpoint) StartList(node int, handler uint32, list [][]byte, done func(error)) (ID, error) {
	g := gather{rest: list}
	size, ok := g.size()
	if ok && size <= ShortBytes && handler < Handlers {
		var b [ShortBytes]byte
		g.read(b[:])
		return e.StartBytes(node, handler, b[:size], done)
	}
	return e.bytes.start(node, kindBytes, handler, [2]uint32{}, g, done)
}

// sendGathered sends bytes that do not fit one packet, and waits until they are delivered.
func (x *byteMessages) sendGathered(node int, handler uint32, g gather) error {
	if err := x.refusal(node, 0); err != nil {
		return err // before the state of a message is touched that this handler interrupts
	}
	if x.finish == nil {
		x.finish = func(err error) { x.single = singleSend{err, true} }
	}
	x.single = singleSend{}
	id, err := x.start(node, kindBytes, handler, [2]uint32{}, g, x.finish)
	if err != nil {
		return err
	}
	err = x.wait(func() bool { return x.single.ended }, func() error { return x.probe(node) })
	if x.single.ended {
		return x.single.err
	}
	x.e.Cancel(id)
	return err
}

// replyLong sends a reply that does not fit one packet. If it cannot leave at once it is copied.
func (m *Message) replyLong(handler uint32, b []byte) error {
	return m.endpoint.bytes.startReply(m, kindReply, handler, [2]uint32{}, b, nil)
}

// check refuses arguments that make no valid long message.
func (x *byteMessages) check(node int, handler uint32, g *gather) (int, error) {
	size, ok := g.size()
	switch {
	case handler >= Handlers:
		return 0, fmt.Errorf("sending %d bytes to handler %d on node %d: %w", size, handler, node, ErrNumber)
	case !ok:
		return 0, fmt.Errorf("sending %d bytes to node %d: %w: the longest has %d bytes", size, node, ErrLong, MaxBytes)
	case x.pace != nil:
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", size, node, ErrModelled)
	case x.landing == nil:
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", size, node, ErrNoMemory)
	}
	return size, nil
}

// start sends a message of any kind except one of a reply handler. Main program only.
func (x *byteMessages) start(node int, kind, handler uint32, words [2]uint32, g gather, done func(error)) (ID, error) {
	if err := x.refusal(node, 0); err != nil {
		return 0, err
	}
	size, err := x.check(node, handler, &g)
	if err == nil && x.member != nil {
		err = x.member.admit(node)
	}
	if err != nil {
		return 0, err
	}
	if sent, err := x.sendEager(nil, node, kind, handler, words, g, size); sent || err != nil {
		if err == nil && done != nil {
			x.quietly(func() { done(nil) })
		}
		return 0, err
	}
	if err := x.wait(x.sends.room, x.e.ProbeSends); err != nil {
		return 0, err
	}
	s := x.add(node, kind, handler, words, g, size, done)
	x.pump()
	x.drive()
	return bytesID | ID(s.id), nil
}

// startReply sends a reply of any kind to a request, without waiting. It returns ErrMemory if there
// are too many, or if the replies that wait for their receivers have as many bytes as the memory.
func (x *byteMessages) startReply(m *Message, kind, handler uint32, words [2]uint32, b []byte,
	done func(error)) error {
	if !m.mayReply() {
		return fmt.Errorf("replying to node %d: %w", m.Source, ErrHandler)
	}
	g := gather{first: b}
	size, err := x.check(m.Source, handler, &g)
	if err == nil && !x.e.Present(m.Source) {
		err = fmt.Errorf("replying to node %d: %w", m.Source, ErrLeft)
	}
	if err != nil {
		return err
	}
	if sent, err := x.sendEager(m, m.Source, kind, handler, words, g, size); sent || err != nil {
		return err
	}
	if x.kept+size > x.landing.Limit+x.landing.Grow || !x.sends.room() {
		return fmt.Errorf("replying with %d bytes to node %d: %w", size, m.Source, ErrMemory)
	}
	g.first = slices.Clone(b)
	s := x.add(m.Source, kind, handler, words, g, size, done)
	s.kept = size
	x.kept += size
	return nil
}

// mayReply reports whether the message's own handler is running, at request priority.
func (m *Message) mayReply() bool {
	d := &m.endpoint.depth
	return m.level == funi.Request && d[funi.Request] && !d[funi.Reply]
}

// add makes a message that is under way. It asks the receiver for memory as soon as few other
// messages wait for that. A message with a tag has an envelope, which asks instead.
func (x *byteMessages) add(node int, kind, handler uint32, words [2]uint32, g gather, size int, done func(error)) *send {
	p := x.peer(node)
	s, id := x.sends.take()
	*s = send{id: id, state: sendHeld, node: uint16(node),
		second: x.stamp(node, handler|kind<<kindShift),
		words:  words, gather: g, size: size, window: -1, done: done}
	if kind == kindTagged {
		s.state = sendAsked
		return s
	}
	if kind == kindCall {
		s.second |= quietBit
	}
	p.held = append(p.held, s)
	x.announce(p)
	return s
}

// announce tells a receiver of the messages that are held.
func (x *byteMessages) announce(p *bytePeer) {
	for len(p.held) > 0 && p.asked < mostAsked {
		s := p.held[0]
		p.held = slices.Delete(p.held, 0, 1)
		if s.state == sendGivenUp { // before it was asked for
			x.freeSend(s)
			continue
		}
		s.state = sendAsked
		p.asked++
		x.tell(nil, control{node: s.node, typ: typeReady, n: 5,
			words: [5]uint32{s.id, s.second, uint32(s.size), s.words[0], s.words[1]}})
	}
}

// freeSend frees a message.
func (x *sending) freeSend(s *send) {
	x.kept -= s.kept
	s.gather, s.kept, s.done = gather{}, 0, nil
	x.sends.give(s.id)
}

// grantArrived handles a receiver's grant of memory: id, key, address, lease.
func (x *byteMessages) grantArrived(m *Message, id uint32) {
	if m.Words[0]&partBit != 0 || m.Words[0] == 0 {
		x.unknown++
		return
	}
	key, address, lease := m.Words[0], m.Words[1], m.Words[2]
	s := x.sends.find(id)
	if x.peers != nil && lease != 0 && lease%grain == 0 {
		if p := x.peer(m.Source); p.lease == 0 && s != nil && int(s.node) == m.Source {
			p.lease, p.free = lease, 1<<leaseSlots-1
		}
	}
	switch {
	case s == nil || int(s.node) != m.Source:
		x.tell(nil, control{node: uint16(m.Source), typ: typeAbort, n: 1, words: [5]uint32{key}})
	case s.state == sendAsked:
		s.state, s.key, s.address = sendGranted, key, address
		x.granted = append(x.granted, s.id)
		x.busy = true
		x.answeredAsk(s)
	case s.state == sendGivenUp && s.key == 0:
		s.key = key
		x.answeredAsk(s)
		x.abort(s)
	case s.key != key:
		x.tell(nil, control{node: uint16(m.Source), typ: typeAbort, n: 1, words: [5]uint32{key}})
	}
}

// asked reports whether the receiver has yet to answer.
func (s *send) asked() bool { return s.state == sendAsked || s.state == sendGivenUp && s.key == 0 }

// answeredAsk notes that a receiver has answered, and announces the next message to it.
func (x *byteMessages) answeredAsk(s *send) {
	if kindOf(s.second) == kindTagged {
		return // those wait for receives, and hold up no others
	}
	p := x.peer(int(s.node))
	p.asked--
	x.announce(p)
}

// abort tells the receiver that a message which was given up will not come, once the card no longer
// writes it.
func (x *byteMessages) abort(s *send) {
	if s.staged > 0 {
		return
	}
	x.tell(nil, control{node: s.node, typ: typeAbort, n: 1, words: [5]uint32{s.key}})
	x.freeSend(s)
}

// takenArrived handles the outcome of a message: id or argument, and status.
func (x *byteMessages) takenArrived(m *Message, word uint32) {
	if word&partBit != 0 {
		x.slotTaken(m.Source, word, m.Words[0])
		return
	}
	s := x.sends.find(word)
	if s == nil || int(s.node) != m.Source || s.state == sendHeld {
		return // cancelled, or told twice
	}
	var err error
	switch status := m.Words[0]; {
	case status == statusDone:
	case kindOf(s.second) == kindTagged:
		err = fmt.Errorf("sending %d bytes with a tag to node %d: %w", s.size, m.Source, errorOf(status))
	default:
		err = fmt.Errorf("sending %d bytes to handler %d on node %d: %w", s.size, s.second&handlerMask, m.Source,
			errorOf(status))
	}
	// whose receive may have ended
	if err == nil && s.state != sendGone && (kindOf(s.second) != kindTagged || !s.asked()) {
		x.unknown++ // of a message that it has not got
		return
	}
	if s.asked() {
		x.answeredAsk(s)
	}
	x.endSend(s, err, false)
}

// endSend ends a message. Either its receiver does not expect it any more, or abort is true and
// the receiver will be told.
func (x *byteMessages) endSend(s *send, err error, abort bool) {
	done := s.done
	s.done, s.gather = nil, gather{}
	if s.window >= 0 {
		x.closeWindow(s.window, err != nil)
		s.window = -1
	}
	if abort {
		was := s.state
		s.state = sendGivenUp
		if was == sendGranted || was == sendGone {
			x.abort(s)
		} // else when it is granted, or when its turn comes
	} else {
		x.freeSend(s)
	}
	if done != nil {
		x.quietly(func() { done(err) })
	}
}

// SendsUnderWay returns how many long messages are in flight. It includes cancelled ones whose
// receiver has yet to be told. Any context.
func (e *Endpoint) SendsUnderWay() int { return e.bytes.sends.under() }

// ProbeSends sends a probe to each node that long messages are under way to. If the node is gone,
// the probe comes back and ends them. A program that waits for messages by Poll alone calls it now
// and then. Main program only (ErrHandler).
func (e *Endpoint) ProbeSends() error {
	if e.inHandler() {
		return fmt.Errorf("probing: %w", ErrHandler)
	}
	return e.probeEach(func(yield func(int) bool) {
		for s := range e.bytes.sends.used {
			if !yield(int(s.node)) {
				return
			}
		}
	})
}

// tell sends a message about messages. If m is not nil it is a reply to that request;
// otherwise it leaves with the next Poll.
func (x *byteMessages) tell(m *Message, c control) {
	if m != nil && m.mayReply() {
		if s, err := m.reserve(0); err == nil {
			c.fill(s)
			x.commit(funi.Reply, s)
			return
		}
	}
	if len(x.control) >= mostControl && c.typ != typeReady {
		x.unknown++ // of the answers to a node that does not read them
		return
	}
	x.control = append(x.control, c)
	x.busy = true
}

func (c *control) fill(s *funi.Slot) {
	s.SetHeader(funi.NewHeader(c.node, c.typ, c.n))
	copy(s[funi.PayloadWord:], c.words[:c.n])
}

// cameBack handles a returned message of this protocol. It reports whether that is sufficient,
// so that the program need not know.
func (x *byteMessages) cameBack(r *funi.Returned, u error) bool {
	// perhaps it was delivered
	again := r.Reason == arctic.ReasonResynchronised || r.Reason == arctic.ReasonGivenUp
	node := r.Header.Node()
	switch typ := r.Header.Type(); {
	case gone(r.Reason) && x.member == nil: // else depart does it
		if x.landing == nil {
			return false
		}
		x.forgetSender(node, r.Reason == arctic.ReasonSilent || r.Reason == arctic.ReasonNoRoute, u)
		x.failSends(node, u)
		return typ == typeAbort
	case typ == typePart && r.Header.Transfer() && r.Word&partBit != 0:
		// The slot is not used again: other parts may still be written there.
	case typ == typePart && r.Header.Transfer():
		s := x.sendOf(node, r.Word)
		if s == nil {
			return true // cancelled
		}
		if s.state != sendGivenUp {
			x.endSend(s, u, true)
		}
	case typ == typeReady && r.Level == funi.Request:
		if s := x.sends.find(r.Word); s != nil && s.node == node && s.asked() {
			x.answeredAsk(s)
			x.endSend(s, u, false)
		}
	case again && typ == typeGrant:
		for g := range x.grants.used {
			if g.node == node && g.id == r.Word {
				x.tell(nil, g.told(x.e))
			}
		}
		return true
	case again && typ == typeTaken:
		x.tell(nil, control{node: node, typ: typeTaken, n: 2, words: [5]uint32{r.Word, statusLost}})
		return true
	case typ == typeAbort && !again, typ == typeUnhandled && !again:
		return true
	case typ == typeUnhandled:
		x.tell(nil, control{node: node, typ: typ, n: 2, words: [5]uint32{r.Word, uint32(funi.Request)}})
		return true
	case typ == typeAbort:
		x.tell(nil, control{node: node, typ: typeAbort, n: 1, words: [5]uint32{r.Word}})
		return true
	}
	return false
}

// sendOf returns the message that holds a grant of a node with a key, or nil.
func (x *sending) sendOf(node uint16, key uint32) *send {
	for s := range x.sends.used {
		if (s.state == sendGranted || s.state == sendGone) && s.node == node && s.key == key {
			return s
		}
	}
	return nil
}

// failAll ends all messages, because it is not known which message came back.
func (x *byteMessages) failAll(u error) {
	for s := range x.sends.used {
		if s.state != sendGivenUp {
			x.endSend(s, u, true)
		}
	}
}

// failSends ends the messages to a node that is gone.
func (x *byteMessages) failSends(node uint16, u error) {
	if x.peers == nil || x.peers[node] == nil {
		return
	}
	p := x.peers[node]
	p.held, p.asked = p.held[:0], 0
	for s := range x.sends.used {
		if s.node == node {
			x.endSend(s, u, false)
		}
	}
}

// depart ends everything kept for a node that has left the job, and forgets agreements with
// it.
func (x *byteMessages) depart(node int, err error) {
	if x.peers == nil || x.peers[node] == nil {
		return
	}
	x.forgetSender(uint16(node), false, err)
	x.failSends(uint16(node), err)
	if p := x.peers[node]; p.leased != nil {
		x.landing.close(*p.leased, &x.landing.leases)
		x.busy = true
	}
	x.peers[node] = nil
}
