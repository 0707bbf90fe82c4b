package funet

// This file is the errors that callers decide on.

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/uspace/am"
)

var (
	// ErrClosed: the endpoint has been closed. It is net.ErrClosed as well.
	ErrClosed error = closedError{}
	// ErrHandler: a handler, or a condition of Wait, called something that waits. A handler may
	// reply, and nothing else; start a goroutine for more.
	ErrHandler = am.ErrHandler
	// ErrNode: nodes are 0 to Nodes()-1.
	ErrNode = am.ErrNode
	// ErrLong: a message is longer than it may be.
	ErrLong = am.ErrLong
	// ErrNumber: handler numbers are 0 to am.Handlers-1, each registered once.
	ErrNumber = am.ErrNumber
	// ErrNoHandler: the node has no handler of that number. Of a message whose Send had returned it
	// is in an *am.Undelivered, which belongs to no call (Options.OnError).
	ErrNoHandler = am.ErrNoHandler
	// ErrLeft: a node has left the job, and has not joined it again (Options.Rejoin); of a barrier:
	// some node has left or joined since the last Agree.
	ErrLeft = am.ErrLeft
	// ErrExpelled: the others hold this process to be dead (Options.Rejoin).
	ErrExpelled = am.ErrExpelled
	// ErrPlace: neither the environment nor the options say which place in which job this is.
	ErrPlace = errors.New("funet: start the program with funet run, mpirun or srun, or give Options.Peers, Interfaces and Node")
	// ErrAddress: memory is not what Alloc returned, or there are no such addresses.
	ErrAddress = errors.New("funet: not memory that Alloc returned, or no addresses for it")
	// ErrMemory: the receiver has no memory for a message of that length (Options.Memory, or the
	// quota of its user), or replies that wait have all memory here.
	ErrMemory = am.ErrMemory
)

// closedError is ErrClosed.
type closedError struct{}

func (closedError) Error() string { return "funet: the endpoint is closed" }

// Is makes ErrClosed an error of package net, which programs test for already.
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// HandlerError is the error that a handler returned. The first one ends what waits on the endpoint,
// unless Options.OnError takes it.
type HandlerError struct {
	Source  int    // node that sent the message
	Handler uint32 // number
	Err     error
}

func (h *HandlerError) Error() string {
	return fmt.Sprintf("funet: handler %d, of a message of node %d: %v", h.Handler, h.Source, h.Err)
}

// Unwrap returns what the handler returned.
func (h *HandlerError) Unwrap() error { return h.Err }

// PanicError is a panic of a handler. It ends the endpoint: the card detaches it at once, so the
// other nodes see that this one is gone.
type PanicError struct {
	Value any    // of panic; nil: the handler ended its goroutine (runtime.Goexit)
	Stack []byte // of the goroutine (runtime/debug.Stack)
}

func (p *PanicError) Error() string {
	if p.Value == nil {
		return "funet: a handler ended its goroutine"
	}
	return fmt.Sprintf("funet: a handler panicked: %v", p.Value)
}

// Unwrap returns the value of the panic if that is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Missing is the error of a Barrier, or of another operation of all nodes, that ended before all
// had come: it says of which nodes nothing was heard, and wraps why it ended.
type Missing = am.Missing

// cancelled is the error of a call whose context has ended: it wraps am.ErrCancelled, and the
// context's cause.
func cancelled(ctx context.Context, doing string) error {
	return fmt.Errorf("%s: %w: %w", doing, am.ErrCancelled, context.Cause(ctx))
}
