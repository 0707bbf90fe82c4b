package funet

// This file holds the collective operations, with MPI's names (package collective).

import (
	"context"
	"fmt"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/collective"
)

// Errors of collective operations, besides those of SendTag and Recv.
var (
	// ErrLengths reports that the nodes passed memory of lengths that do not fit together.
	ErrLengths = collective.ErrLengths
	// ErrRoot reports a root that is not a node of the job.
	ErrRoot = collective.ErrRoot
)

// together is the state of the group.
type together struct {
	turn  chan struct{} // holds a value while an operation is in progress
	group *collective.Group
	peers peers
}

func (t *together) init(e *Endpoint) {
	t.turn = make(chan struct{}, 1)
	t.peers.endpoint = e
	t.group = collective.New(&t.peers)
}

// peers is the endpoint as the current collective operation sees it.
type peers struct {
	endpoint *Endpoint
	ctx      context.Context // of the operation
}

func (p *peers) Node() int  { return p.endpoint.Node() }
func (p *peers) Nodes() int { return p.endpoint.Nodes() }

// Exchange sends and receives messages with a tag of the group.
func (p *peers) Exchange(tag uint32, to []int, out []byte, from int, in []byte) (int, error) {
	if from == collective.Nobody {
		from = nobody
	}
	what, err := p.endpoint.exchange(p.ctx, "exchanging", tag, to, out, from, in)
	return what.Bytes, err
}

// all carries out a collective operation. Operations of other goroutines wait until it is over.
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

// Broadcast copies the root's b to b on all nodes (MPI_Bcast). All nodes must call this and the
// following operations in the same order, with the same root and with memory of the same lengths.
// After an error, such as the end of the context, the nodes are out of step, and no collective
// operation may be called again. Errors are ErrLengths, ErrRoot, *am.Undelivered if a node is gone,
// the end of the context, and ErrHandler within a handler. A *Missing among them lists the nodes
// that this node waited for.
func (e *Endpoint) Broadcast(ctx context.Context, root int, b []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.Broadcast(root, b) })
}

// Gather collects send of all nodes in the root's recv, in the order of the nodes (MPI_Gather).
// Other nodes need no recv.
func (e *Endpoint) Gather(ctx context.Context, root int, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.Gather(root, send, recv) })
}

// Scatter sends each node its block of the root's send, into recv (MPI_Scatter). The root's send
// has as many blocks as there are nodes. Other nodes need no send.
func (e *Endpoint) Scatter(ctx context.Context, root int, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.Scatter(root, send, recv) })
}

// AllGather collects send of all nodes in recv on all nodes, in node order (MPI_Allgather).
func (e *Endpoint) AllGather(ctx context.Context, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.AllGather(send, recv) })
}

// AllToAll sends block i of each node's send to node i, which stores the block from node j as block
// j of its recv (MPI_Alltoall). Both consist of one block for each node, all of equal length.
func (e *Endpoint) AllToAll(ctx context.Context, send, recv []byte) error {
	return e.all(ctx, func(g *collective.Group) error { return g.AllToAll(send, recv) })
}

// Number is a type that reductions compute with.
type Number = collective.Number

// Reduce combines the nodes' v, element by element, and puts the result into the root's v
// (MPI_Reduce). The v of the other nodes is undefined afterwards. The order of the operations
// depends only on the number of nodes and the root. An unknown operation returns am.ErrOperation.
func Reduce[T Number](ctx context.Context, e *Endpoint, root int, op am.Operation, v []T) error {
	return e.all(ctx, func(g *collective.Group) error { return collective.Reduce(g, root, op, v) })
}

// AllReduce is Reduce with the result on all nodes, the same bits on each (MPI_Allreduce).
func AllReduce[T Number](ctx context.Context, e *Endpoint, op am.Operation, v []T) error {
	return e.all(ctx, func(g *collective.Group) error { return collective.AllReduce(g, op, v) })
}

// Scan combines the v of nodes 0 to this one, inclusive, and puts the result into v (MPI_Scan).
func Scan[T Number](ctx context.Context, e *Endpoint, op am.Operation, v []T) error {
	return e.all(ctx, func(g *collective.Group) error { return collective.Scan(g, op, v) })
}
