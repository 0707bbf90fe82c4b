package engine

// This file decides which contexts a step looks at.
//
// A context is awake or asleep. A step looks at those that are awake. A context that has been quiet
// for two naps, and is one of many, is put to sleep. Its process then rings a doorbell
// (funi.Doorbells) with its next action; a packet that arrives also wakes it.
//
// A page of doorbells belongs to the processes that may write it, such as those of one user
// (Card.Doorbells). Their writes to it delay no other processes. A step looks at lookPages of the
// pages that have sleepers, in turn. So a ring is seen after as many steps as there are such pages,
// divided by lookPages: at most 256, whatever others do, and with few users in the next step. When
// a page was rung the card looks only at the bells of that page's contexts.
//
// A process may take away the ring of another on the same page. So at every lookEvery-th step the
// card looks at one sleeper unasked. It finds the other after at most lookEvery steps times the
// number of contexts. The cost of a step depends on the traffic, not on the number of attached
// processes or users.

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// alwaysAwake is the number of contexts up to which none sleeps: so few are not worth it, and
	// their processes never ring.
	alwaysAwake = 8
	// napEvery is the number of steps between two looks for quiet contexts.
	napEvery = 64
	// lookEvery is the number of steps between two looks at a sleeper.
	lookEvery = 16
	// lookPages is the number of pages of doorbells that a step looks at.
	lookPages = 8
)

// bells is a page of doorbells and the contexts whose processes ring there.
type bells struct {
	page         *funi.Doorbells
	contexts     int
	own          [funi.MaxContexts / 64]uint64 // bells of its contexts
	words        uint64                        // bit i: own[i] is not 0
	sleepers     int
	ringingIndex int // in Card.ringing, if it has sleepers
}

// Doorbells lets the context's process ring at a page that only some processes can write. All
// others ring at the card's own page, Config.Doorbells. Several contexts may have the same page.
// The process must not ring anywhere yet.
func (c *Card) Doorbells(x *Context, page *funi.Doorbells) {
	if x.asleep {
		c.wake(x)
	}
	c.leaveBells(x)
	c.joinBells(x, page)
	x.iface.Memory().Doorbells = page
}

// joinBells puts the context's bell on a page.
func (c *Card) joinBells(x *Context, page *funi.Doorbells) {
	b := c.bells[page]
	if b == nil {
		if c.bells == nil {
			c.bells = map[*funi.Doorbells]*bells{}
		}
		b = &bells{page: page}
		c.bells[page] = b
	}
	b.contexts++
	b.own[x.bell/64] |= 1 << (x.bell % 64)
	b.words |= 1 << (x.bell / 64)
	x.bells = b
}

// leaveBells takes the context's bell off its page.
func (c *Card) leaveBells(x *Context) {
	b := x.bells
	w := x.bell / 64
	if b.own[w] &^= 1 << (x.bell % 64); b.own[w] == 0 {
		b.words &^= 1 << w
	}
	if b.contexts--; b.contexts == 0 {
		delete(c.bells, b.page)
	}
}

// lieDown notes that a context sleeps, and rise that it no longer does.
func (c *Card) lieDown(x *Context) {
	x.asleep = true
	if b := x.bells; b.sleepers == 0 {
		b.ringingIndex = len(c.ringing)
		c.ringing = append(c.ringing, b)
	}
	x.bells.sleepers++
}

func (c *Card) rise(x *Context) {
	if !x.asleep {
		return
	}
	x.asleep = false
	b := x.bells
	if b.sleepers--; b.sleepers > 0 {
		return
	}
	last := c.ringing[len(c.ringing)-1]
	c.ringing[b.ringingIndex], last.ringingIndex = last, b.ringingIndex
	c.ringing[len(c.ringing)-1] = nil
	c.ringing = c.ringing[:len(c.ringing)-1]
}

// wake lets steps look at the context.
func (c *Card) wake(x *Context) {
	if x.away {
		return
	}
	c.rise(x)
	x.calm, c.tickets = false, c.tickets || x.ticket.changed
	x.awake, x.awakeIndex = true, len(c.awake)
	c.seat(x)
	c.awake = append(c.awake, x)
	c.tell(x)
}

// Doze tells all processes that the card's owner is about to stop stepping it for a while, so that
// they wake its thread with their next action (funi.Memory.Wake). The next step finds actions of
// processes that did not see that in time. So step once more, sleep only if that step had nothing
// to do, and then call Rouse. Between Doze and Rouse no context is attached or detached.
func (c *Card) Doze() {
	c.dozing, c.resumes = true, Never
	for _, x := range c.contexts {
		if x.away || c.rests(x.account) {
			continue // who rests cannot wake the thread: the next step says until when
		}
		c.tell(x)
		if !x.awake && x.stirs() {
			c.wake(x)
		}
	}
}

// Retime moves timers of the link that would expire in vain to the time at which something is due,
// a few at a call. The next step, before a sleep, then says when the card really wants to run.
func (c *Card) Retime() { c.link.Retime() }

// Nap is Doze for a rest of some microseconds. It tells only the processes whose contexts are awake
// and do not rest (Charge), and so costs nothing for the others, whose messages wait until the nap
// is over.
func (c *Card) Nap() {
	c.napping, c.resumes = true, Never
	for _, a := range c.busy {
		if c.rests(a) {
			continue
		}
		for _, j := range a.busy {
			for _, x := range j.awake {
				c.tell(x)
			}
		}
	}
}

// Rouse ends Doze or Nap.
func (c *Card) Rouse() {
	told := c.contexts
	if c.napping {
		told = c.awake // who was put to sleep meanwhile was told so then
	}
	c.dozing, c.napping = false, false
	for _, x := range told {
		if !x.away && x.told {
			c.tell(x)
		}
	}
}

// tell tells a process whether it has to ring a doorbell or wake the card's thread when it has
// stored something.
func (c *Card) tell(x *Context) {
	x.told = c.dozing || c.napping && x.awake
	switch {
	case x.told:
		x.iface.Doze(x.bell)
	case x.awake:
		x.iface.Wake()
	default:
		x.iface.Sleep(x.bell)
	}
}

// TakeCalled returns the contexts whose processes asked to be woken and for which something was
// published since the last call, each once. A step, SwitchOut, SwitchIn or a store of the owner's
// publishes. The caller wakes them all. The list is the card's, and valid until the next call of a
// method of card or context.
func (c *Card) TakeCalled() []*Context {
	list := c.called
	for _, x := range list {
		x.called = false
	}
	c.called = c.called[:0]
	return list
}

// call puts the context on the list of those to wake if its process waits for something that was
// published since the last call. Every function that publishes calls it afterwards.
func (c *Card) call(x *Context) {
	x.iface.PublishWrites()
	if x.iface.Changed() && x.iface.Awaited() && !x.called {
		x.called = true
		c.called = append(c.called, x)
	}
}

// uncall takes a context that is detached off the list of those to wake.
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
	c.awake[x.awakeIndex], last.awakeIndex = last, x.awakeIndex
	c.awake[len(c.awake)-1] = nil
	c.awake = c.awake[:len(c.awake)-1]
	x.awake = false
	c.unseat(x)
}

// rung wakes the contexts of a page whose bells have been rung.
func (c *Card) rung(b *bells) {
	w := bits.TrailingZeros64(b.words)
	// the page's user, whose ring may be that of a bell that is nobody's
	c.byBell[w*64+bits.TrailingZeros64(b.own[w])].works(bellBytes)
	for s := atomic.SwapUint64(&b.page.Summary, 0) & b.words; s != 0; s &= s - 1 {
		w := bits.TrailingZeros64(s)
		for n := atomic.SwapUint64(&b.page.Bells[w], 0) & b.own[w]; n != 0; n &= n - 1 {
			x := c.byBell[w*64+bits.TrailingZeros64(n)]
			if x.works(bellBytes); x.asleep {
				c.wake(x)
			}
		}
	}
}

// listen looks at pages of doorbells with sleepers, in turn.
func (c *Card) listen() {
	for range min(lookPages, len(c.ringing)) {
		if len(c.ringing) == 0 {
			return // the last has been woken
		}
		if c.heard >= len(c.ringing) {
			c.heard = 0
		}
		b := c.ringing[c.heard]
		if atomic.LoadUint64(&b.page.Summary) != 0 {
			c.rung(b)
		}
		if c.heard < len(c.ringing) && c.ringing[c.heard] == b {
			c.heard++ // otherwise another page is there now
		}
	}
}

// look looks for sleepers to wake: at every step for bells that were rung, at every lookEvery-th at
// one sleeper unasked. It also looks for contexts that may go to sleep.
func (c *Card) look() {
	if len(c.awake) < len(c.contexts) {
		c.listen()
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
				continue // another context is there now
			}
			i++
		}
	}
}

// stirs reports whether the process has done something that the card has not seen.
func (x *Context) stirs() bool {
	return x.iface.Pending(arctic.Reply) > 0 || x.iface.Pending(arctic.Request) > 0 ||
		x.iface.Load(funi.Control) != x.seen
}

// drowsy reports whether nothing has happened in the context since the last nap, and nothing waits
// in it.
func (x *Context) drowsy() bool {
	mark := x.iface.Mark()
	same := mark == x.mark
	x.mark = mark
	return same && x.modes|x.user == 0 && !x.ticket.changed && x.Idle()
}

// sleep puts a context to sleep, unless its process did something meanwhile.
func (c *Card) sleep(x *Context) bool {
	c.call(x) // for what its owner stored since the last step
	c.unlist(x)
	c.lieDown(x)
	c.tell(x)
	if !x.stirs() {
		return true
	}
	c.wake(x)
	return false
}
