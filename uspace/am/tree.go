package am

// This file defines the tree of collective calls: the binomial tree of the nodes' numbers relative
// to the root. A parent's number is the node's number without its lowest set bit. Child k is 2^k
// further on, for every k below the node's lowest set bit. So the farthest node is at most
// ceil(log2 N) hops from the root.

import "math/bits"

// maxChildren is the largest number of children of a node, with 65536 nodes.
const maxChildren = 16

// tree is a node's place in the tree with the given root.
type tree struct{ root, node, nodes int }

// relative returns the node's number counted from the root.
func (t *tree) relative() int { return (t.node - t.root + t.nodes) % t.nodes }

// parent returns the node's parent, and the node's index among its children; not for the root.
func (t *tree) parent() (node, k int) {
	r := t.relative()
	k = bits.TrailingZeros(uint(r))
	return (r - 1<<k + t.root) % t.nodes, k
}

// children returns the number of children that are possible: child k exists for all k below it.
func (t *tree) children() int {
	r := t.relative()
	limit := bits.Len(uint(t.nodes - 1))
	if r != 0 {
		limit = bits.TrailingZeros(uint(r))
	}
	for limit > 0 && r+1<<(limit-1) >= t.nodes {
		limit--
	}
	return limit
}

// child returns child k.
func (t *tree) child(k int) int { return (t.relative() + 1<<k + t.root) % t.nodes }
