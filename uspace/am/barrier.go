package am

// This file is the barrier and the broadcast, along the tree.

// Barrier returns when every node of the group has called it; all nodes call it equally
// often. With nothing else under way it takes at most 2*ceil(log2 N) hops and 2(N-1) messages, at
// request priority. Main program only (ErrHandler).
//
// It returns an Undelivered error when a node that it waits for cannot be reached, or
// when any message came back meanwhile; called again it goes on where it stopped. It
// returns ErrCollective when the nodes call different things.
func (e *Endpoint) Barrier() error {
	return e.collect(0, barrierKind, 0, first, nil)
}

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
