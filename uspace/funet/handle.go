package funet

// This file is handlers: what runs here when a message or a call arrives.

import (
	"fmt"

	"github.com/funet/funet/uspace/am"
)

// Message is a message, or the request of a call, as its handler sees it. It is valid until the
// handler returns, and in no other goroutine.
type Message struct {
	// Source is the node that sent it; the cards vouch for it.
	Source int
	// Bytes are its bytes, where they have arrived; the handler may change them.
	Bytes []byte

	endpoint *Endpoint
	words    *am.Message
}

// Handle registers what runs when a message for a handler number arrives: 0 to am.Handlers-1, each
// once, the same on every node, before the first message for it can arrive (so before the first
// call that waits). Handlers run one at a time, on the goroutine that waits on the endpoint at that
// time, and all others wait for them: they should take microseconds. They may reply, and call
// nothing that waits (ErrHandler).
//
// An error of a handler goes to Options.OnError; without that the first one ends the use of the
// endpoint, and all that waits returns it (*HandlerError). A handler that panics ends the endpoint
// (*PanicError).
func (e *Endpoint) Handle(number uint32, h func(m *Message) error) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("registering handler %d: %w", number, err)
	}
	defer e.unlock()
	if h == nil {
		return fmt.Errorf("registering handler %d: %w", number, ErrNumber)
	}
	return e.am.HandleBytes(number, func(m *am.Message, b []byte) error {
		err := h(e.enter(m, b))
		e.depth--
		if err != nil {
			e.handlerFailed(&HandlerError{Source: m.Source, Handler: number, Err: err})
		}
		return nil
	})
}

// Serve registers what runs when a call for a handler number arrives (Endpoint.Call); the numbers
// are those of Handle, with the same rules. What it returns goes to the caller: the answer, which
// is copied, or the error, as a *am.RemoteError with its text and, if it has a method Code() uint32
// that returns am.FirstCode or more, that code. An error of a call is the caller's and ends nothing
// here.
func (e *Endpoint) Serve(number uint32, h func(m *Message) ([]byte, error)) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("registering handler %d for calls: %w", number, err)
	}
	defer e.unlock()
	if h == nil {
		return fmt.Errorf("registering handler %d for calls: %w", number, ErrNumber)
	}
	return e.am.HandleCall(number, func(m *am.Message, b []byte) ([]byte, error) {
		x := e.enter(m, b)
		answer, err := h(x)
		e.depth--
		return answer, err
	})
}

// enter gives a handler its message. A reply may be handled while a handler of a request waits for
// room, so there are two.
func (e *Endpoint) enter(m *am.Message, b []byte) *Message {
	x := &e.messages[e.depth%len(e.messages)]
	e.depth++
	*x = Message{Source: m.Source, Bytes: b, endpoint: e, words: m}
	return x
}

// own returns ErrHandler unless the calling goroutine is in the handler that the message is for.
func (m *Message) own() error {
	if m.endpoint == nil || m.endpoint.runner.Load() != goroutine() || !m.endpoint.am.InHandler() {
		return ErrHandler
	}
	return nil
}
