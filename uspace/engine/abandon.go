package engine

// This file is the end of a context whose memory the card cannot use any more, such as one
// where a load or a store failed. What that does to the step that was under way is its owner's:
// in Go it panics, and where the owner recovers the step ends in the middle.
//
// So a step touches the memory of processes only where ending there leaves everything that
// others share whole:
//   - control, retrieval, delivery from the receive FIFOs and publishing are the context's own;
//     a line that was taken and not loaded yet is lost to it, and only to it.
//   - A packet that is being delivered, from the network or from a context here, is answered, or its
//     line freed, only afterwards: its sender has it still, and tries again.
//   - A frame of which the block is being read counts as lost, so it is sent again.
//   - What returns to a process waits in the card until the context is published.
//
// Whoever was to be published after it is in the next step.

// Abandon is Detach for a context whose memory must not be touched: nothing is stored there
// any more. What reads it, blocks that are in flight, must be able to, whatever it reads. Its owner
// calls it between two steps, and steps the card as before.
func (c *Card) Abandon(x *Context) {
	c.unlist(x)
	c.rise(x)
	x.away, x.torn = true, true
	c.Detach(x)
}
