package am

// This file is messages of bytes: the protocol of them all, and how a short one travels.
//
// A message of up to 80 bytes is one packet (typeBytes). Of a longer one the bytes are moved by
// transfers (typePart) into memory of the receiver, which tells the sender beforehand where: its
// card puts them there, and nothing is copied.
//
//	sender                                          receiver
//	typeReady id, handler, kind, length      ->     takes memory, or lets the message wait for it:
//	                                                at most 8 of a sender
//	                                         <-     typeGrant id, key, address, lease
//	transfers, argument: key                 ->     counts words; when there are all, runs the
//	                                                handler
//	                                         <-     typeTaken id, status
//
// The length is in bytes, and the transfers carry it rounded up to 16, padded with 0, in any number
// of pieces and any order. Status 0 is done; the others are those of calls (remote.go). Instead of
// a grant typeTaken may come, with a reason. Bit 19 of the word with the kind says that the sender
// needs no typeTaken with status 0: a node in C ends the message when it has left, and of a call
// the answer says it.
//
// The lease, if it is not 0, is the address of 8 slots of 2048 bytes, which belong to that sender
// for the life of both. A message leaves at once while a slot is free, if it fits the slot together
// with the words of its kind, which precede it. It leaves as transfers of up to 16 words with their
// data. All of them have the same argument (types.go), and they follow each other from the slot's
// address on. The receiver counts words, runs the handler, and answers typeTaken with that
// argument, which makes the slot free. The number in the argument changes with each use of the
// slot.
//
// The sender's messages are requests; the receiver's are replies from the request handler, and else
// requests that leave with the next Poll (pump.go). Only parts in slots travel at reply priority,
// if the message is a reply. The bytes of a long message never do, for later replies would wait for
// them; its kind says that the handler is to run as a reply handler.
//
// A sender that gives a message up after the grant, or is granted memory for none that it knows,
// sends typeAbort with the key when its card does not write there any more. Then the receiver
// leaves the memory alone for a time (Memory.Hold), because late packets may still be written, and
// frees it; likewise that of a node that is gone. What comes back carries the first word: id, key
// or argument. After a resynchronisation of cards a grant, typeTaken (with statusLost) and
// typeAbort are sent again; each may arrive twice. A slot one of whose parts came back is not used
// again.

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/funet/funet/uspace/funi"
)

const (
	// ShortBytes is the most bytes of a message that travels in one packet.
	ShortBytes = 4 * (funi.MaxPayloadWords - 1)
	// MaxBytes is the most bytes of a message.
	MaxBytes = 1 << 26

	// The parts of a message's first word, or of the word after its id, besides the lives
	// (member.go).
	handlerMask  = 0xff
	paddingShift = 8
)

// ErrModelled: a message of more than ShortBytes bytes has no price on a modelled machine (Pace).
var ErrModelled = errors.New("am: only messages of up to 80 bytes have a cost on a modelled machine")

// BytesHandler runs at the receiver of a message of bytes; b is valid until it returns, and m.Words
// is nil. An error that it returns, and a panic, fails the endpoint: see Failed.
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
	handlers *[Handlers]BytesHandler // nil: none
	running  bool                    // a handler is running
	number   uint32                  // of the handler that began last
	failed   error                   // of the first handler that failed
	// of messages whose handlers others do not have, until a Poll returns it
	homeless *Undelivered

	landing *landing    // nil: only short messages
	peers   []*bytePeer // by node; nil as landing, and each until it is needed
	busy    bool        // pump has something to do
	waits   bool        // and what it left waits for the card, which gives slots back, or for time
	tail    uint32      // of the send queue when it left that
	idle    uint32      // polls in vain since
	sending
	receiving
}

// HandleBytes registers a handler for messages of bytes. Its numbers are 0 to Handlers-1, apart
// from those of Handle, HandleNotice and HandleCall; every node registers the same, before the
// first message can arrive. Any context; it sends nothing. ErrNumber for a number out of range or
// taken, or no handler.
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
// a *PanicError; nil: it has not. A failed endpoint handles messages as before, but every call that
// polls or waits returns that error. Any context.
func (e *Endpoint) Failed() error { return e.bytes.failed }

// SendBytes runs a handler of HandleBytes on a node with b, at request priority. When it returns b
// may be changed. An empty b is a message, too.
//
// Up to ShortBytes bytes it is like Request4, and has its errors. Main program only. ErrNumber: the
// handler's number is above Handlers-1. That the node has no such handler is the error of a later
// Poll: an Undelivered that is ErrNoHandler.
//
// More bytes need memory at both ends (UseMemory; ErrNoMemory, ErrMemory). Up to EagerBytes they
// may leave at once, copied. Else it waits until the message was delivered and its handler has run,
// and has the errors of StartBytes. ErrLong: more than MaxBytes. On a modelled machine they are
// ErrModelled. Messages to one node may overtake each other.
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
		return e.sendLong(node, handler, b)
	}
	var s *funi.Slot
	if uint(node) < uint(e.nodes) && !e.inHandler() && e.member == nil {
		s = e.iface.Reserve(funi.Request)
	}
	if s == nil {
		var err error
		if s, err = e.reserve(node, 0); err != nil {
			return err
		}
	}
	e.composeBytes(s, node, handler, b)
	if !e.paced(funi.Request, s) {
		e.iface.Commit(funi.Request)
	}
	return nil
}

// ReplyBytes runs a handler of HandleBytes on the node that sent the request with b, at reply
// priority. Contexts and errors are those of Message.Reply4 and of SendBytes. It waits for room in
// the send queue only: a reply of more than ShortBytes bytes that cannot leave at once is copied
// and leaves with later Polls (ErrMemory: as many bytes wait already as Memory.Limit allows). If it
// is not delivered a Poll says so, as of any reply.
func (m *Message) ReplyBytes(handler uint32, b []byte) error {
	if len(b) > ShortBytes || handler >= Handlers {
		return m.replyLong(handler, b)
	}
	s, err := m.reserve(0)
	if err != nil {
		return err
	}
	e := m.endpoint
	e.composeBytes(s, m.Source, handler, b)
	if !e.paced(funi.Reply, s) {
		e.iface.Commit(funi.Reply)
	}
	return nil
}

// composeBytes makes a short message. The bytes that fill up its last word are 0.
func (e *Endpoint) composeBytes(s *funi.Slot, node int, handler uint32, b []byte) {
	if len(b) == 16 { // as many as Request4 has, and as fast
		s.SetHeader(funi.NewHeader(uint16(node), typeBytes, 5))
		s[funi.PayloadWord] = e.stamp(node, handler)
		*(*[16]byte)(unsafe.Pointer(&s[funi.PayloadWord+1])) = [16]byte(b)
		return
	}
	words := (len(b) + 3) / 4
	s.SetHeader(funi.NewHeader(uint16(node), typeBytes, 1+words))
	s[funi.PayloadWord] = e.stamp(node, handler|uint32(4*words-len(b))<<paddingShift)
	if words > 0 {
		s[funi.PayloadWord+words] = 0
		copy(bytesOf(s[funi.PayloadWord+1:funi.PayloadWord+1+words]), b)
	}
}

// bytesArrived runs the handler of a short message.
func (e *Endpoint) bytesArrived(m *Message, s *funi.Slot, words []uint32) {
	first := words[0]
	padding := int(first >> paddingShift & 3)
	if padding > 4*(len(words)-1) {
		e.unknown++
		return
	}
	m.Source, m.Words = int(s.Source()), nil
	e.depth[m.level] = true
	if e.member == nil && first&lives == 0 || e.mayRun(m, typeBytes, first) {
		if !e.runBytes(m, first&handlerMask, bytesOf(words[1:])[:4*(len(words)-1)-padding]) {
			e.tellUnhandled(m, first&handlerMask)
		}
	}
	e.depth[m.level] = false
}

// runBytes runs a handler, and reports whether there is one.
func (e *Endpoint) runBytes(m *Message, number uint32, b []byte) bool {
	x := &e.bytes
	if number >= Handlers || x.handlers == nil || x.handlers[number] == nil {
		e.unknown++
		return false
	}
	running, last := x.running, x.number // a reply handler may run inside a request handler
	x.running, x.number = true, number
	if err := x.handlers[number](m, b); err != nil {
		e.fail(fmt.Errorf("handler %d for bytes, message of node %d: %w", number, m.Source, err))
	}
	x.running, x.number = running, last
	return true
}

// recovered ends a Poll's round of handlers in which one for bytes panicked, and lets other panics
// go on. It is deferred for a round, because for each message it would cost as much as the rest. A
// request handler may have waited for room for a reply while a reply handler panicked; then neither
// message is given back yet.
func (e *Endpoint) recovered() {
	value := recover()
	if value == nil {
		return
	}
	if !e.bytes.running {
		panic(value)
	}
	e.bytes.running = false
	source := -1
	for _, l := range [...]funi.Level{funi.Reply, funi.Request} {
		if !e.depth[l] {
			continue
		}
		if source < 0 {
			source = e.message[l].Source
		}
		e.depth[l] = false
		e.iface.Release(l)
	}
	e.fail(&PanicError{Handler: e.bytes.number, Source: source, Value: value, Stack: debug.Stack()})
}

// fail makes the endpoint fail, once.
func (e *Endpoint) fail(err error) {
	if e.bytes.failed == nil {
		e.bytes.failed = err
	}
}
