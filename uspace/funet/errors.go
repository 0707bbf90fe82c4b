package funet

// This file defines the errors that callers test for.

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/funet/funet/uspace/am"
)

var (
	// ErrClosed reports that the endpoint has been closed. It is net.ErrClosed as well.
	ErrClosed error = closedError{}
	// ErrHandler reports that a handler, or a condition of Wait, called something that waits. A
	// handler may reply, and nothing else; start a goroutine for more.
	ErrHandler = am.ErrHandler
	// ErrNode reports a node outside 0 to Nodes()-1.
	ErrNode = am.ErrNode
	// ErrLong reports a message that is longer than allowed.
	ErrLong = am.ErrLong
	// ErrNumber reports a handler number outside 0 to am.Handlers-1, or one registered twice.
	ErrNumber = am.ErrNumber
	// ErrNoHandler reports that the node has no handler of that number. For a message whose Send
	// had already returned, an *am.Undelivered wraps it, which belongs to no call
	// (Options.OnError).
	ErrNoHandler = am.ErrNoHandler
	// ErrLeft reports that a node has left the job and has not joined it again (Options.Rejoin).
	// From a barrier it reports that some node has left or joined since the last Agree.
	ErrLeft = am.ErrLeft
	// ErrExpelled reports that the other nodes consider this process dead (Options.Rejoin).
	ErrExpelled = am.ErrExpelled
	// ErrPlace reports that neither the environment nor the options give this process a place in a
	// job.
	ErrPlace = errors.New("funet: start the program with funet run, mpirun or srun, or give Options.Peers, Interfaces and Node")
	// ErrAddress reports memory that Alloc did not return, or that no addresses are free for it.
	ErrAddress = errors.New("funet: not memory that Alloc returned, or no addresses for it")
	// ErrMemory reports that the receiver has no memory for a message of that length
	// (Options.Memory, or the quota of its user), or that waiting replies occupy all memory here.
	ErrMemory = am.ErrMemory
)

// closedError is ErrClosed.
type closedError struct{}

func (closedError) Error() string { return "funet: the endpoint is closed" }

// Is makes ErrClosed match net.ErrClosed, which programs test for already.
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// HandlerError is the error that a handler returned. The first one ends everything that waits on
// the endpoint, unless Options.OnError takes it.
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
	Value any    // the panic's value; nil: the handler ended its goroutine (runtime.Goexit)
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

// Missing is the error of a Barrier, or of another collective operation, that ended before all
// nodes had called it. It lists the nodes that were not heard from, and wraps the reason for the
// end.
type Missing = am.Missing

// cancelled returns the error of a call whose context has ended. It wraps am.ErrCancelled and the
// context's cause.
func cancelled(ctx context.Context, doing string) error {
	return fmt.Errorf("%s: %w: %w", doing, am.ErrCancelled, context.Cause(ctx))
}
