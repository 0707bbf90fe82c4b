package collective

// This file has the group, and the operations that move bytes.

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/funet/funet/uspace/am"
)

// Short is the longest block in bytes that travels through other nodes to save rounds. Longer
// blocks go directly.
const Short = 4096

// ErrLengths reports that the nodes gave an operation memory of lengths that do not fit together.
var ErrLengths = errors.New("collective: all nodes must give the same lengths")

// ErrRoot reports a root that is not a node of the group.
var ErrRoot = errors.New("collective: no such root in the group")

// Peers is the part of a node's endpoint that a group needs. An am.Endpoint is one.
type Peers interface {
	Node() int
	Nodes() int
	// Exchange sends a message with a tag to some nodes and receives one from a node at the same
	// time (MPI_Sendrecv). Short messages leave together. It returns the length of the received
	// message, and am.ErrTruncate if the message is longer than in. from may be Nobody.
	Exchange(tag uint32, to []int, out []byte, from int, in []byte) (int, error)
}

// Nobody stands for no node in an exchange.
const Nobody = -1

// Group is the group of all nodes, as one of them sees it.
type Group struct {
	peers       Peers
	node, nodes int
	number      uint32
	room        []uint64 // for blocks that travel through this node
	to          []int    // memory for the nodes of an exchange
}

// New makes the group of an endpoint. All nodes begin with the same number, 0.
func New(p Peers) *Group { return &Group{peers: p, node: p.Node(), nodes: p.Nodes()} }

// MaxNumber is the largest number for Renumber.
const MaxNumber = 1<<14 - 1

// Renumber restarts the count of operations from a number, 0 to MaxNumber. All nodes call it with
// the same number, and none of them may be in an operation. Messages of operations with other
// numbers are no longer received.
func (g *Group) Renumber(number uint32) { g.number = number << 16 }

// begin begins an operation and returns its tag.
func (g *Group) begin() uint32 {
	g.number++
	return am.GroupTag | g.number&(1<<30-1)
}

// run carries out an operation with its tag, unless its arguments are wrong.
func (g *Group) run(name string, wrong error, operation func(tag uint32) error) error {
	err := wrong
	if err == nil {
		err = operation(g.begin())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// lengths refuses memory that is not as long as the given blocks.
func lengths(b []byte, blocks, size int) error {
	if len(b) != blocks*size {
		return fmt.Errorf("%d bytes for %d blocks of %d: %w", len(b), blocks, size, ErrLengths)
	}
	return nil
}

// send does the sending half of an exchange, and receive the receiving half.
func (g *Group) send(tag uint32, to int, out []byte) error {
	return g.exchange(tag, to, out, Nobody, nil)
}

func (g *Group) receive(tag uint32, from int, in []byte) error {
	return g.exchange(tag, Nobody, nil, from, in)
}

// exchange exchanges messages. A message that is not as long as in is an error.
func (g *Group) exchange(tag uint32, to int, out []byte, from int, in []byte) error {
	if g.to = g.to[:0]; to != Nobody {
		g.to = append(g.to, to)
	}
	return g.exchanges(tag, out, from, in)
}

// exchanges is exchange with all nodes of g.to.
func (g *Group) exchanges(tag uint32, out []byte, from int, in []byte) error {
	n, err := g.peers.Exchange(tag, g.to, out, from, in)
	switch {
	case errors.Is(err, am.ErrTruncate), err == nil && from != Nobody && n != len(in):
		return fmt.Errorf("node %d got %d bytes from node %d, and expected %d: %w", g.node, n, from,
			len(in), ErrLengths)
	}
	return err
}

// root refuses a root that is not a node.
func (g *Group) root(root int) error {
	if uint(root) >= uint(g.nodes) {
		return fmt.Errorf("root %d of %d nodes: %w", root, g.nodes, ErrRoot)
	}
	return nil
}

// after returns the node d places further on in the ring of all nodes.
func (g *Group) after(d int) int { return ((g.node+d)%g.nodes + g.nodes) % g.nodes }

// Barrier returns when all nodes have called it (MPI_Barrier).
func (g *Group) Barrier() error {
	return g.run("barrier", nil, func(tag uint32) error {
		for d := 1; d < g.nodes; d *= 2 {
			if err := g.exchange(tag, g.after(d), nil, g.after(-d), nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Broadcast copies the root's b to all nodes' b (MPI_Bcast).
func (g *Group) Broadcast(root int, b []byte) error {
	return g.run("broadcast", g.root(root), func(tag uint32) error { return g.broadcast(tag, root, b) })
}

// broadcast goes down the binomial tree. Nodes are counted from the root. A node gets b from the
// node whose number lacks its lowest bit. It passes b to the nodes with one further bit below that,
// the largest subtree first. Short messages leave together.
func (g *Group) broadcast(tag uint32, root int, b []byte) error {
	me := g.after(-root)
	bit := span(me, g.nodes)
	if me != 0 {
		if err := g.receive(tag, (me-bit+root)%g.nodes, b); err != nil {
			return err
		}
	}
	g.to = g.to[:0]
	for bit /= 2; bit > 0; bit /= 2 {
		if node := (me + bit + root) % g.nodes; me+bit >= g.nodes {
			continue
		} else if len(b) <= Short {
			g.to = append(g.to, node)
		} else if err := g.send(tag, node, b); err != nil {
			return err
		}
	}
	if len(b) > Short || len(g.to) == 0 {
		return nil
	}
	return g.exchanges(tag, b, Nobody, nil)
}

// span returns the size of a node's subtree in a binomial tree of a power of two of nodes. That is
// the node's lowest bit. The root has the smallest power of two that has room for all nodes.
func span(me, nodes int) int {
	if me == 0 {
		return 1 << bits.Len(uint(nodes-1))
	}
	return me & -me
}

// Gather copies all nodes' send, which are equally long, to the root's recv, in the order of the
// nodes (MPI_Gather). Only the root needs recv.
func (g *Group) Gather(root int, send, recv []byte) error {
	err := g.root(root)
	if err == nil && g.node == root {
		err = lengths(recv, g.nodes, len(send))
	}
	return g.run("gather", err, func(tag uint32) error {
		if len(send) <= Short {
			return g.gatherByTree(tag, root, send, recv)
		}
		return g.gatherDirectly(tag, root, send, recv)
	})
}

func (g *Group) gatherDirectly(tag uint32, root int, send, recv []byte) error {
	if g.node != root {
		return g.send(tag, root, send)
	}
	for node := range g.nodes {
		block := recv[node*len(send):][:len(send)]
		if node == root {
			copy(block, send)
		} else if err := g.receive(tag, node, block); err != nil {
			return err
		}
	}
	return nil
}

// gatherByTree collects the blocks of a node's subtree, counted from the root on, and sends them to
// the node's parent.
func (g *Group) gatherByTree(tag uint32, root int, send, recv []byte) error {
	me, size := g.after(-root), len(send)
	top := span(me, g.nodes)
	subtree := min(top, g.nodes-me)
	blocks := g.memory(subtree * size)
	copy(blocks, send)
	for bit := 1; bit < top && me+bit < g.nodes; bit *= 2 {
		theirs := blocks[bit*size : min(2*bit, subtree)*size]
		if err := g.receive(tag, (me+bit+root)%g.nodes, theirs); err != nil {
			return err
		}
	}
	if me != 0 {
		return g.send(tag, (me-top+root)%g.nodes, blocks)
	}
	n := copy(recv[root*size:], blocks) // the root is the first
	copy(recv, blocks[n:])
	return nil
}

// Scatter copies block i of the root's send to recv of node i (MPI_Scatter). send has a block for
// each node. Only the root needs send.
func (g *Group) Scatter(root int, send, recv []byte) error {
	err := g.root(root)
	if err == nil && g.node == root {
		err = lengths(send, g.nodes, len(recv))
	}
	return g.run("scatter", err, func(tag uint32) error {
		if len(recv) <= Short {
			return g.scatterByTree(tag, root, send, recv)
		}
		return g.scatterDirectly(tag, root, send, recv)
	})
}

func (g *Group) scatterDirectly(tag uint32, root int, send, recv []byte) error {
	if g.node != root {
		return g.receive(tag, root, recv)
	}
	for d := range g.nodes { // not all nodes' blocks wait for those of node 0
		node := g.after(d)
		block := send[node*len(recv):][:len(recv)]
		if node == root {
			copy(recv, block)
		} else if err := g.send(tag, node, block); err != nil {
			return err
		}
	}
	return nil
}

// scatterByTree is gatherByTree backwards.
func (g *Group) scatterByTree(tag uint32, root int, send, recv []byte) error {
	me, size := g.after(-root), len(recv)
	top := span(me, g.nodes)
	subtree := min(top, g.nodes-me)
	blocks := g.memory(subtree * size)
	if me == 0 {
		n := copy(blocks, send[root*size:])
		copy(blocks[n:], send)
	} else if err := g.receive(tag, (me-top+root)%g.nodes, blocks); err != nil {
		return err
	}
	for bit := top / 2; bit > 0; bit /= 2 {
		if bit < subtree {
			if err := g.send(tag, (me+bit+root)%g.nodes, blocks[bit*size:min(2*bit, subtree)*size]); err != nil {
				return err
			}
		}
	}
	copy(recv, blocks)
	return nil
}

// AllGather copies all nodes' send, which are equally long, to all nodes' recv, in the order of the
// nodes (MPI_Allgather).
func (g *Group) AllGather(send, recv []byte) error {
	return g.run("all-gather", lengths(recv, g.nodes, len(send)), func(tag uint32) error {
		if len(send) <= Short {
			return g.double(tag, send, recv)
		}
		return g.ring(tag, send, recv)
	})
}

// ring passes each block on to the next node, N-1 times.
func (g *Group) ring(tag uint32, send, recv []byte) error {
	block := func(node int) []byte { return recv[node*len(send):][:len(send)] }
	copy(block(g.node), send)
	for d := range g.nodes - 1 {
		if err := g.exchange(tag, g.after(1), block(g.after(-d)), g.after(-1), block(g.after(-d-1))); err != nil {
			return err
		}
	}
	return nil
}

// double receives in each round as many blocks as it has: those of the nodes that follow. In the
// end it puts all blocks in their order.
func (g *Group) double(tag uint32, send, recv []byte) error {
	size := len(send)
	blocks := g.memory(g.nodes * size)
	copy(blocks, send)
	for d := 1; d < g.nodes; d *= 2 {
		n := min(d, g.nodes-d) * size
		if err := g.exchange(tag, g.after(-d), blocks[:n], g.after(d), blocks[d*size:][:n]); err != nil {
			return err
		}
	}
	n := copy(recv[g.node*size:], blocks)
	copy(recv, blocks[n:])
	return nil
}

// AllToAll copies block i of each node's send to node i. There the block of node j is block j of
// recv (MPI_Alltoall). Both have a block for each node, all equally long.
func (g *Group) AllToAll(send, recv []byte) error {
	size := len(send) / g.nodes
	err := lengths(send, g.nodes, size)
	if err == nil {
		err = lengths(recv, g.nodes, size)
	}
	return g.run("all-to-all", err, func(tag uint32) error {
		copy(recv[g.node*size:][:size], send[g.node*size:])
		for d := 1; d < g.nodes; d++ {
			to, from := g.after(d), g.after(-d)
			if err := g.exchange(tag, to, send[to*size:][:size], from, recv[from*size:][:size]); err != nil {
				return err
			}
		}
		return nil
	})
}

// memory returns n bytes for blocks that travel through this node.
func (g *Group) memory(n int) []byte {
	if words := (n + 7) / 8; words > len(g.room) {
		g.room = make([]uint64, words)
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(g.room))), n)
}
