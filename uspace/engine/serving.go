package engine

// This file names the context for which the card works, so that an error of the card's own can be
// laid at somebody's door. When the work panics, the card's owner recovers and ends that context
// (Abandon) instead of the card: what a process can have the card do wrong, it does wrong for the
// context of that process.
//
// The same rules as for memory that fails (abandon.go) keep the rest whole: the step ends in the
// middle, and a packet is answered, or its line freed, only after it was delivered. The link's own
// state is nobody's. An owner whose card panics while it serves nobody has no whole card any more.

// Serving returns the context for which the card worked last in a step, or in Attach, Arrive,
// SwitchOut or SwitchIn. It returns nil after such work has ended, while the card works for all,
// and in the units of a modelled machine. It is for the goroutine that steps the card, which asks
// after it has recovered from a panic.
func (c *Card) Serving() *Context {
	if x := c.serving; x != nil && !x.detached {
		return x
	}
	return nil
}
