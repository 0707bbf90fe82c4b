package funet

// This file is messages with tags, and receives that wait for them.

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
)

// What a receive may ask for.
const (
	AnySource = am.AnySource // a message of any node
	AnyTag    = am.AnyTag    // with any tag
	// MaxTag is the greatest tag of a program's.
	MaxTag = am.GroupTag - 1
)

// Errors of messages with tags.
var (
	// ErrTag: tags are 0 to MaxTag.
	ErrTag = am.ErrTag
	// ErrTruncate: a message is longer than the memory of its receive, which has the beginning of
	// it.
	ErrTruncate = am.ErrTruncate
	// ErrAborted: the sender gave a message up while it was received.
	ErrAborted = am.ErrAborted
)

// Received describes the message that a receive got: from which node, with which tag, and how many
// bytes the message has.
type Received = am.Received

// SendTag sends b, at most am.MaxTaggedBytes (ErrLong), to a node with a tag (ErrTag), for its
// Recv, and returns when b may be changed (MPI_Send). A message of up to am.ShortTagged bytes is
// sent at once, unless the node has am.TagWindow messages that it has not received; a longer one
// when a Recv of the node waits for it. Messages of one goroutine with one tag are received in the
// order in which they were sent.
//
// Errors are ErrNode, ErrHandler within a handler, that the node is gone (*am.Undelivered), and
// that the context ended; then the message may or may not be received, and b is the program's
// again.
func (e *Endpoint) SendTag(ctx context.Context, node int, tag uint32, b []byte) error {
	const doing = "sending"
	if tag > MaxTag {
		return fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	_, err := e.exchange(ctx, doing, tag, node, b, nobody, nil)
	return err
}

// Recv receives the next message with a tag from a node into b (MPI_Recv); source may be AnySource,
// and tag AnyTag. Receives that fit the same message get it in the order in which they were called.
// Errors are those of SendTag, ErrTruncate and ErrAborted. A receive from a node that is gone ends,
// one from AnySource goes on.
func (e *Endpoint) Recv(ctx context.Context, source int, tag uint32, b []byte) (Received, error) {
	const doing = "receiving"
	if tag > MaxTag && tag != AnyTag {
		return Received{}, fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	if source < 0 && source != AnySource {
		return Received{}, fmt.Errorf("%s from node %d: %w", doing, source, ErrNode)
	}
	return e.exchange(ctx, doing, tag, nobody, nil, source, b)
}

// nobody stands for no node in an exchange; AnySource is another number.
const nobody = AnySource - 1

// exchange sends a message and receives one at the same time.
func (e *Endpoint) exchange(ctx context.Context, doing string, tag uint32, to int, out []byte, from int,
	in []byte) (what Received, err error) {
	if err := e.lock(); err != nil {
		return what, fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	if err := e.awaitTagged(ctx, doing); err != nil {
		return what, err
	}
	var receive, send am.ID
	receiving, sending := e.waiter(), e.waiter()
	if from == nobody {
		receiving.done = true
	} else if receive, err = e.am.StartRecv(from, tag, in, receiving.got); err != nil {
		receiving.done = true
	}
	if to == nobody || err != nil {
		sending.done = true
	} else if send, err = e.am.StartSendTag(to, tag, out, sending.sent); err != nil {
		sending.done = true
	} else if sending.done {
		e.carrier.Drive()
	}
	for _, w := range [...]*waiter{sending, receiving} {
		if err == nil {
			err = e.await(ctx, w, doing)
		}
	}
	if err != nil && tag > MaxTag { // of an operation of all nodes
		m := &am.Missing{Err: err}
		if !receiving.done {
			m.Nodes = append(m.Nodes, from)
		}
		if !sending.done && (receiving.done || to != from) {
			m.Nodes = append(m.Nodes, to)
		}
		if len(m.Nodes) > 0 {
			err = m
		}
	}
	if !sending.done {
		e.cancel(send)
	}
	if !receiving.done {
		e.cancel(receive)
	}
	what = receiving.what
	e.recycle(sending)
	e.recycle(receiving)
	return what, err
}

// awaitTagged waits, with the lock, until package am can begin a send and a receive without
// waiting.
func (e *Endpoint) awaitTagged(ctx context.Context, doing string) error {
	if e.roomForTagged() {
		return nil
	}
	w := e.waiter()
	defer e.recycle(w)
	w.holds = e.roomForTagged
	return e.await(ctx, w, doing)
}

// roomForTagged reports whether package am can begin a send and a receive without waiting.
func (e *Endpoint) roomForTagged() bool {
	sends, receives := e.am.TaggedUnderWay()
	return sends < am.MaxTagged && receives < am.MaxTagged
}
