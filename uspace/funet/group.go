package funet

// This file holds the operations of all nodes together, with MPI's names (package collective).

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"
)

// Errors of what all nodes do together, besides those of SendTag and Recv.
var (
	// ErrLengths: the nodes gave memory of lengths that do not fit together.
	ErrLengths = collective.ErrLengths
	// ErrRoot: the root is no node of the job.
	ErrRoot = collective.ErrRoot
)

// together is the state of the group.
type together struct {
	turn  chan struct{} // has a value in it while an operation is under way
	group *collective.Group
	peers peers
}

func (t *together) init(e *Endpoint) {
	t.turn = make(chan struct{}, 1)
	t.peers.endpoint = e
	t.group = collective.New(&t.peers)
}

// peers is the endpoint as the operation under way sees it.
type peers struct {
	endpoint *Endpoint
	ctx      context.Context // of the operation
}

func (p *peers) Node() int  { return p.endpoint.Node() }
func (p *peers) Nodes() int { return p.endpoint.Nodes() }

// Exchange is an exchange with tags of the group.
func (p *peers) Exchange(tag uint32, to int, out []byte, from int, in []byte) (int, error) {
	if to == collective.Nobody {
		to = nobody
	}
	if from == collective.Nobody {
		from = nobody
	}
	what, err := p.endpoint.exchange(p.ctx, "exchanging", tag, to, out, from, in)
	return what.Bytes, err
}

// all does an operation of all nodes. Another goroutine's waits until it is over.
func (e *Endpoint) all(ctx context.Context, f func(g *collective.Group) error) error {
	if err := e.lock(); err != nil { // a handler must not wait for its turn
		return fmt.Errorf("with all nodes: %w", err)
	}
	e.unlock()
	t := &e.together
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return cancelled(ctx, "waiting for another operation of all nodes")
	}
	defer func() { <-t.turn }()
	t.peers.ctx = ctx
	return f(t.group)
}

// Broadcast brings the root's b to all nodes' b (MPI_Bcast). This and the following are called by
// all nodes, in the same order, with the same root and with memory of the same lengths. After an
// error, such as the end of the context, the nodes are not at the same place any more, and nothing
// of the kind can be called again. Errors are ErrLengths, ErrRoot, that a node is gone
// (*am.Undelivered), that the context ended, and ErrHandler within a handler. A *Missing in them
// says for which nodes it waited.
func (e *Endpoint) Broadcast(ctx context.Context, root int, b []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.Broadcast(root, b) })
}

// Gather brings all nodes' send to the root's recv, in the order of the nodes (MPI_Gather). Other
// nodes need no recv.
func (e *Endpoint) Gather(ctx context.Context, root int, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.Gather(root, send, recv) })
}

// Scatter brings each node its block of the root's send, which has as many as there are nodes, to
// recv (MPI_Scatter). Other nodes need no send.
func (e *Endpoint) Scatter(ctx context.Context, root int, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.Scatter(root, send, recv) })
}

// AllGather brings all nodes' send to all nodes' recv, in the order of the nodes (MPI_Allgather).
func (e *Endpoint) AllGather(ctx context.Context, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.AllGather(send, recv) })
}

// AllToAll brings block i of each node's send to node i, where that of node j is block j of recv
// (MPI_Alltoall). Both have as many equally long blocks as there are nodes.
func (e *Endpoint) AllToAll(ctx context.Context, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.AllToAll(send, recv) })
}

// Number is a type that reductions compute with.
type Number = collective.Number

// Reduce combines the nodes' v, element by element, and puts the result into the root's v
// (MPI_Reduce); what is in that of the others afterwards is of no use. The order of the operations
// depends on the number of nodes and the root alone. An operation that there is not is
// am.ErrOperation.
func Reduce[T Number](ctx context.Context, e *Endpoint, root int, op am.Operation, v []T) error {
	return e.all(ctx, func(g *collective.Group) error { return collective.Reduce(g, root, op, v) })
}

// AllReduce is Reduce with the result on all nodes, the same bits on each (MPI_Allreduce).
func AllReduce[T Number](ctx context.Context, e *Endpoint, op am.Operation, v []T) error {
	return e.all(ctx, func(g *collective.Group) error { return collective.AllReduce(g, op, v) })
}

// Scan combines the v of the nodes up to this one, itself included, and puts the result into v
// (MPI_Scan).
func Scan[T Number](ctx context.Context, e *Endpoint, op am.Operation, v []T) error {
	return e.all(ctx, func(g *collective.Group) error { return collective.Scan(g, op, v) })
}
