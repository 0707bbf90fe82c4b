package funet

// This file sends messages with tags, and receives them.

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
)

// Wildcards for a receive, and the largest tag.
const (
	AnySource = am.AnySource // a message of any node
	AnyTag    = am.AnyTag    // with any tag
	// MaxTag is the greatest tag that a program may use.
	MaxTag = am.GroupTag - 1
)

// Errors of messages with tags.
var (
	// ErrTag reports a tag outside 0 to MaxTag.
	ErrTag = am.ErrTag
	// ErrTruncate reports a message longer than the memory of its receive, which got the beginning
	// of it.
	ErrTruncate = am.ErrTruncate
	// ErrAborted reports that the sender gave a message up while it was received.
	ErrAborted = am.ErrAborted
)

// Received describes the message that a receive got: its source, its tag, and its length in bytes.
type Received = am.Received

// SendTag sends b, at most am.MaxTaggedBytes (ErrLong), to a node with a tag (ErrTag), for its Recv
// (MPI_Send). It returns when b may be changed. A message of up to am.ShortTagged bytes is sent at
// once, unless the node has am.TagWindow messages that it has not received. A longer one is sent
// when a Recv of the node waits for it. Messages of one goroutine with one tag are received in the
// order in which they were sent.
//
// Errors are ErrNode, ErrHandler within a handler, *am.Undelivered if the node is gone, and the end
// of the context. After the end of the context the message may or may not be received, and b may be
// changed.
func (e *Endpoint) SendTag(ctx context.Context, node int, tag uint32, b []byte) error {
	const doing = "sending"
	if tag > MaxTag {
		return fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	_, err := e.exchange(ctx, doing, tag, node, b, nobody, nil)
	return err
}

// Recv receives the next message with a tag from a node into b (MPI_Recv). Source may be AnySource,
// and tag AnyTag. Receives that match the same message get it in the order in which they were
// called. Errors are those of SendTag, ErrTruncate and ErrAborted. When a node is gone, a receive
// from it ends; one from AnySource continues.
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

// nobody stands for no node in an exchange; it differs from AnySource.
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

// awaitTagged waits until package am can begin a send and a receive without waiting. The lock is
// held.
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
	sends, receives, _ := e.am.TaggedUnderWay()
	return sends < am.MaxTagged && receives < am.MaxTagged
}
