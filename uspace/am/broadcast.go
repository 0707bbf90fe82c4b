package am

// This file is the broadcast, along the tree.

// first returns its first argument: a broadcast combines nothing.
func first(a, _ uint64) uint64 { return a }

// Broadcast copies the root's words over those of all other nodes. All slices have the same length;
// after an error they may be overwritten in part. The number of words has no limit. A message
// carries 18 words, at request priority, and a node passes the words on to its children when all
// have arrived. So for many words transfers and Get are faster.
//
// Broadcast returns when the node has the words and has sent them on, and not before every node has
// called it. The first word takes up to 2*ceil(log2 N) hops. All nodes call it with the same root.
// Main program only. Errors are those of Barrier, and ErrNode.
func (e *Endpoint) Broadcast(root int, words []uint32) error {
	return e.collect(root, broadcastKind, 0, first, words)
}
