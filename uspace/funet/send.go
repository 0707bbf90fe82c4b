package funet

// This file sends messages of bytes.

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
)

// Send runs a handler on a node with b, of 0 to am.MaxBytes bytes, and returns when b may be
// changed. By then a message of up to am.ShortBytes bytes is under way. So is a message of up to
// am.EagerBytes while its receiver keeps room for messages of this node. A failure to deliver such
// a message is found out later, as an error that belongs to no call (Options.OnError). A longer
// message has been delivered when Send returns nil. The receiver gives such messages memory one
// after the other, and Send waits for it.
//
// Send also waits while there is no room in the send queue. Errors are ErrNode, ErrNumber, ErrLong,
// and ErrHandler within a handler. ErrMemory means that the node never has that much memory
// (Options.Memory). *am.Undelivered and ErrLeft mean that the node is gone. Send also returns an
// error that belongs to no call, if there is one, and then sends nothing. If Send returns because
// the context ended, a long message may or may not have been delivered.
func (e *Endpoint) Send(ctx context.Context, node int, handler uint32, b []byte) error {
	return e.send(ctx, node, handler, b, true)
}

// Post is Send for programs that send many messages in a row. A short message may wait in the send
// queue until the next Send, Poll, Flush or another call that waits, so that several leave in one
// frame.
func (e *Endpoint) Post(ctx context.Context, node int, handler uint32, b []byte) error {
	return e.send(ctx, node, handler, b, false)
}

// SendList is Send of several pieces of memory, which arrive as one message in this order (as
// net.Buffers).
func (e *Endpoint) SendList(ctx context.Context, node int, handler uint32, list ...[]byte) error {
	size := 0
	for _, b := range list {
		if size += len(b); size > am.MaxBytes {
			return fmt.Errorf("sending more than %d bytes to node %d: %w", am.MaxBytes, node, ErrLong)
		}
	}
	return e.sendLong(ctx, node, size, func(done func(error)) (am.ID, error) {
		return e.am.StartList(node,
			handler, list, done)
	})
}

func (e *Endpoint) send(ctx context.Context, node int, handler uint32, b []byte, leave bool) error {
	if len(b) > am.ShortBytes {
		return e.sendLong(ctx, node, len(b),
			func(done func(error)) (am.ID, error) { return e.am.StartBytes(node, handler, b, done) })
	}
	if err := e.lock(); err != nil {
		return fmt.Errorf("sending to node %d: %w", node, err)
	}
	if e.stray != nil || e.iface.Reserve(funi.Request) == nil || !e.am.Heard(node) {
		if err := e.room(ctx, node, 1); err != nil {
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

// Push lets the card run once, so that what was posted or begun leaves now, unless it has to wait
// for the other node. Push handles no messages, and does not wait. Only a function that AM or
// Windows.Do calls may call it. If the card touches memory that is gone, the endpoint becomes
// unusable.
func (e *Endpoint) Push() {
	e.report(e.guard(func() error {
		e.carrier.Look()
		return nil
	}))
}

// sendLong sends a message of the given number of bytes, begun by start, and waits until it is
// done.
func (e *Endpoint) sendLong(ctx context.Context, node, size int, start func(done func(error)) (am.ID, error)) error {
	if err := e.lock(); err != nil {
		return fmt.Errorf("sending to node %d: %w", node, err)
	}
	defer e.unlock()
	if err := e.room(ctx, node, packets(size)); err != nil {
		return err
	}
	w := e.waiter()
	defer e.recycle(w)
	id, err := start(w.sent)
	if err != nil {
		return err
	}
	if err = e.await(ctx, w, "sending"); err != nil && !w.done {
		e.cancel(id)
	}
	return err
}

// StartSend begins what Send does, and does not wait for its end; Wait of the result returns the
// error. b must not change until then, or until after Cancel. StartSend waits for room in the send
// queue.
func (e *Endpoint) StartSend(ctx context.Context, node int, handler uint32, b []byte) (*Pending, error) {
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("sending to node %d: %w", node, err)
	}
	defer e.unlock()
	if err := e.room(ctx, node, packets(len(b))); err != nil {
		return nil, err
	}
	return e.pending("sending", func(w *waiter) (am.ID, error) { return e.am.StartBytes(node, handler, b, w.sent) })
}

// pending begins an operation of package am. The lock is held.
func (e *Endpoint) pending(doing string, start func(*waiter) (am.ID, error)) (p *Pending, err error) {
	p = &Pending{endpoint: e, waiter: e.newWaiter(), doing: doing}
	if p.id, err = start(p.waiter); err != nil {
		return nil, err
	}
	e.carrier.Drive()
	return p, nil
}

// packets returns how many slots of the send queue a message of the given number of bytes takes at
// once: all its packets if it may leave at once, otherwise one that announces it.
func packets(size int) int {
	const data, head = 64, 8 // bytes
	if size > am.EagerBytes {
		return 1
	}
	return max((size+head+data-1)/data, 1)
}

// room waits until the send queue has the given number of slots and the node has answered the hello
// of a later life, so that package am does not wait.
func (e *Endpoint) room(ctx context.Context, node, slots int) error {
	if err := e.takeStray(); err != nil {
		return fmt.Errorf("sending to node %d: %w", node, err)
	}
	there := func() bool { return e.vacant(slots) && e.am.Heard(node) && e.am.SendsUnderWay() < am.MaxSends }
	if there() {
		return nil
	}
	w := e.waiter()
	defer e.recycle(w)
	w.holds, w.strays = there, true
	return e.await(ctx, w, "sending")
}

// vacant reports whether the send queue has the given number of free slots, or is empty.
func (e *Endpoint) vacant(slots int) bool {
	most := e.iface.Slots() - 1
	return most-e.iface.Unsent(funi.Request) >= min(slots, most)
}

// Reply runs a handler on the node that sent the message. Only a handler of a message of Send may
// call it, any number of times; handlers of calls and of replies may not (ErrHandler). b is copied.
// ErrMemory reports that the waiting replies already have too many bytes.
func (m *Message) Reply(handler uint32, b []byte) error {
	if err := m.own(); err != nil {
		return fmt.Errorf("replying: %w", err)
	}
	return m.words.ReplyBytes(handler, b)
}
