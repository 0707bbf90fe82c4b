package funet

// This file sends messages with tags, and receives them.

import (
	"context"
	"fmt"
	"slices"

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
	_, err := e.exchange(ctx, doing, tag, []int{node}, b, nobody, nil)
	return err
}

// Recv receives the next message with a tag from a node into b (MPI_Recv). Source may be AnySource,
// and tag AnyTag. Receives that match the same message get it in the order in which they were
// called. Errors are those of SendTag, ErrTruncate and ErrAborted. When a node is gone, a receive
// from it ends; one from AnySource continues.
func (e *Endpoint) Recv(ctx context.Context, source int, tag uint32, b []byte) (Received, error) {
	const doing = "receiving"
	if err := receivable(doing, source, tag); err != nil {
		return Received{}, err
	}
	return e.exchange(ctx, doing, tag, nil, nil, source, b)
}

// StartSendTag begins what SendTag does, and does not wait for its end; Wait of the result returns
// the error. b must not change until then, or until after Cancel. Messages are received in the
// order in which they were begun. StartSendTag waits while am.MaxTagged messages are under way.
func (e *Endpoint) StartSendTag(ctx context.Context, node int, tag uint32, b []byte) (*Pending, error) {
	const doing = "sending"
	if tag > MaxTag {
		return nil, fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	return e.startTagged(ctx, doing, func(w *waiter) (am.ID, error) { return e.am.StartSendTag(node, tag, b, w.sent) })
}

// StartRecv begins what Recv does, and does not wait for its end; Wait of the result returns the
// error. b must not be used until then, or until after Cancel. StartRecv waits while am.MaxTagged
// receives are under way.
func (e *Endpoint) StartRecv(ctx context.Context, source int, tag uint32, b []byte) (*Pending, error) {
	const doing = "receiving"
	if err := receivable(doing, source, tag); err != nil {
		return nil, err
	}
	return e.startTagged(ctx, doing, func(w *waiter) (am.ID, error) { return e.am.StartRecv(source, tag, b, w.got) })
}

func (e *Endpoint) startTagged(ctx context.Context, doing string, start func(*waiter) (am.ID, error)) (*Pending,
	error) {
	if err := e.lock(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	if err := e.awaitTagged(ctx, doing); err != nil {
		return nil, err
	}
	return e.pending(doing, start)
}

// receivable returns an error for a source or a tag that no message has.
func receivable(doing string, source int, tag uint32) error {
	if tag > MaxTag && tag != AnyTag {
		return fmt.Errorf("%s with tag %#x: %w", doing, tag, ErrTag)
	}
	if source < 0 && source != AnySource {
		return fmt.Errorf("%s from node %d: %w", doing, source, ErrNode)
	}
	return nil
}

// nobody stands for no node in an exchange; it differs from AnySource.
const nobody = AnySource - 1

// part is a message of an exchange to a node, or from it.
type part struct {
	*waiter
	id   am.ID
	node int
}

// exchange sends a message to some nodes and receives one at the same time. What is short leaves
// together.
func (e *Endpoint) exchange(ctx context.Context, doing string, tag uint32, to []int, out []byte, from int,
	in []byte) (what Received, err error) {
	if err := e.lock(); err != nil {
		return what, fmt.Errorf("%s: %w", doing, err)
	}
	defer e.unlock()
	if err := e.awaitTagged(ctx, doing); err != nil {
		return what, err
	}
	var room [2]part
	parts := room[:0]
	if from != nobody {
		p := part{waiter: e.waiter(), node: from}
		if p.id, err = e.am.StartRecv(from, tag, in, p.got); err != nil {
			p.done = true
		}
		parts = append(parts, p)
	}
	leaves := false
	for i, node := range to {
		if i > 0 && err == nil {
			err = e.awaitTagged(ctx, doing)
		}
		if err != nil {
			break
		}
		p := part{waiter: e.waiter(), node: node}
		if p.id, err = e.am.StartSendTag(node, tag, out, p.sent); err != nil {
			p.done = true
		}
		leaves = leaves || p.done
		parts = append(parts, p)
	}
	if leaves && err == nil {
		e.carrier.Drive()
	}
	for i := len(parts) - 1; i >= 0 && err == nil; i-- {
		err = e.await(ctx, parts[i].waiter, doing)
	}
	if from != nobody {
		what = parts[0].what
	}
	var missing []int
	for _, p := range parts {
		if !p.done {
			if !slices.Contains(missing, p.node) {
				missing = append(missing, p.node)
			}
			e.cancel(p.id)
		}
		e.recycle(p.waiter)
	}
	if missing != nil && tag > MaxTag { // of an operation of all nodes
		err = &am.Missing{Nodes: missing, Err: err}
	}
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
