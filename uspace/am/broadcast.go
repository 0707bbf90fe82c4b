package am

// This file is the broadcast, along the tree.

// first combines nothing.
func first(a, _ uint64) uint64 { return a }

// Broadcast copies words from the root to all nodes, which give it as many words; at the
// others they are overwritten, and after an error partly so. Any number of words fits;
// 18 go into one message, at request priority, and a node that is neither the root nor
// at the far end passes them on when all have come. Where more are sent, transfers and
// Get are faster.
//
// It returns when the node has them and has sent them on, and not before every
// node has called it: the first word takes up to 2*ceil(log2 N) hops. It is called by main
// programs only, by all nodes alike, and its errors are those of Barrier and ErrNode.
func (e *Endpoint) Broadcast(root int, words []uint32) error {
	return e.collect(root, broadcastKind, 0, first, words)
}
