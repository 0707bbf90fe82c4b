package am

// This file implements calls: requests that are answered, by a result or an error (remote procedure
// calls; Birrell and Nelson 1984).
//
// The journey: StartCall takes a place in the table of calls and sends the request (typeCall). At
// the other node its handler runs as a request handler, and the handler's result is the answer
// (typeAnswer), at reply priority. At the caller the answer's ticket leads to the place again, and
// completes the call.
//
// The ticket (pool.go) is the first word of both messages, because a returned message retains
// only that word. So an answer matches no call if it arrives after its call was cancelled, or is
// for an earlier process of this node. A returned request ends the call with Undelivered. For a
// returned answer, the answer's sender tells the caller by another message.

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// MaxRemoteCalls is how many calls of an endpoint may be in flight; the next one waits until
	// one is complete.
	MaxRemoteCalls = 1 << ticketBits
	// ShortCall is the largest number of bytes of a call's request, and of its answer, in one
	// packet. MaxCall is the largest number of any request or answer.
	ShortCall = 4 * (funi.MaxPayloadWords - callWords)
	MaxCall   = MaxBytes
	// MaxErrorText is the largest number of bytes of an error's text that travel to the caller, and
	// ShortErrorText the largest without memory for more; the rest is cut off.
	MaxErrorText   = 1 << 10
	ShortErrorText = ShortCall - 4

	callWords = 2 // ticket; handler and the like
	// untold is how many returned answers may wait until their callers can be told.
	untold = 1024
)

// Status of a call in its answer, the upper 16 bits of the second word; also the numbers of the
// library's own errors.
const (
	statusDone      = 0
	statusError     = 1 // of the handler's; from this status on a code and a text follow
	statusNoHandler = 2
	statusPanicked  = 3
	statusMemory    = 4
	statusLeaving   = 5
	statusLost      = 6
	statusLong      = 7
	// CodeError is the code of an error that has none, and FirstCode the first code of a program's
	// own.
	CodeError = statusError
	FirstCode = 256
)

// Errors of calls that callers test for. A RemoteError may be one of them.
var (
	// ErrNoHandler reports that the other node has no handler of that number.
	ErrNoHandler = errors.New("am: the node has no such handler")
	// ErrPanicked reports that the handler ended in a panic.
	ErrPanicked = errors.New("am: the handler panicked")
	// ErrMemory reports that the receiver has no memory for a message of that length, or that
	// waiting replies occupy all memory for copies.
	ErrMemory = errors.New("am: no memory at the receiver; raise Options.Memory, or its quota")
	// ErrLeaving reports that the other node is about to leave.
	ErrLeaving = errors.New("am: the node is leaving")
	// ErrLost reports that the outcome of the call or message is unknown; its handler may have run.
	ErrLost = errors.New("am: the answer was lost, and the handler may have run")
	// ErrLong reports a message that is longer than allowed.
	ErrLong = errors.New("am: the message is too long")
)

// remoteErrors are the errors with a status of their own.
var remoteErrors = [...]error{statusNoHandler: ErrNoHandler, statusPanicked: ErrPanicked, statusMemory: ErrMemory,
	statusLeaving: ErrLeaving, statusLost: ErrLost, statusLong: ErrLong}

// RemoteError is an error that a call's handler returned, or that kept the handler from running.
// errors.Is matches ErrNoHandler, ErrPanicked, ErrMemory, ErrLeaving, ErrLost and ErrLong.
type RemoteError struct {
	Node    int    // the node that was called
	Handler uint32 // the handler that was called
	// CodeError, or a code of the program from FirstCode on; other codes are the library's
	Code uint32
	Text string // UTF-8, possibly cut off or empty
}

// Error names the failed call and the reason.
func (r *RemoteError) Error() string {
	text := r.Text
	if err := r.library(); err != nil && text == "" {
		text = err.Error()[len("am: "):]
	}
	if r.Code >= FirstCode {
		return fmt.Sprintf("call of handler %d on node %d: error %d: %s", r.Handler, r.Node, r.Code, text)
	}
	return fmt.Sprintf("call of handler %d on node %d: %s", r.Handler, r.Node, text)
}

// Is reports whether the error is a given error of the library.
func (r *RemoteError) Is(target error) bool { return target == r.library() }

// library returns the library's error with that code, or nil.
func (r *RemoteError) library() error {
	if r.Code < uint32(len(remoteErrors)) {
		return remoteErrors[r.Code]
	}
	return nil
}

// errorOf returns the error for a message's status other than statusDone.
func errorOf(status uint32) error {
	if status < uint32(len(remoteErrors)) && remoteErrors[status] != nil {
		return remoteErrors[status]
	}
	return ErrLost
}

// CallHandler answers a call; b is valid until it returns. The answer has at most MaxCall bytes. It
// is copied when the handler has returned, and may be b or a part of it. An error goes to the
// caller instead, with its text. Its code also travels, if the error or one that it wraps has a
// method Code() uint32 that returns FirstCode or more.
type CallHandler func(m *Message, b []byte) ([]byte, error)

// remote is the state of the calls that this endpoint makes and answers.
type remote struct {
	*core
	pool[remoteCall]
	handlers *[Handlers]CallHandler // nil: none
	single   singleCall
	finish   func(answer []byte, err error) // of single
	back     []lostAnswer
}

// remoteCall is a call that is under way.
type remoteCall struct {
	ticket  uint32
	node    uint16
	handler uint8
	send    ID // of a long request that is under way; 0: none
	done    func(answer []byte, err error)
}

// singleCall is the state of the call that waits; there is one at a time.
type singleCall struct {
	answer []byte
	err    error
	ended  bool
}

// lostAnswer is a returned answer whose caller has yet to be told.
type lostAnswer struct {
	node   uint16
	ticket uint32
	status uint32
}

// HandleCall registers a handler for calls. Its numbers are 0 to Handlers-1, separate from those of
// Handle and HandleNotice. Every node registers the same ones, before the first call can arrive.
// Any context; it sends nothing. ErrNumber reports a number out of range or taken, or a nil
// handler.
func (e *Endpoint) HandleCall(number uint32, h CallHandler) error {
	r := &e.remote
	if number >= Handlers || h == nil || r.handlers != nil && r.handlers[number] != nil {
		return fmt.Errorf("registering handler %d for calls: %w", number, ErrNumber)
	}
	if r.handlers == nil {
		r.handlers = new([Handlers]CallHandler)
	}
	r.handlers[number] = h
	return nil
}

// Call runs a handler on a node with b, 0 to MaxCall bytes (ErrLong), waits for its answer and
// appends that to answer, which may be nil. The request travels at request priority and the answer
// at reply priority. More than ShortCall bytes either way need memory at both ends (UseMemory;
// ErrNoMemory, ErrMemory). The bytes of an answer longer than EagerBytes travel at request
// priority. While Call waits it polls, so handlers may run. Main program only.
//
// Errors are *RemoteError, which the other node sent, and those of Request. Like any wait Call ends
// with an Undelivered error when the node is gone, or when another message has come back. The
// handler may have run then, and its answer is dropped.
func (e *Endpoint) Call(answer []byte, node int, handler uint32, b []byte) ([]byte, error) {
	if err := e.refusal(node, 0); err != nil {
		return answer, err // before the state of a call is touched that this handler interrupts
	}
	r := &e.remote
	if r.finish == nil {
		r.finish = func(b []byte, err error) {
			s := &r.single
			s.answer, s.err, s.ended = append(s.answer, b...), err, true
		}
	}
	r.single = singleCall{answer: answer}
	id, err := e.StartCall(node, handler, b, r.finish)
	if err != nil {
		return answer, err
	}
	err = e.wait(func() bool { return r.single.ended }, func() error { return e.probe(node) })
	b, failed := r.single.answer, r.single.err
	if !r.single.ended {
		e.Cancel(id)
	}
	r.single = singleCall{}
	if err = cmp.Or(failed, err); err != nil {
		return answer, err
	}
	return b, nil
}

// StartCall is Call that does not wait. When the answer has arrived, or the call has failed, a
// later Poll of any kind calls done, once. The answer is valid until done returns. done runs under
// the rules of a handler that sends nothing; it must not be nil. A caller that uses one function
// for all its short calls allocates nothing. A b of up to ShortCall bytes may be changed when
// StartCall returns; a longer one, when done is called.
//
// While MaxRemoteCalls calls are in flight StartCall waits until one is complete. The request may
// wait in the send queue until the next Request, Poll, Wait or Barrier. After an error of StartCall
// itself done is not called.
func (e *Endpoint) StartCall(node int, handler uint32, b []byte, done func(answer []byte, err error)) (ID, error) {
	if handler >= Handlers {
		return 0, fmt.Errorf("calling handler %d on node %d: %w", handler, node, ErrNumber)
	}
	if len(b) > ShortCall {
		return e.remote.startLong(node, handler, b, done)
	}
	r := &e.remote
	s, err := r.place(node)
	if err != nil {
		return 0, err
	}
	ticket := r.add(node, handler, done)
	compose(s, uint16(node), typeCall, ticket, e.stamp(node, handler), b)
	e.commit(funi.Request, s)
	return callID | ID(ticket), nil
}

// place waits for room for a call and for a slot of the send queue, and returns the slot.
func (r *remote) place(node int) (*funi.Slot, error) {
	for {
		s, err := r.reserve(node, 0) // which polls: there may be room then
		if err != nil || r.room() {
			return s, err
		}
		if err := r.wait(r.room, r.e.ProbeCalled); err != nil {
			return nil, err
		}
	}
}

// add makes a call, for which there is room, and returns its ticket.
func (r *remote) add(node int, handler uint32, done func(answer []byte, err error)) uint32 {
	c, ticket := r.take()
	*c = remoteCall{ticket: ticket, node: uint16(node), handler: uint8(handler), done: done}
	return ticket
}

// compose composes a message of a call: ticket, second word, and bytes. The last word is filled up
// with 0; bits 9:8 of the second word say with how many bytes.
func compose(s *funi.Slot, node, typ uint16, ticket, second uint32, b []byte) {
	words, padding := pack(s[funi.PayloadWord+callWords:], b)
	s.SetHeader(funi.NewHeader(node, typ, callWords+words))
	s[funi.PayloadWord], s[funi.PayloadWord+1] = ticket, second|padding
}

// pack puts bytes into words of a slot, the last filled up with 0. It returns how many words there
// are, and with how many bytes the last was filled up, at the place of that field.
func pack(to []uint32, b []byte) (words int, padding uint32) {
	words = (len(b) + 3) / 4
	if words > 0 {
		to[words-1] = 0
		copy(bytesOf(to[:words]), b)
	}
	return words, uint32(4*words-len(b)) << paddingShift
}

// bytesOf returns the bytes of words, which lie in memory in wire order, little-endian.
func bytesOf(words []uint32) []byte { return funi.Bytes(words) }

// content returns the bytes of a message of a call with the given second word. It returns false if
// their number contradicts that word.
func content(second uint32, words []uint32) ([]byte, bool) {
	padding := int(second >> paddingShift & 3)
	if padding > 4*len(words) {
		return nil, false
	}
	return bytesOf(words)[:4*len(words)-padding], true
}

// called runs the handler of a call and answers.
func (r *remote) called(m *Message, ticket uint32) {
	if m.level != funi.Request {
		r.unknown++
		return
	}
	second := m.Words[0]
	if !r.mayRun(m, typeCall, second) {
		return
	}
	b, ok := content(second, m.Words[1:])
	if !ok {
		r.unknown++
		return
	}
	r.run(m, ticket, second&handlerMask, b)
}

// run runs the handler of a call whose whole request has arrived, and answers.
func (r *remote) run(m *Message, ticket, number uint32, b []byte) {
	var h CallHandler
	if number < Handlers && r.handlers != nil {
		h = r.handlers[number]
	}
	if h == nil {
		r.unknown++
		m.refuse(ticket, statusNoHandler, statusNoHandler, "")
		return
	}
	ended := false
	defer func() {
		if !ended { // the panic goes on; it is the program's
			m.refuse(ticket, statusPanicked, statusPanicked, "")
		}
	}()
	answer, err := h(m, b)
	ended = true
	switch {
	case err != nil:
		status, code := statusOf(err)
		m.refuse(ticket, status, code, err.Error())
	case len(answer) > MaxCall:
		m.refuse(ticket, statusLong, statusLong, fmt.Sprintf("an answer of %d bytes is too long", len(answer)))
	case len(answer) > ShortCall:
		if err := m.answerLong(ticket, statusDone, answer); err != nil {
			m.refuse(ticket, statusMemory, statusMemory, err.Error())
		}
	default:
		m.answer(ticket, statusDone, answer)
	}
}

// statusOf returns the status and code for an error of a handler.
func statusOf(err error) (status, code uint32) {
	var coded interface{ Code() uint32 }
	if errors.As(err, &coded) && coded.Code() >= FirstCode {
		return statusError, coded.Code()
	}
	for status, known := range remoteErrors {
		if known != nil && errors.Is(err, known) {
			return uint32(status), uint32(status)
		}
	}
	return statusError, CodeError
}

// answer sends the answer of a call.
func (m *Message) answer(ticket, status uint32, b []byte) {
	s, err := m.reserve(0)
	if err != nil {
		m.endpoint.unknown++ // the endpoint has ended, or the handler of another message is running
		return
	}
	compose(s, uint16(m.Source), typeAnswer, ticket, status<<16, b)
	m.endpoint.commit(funi.Reply, s)
}

// refuse answers with an error.
func (m *Message) refuse(ticket, status, code uint32, text string) {
	b := binary.LittleEndian.AppendUint32(nil, code)
	if len(text) > ShortErrorText && m.answerLong(ticket, status, append(b, cut(text, MaxErrorText)...)) == nil {
		return
	}
	m.answer(ticket, status, append(b, cut(text, ShortErrorText)...))
}

// cut returns as much of a text as fits, in whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for i := range min(utf8.UTFMax, len(text)) {
		if at := len(text) - 1 - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRuneInString(text[at:]) {
				text = text[:at]
			}
			break
		}
	}
	return text
}

// answered completes the call that an answer belongs to.
func (r *remote) answered(m *Message, ticket uint32) {
	second := m.Words[0]
	if b, ok := content(second, m.Words[1:]); ok {
		r.conclude(m, ticket, second>>16, b)
	} else {
		r.unknown++
	}
}

// conclude ends the call of an answer that has arrived.
func (r *remote) conclude(m *Message, ticket, status uint32, b []byte) {
	switch c := r.find(ticket); {
	case c == nil || int(c.node) != m.Source: // cancelled, or not asked
	case status == statusDone:
		r.end(c, b, nil, true)
	default:
		r.end(c, nil, remoteError(m.Source, uint32(c.handler), status, b), true)
	}
}

// remoteError returns the error of an answer with a status; b is its code and text, if present.
func remoteError(node int, handler, status uint32, b []byte) *RemoteError {
	err := &RemoteError{Node: node, Handler: handler, Code: CodeError}
	if status < uint32(len(remoteErrors)) {
		err.Code = status
	}
	if len(b) < 4 {
		return err
	}
	if code := binary.LittleEndian.Uint32(b); status == statusError && code >= FirstCode {
		err.Code = code
	}
	if err.Text = string(b[4:]); !utf8.ValidString(err.Text) {
		err.Text = fmt.Sprintf("%q", err.Text)
	}
	return err
}

// end ends a call, which was answered or not, and calls its done after it has freed the place.
func (r *remote) end(c *remoteCall, answer []byte, err error, answered bool) {
	done, send := c.done, c.send
	c.done, c.send = nil, 0
	r.give(c.ticket)
	if send != 0 {
		r.sent(send, answered)
	}
	r.quietly(func() { done(answer, err) })
}

// CallsUnderWay returns how many calls are in flight. Any context.
func (e *Endpoint) CallsUnderWay() int { return e.remote.under() }

// ProbeCalled sends a probe to each node whose answers or messages with tags are missing. If the
// node is gone the probe comes back, and ends the waits for it. A program that waits by Poll alone
// calls it now and then. Main program only (ErrHandler).
func (e *Endpoint) ProbeCalled() error {
	return e.probeEach(func(yield func(int) bool) {
		for c := range e.remote.used {
			if !yield(int(c.node)) {
				return
			}
		}
		for _, pairs := range e.tags.pairs {
			for _, p := range pairs {
				if p != nil && p.sends+p.wanted > 0 && !yield(int(p.node)) {
					return
				}
			}
		}
	})
}

// cameBack handles a returned message of a call.
func (r *remote) cameBack(back *funi.Returned, err error) {
	switch {
	case back.Header.Type() == typeCall && back.Level == funi.Request:
		if c := r.find(back.Word); c != nil && c.node == back.Header.Node() {
			r.end(c, nil, err, false)
		}
	case back.Header.Type() == typeAnswer && back.Level == funi.Reply && !gone(back.Reason):
		r.notTold(lostAnswer{back.Header.Node(), back.Word, statusLost})
	}
	if r.member == nil && gone(back.Reason) { // a member's calls end when it has left (depart)
		r.failAll(err, func(c *remoteCall) bool { return c.node == back.Header.Node() })
	}
}

// gone reports whether a message came back because its node is gone.
func gone(r arctic.Reason) bool {
	switch r {
	case arctic.ReasonNoContext, arctic.ReasonSilent, arctic.ReasonRestarted, arctic.ReasonDeparted,
		arctic.ReasonNoRoute:
		return true
	}
	return false
}

// failAll ends selected calls.
func (r *remote) failAll(err error, which func(*remoteCall) bool) {
	for c := range r.used {
		if which(c) {
			r.end(c, nil, err, false)
		}
	}
}

// tellLost tells callers that their answers came back, as far as the send queue has room. If such a
// message comes back itself, it is not repeated.
func (r *remote) tellLost() {
	told := 0
	for _, l := range r.back {
		s := r.iface.Reserve(funi.Request)
		if s == nil {
			break
		}
		compose(s, l.node, typeAnswer, l.ticket, l.status<<16, nil)
		r.commit(funi.Request, s)
		told++
	}
	r.back = append(r.back[:0], r.back[told:]...)
}
