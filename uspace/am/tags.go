package am

// This file is messages with tags, and receives that wait for them: MPI_Send and MPI_Recv, with
// MPI's order.
//
// The journey: StartSendTag sends an envelope (typeTagged). It holds the tag, a number that counts
// the messages from this node to that one, and the bytes, or their number if they do not fit. The
// receiver takes envelopes in the order of their numbers, because the network keeps no order
// (match.go). It matches an envelope with a receive that waits for it, and keeps others until a
// receive does. Hash tables find the one that fits (classes.go). For a long message the receiver
// then asks the sender. Transfers move a message of more than 4 KiB, like a message of bytes, if
// both nodes have memory for that (fetch.go). Otherwise the receiver asks by typeTold, and the
// sender's Polls send the message in pieces (typePiece). Each piece goes to its place in the
// receiver's memory (pieces.go). So long messages are never buffered.
//
// The messages between two nodes are in three spaces, each with an order and a limit of its own
// (pair.go): the program's tags, those of collective calls, and wide messages (wide.go).
//
// The limit: a node keeps at most TagWindow unreceived messages of another node, and WideWindow
// wide ones. The next ones wait at their sender, which the receiver tells how many it has received.
// Everything is at request priority. The main program sends it, in the calls below and at the end
// of each Poll, without waiting for room in the send queue.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/funi"
)

const (
	// MaxTagged is how many sends, and how many receives, with tags may be in flight; the next one
	// waits. Wide ones count with the others.
	MaxTagged = 1 << wideTicketBits
	// MaxTaggedBytes is the longest message with a tag.
	MaxTaggedBytes = 1 << 30
	// TagWindow is how many messages of a node may have arrived unreceived; further ones wait at
	// the sender.
	TagWindow = 32
	// GroupTag is the bit of the tags that collective calls use; a program's own tags are below it.
	GroupTag uint32 = 1 << 31
	// AnyTag makes a receive accept any of the program's tags, and AnySource any node.
	AnyTag    uint32 = 1<<32 - 1
	AnySource        = -1

	// ShortTagged is how many bytes travel with the envelope.
	ShortTagged = 4 * (funi.MaxPayloadWords - taggedWords)
	taggedWords = 3 // number, tag, form and the like
)

// Errors of messages with tags.
var (
	// ErrTag reports a tag that is not below GroupTag, or in a collective call not below 3<<30.
	ErrTag = errors.New("am: no such tag")
	// ErrTruncate reports a message longer than the memory of its receive, which got the part that
	// fits.
	ErrTruncate = errors.New("am: the message is longer than the memory to receive it")
	// ErrAborted reports that the sender gave a message up while it was received.
	ErrAborted = errors.New("am: the sender gave the message up")
)

// Received describes the message that a receive got.
type Received struct {
	Source int
	Tag    uint32 // 0 of a wide message
	Bytes  int    // length of the message; with ErrTruncate larger than what was received
	Wide   Wide   // of a wide message
	At     int    // where it is in the memory of Want.Many
	More   bool   // of Want.Many: other calls will follow
}

// tags is the state of an endpoint's messages with tags.
type tags struct {
	*core
	pairs    [spaces][]*pair // by space and node; nil: none yet
	sends    pool[tagSend]
	receives pool[tagReceive]
	claims   pool[claim]
	classes  classes        // of receives and messages that wait for one another
	kept     list[envelope] // messages that wait for a receive, in order of arrival
	spare    list[envelope]
	blocks   []*block      // unused
	granted  list[tagSend] // sends whose pieces the receiver waits for
	busy     []*pair       // pairs with something to send
	closing  []*pair       // memory for the next busy
	single   singleTag
}

// operation is the common part of sends and receives.
type operation struct {
	ticket uint32
	state  opState
}

// opState is the progress of an operation.
type opState uint8

const (
	opWaiting opState = iota // a send waits for its turn, a receive for a message
	opOffered                // a send waits for its receive
	opMoving                 // its bytes are under way or requested
	opMoved                  // a send waits for the confirmation that they have arrived
)

// tagSend is a send.
type tagSend struct {
	links[tagSend]
	operation
	pair   *pair
	tag    uint32
	wide   Wide // of a wide message
	b      []byte
	done   func(error)
	seq    uint32
	theirs uint32 // the receive
	at     int    // bytes sent so far
	offer  uint32 // the message of bytes that it can travel as; 0: none
	moved  func(error)
}

// tagReceive is a receive.
type tagReceive struct {
	operation
	entry           // in a class, while it waits
	order    uint64 // in which they were started
	pattern  pattern
	pair     *pair // of the node whose message it waits for, or gets; nil: any
	b        []byte
	done     func(Received, error)
	received Received
	theirs   uint32 // the send
	got      int
	want     int
	offer    uint32 // of the send, if memory was or will be granted to it
	at       int    // where b begins in the memory of Many
	many     *Many  // shared by the receive that goes on and those of a message each; nil: none
}

// SendTag sends b, 0 to MaxTaggedBytes (ErrLong), to a node with a tag below GroupTag (ErrTag)
// (MPI_Send). It returns when b may be changed, which is when b has left. A long message leaves
// only when its receiver waits for it. Messages with one tag are received in the order in which
// they were sent, and a receive with AnyTag takes them in their order. While SendTag waits it
// polls, so handlers may run. Main program only.
//
// Errors are those of Request. SendTag ends with Undelivered when the node is gone, or when another
// message has come back. The message may or may not have been sent then.
func (e *Endpoint) SendTag(node int, tag uint32, b []byte) error {
	_, err := e.tags.exchange(tag, []int{node}, b, nobody, nil)
	return err
}

// Recv receives the next message with a tag from a node into b (MPI_Recv). source may be AnySource,
// and tag AnyTag. While Recv waits it polls. Contexts and errors are those of SendTag. ErrTruncate
// reports a message longer than b, and ErrAborted a message that its sender gave up.
func (e *Endpoint) Recv(source int, tag uint32, b []byte) (Received, error) {
	return e.tags.exchange(tag, nil, nil, source, b)
}

// Exchange is SendTag to some nodes and Recv from a node at the same time (MPI_Sendrecv), with one
// tag. What is short leaves together. It returns the length of the received message. A negative
// from stands for no node. After an error some nodes may have no message. Package collective needs
// this of an endpoint.
func (e *Endpoint) Exchange(tag uint32, to []int, out []byte, from int, in []byte) (int, error) {
	if from < 0 {
		from = nobody
	}
	what, err := e.tags.exchange(tag, to, out, from, in)
	return what.Bytes, err
}

// nobody stands for no node in an exchange; it differs from AnySource.
const nobody = AnySource - 1

// singleTag is the state of the sends and the receive that wait.
type singleTag struct {
	nodes    []int // they are with
	started  []ID
	left     int // how many of them are under way
	what     Received
	err      error // of the first that failed
	sent     func(error)
	received func(Received, error)
}

// exchange starts a receive and sends, and waits for all. After an error it cancels what is under
// way.
func (t *tags) exchange(tag uint32, to []int, out []byte, from int, in []byte) (Received, error) {
	s := &t.single
	if s.sent == nil {
		s.sent = func(err error) { s.left, s.err = s.left-1, cmp.Or(s.err, err) }
		s.received = func(what Received, err error) { s.what = what; s.sent(err) }
	}
	s.nodes, s.started = append(append(s.nodes[:0], to...), from), s.started[:0]
	if err := t.refusal(max(slices.Max(s.nodes), 0), 0); err != nil {
		return Received{}, err
	}
	s.left, s.what, s.err = 0, Received{}, nil
	start := func(id ID, err error) error {
		s.started = append(s.started, id)
		return err
	}
	var err error
	if from != nobody {
		s.left++
		err = start(t.e.StartRecv(from, tag, in, s.received))
	}
	for _, node := range to {
		if err == nil {
			s.left++
			err = start(t.e.StartSendTag(node, tag, out, s.sent))
		}
	}
	if err == nil {
		err = t.wait(func() bool { return s.left == 0 || s.err != nil && !errors.Is(s.err, ErrTruncate) },
			func() error { return t.probeEach(slices.Values(s.nodes)) })
	}
	if s.left == 0 || s.err != nil {
		err = s.err
	}
	if err != nil {
		for _, id := range s.started {
			t.e.Cancel(id)
		}
	}
	return s.what, err
}

// StartSendTag is SendTag that does not wait (MPI_Isend). done is called once, when b may be
// changed, or with an error. It is called before StartSendTag returns, or by a later Poll of any
// kind. done runs under the rules of a handler that sends nothing. If a message is cancelled after
// it was offered, its receive ends with ErrAborted.
//
// While MaxTagged sends are in flight StartSendTag waits until one is complete. After an error of
// StartSendTag itself done is not called.
func (e *Endpoint) StartSendTag(node int, tag uint32, b []byte, done func(error)) (ID, error) {
	switch {
	case len(b) > MaxTaggedBytes:
		return 0, fmt.Errorf("sending %d bytes to node %d: %w", len(b), node, ErrLong)
	case tag >= GroupTag|1<<30:
		return 0, fmt.Errorf("sending to node %d with tag %#x: %w", node, tag, ErrTag)
	}
	if err := e.refusal(node, 0); err != nil {
		return 0, err
	}
	if tag >= GroupTag {
		if err := e.member.apart(); err != nil {
			return 0, err
		}
	}
	if e.member != nil {
		if err := e.member.admit(node); err != nil {
			return 0, err
		}
	}
	t := &e.tags
	if err := e.wait(t.sends.room, e.ProbeCalled); err != nil {
		return 0, err
	}
	p := t.pair(tag>>31, uint16(node))
	s, ticket := t.sends.take()
	s.ticket, s.pair, s.tag, s.wide.Flags, s.b, s.done = ticket, p, tag, 0, b, done
	return t.start(p, s), nil
}

// start starts a send, and returns its ID.
func (t *tags) start(p *pair, s *tagSend) ID {
	id := sendTagID | ID(s.ticket)
	s.state, s.at = opWaiting, 0
	p.sends++
	p.waiting.add(s)
	t.flush(p)
	return id
}

// StartRecv is Recv that does not wait (MPI_Irecv). done is called once, before StartRecv returns
// or by a later Poll of any kind. Until then b must be left alone. Receives that match the same
// message get it in the order in which they were started. done runs under the rules of a handler
// that sends nothing. While MaxTagged receives are in flight StartRecv waits until one is complete.
func (e *Endpoint) StartRecv(source int, tag uint32, b []byte, done func(Received, error)) (ID, error) {
	switch {
	case source != AnySource && uint(source) >= uint(e.nodes):
		return 0, fmt.Errorf("receiving from node %d of %d: %w", source, e.nodes, ErrNode)
	case tag >= GroupTag|1<<30 && tag != AnyTag:
		return 0, fmt.Errorf("receiving tag %#x: %w", tag, ErrTag)
	case e.inHandler():
		return 0, fmt.Errorf("receiving from node %d: %w", source, ErrHandler)
	}
	if tag >= GroupTag && tag != AnyTag {
		if err := e.member.apart(); err != nil {
			return 0, err
		}
	}
	want := pattern{source: source, channel: narrow, tag: uint64(tag)}
	if tag == AnyTag {
		want.tag, want.ignore = 0, uint64(GroupTag-1)
	}
	return e.tags.receive(want, b, nil, done)
}

// receive starts a receive, of one message if m is nil.
func (t *tags) receive(want pattern, b []byte, m *Many, done func(Received, error)) (ID, error) {
	if err := t.wait(t.receives.room, t.e.ProbeCalled); err != nil {
		return 0, err
	}
	c := t.class(&want)
	n := t.first(c, &want)
	var gone error
	if want.source != AnySource && t.member != nil && t.member.peers[want.source].state == left {
		gone = fmt.Errorf("receiving from node %d: %w", want.source, ErrLeft)
	}
	if n == nil && gone != nil {
		return 0, gone
	}
	r, ticket := t.receives.take()
	r.ticket, r.pattern, r.b, r.done, r.state, r.at, r.many = ticket, want, b, done, opWaiting, 0, m
	if m != nil {
		m.ticket, m.left = ticket, 1
	}
	id := recvID | ID(ticket)
	for ; n != nil; n = t.first(c, &want) {
		t.unkeep(n)
		taker := t.taker(r, n)
		t.match(taker, n, nil)
		t.sayNow()
		if taker == r {
			return id, nil
		}
	}
	if gone != nil {
		t.endReceive(r, gone)
		return id, nil
	}
	if want.source != AnySource {
		t.expect(r, t.pair(want.space(), uint16(want.source)))
	}
	t.post(c, r)
	return id, nil
}

// sayNow sends what a receive has caused.
func (t *tags) sayNow() {
	if t.say(); t.e.bytes.busy {
		t.e.bytes.pump()
	}
}

// endTogether ends the messages of collective calls, which fail until all nodes have agreed.
func (t *tags) endTogether(err error) {
	for s := range t.sends.used {
		if s.pair.space == groupSpace {
			t.dropSend(s, err)
		}
	}
	for r := range t.receives.used {
		if r.pattern.space() == groupSpace {
			t.dropReceive(r, err)
		}
	}
}

// TaggedUnderWay returns how many sends and how many receives with tags are under way, and whether
// messages that have come wait for their receives. Any context.
func (e *Endpoint) TaggedUnderWay() (sends, receives int, unreceived bool) {
	return e.tags.sends.under(), e.tags.receives.under(), e.tags.kept.first != nil
}

// endSend frees a send and tells the program.
func (t *tags) endSend(s *tagSend, err error) {
	t.endOffer(s, false)
	done := s.done
	s.pair.sends--
	s.pair, s.b, s.done = nil, nil, nil
	t.sends.give(s.ticket)
	t.quietly(func() { done(err) })
}

// endReceive frees a receive and tells the program.
func (t *tags) endReceive(r *tagReceive, err error) {
	done, what := r.done, r.received
	if r.many != nil {
		r.many.left--
		what.At, what.More = r.at, r.many.left > 0
	}
	r.b, r.done, r.many = nil, nil, nil
	t.expect(r, nil)
	t.receives.give(r.ticket)
	t.quietly(func() { done(what, err) })
}

// dropSend ends a send in any state. A receiver that waits for pieces is told at once. One that has
// yet to ask for the message is told when it asks.
func (t *tags) dropSend(s *tagSend, err error) {
	if t.unlist(s) == opMoving {
		t.tell(s.pair, telling{form: toldAbort, theirs: s.theirs})
	}
	t.endOffer(s, true)
	t.endSend(s, err)
}

// unlist removes a send from the list that its state puts it in, and returns the state.
func (t *tags) unlist(s *tagSend) opState {
	switch s.state {
	case opWaiting:
		s.pair.waiting.remove(s)
	case opMoving:
		t.granted.remove(s)
	default:
		s.pair.offered.remove(s)
	}
	return s.state
}

// cancelReceive ends a receive, with all that share its memory, and reports whether there was one.
func (t *tags) cancelReceive(ticket uint32) (found bool) {
	if r := t.receives.find(ticket); r != nil && r.many == nil {
		t.dropReceive(r, ErrCancelled)
		return true
	}
	for r := range t.receives.used {
		if r.many != nil && r.many.ticket == ticket {
			t.dropReceive(r, ErrCancelled)
			found = true
		}
	}
	return found
}

// dropReceive ends a receive in any state. Bytes for which memory was granted still arrive, and are
// discarded, and late pieces match no receive. A send that waits for a confirmation is complete: a
// receive has taken it.
func (t *tags) dropReceive(r *tagReceive, err error) {
	if r.state == opWaiting {
		t.unpost(r)
	} else {
		t.stopFetch(r)
		t.confirm(r)
	}
	t.endReceive(r, err)
}
