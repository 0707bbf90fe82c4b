package engine

// This file is fairness among those to whom contexts belong, such as users (design idea 10).
// What a step does for an account is bounded in bytes, and the work of all is shared: first
// between accounts, then between the jobs of one, then between the contexts of a job. So a
// user's message waits for at most a few kilobytes of each other user, however many
// contexts, jobs, nodes and streams those have, and at whichever level.
//
// Retrieval and delivery to this very card have a budget for each step, and contexts are visited in
// turn: what is left is next in the next step, which follows at once. Dispatch is deficit round
// robin (Shreedhar and Varghese, 1995). In each round an account may send as many bytes as its
// quantum, replies first. A round ends when every account that has something to send, and may send,
// has sent it. That may take several steps while the transmit ring is full. An account that has the
// card to itself has more of everything, since nobody waits for it.
//
// Work that moves no packet is charged as well, as the bytes that are copied in the same time
// (Context.works and spends). It ends a visit when the account has spent its step's budget, and has
// its part of the time that the card's owner charges (Charge).
//
// Contexts that are on no account share one (Card.nobody).

import (
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

const (
	// packetBytes is the cost of a packet beside its bytes: short ones cost time, too.
	packetBytes = 64
	// visitBytes is the cost of a look at a context that is awake, skipBytes the cost
	// to find that all of a job have been looked at.
	visitBytes = 128
	// triedBytes is the cost of finding no room for a packet to this card.
	triedBytes = 512
	skipBytes  = 16
	// What follows is work besides packets and their bytes, measured by BenchmarkUnpaid: a byte is
	// a quarter of a nanosecond, as in link.FrameTime.
	//
	// pieceBytes is the cost of a packet of a long transfer, write or get, whose slot was paid
	// before.
	pieceBytes = arctic.MaxPacketSize + packetBytes
	// slotBytes is the cost of a slot: 45 ns where it is in the processor's cache, and about as
	// much again for each of its two cache lines that a process on another processor has written.
	slotBytes = 512
	// operationBytes is the cost of an operation on a window, an answer, or a copy of a multicast,
	// beyond that of a message: 100 to 120 ns.
	operationBytes = 384
	// completionBytes is the cost of telling a process what became of a request: 50 ns, for an
	// entry of a ring that it reads.
	completionBytes = 256
	// controlBytes is the cost of doing what CNTL asks for: 60 to 130 ns.
	controlBytes = 512
	// bellBytes is the cost of a bell: 60 ns, and a cache line of a process's.
	bellBytes = 512
	// sharedSlots is the most slots retrieved in one step from the queues of a level of all
	// contexts of an account, as long as each has at least leastSlots: less would make
	// short trains.
	sharedSlots = 512
	leastSlots  = 8
)

// account holds what the contexts of one user share. It exists as long as the user has contexts, or
// a group that had some is known, or packets of contexts that have ended are in flight.
type account struct {
	link.Account // what its frames are charged to
	id           uint32
	contexts     int
	groups       int // whose payer it is (route.go)
	awake        int // contexts that are awake
	jobs         []*job
	busy         []*job // with contexts that are awake
	turn         int    // of busy
	busyIndex    int    // in Card.busy

	// bytes that may still be retrieved in this step; below 0: what was done last took more
	retrieval int
	local     int    // the same for delivery to this card; below 0: a block was longer
	late      int    // bytes of late writes that the card has copied (late.go)
	room      uint32 // changes when a context that had no room for packets of this card has some
}

// job is an account's contexts in a group.
type job struct {
	account   *account
	gid       uint16
	contexts  int
	awake     []*Context
	turn      int    // of awake
	busyIndex int    // in account.busy
	step      uint64 // the last one that looked at a context of the job
	seen      int    // how many that step has looked at
}

// Account puts a context on the account of that number. Contexts on none, as all are at
// first, share one. Call it once for a context that is attached, before its process knows of
// it.
func (c *Card) Account(x *Context, id uint32) {
	a := c.accounts[id]
	if a == nil {
		if c.accounts == nil {
			c.accounts = map[uint32]*account{}
		}
		a = &account{id: id}
		c.accounts[id] = a
		c.busy = slices.Grow(c.busy, len(c.accounts)+1-len(c.busy)) // waking does not allocate
	}
	c.charge(x, a)
}

// charge puts a context on an account, as one of its group there; nil takes it off.
func (c *Card) charge(x *Context, a *account) {
	awake := x.awake
	if awake {
		c.unseat(x)
	}
	if old := x.job; old != nil {
		old.account.contexts--
		if old.contexts--; old.contexts == 0 {
			i := slices.Index(old.account.jobs, old)
			old.account.jobs = slices.Delete(old.account.jobs, i, i+1)
		}
	}
	if was := x.account; was != nil && was != a {
		defer c.forgetAccount(was)
	}
	x.account, x.job = a, nil
	if a != nil && x.group != nil {
		c.setPayer(x.group, a)
	}
	if a == nil {
		x.owner.Account = &c.nobody.Account
		return
	}
	x.owner.Account = &a.Account
	i := slices.IndexFunc(a.jobs, func(j *job) bool { return j.gid == x.gid })
	if i < 0 {
		i = len(a.jobs)
		a.jobs = append(a.jobs, &job{account: a, gid: x.gid})
		a.busy = slices.Grow(a.busy, len(a.jobs)-len(a.busy))
	}
	x.job = a.jobs[i]
	x.job.contexts++
	x.job.awake = slices.Grow(x.job.awake, x.job.contexts-len(x.job.awake))
	a.contexts++
	a.room++ // packets may wait for it
	if awake {
		c.seat(x)
	}
}

// setPayer puts what comes for nodes of a group that are not here on an account; nil: on nobody's.
func (c *Card) setPayer(g *group, a *account) {
	was := g.payer
	if was == a {
		return
	}
	if g.payer = a; a != nil {
		a.groups++
	}
	if was != nil {
		was.groups--
		c.forgetAccount(was)
	}
}

// forgetAccount forgets an account that has nothing left.
func (c *Card) forgetAccount(a *account) {
	if a.contexts == 0 && a.groups == 0 && !a.Used() && c.accounts[a.id] == a {
		delete(c.accounts, a.id)
	}
}

// seat lets steps visit a context that is awake.
func (c *Card) seat(x *Context) {
	j := x.job
	a := j.account
	if len(j.awake) == 0 {
		if len(a.busy) == 0 {
			a.busyIndex = len(c.busy)
			c.busy = append(c.busy, a)
		}
		j.busyIndex = len(a.busy)
		a.busy = append(a.busy, j)
	}
	x.seat = len(j.awake)
	j.awake = append(j.awake, x)
	a.awake++
	c.noteSolo()
}

// noteSolo keeps the only context that is awake where a step finds it at once.
func (c *Card) noteSolo() {
	c.solo = nil
	if len(c.busy) == 1 && c.busy[0].awake == 1 {
		c.solo = c.busy[0].busy[0].awake[0]
	}
}

// unseat keeps steps from visiting a context.
func (c *Card) unseat(x *Context) {
	defer c.noteSolo()
	j := x.job
	a := j.account
	a.awake--
	last := j.awake[len(j.awake)-1]
	j.awake[x.seat], last.seat = last, x.seat
	j.awake[len(j.awake)-1] = nil
	if j.awake = j.awake[:len(j.awake)-1]; len(j.awake) > 0 {
		return
	}
	other := a.busy[len(a.busy)-1]
	a.busy[j.busyIndex], other.busyIndex = other, j.busyIndex
	a.busy[len(a.busy)-1] = nil
	if a.busy = a.busy[:len(a.busy)-1]; len(a.busy) > 0 {
		return
	}
	next := c.busy[len(c.busy)-1]
	c.busy[a.busyIndex], next.busyIndex = next, a.busyIndex
	c.busy[len(c.busy)-1] = nil
	c.busy = c.busy[:len(c.busy)-1]
}

// visitSolo serves the only context that is awake, while nobody rests. What it wakes is next.
func (c *Card) visitSolo(x *Context) {
	a := x.account
	a.refill(c.link.Quantum())
	if a.local <= 0 || a.retrieval <= 0 {
		c.more = true
		return
	}
	c.serve(x)
	if c.solo != x {
		c.more = true
	}
}

// visitAll serves the contexts that are awake.
func (c *Card) visitAll() {
	for i := 0; i < len(c.busy); i++ { // a packet to the own card may wake more
		c.visit(c.busy[i])
	}
}

// spends charges the context's account for work besides packets, which takes as long as copying so
// many bytes: the account has as many fewer to spend.
func (x *Context) spends(bytes int) {
	if a := x.account; a != nil {
		a.retrieval -= bytes
		x.card.link.Spends(&a.Account, bytes)
	}
}

// works is spends for what the process has the card do now: its account uses the card.
func (x *Context) works(bytes int) {
	if a := x.account; a != nil {
		a.retrieval -= bytes
		x.card.link.Uses(&a.Account, bytes)
	}
}

// rests reports whether an account rests, and has the card run when it no longer does.
func (c *Card) rests(a *account) bool {
	until, so := c.link.Rests(&a.Account)
	if so {
		c.resumes = min(c.resumes, until)
	}
	return so
}

// Charge tells the card that its steps have worked for that many nanoseconds, until now, while
// others wanted its processor. Those for whom they worked rest after that: the card serves their
// processes no more before they have rested for twice as long, at most a millisecond; of a Charge
// at most 50 us count. What arrives from the network cannot wait, and is charged to whom it is for.
// Charge returns how much of the time was that of accounts that have too much of it, so that the
// card itself should rest. Where nobody calls it nobody rests. It is for the goroutine that steps
// the card.
func (c *Card) Charge(now, took int64) (over int64) {
	c.charged = now
	return c.link.Charge(now, took)
}

// refill gives an account what it may spend in a step, less what it has spent too much: one piece
// of work may take more than a step's.
func (a *account) refill(quantum int) {
	a.local = min(a.local+quantum, quantum)
	a.retrieval = min(a.retrieval+quantum, quantum)
}

// visit serves the contexts of an account that are awake, in turn.
func (c *Card) visit(a *account) {
	if c.rests(a) {
		return
	}
	a.refill(c.link.Quantum())
	for seen := a.awake; seen > 0; {
		if a.retrieval <= 0 || a.local <= 0 {
			c.more = true
			return
		}
		if a.turn >= len(a.busy) {
			a.turn = 0
		}
		j := a.busy[a.turn]
		a.turn++
		if j.step != c.steps {
			j.step, j.seen = c.steps, 0
		}
		if j.seen >= len(j.awake) {
			a.retrieval -= skipBytes // all of it has been seen; another has more contexts
			continue
		}
		if j.turn >= len(j.awake) {
			j.turn = 0
		}
		x := j.awake[j.turn]
		j.turn++
		j.seen++
		seen--
		a.retrieval -= visitBytes
		c.serve(x)
	}
}

// batch returns the most slots that a visit retrieves from a send queue of the context.
func (x *Context) batch() int {
	return min(retrieveBatch, max(leastSlots, sharedSlots/max(x.account.awake, 1)))
}
