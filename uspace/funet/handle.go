package funet

// This file registers and runs the handlers of messages and calls.

import (
	"fmt"

	"github.com/funet/funet/uspace/am"
)

// Message is a message, or the request of a call, as its handler sees it. It is valid until the
// handler returns, and in no other goroutine.
type Message struct {
	// Source is the node that sent the message; the cards guarantee it.
	Source int
	// Bytes are the message's bytes, at the place of their arrival; the handler may change them.
	Bytes []byte

	endpoint *Endpoint
	words    *am.Message
}

// Handle registers the handler h for messages with a handler number. Numbers are 0 to
// am.Handlers-1, each registered once, the same on every node. Registration comes before the first
// message for the number can arrive, so before the first call that waits. Handlers run one at a
// time, on a goroutine that waits on the endpoint. All others wait meanwhile, so a handler should
// take microseconds. It may reply, but call nothing that waits (ErrHandler).
//
// An error of a handler goes to Options.OnError. Without OnError the first one makes the endpoint
// unusable, and everything that waits returns it (*HandlerError). A handler that panics ends the
// endpoint (*PanicError).
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

// Serve registers the handler h for calls with a handler number (Endpoint.Call). Numbers and rules
// are those of Handle. The result of h goes to the caller. An answer is copied. An error arrives as
// a *am.RemoteError with its text, and its code if it has a method Code() uint32 that returns
// am.FirstCode or more. An error of a call belongs to the caller and ends nothing here.
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

// enter gives a handler its message. There are two messages, because a reply may be handled while
// the handler of a request waits for room.
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
