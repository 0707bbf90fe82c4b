package engine

// This file names the context for which the card works, so that an error of the card's own code can
// be charged to a context. When the work panics, the card's owner recovers and ends that context
// (Abandon) instead of the card. If a process makes the card fail, the card fails while it works
// for that process's context.
//
// The rules for memory that fails (abandon.go) also keep the rest whole here. The step ends in the
// middle; a packet is answered, or its line freed, only after it was delivered. The link's own
// state belongs to no context. A card that panics while Serving returns nil is not whole any more.

// Serving returns the context for which the card worked last in a step, or in Attach, Arrive,
// SwitchOut or SwitchIn. It returns nil after such work has ended, while the card works for all,
// and in the units of a modelled machine. It is for the goroutine that steps the card, which asks
// after it has recovered from a panic.
func (c *Card) Serving() *Context {
	if x := c.table.serving; x != nil && !x.detached {
		return x
	}
	return nil
}
