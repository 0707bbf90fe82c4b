package engine

// This file decides which contexts a step looks at.
//
// A context is awake or asleep. A step looks at those that are awake. One that has
// been quiet for two naps, and is one of many, is put to sleep: its process rings a
// doorbell (funi.Doorbells) with what it does next, a packet that arrives wakes it,
// and in case another process took the ring away the card looks at one sleeper at
// every lookEvery-th step: after that many steps times the number of contexts at the
// latest it is found. So a step costs as much as there is traffic, not as many
// processes as are attached.

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// alwaysAwake contexts are too few to be worth sleeping: their processes never
	// ring.
	alwaysAwake = 8
	// napEvery is how many steps pass between two looks for quiet contexts.
	napEvery = 64
	// lookEvery is how many steps pass between two looks at a sleeper.
	lookEvery = 16
)

// wake lets steps look at the context.
func (c *Card) wake(x *Context) {
	if x.away {
		return
	}
	x.awake, x.place = true, len(c.awake)
	c.seat(x)
	c.awake = append(c.awake, x)
	c.tell(x)
}

// Doze tells all processes that the card's owner is about to stop stepping it for a
// while, so that they wake its thread with what they do next (funi.Memory.Wake). What one
// did without seeing that is found by the next step, so step once more and sleep only if
// that step had nothing to do; then call Rouse. Between the two no context is attached
// or detached.
func (c *Card) Doze() {
	c.dozing = true
	for _, x := range c.contexts {
		if x.away {
			continue
		}
		c.tell(x)
		if !x.awake && x.stirs() {
			c.wake(x)
		}
	}
}

// Rouse ends Doze.
func (c *Card) Rouse() {
	c.dozing = false
	for _, x := range c.contexts {
		if !x.away {
			c.tell(x)
		}
	}
}

// tell tells a process what it has to do when it has stored something.
func (c *Card) tell(x *Context) {
	switch {
	case c.dozing:
		x.iface.Doze(x.bell)
	case x.awake:
		x.iface.Wake()
	default:
		x.iface.Sleep(x.bell)
	}
}

// TakeCalled returns the contexts whose processes asked to be woken and for which the card
// has published something since the last call, each once: in a step, in SwitchOut or
// SwitchIn, or for what the owner stored. Whoever takes the list wakes them all; the list
// is the card's and valid until the next call of a method of card or context.
func (c *Card) TakeCalled() []*Context {
	list := c.called
	for _, x := range list {
		x.called = false
	}
	c.called = c.called[:0]
	return list
}

// call puts the context on the list of those to wake if its process waits for what has been
// published since the last call. It follows everything that publishes.
func (c *Card) call(x *Context) {
	if x.iface.Changed() && x.iface.Awaited() && !x.called {
		x.called = true
		c.called = append(c.called, x)
	}
}

// uncall takes a context that is detached off that list.
func (c *Card) uncall(x *Context) {
	if !x.called {
		return
	}
	x.called = false
	c.called = slices.DeleteFunc(c.called, func(y *Context) bool { return y == x })
}

// unlist takes the context off the list of those that are awake.
func (c *Card) unlist(x *Context) {
	if !x.awake {
		return
	}
	last := c.awake[len(c.awake)-1]
	c.awake[x.place], last.place = last, x.place
	c.awake[len(c.awake)-1] = nil
	c.awake = c.awake[:len(c.awake)-1]
	x.awake = false
	c.unseat(x)
}

// rung wakes the contexts whose bells have been rung.
func (c *Card) rung() {
	d := c.cfg.Doorbells
	for s := atomic.SwapUint64(&d.Summary, 0); s != 0; s &= s - 1 {
		w := bits.TrailingZeros64(s)
		if w >= len(d.Bells) {
			return // not a bell
		}
		for b := atomic.SwapUint64(&d.Bells[w], 0); b != 0; b &= b - 1 {
			if x := c.byBell[w*64+bits.TrailingZeros64(b)]; x != nil && !x.awake {
				c.wake(x)
			}
		}
	}
}

// look is for the sleepers: at every step whether a bell was rung, now and then at one
// of them unasked, and for those that ought to be.
func (c *Card) look() {
	if len(c.awake) < len(c.contexts) {
		if atomic.LoadUint64(&c.cfg.Doorbells.Summary) != 0 {
			c.rung()
		}
		if c.steps%lookEvery == 0 {
			x := c.contexts[int(c.steps/lookEvery)%len(c.contexts)]
			if !x.awake && !x.away && x.stirs() {
				c.wake(x)
			}
		}
	}
	if c.steps%napEvery == 0 && len(c.contexts) > alwaysAwake {
		for i := 0; i < len(c.awake); {
			if x := c.awake[i]; x.drowsy() && c.sleep(x) {
				continue // another has taken its place
			}
			i++
		}
	}
}

// stirs reports whether the process has done something that the card has not seen.
func (x *Context) stirs() bool {
	return x.iface.Pending(arctic.Reply) > 0 || x.iface.Pending(arctic.Request) > 0 || x.iface.Load(funi.Control) != x.seen
}

// drowsy reports whether nothing has happened in the context since the last nap, and
// nothing waits in it.
func (x *Context) drowsy() bool {
	mark := x.iface.Mark()
	same := mark == x.mark
	x.mark = mark
	return same && x.modes|x.user == 0 && !x.ticket.changed && x.Idle()
}

// sleep puts a context to sleep, unless its process did something meanwhile.
func (c *Card) sleep(x *Context) bool {
	c.call(x) // what its owner stored since the last step
	c.unlist(x)
	c.tell(x)
	if !x.stirs() {
		return true
	}
	c.wake(x)
	return false
}
