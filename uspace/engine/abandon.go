package engine

// This file ends a context whose memory the card cannot use any more, because a load or a store
// there failed. In Go such a failure panics. The card's owner recovers, and the step that was under
// way ends in the middle.
//
// So a step touches the memory of processes only where ending there leaves shared state whole:
//   - Control, retrieval, delivery from the receive FIFOs and publishing are the context's own. A
//     line that was taken and not loaded yet is lost to that context alone.
//   - A packet that is being delivered, from the network or from a context here, is answered, or
//     its line freed, only afterwards. The sender still has the packet, and tries again.
//   - A frame whose block is being read counts as lost, so the frame is sent again.
//   - A packet that returns to its process waits in the card until the context is published.
//
// Contexts that were to be published after the one that failed are published in the next step.

// Abandon is Detach for a context whose memory must not be touched: nothing is stored there
// any more. Blocks that are in flight still read the memory: the reads must succeed, whatever they
// yield. The card's owner calls Abandon between two steps, and steps the card as before.
func (c *Card) Abandon(x *Context) {
	c.sched.unlist(x)
	c.bells.rise(x)
	x.away, x.torn = true, true
	c.in.single = false // the step may have ended within a frame of one packet
	c.Detach(x)
}
