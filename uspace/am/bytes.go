package am

// This file defines the protocol of all messages of bytes, and sends the short ones.
//
// A message of up to 80 bytes is one packet (typeBytes). Transfers (typePart) move the bytes of a
// longer one into memory of the receiver, which tells the sender its address beforehand. The
// receiver's card puts the bytes there, and nothing is copied.
//
//	sender                                          receiver
//	typeReady id, handler, kind, length      ->     takes memory, or lets the message wait for it:
//	                                                at most 8 of a sender
//	                                         <-     typeGrant id, key, address, lease
//	transfers, argument: key                 ->     counts words; when there are all, runs the
//	                                                handler
//	                                         <-     typeTaken id, status
//
// The length is in bytes. The transfers carry it rounded up to 16, padded with 0, in any number of
// pieces and any order. Status 0 means success; the others are those of calls (remote.go). The
// receiver may refuse by a typeTaken with a reason instead of a grant. Bit 19 of the word with the
// kind says that the sender needs no typeTaken with status 0. Two senders set it: a node in C, for
// which the message is done when it has left, and a call, whose answer confirms it.
//
// The lease, if it is not 0, is the address of 8 slots of 2048 bytes, which belong to that sender
// for the life of both. A message leaves at once if a slot is free, and the message fits it
// together with the words of its kind, which precede it. It leaves as transfers of up to 16 words
// with their data, addressed one after the other from the slot's start. All of them have the same
// argument (types.go). The receiver counts words, runs the handler, and answers typeTaken with that
// argument, which frees the slot. The number in the argument changes with each use of the slot.
//
// The sender's messages are requests. The receiver's are replies if they come from the request
// handler, and otherwise requests that leave with the next Poll (pump.go). Only parts in slots
// travel at reply priority, if the message is a reply. The bytes of a long message never do,
// because later replies would wait for them; its kind says that the handler runs as a reply
// handler.
//
// A sender sends typeAbort with the key if it gives a message up after the grant, or if it is
// granted memory for a message that it does not know. It does so once its card no longer writes to
// that memory. The receiver then leaves the memory alone for a time (Memory.Hold), because late
// packets may still be written, and frees it. It does the same with memory granted to a node that
// is gone. A returned message has the first word: id, key or argument. After a resynchronisation of
// cards a grant, a typeTaken (with statusLost) and a typeAbort are sent again; each may arrive
// twice. A slot is not used again if one of its parts came back.

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

const (
	// ShortBytes is the largest number of bytes of a message that travels in one packet.
	ShortBytes = 4 * (funi.MaxPayloadWords - 1)
	// MaxBytes is the largest number of bytes of a message.
	MaxBytes = 1 << 26

	// Fields of a message's first word, or of the word after its id, besides the lives (member.go).
	handlerMask  = 0xff
	paddingShift = 8
)

// ErrModelled reports a message of more than ShortBytes bytes on a modelled machine (Pace), where
// it has no price.
var ErrModelled = errors.New("am: only messages of up to 80 bytes have a cost on a modelled machine")

// BytesHandler runs at the receiver of a message of bytes. b is valid until it returns, and m.Words
// is nil. An error or a panic of the handler fails the endpoint: see Failed.
type BytesHandler func(m *Message, b []byte) error

// PanicError is the failure of an endpoint whose handler panicked.
type PanicError struct {
	Handler uint32
	Source  int    // of the message
	Value   any    // of the panic
	Stack   []byte // of the goroutine, as debug.Stack returns it
}

// Error says which handler panicked, and with what; it leaves out the stack.
func (p *PanicError) Error() string {
	return fmt.Sprintf("handler %d for bytes panicked on a message of node %d: %v", p.Handler, p.Source, p.Value)
}

// Unwrap returns the panic's value if that is an error, else nil.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// byteMessages is the state of messages of bytes.
type byteMessages struct {
	*core
	handlers *[Handlers]BytesHandler // nil: none
	running  bool                    // a handler is running
	number   uint32                  // of the handler that began last
	// messages without a handler at their receivers, until a Poll returns this
	homeless *Undelivered

	landing *landing    // nil: only short messages
	peers   []*bytePeer // by node; nil as landing, and each until it is needed
	busy    bool        // pump has something to do
	waits   bool        // the rest waits for the card, which gives slots back, or for a time
	tail    uint32      // tail of the send queue at that moment
	idle    uint32      // polls in vain since then
	sending
	receiving
}

// HandleBytes registers a handler for messages of bytes. Its numbers are 0 to Handlers-1, separate
// from those of Handle, HandleNotice and HandleCall. Every node registers the same ones, before the
// first message can arrive. Any context; it sends nothing. ErrNumber reports a number out of range
// or taken, or a nil handler.
func (e *Endpoint) HandleBytes(number uint32, h BytesHandler) error {
	x := &e.bytes
	if number >= Handlers || h == nil || x.handlers != nil && x.handlers[number] != nil {
		return fmt.Errorf("registering handler %d for bytes: %w", number, ErrNumber)
	}
	if x.handlers == nil {
		x.handlers = new([Handlers]BytesHandler)
	}
	x.handlers[number] = h
	return nil
}

// Failed returns why the endpoint failed: the error of the first BytesHandler that returned one, or
// a *PanicError; nil: it has not failed. A failed endpoint handles messages as before, but every
// call that polls or waits returns that error. Any context.
func (e *Endpoint) Failed() error { return e.failed }

// SendBytes runs a handler of HandleBytes on a node with b, at request priority. When it returns, b
// may be changed. An empty b is a message, too.
//
// With up to ShortBytes bytes it is like Request4, and has its errors. Main program only. ErrNumber
// reports a handler number above Handlers-1. If the node has no such handler, a later Poll returns
// an Undelivered error that is ErrNoHandler.
//
// More bytes need memory at both ends (UseMemory; ErrNoMemory, ErrMemory). Up to EagerBytes they
// may leave at once, copied. Otherwise SendBytes waits until the message was delivered and its
// handler has run, and has the errors of StartBytes. ErrLong reports more than MaxBytes. A modelled
// machine returns ErrModelled for them. Messages to one node may overtake each other.
func (e *Endpoint) SendBytes(node int, handler uint32, b []byte) error {
	if err := e.PostBytes(node, handler, b); err != nil {
		return err
	}
	e.drive()
	return nil
}

// PostBytes is SendBytes for programs that send many messages in a row; see Post4.
func (e *Endpoint) PostBytes(node int, handler uint32, b []byte) error {
	if len(b) > ShortBytes || handler >= Handlers {
		return e.bytes.sendGathered(node, handler, gather{first: b})
	}
	s, err := e.reserve(node, 0)
	if err != nil {
		return err
	}
	e.bytes.compose(s, node, handler, b)
	e.commit(funi.Request, s)
	return nil
}

// ReplyBytes runs a handler of HandleBytes with b on the node that sent the request, at reply
// priority. Contexts and errors are those of Message.Reply4 and of SendBytes. It waits only for
// room in the send queue. A reply of more than ShortBytes bytes that cannot leave at once is copied
// and leaves with later Polls. ErrMemory reports that as many bytes wait already as Memory.Limit
// allows. As with any reply, a Poll reports that it was not delivered.
func (m *Message) ReplyBytes(handler uint32, b []byte) error {
	if len(b) > ShortBytes || handler >= Handlers {
		return m.replyLong(handler, b)
	}
	s, err := m.reserve(0)
	if err != nil {
		return err
	}
	m.endpoint.bytes.compose(s, m.Source, handler, b)
	m.endpoint.commit(funi.Reply, s)
	return nil
}

// compose composes a short message. The bytes that fill up its last word are 0.
func (x *byteMessages) compose(s *funi.Slot, node int, handler uint32, b []byte) {
	if len(b) == 16 { // as many as Request4 has, and as fast
		s.SetHeader(funi.NewHeader(uint16(node), typeBytes, 5))
		s[funi.PayloadWord] = x.stamp(node, handler)
		*(*[16]byte)(unsafe.Pointer(&s[funi.PayloadWord+1])) = [16]byte(b)
		return
	}
	words, padding := pack(s[funi.PayloadWord+1:], b)
	s.SetHeader(funi.NewHeader(uint16(node), typeBytes, 1+words))
	s[funi.PayloadWord] = x.stamp(node, handler|padding)
}

// arrived runs the handler of a short message.
func (x *byteMessages) arrived(m *Message, first uint32) {
	b, ok := content(first, m.Words)
	if !ok {
		x.unknown++
		return
	}
	m.Words = nil
	if x.mayRun(m, typeBytes, first) && !x.run(m, first&handlerMask, b) {
		x.tellUnhandled(m, first&handlerMask)
	}
}

// run runs a handler, and reports whether there is one.
func (x *byteMessages) run(m *Message, number uint32, b []byte) bool {
	if number >= Handlers || x.handlers == nil || x.handlers[number] == nil {
		x.unknown++
		return false
	}
	running, last := x.running, x.number // a reply handler may run inside a request handler
	x.running, x.number = true, number
	if err := x.handlers[number](m, b); err != nil {
		x.failWith(fmt.Errorf("handler %d for bytes, message of node %d: %w", number, m.Source, err))
	}
	x.running, x.number = running, last
	return true
}

// recovered ends a Poll's round of handlers in which a BytesHandler panicked, and re-raises other
// panics. It is deferred once a round, because deferring it for each message would cost as much as
// the rest. A request handler may have been waiting for room for a reply when a reply handler
// panicked; then neither message has been given back yet.
func (x *byteMessages) recovered() {
	value := recover()
	if value == nil {
		return
	}
	if !x.running {
		panic(value)
	}
	x.running = false
	source := -1
	for _, l := range [...]funi.Level{funi.Reply, funi.Request} {
		if !x.depth[l] {
			continue
		}
		if source < 0 {
			source = x.message[l].Source
		}
		x.depth[l] = false
		x.iface.Release(l)
	}
	x.failWith(&PanicError{Handler: x.number, Source: source, Value: value, Stack: debug.Stack()})
}

// failWith records the endpoint's failure, once.
func (c *core) failWith(err error) {
	if c.failed == nil {
		c.failed = err
	}
}
