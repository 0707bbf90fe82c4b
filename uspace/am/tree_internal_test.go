package am

// This file tests the tree of collective calls.

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// TestTree: every node but the root is one child of its parent, and the root is at most
// ceil(log2 N) hops away, whatever the number of nodes.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, 1<<16)).Draw(t, "nodes")
		root := rapid.IntRange(0, nodes-1).Draw(t, "root")
		node := rapid.IntRange(0, nodes-1).Draw(t, "node")
		at, hops := tree{root, node, nodes}, 0
		for at.relative() != 0 {
			parent, k := at.parent()
			up := tree{root, parent, nodes}
			if k >= up.children() || k >= maxChildren || up.child(k) != at.node {
				t.Fatalf("node %d says it is child %d of %d, which has %d", at.node, k, parent, up.children())
			}
			at, hops = up, hops+1
		}
		if at.node != root || hops > bits.Len(uint(nodes-1)) {
			t.Fatalf("%d hops from %d to %d", hops, node, at.node)
		}
		for k, v := 0, (tree{root, node, nodes}); k < v.children(); k++ {
			child := tree{root, v.child(k), nodes}
			if p, i := child.parent(); child.relative() <= v.relative() || p != node || i != k {
				t.Fatalf("child %d of %d is %d, which says it is child %d of %d", k, node, child.node, i, p)
			}
		}
	})
}
