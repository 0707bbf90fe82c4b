package engine

// This file decides which contexts a step looks at.
//
// A context is awake or asleep. A step looks at those that are awake. A context that has been quiet
// for some steps, and is one of many, is put to sleep. Its process then rings a doorbell
// (funi.Doorbells) with its next action; a packet that arrives also wakes it. A ring costs process
// and card as much as a few looks. So while many are awake, a context is put to sleep as soon as
// the looks at it have cost that.
//
// A page of doorbells belongs to the processes that may write it, such as those of one user
// (Card.Doorbells). Their writes to it delay no other processes. A step looks at lookPages of the
// pages that have sleepers, in turn. So a ring is seen after as many steps as there are such pages,
// divided by lookPages, and with few users in the next step. When a page was rung the card looks
// only at the bells of that page's contexts.
//
// A process may take away the ring of another on the same page. So at every lookEvery-th step the
// card looks at one sleeper unasked. It finds the other after at most lookEvery steps times the
// number of contexts. The cost of a step depends on the traffic, not on the number of attached
// processes or users.

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/funet/funet/uspace/funi"
)

const (
	// alwaysAwake is the number of contexts up to which none sleeps: so few are not worth it, and
	// their processes never ring.
	alwaysAwake = 8
	// napEvery is the number of steps between two looks for quiet contexts.
	napEvery = 2
	// patience is the number of steps after which a context counts as quiet. While more than
	// alwaysAwake are awake it is haste.
	patience = 128
	haste    = 4
	// lookEvery is the number of steps between two looks at a sleeper.
	lookEvery = 16
	// lookPages is the number of pages of doorbells that a step looks at.
	lookPages = 8
	// napLooks is the number of contexts that a look for quiet ones looks at, in turn.
	napLooks = 256
	// napTries is the number of these that it tries to put to sleep.
	napTries = 32
	// dozeLooks is the number of sleepers that Doze looks at unasked, in turn.
	dozeLooks = 256
	// bellWords is the number of words of bells of a page, each of 64. The first nearWords are in
	// the page itself, the others in its FarDoorbells.
	bellWords = funi.MaxContexts / 64
	nearWords = funi.NearBells / 64
)

// bells is a page of doorbells and the contexts whose processes ring there.
type bells struct {
	page         *funi.Doorbells
	far          *funi.FarDoorbells // nil: contexts without a bell in the page have none
	contexts     int
	own          [bellWords]uint64                      // bells of its contexts
	words        [len(funi.FarDoorbells{}.Words)]uint64 // what far.Words may say
	some         uint64                                 // what page.Summary may say
	sleepers     int
	ringingIndex int // in doorbells.ringing, if it has sleepers
}

// doorbells holds the bells of a card's contexts.
type doorbells struct {
	sched *scheduler

	byBell  []*Context // nil: the bell is free
	free    numbers
	distant bool                       // FarBells is in force
	far     *funi.FarDoorbells         // those behind the card's own page
	pages   map[*funi.Doorbells]*bells // not used on the data path
	ringing []*bells                   // pages with sleepers
	heard   int                        // index in ringing of the next page to look at
}

// Doorbells lets the context's process ring at a page that only some processes can write. All
// others ring at the card's own page, Config.Doorbells. Several contexts may have the same page.
// The process must not ring anywhere yet.
//
// far may be nil. Then a context from funi.NearBells on stays awake.
func (c *Card) Doorbells(x *Context, page *funi.Doorbells, far *funi.FarDoorbells) {
	if x.asleep {
		c.sched.wake(x)
	}
	c.bells.leave(x)
	c.bells.join(x, page, far)
}

// FarBells has contexts that are attached from now on get the lowest free numbers from
// funi.NearBells on, or takes that back: by default they get the lowest of all. So an owner keeps
// the near ones for processes that know no others. The caller makes sure that one is free.
func (c *Card) FarBells(so bool) { c.bells.distant = so }

// give gives the context the first bell that is free.
func (d *doorbells) give(x *Context) {
	if d.distant {
		x.bell = d.free.takeFrom(funi.NearBells)
	} else {
		x.bell = d.free.take()
	}
	if more := int(x.bell) + 1 - len(d.byBell); more > 0 {
		d.byBell = append(d.byBell, make([]*Context, more)...)
	}
	d.byBell[x.bell] = x
}

// takeBack takes the bell of a context that ends.
func (d *doorbells) takeBack(x *Context) {
	d.byBell[x.bell] = nil
	d.free.give(x.bell)
}

// join puts the context's bell on a page, and tells its process where to ring.
func (d *doorbells) join(x *Context, page *funi.Doorbells, far *funi.FarDoorbells) {
	b := d.pages[page]
	if b == nil {
		if d.pages == nil {
			d.pages = map[*funi.Doorbells]*bells{}
		}
		b = &bells{page: page}
		d.pages[page] = b
	}
	if far != nil { // the page may have been without
		b.far = far
	}
	b.contexts++
	w := x.bell / 64
	if b.own[w] |= 1 << (x.bell % 64); w < nearWords {
		b.some |= 1 << w
	} else {
		w -= nearWords
		b.words[w/64] |= 1 << (w % 64)
		b.some |= 1 << (nearWords + w/64)
	}
	x.bells = b
	m := x.iface.Memory()
	m.Doorbells, m.Far = b.page, b.far
}

// leave takes the context's bell off its page.
func (d *doorbells) leave(x *Context) {
	b := x.bells
	w := x.bell / 64
	if b.own[w] &^= 1 << (x.bell % 64); b.own[w] == 0 {
		if w < nearWords {
			b.some &^= 1 << w
		} else {
			w -= nearWords
			if b.words[w/64] &^= 1 << (w % 64); b.words[w/64] == 0 {
				b.some &^= 1 << (nearWords + w/64)
			}
		}
	}
	if b.contexts--; b.contexts == 0 {
		delete(d.pages, b.page)
	}
}

// lieDown notes that a context sleeps, and rise that it no longer does.
func (d *doorbells) lieDown(x *Context) {
	x.asleep = true
	if b := x.bells; b.sleepers == 0 {
		b.ringingIndex = len(d.ringing)
		d.ringing = append(d.ringing, b)
		sleeps := uint32(0)
		if d.sched.dozing {
			sleeps = 1
		}
		atomic.StoreUint32(&b.page.Sleeps, sleeps)
	}
	x.bells.sleepers++
}

func (d *doorbells) rise(x *Context) {
	if !x.asleep {
		return
	}
	x.asleep = false
	b := x.bells
	if b.sleepers--; b.sleepers > 0 {
		return
	}
	last := d.ringing[len(d.ringing)-1]
	d.ringing[b.ringingIndex], last.ringingIndex = last, b.ringingIndex
	d.ringing[len(d.ringing)-1] = nil
	d.ringing = d.ringing[:len(d.ringing)-1]
}

// wake lets steps look at the context.
func (s *scheduler) wake(x *Context) {
	if x.away {
		return
	}
	s.bells.rise(x)
	x.calm, s.tickets = false, s.tickets || x.ticket.changed
	x.awake, x.awakeIndex = true, len(s.awake)
	s.seat(x)
	s.awake = append(s.awake, x)
	s.tell(x)
}

// Doze tells all processes that the card's owner is about to stop stepping it for a while, so that
// they wake its thread with their next action (funi.Memory.Wake). The next step finds actions of
// processes that did not see that in time. So step once more, sleep only if that step had nothing
// to do, and then call Rouse. Between Doze and Rouse no context is attached or detached.
//
// Processes whose contexts sleep find that in their doorbells. So Doze takes as long as there are
// contexts awake and users with sleepers. It looks for rings of each user, and at some sleepers
// unasked.
func (c *Card) Doze() {
	s := &c.sched
	s.dozing, s.resumes = true, Never
	for _, x := range s.awake {
		if !s.rests(x.account) { // else it cannot wake the thread: the next step says until when
			s.tell(x)
		}
	}
	for i := 0; i < len(s.bells.ringing); {
		b := s.bells.ringing[i]
		if !s.rests(s.bells.payer(b).account) {
			atomic.StoreUint32(&b.page.Sleeps, 1)
			if atomic.LoadUint64(&b.page.Summary) != 0 {
				s.bells.rung(b)
			}
		}
		if i < len(s.bells.ringing) && s.bells.ringing[i] == b {
			i++ // otherwise another page is there now
		}
	}
	for range min(dozeLooks, len(c.table.all)-len(s.awake)) {
		s.glance(s.glances)
		s.glances++
	}
}

// Retime moves timers of the link that would expire in vain to the time at which something is due,
// a few at a call. The next step, before a sleep, then says when the card really wants to run.
func (c *Card) Retime() { c.link.Retime() }

// Nap is Doze for a rest of some microseconds. It tells only the processes whose contexts are awake
// and do not rest (Charge), and so costs nothing for the others, whose messages wait until the nap
// is over.
func (c *Card) Nap() {
	c.sched.napping, c.sched.resumes = true, Never
	for _, a := range c.sched.busy {
		if c.sched.rests(a) {
			continue
		}
		for _, j := range a.busy {
			for _, x := range j.awake {
				c.sched.tell(x)
			}
		}
	}
}

// Rouse ends Doze or Nap.
func (c *Card) Rouse() {
	if c.sched.dozing {
		for _, b := range c.bells.ringing {
			atomic.StoreUint32(&b.page.Sleeps, 0)
		}
	}
	c.sched.dozing, c.sched.napping = false, false
	for _, x := range c.sched.awake { // who was put to sleep meanwhile was told so then
		if x.told {
			c.sched.tell(x)
		}
	}
}

// tell tells a process whether it has to ring a doorbell or wake the card's thread when it has
// stored something.
func (s *scheduler) tell(x *Context) {
	x.told = x.awake && (s.dozing || s.napping)
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
	list := c.table.called
	for _, x := range list {
		x.called = false
	}
	c.table.called = c.table.called[:0]
	return list
}

// call puts the context on the list of those to wake if its process waits for something that was
// published since the last call. Every function that publishes calls it afterwards.
func (t *contexts) call(x *Context) {
	if x.iface.Awaited() && !x.called {
		x.called = true
		t.called = append(t.called, x)
	}
}

// uncall takes a context that is detached off the list of those to wake.
func (t *contexts) uncall(x *Context) {
	if !x.called {
		return
	}
	x.called = false
	t.called = slices.DeleteFunc(t.called, func(y *Context) bool { return y == x })
}

// unlist takes the context off the list of those that are awake.
func (s *scheduler) unlist(x *Context) {
	if !x.awake {
		return
	}
	last := s.awake[len(s.awake)-1]
	s.awake[x.awakeIndex], last.awakeIndex = last, x.awakeIndex
	s.awake[len(s.awake)-1] = nil
	s.awake = s.awake[:len(s.awake)-1]
	x.awake = false
	s.unseat(x)
}

// payer returns a context of the page's user, whose ring may be that of a bell that is nobody's.
func (d *doorbells) payer(b *bells) *Context {
	w := bits.TrailingZeros64(b.some)
	if w >= nearWords {
		g := w - nearWords
		w = nearWords + g*64 + bits.TrailingZeros64(b.words[g])
	}
	return d.byBell[w*64+bits.TrailingZeros64(b.own[w])]
}

// rung wakes the contexts of a page whose bells have been rung.
func (d *doorbells) rung(b *bells) {
	payer := d.payer(b)
	payer.works(bellBytes)
	for s := atomic.SwapUint64(&b.page.Summary, 0) & b.some; s != 0; s &= s - 1 {
		w := bits.TrailingZeros64(s)
		if w < nearWords {
			d.rungWord(b, w, &b.page.Bells[w])
			continue
		}
		if b.far == nil {
			continue
		}
		payer.works(visitBytes)
		g := w - nearWords
		for s := atomic.SwapUint64(&b.far.Words[g], 0) & b.words[g]; s != 0; s &= s - 1 {
			w := g*64 + bits.TrailingZeros64(s)
			d.rungWord(b, nearWords+w, &b.far.Bells[w])
		}
	}
}

// rungWord wakes the contexts whose bells in a word have been rung.
func (d *doorbells) rungWord(b *bells, w int, word *uint64) {
	for n := atomic.SwapUint64(word, 0) & b.own[w]; n != 0; n &= n - 1 {
		x := d.byBell[w*64+bits.TrailingZeros64(n)]
		if x.works(bellBytes); x.asleep {
			d.sched.wake(x)
		}
	}
}

// listen looks at pages of doorbells with sleepers, in turn.
func (d *doorbells) listen() {
	for range min(lookPages, len(d.ringing)) {
		if len(d.ringing) == 0 {
			return // the last has been woken
		}
		if d.heard >= len(d.ringing) {
			d.heard = 0
		}
		b := d.ringing[d.heard]
		if atomic.LoadUint64(&b.page.Summary) != 0 {
			d.rung(b)
		}
		if d.heard < len(d.ringing) && d.ringing[d.heard] == b {
			d.heard++ // otherwise another page is there now
		}
	}
}

// look looks for sleepers to wake: at every step for bells that were rung, at every lookEvery-th at
// one sleeper unasked. It also looks for contexts that may go to sleep.
func (s *scheduler) look() {
	if len(s.awake) < len(s.table.all) {
		s.bells.listen()
		if s.clock.step%lookEvery == 0 {
			s.glance(int(s.clock.step / lookEvery))
		}
	}
	if s.clock.step%napEvery == 0 && len(s.table.all) > alwaysAwake {
		s.nap()
	}
}

// nap puts contexts to sleep that have been quiet for long enough.
func (s *scheduler) nap() {
	quiet := uint64(patience)
	if len(s.awake) > alwaysAwake {
		quiet = haste
	}
	tries := napTries
	for range min(napLooks, len(s.awake)) {
		if s.nodding >= len(s.awake) {
			s.nodding = 0
		}
		x := s.awake[s.nodding]
		if s.clock.step-x.touched <= quiet || s.rests(x.account) { // no step looks at who rests
			s.nodding++
			continue
		}
		if !s.dropsOff(x) {
			s.nodding++ // otherwise another context is there now
		}
		if tries--; tries == 0 {
			return
		}
	}
}

// dropsOff puts a context to sleep if it can sleep, at the expense of its account: one user may
// have a thousand contexts that have something to do whenever they are about to sleep.
func (s *scheduler) dropsOff(x *Context) bool {
	if x.spends(visitBytes); !x.drowsy() {
		return false
	}
	x.spends(bellBytes)
	return s.sleep(x)
}

// glance looks at a context unasked, and wakes it if it sleeps and its process has done something.
func (s *scheduler) glance(n int) {
	if x := s.table.all[n%len(s.table.all)]; !x.awake && !x.away && x.stirs() {
		s.wake(x)
	}
}

// stirs reports whether the process has done something that the card has not seen.
func (x *Context) stirs() bool {
	return !x.iface.Still(x.seen) || x.iface.Triggers() && x.iface.Memory().Page.Triggered() || x.paths.stirs()
}

// drowsy reports whether nothing waits in the context, and its process can ring. A context that has
// halted for its process waits for nothing but the process's next word, which rings, too.
func (x *Context) drowsy() bool {
	return x.modes|x.user<<1&^x.seen == 0 && (x.bell < funi.NearBells || x.bells.far != nil) && x.Idle()
}

// sleep puts a context to sleep, unless its process did something meanwhile.
func (s *scheduler) sleep(x *Context) bool {
	s.table.call(x) // for what its owner stored since the last step
	x.publishTicket()
	s.unlist(x)
	s.bells.lieDown(x)
	s.tell(x)
	if !x.stirs() {
		s.table.giveShelves(x) // it is idle: all lines are free
		return true
	}
	s.wake(x)
	return false
}
