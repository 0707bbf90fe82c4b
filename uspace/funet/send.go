package funet

// This file is sending messages of bytes.

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/funi"
)

// Send runs a handler on a node with b, and returns when b may be changed. The message is on its way then; that it
// could not be delivered is found out later, and is an error that belongs to no call (Options.OnError).
//
// It waits while there is no room for the message. Errors are ErrNode, ErrNumber, ErrLong, ErrHandler within a handler,
// an error that belongs to no call if one has come up (then nothing was sent), and that the context ended while it waited.
func (e *Endpoint) Send(ctx context.Context, node int, handler uint32, b []byte) error {
	return e.send(ctx, node, handler, b, true)
}

// Post is Send for programs that send many messages in a row: the message may wait in the send queue until the next
// Send, Poll, Flush or another call that waits, so that several leave in one frame.
func (e *Endpoint) Post(ctx context.Context, node int, handler uint32, b []byte) error {
	return e.send(ctx, node, handler, b, false)
}

func (e *Endpoint) send(ctx context.Context, node int, handler uint32, b []byte, leave bool) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("sending to node %d: %w", node, err)
	}
	if e.stray != nil || e.iface.Reserve(funi.Request) == nil || !e.am.Heard(node) {
		if err := e.room(ctx, node, "sending"); err != nil {
			e.unlock()
			return err
		}
	}
	err := e.am.PostBytes(node, handler, b)
	if err == nil && leave {
		e.carrier.Drive()
	}
	e.unlock()
	return err
}

// room waits until the send queue has a slot, and a node has answered a later life's hello, so that package am does not wait.
func (e *Endpoint) room(ctx context.Context, node int, doing string) error {
	if err := e.takeStray(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	w := e.waiter()
	defer e.recycle(w)
	w.holds, w.strays = func() bool { return e.iface.Reserve(funi.Request) != nil && e.am.Heard(node) }, true
	return e.await(ctx, w, doing)
}

// Reply runs a handler on the node that sent the message. Handlers of messages, which Send has sent, call it, any number
// of times; those of calls and of replies may not (ErrHandler). b is copied.
func (m *Message) Reply(handler uint32, b []byte) error {
	if err := m.own(); err != nil {
		return fmt.Errorf("replying: %w", err)
	}
	return m.words.ReplyBytes(handler, b)
}
