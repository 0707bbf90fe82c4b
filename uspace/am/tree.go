package am

// This file is the tree that collective calls go along: the binomial tree of the nodes' numbers
// relative to the root. The number of a node's parent lacks the node's lowest bit; child k is 2^k
// further on, for every k below the node's lowest bit. So the farthest node is at most ceil(log2 N)
// hops from the root.

import "math/bits"

// maxChildren is the most children of a node, of 65536.
const maxChildren = 16

// tree is a node's place in the tree with a root.
type tree struct{ root, node, nodes int }

// relative returns the node's number counted from the root.
func (t *tree) relative() int { return (t.node - t.root + t.nodes) % t.nodes }

// parent returns the node's parent, and which child of it the node is; not for the root.
func (t *tree) parent() (node, k int) {
	r := t.relative()
	k = bits.TrailingZeros(uint(r))
	return (r - 1<<k + t.root) % t.nodes, k
}

// children returns how many children there can be: child k exists for all k below.
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
