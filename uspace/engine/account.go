package engine

// This file shares the card fairly among accounts, such as users (design idea 10). What a step does
// for an account is bounded in bytes. All work is shared first between accounts, then between the
// jobs of one account, then between the contexts of a job. So a user's message waits for at most a
// few kilobytes of each other user. This holds however many contexts, jobs, nodes and streams the
// other users have, and at either level.
//
// Retrieval and delivery to this card have a budget for each step, and contexts are visited in
// turn. Work that is left over comes next in the next step, which follows at once. Dispatch is
// deficit round robin (Shreedhar and Varghese, 1995). In each round an account may send as many
// bytes as its quantum, replies first. A round ends when every account that has something to send,
// and may send, has sent it. That may take several steps while the transmit ring is full. An
// account that has the card to itself has larger budgets, since no other account waits for it.
//
// Work that moves no packet is charged as well, as the bytes that are copied in the same time
// (Context.works and spends). It ends a visit when the account has spent its step's budget. It also
// counts for the account's share of the time that the card's owner charges (Charge).
//
// Contexts that are on no account share one (scheduler.nobody).

import (
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

const (
	// packetBytes is the cost of a packet in addition to its bytes: short packets cost time, too.
	packetBytes = 64
	// visitBytes is the cost of a look at an awake context. skipBytes is the cost of finding that
	// all contexts of a job have been looked at.
	visitBytes = 128
	// triedBytes is the cost of a try to deliver a packet to this card that finds no room.
	triedBytes = 512
	skipBytes  = 16
	// The constants below are the cost of work other than packets and their bytes, measured by
	// BenchmarkUnpaid. A byte is a quarter of a nanosecond, as in link.FrameTime.
	//
	// pieceBytes is the cost of a packet of a long transfer, write or get, whose slot was charged
	// before.
	pieceBytes = arctic.MaxPacketSize + packetBytes
	// slotBytes is the cost of a slot: 45 ns if the slot is in the processor's cache. Each of its
	// two cache lines that a process on another processor has written costs about as much again.
	slotBytes = 512
	// operationBytes is the cost of an operation on a window, an answer, or a copy of a multicast,
	// beyond that of a message: 100 to 120 ns.
	operationBytes = 384
	// completionBytes is the cost of telling a process how a request ended, by an entry of a ring
	// that it reads: 50 ns.
	completionBytes = 256
	// controlBytes is the cost of carrying out what CNTL asks for: 60 to 130 ns.
	controlBytes = 512
	// bellBytes is the cost of handling a rung doorbell: 60 ns, and a cache line that a process has
	// written.
	bellBytes = 512
	// sharedSlots is the most slots of one level that a step retrieves for all contexts of an
	// account together. Each context may retrieve leastSlots even so: fewer would make short
	// trains.
	sharedSlots = 512
	leastSlots  = 8
)

// account holds what the contexts of one user share. It exists while the user has contexts, while a
// group that had one of them is known, or while packets of ended contexts are in flight.
type account struct {
	link.Account // what its frames are charged to
	id           uint32
	contexts     int
	groups       int // groups that it pays for (route.go)
	awake        int // contexts that are awake
	jobs         []*job
	busy         []*job // jobs with awake contexts
	turn         int    // index in busy of the next job to visit
	busyIndex    int    // in scheduler.busy

	// retrieval is how many bytes may still be retrieved in this step. It is negative if the last
	// piece of work took more.
	retrieval int
	local     int    // the same for delivery to this card; negative if a block was longer
	refilled  uint64 // the step of the last refill
	late      int    // bytes of late writes of which the card holds copies (late.go)
	paths     [2]int // ends of paths, by direction (ultra.go)
	stored    stored // what its contexts have issued by triggers (trigger.go)
	room      uint32 // changes when a context that had no room for packets of this card has room
}

// job is an account's contexts in a group.
type job struct {
	account   *account
	gid       uint16
	contexts  int
	awake     []*Context
	turn      int    // index in awake of the next context to visit
	busyIndex int    // in account.busy
	step      uint64 // the last step that looked at a context of the job
	seen      int    // how many contexts that step has looked at
}

// scheduler decides which contexts a step visits, and how much it does for each.
type scheduler struct {
	core
	bells *doorbells
	table *contexts
	out   *retrieval
	ultra *ultra

	awake           []*Context          // the contexts that steps look at
	tickets         bool                // TICKET of one of them has changed
	accounts        map[uint32]*account // not used on the data path
	nobody          account             // the account of contexts that were put on none
	busy            []*account          // accounts with awake contexts
	solo            *Context            // the only context that is awake; nil: none, or several
	resumes         int64               // when the first resting account goes on
	charged         int64               // the time of the last Charge
	dozing, napping bool                // see Doze and Nap
	nodding         int                 // index in awake of the next context for nap
	glances         int                 // how many contexts Doze has looked at unasked
	stored          int                 // entries of the conditional store buffer (trigger.go)
}

// Account puts a context on the account with the number id. Contexts that were put on no account
// share one; at first every context is among these. Call Account once for an attached context,
// before its process knows of it.
func (c *Card) Account(x *Context, id uint32) { c.sched.charge(x, c.sched.account(id)) }

// account returns the account with a number, made when it is first needed.
func (s *scheduler) account(id uint32) *account {
	a := s.accounts[id]
	if a == nil {
		if s.accounts == nil {
			s.accounts = map[uint32]*account{}
		}
		a = &account{id: id}
		s.accounts[id] = a
		s.busy = slices.Grow(s.busy, len(s.accounts)+1-len(s.busy)) // waking does not allocate
	}
	return a
}

// charge puts a context on an account, under the account's job for the context's group. nil takes
// the context off its account.
func (s *scheduler) charge(x *Context, a *account) {
	if x.entry.in {
		s.unstore(x)
	}
	awake := x.awake
	if awake {
		s.unseat(x)
	}
	if old := x.job; old != nil {
		old.account.contexts--
		if old.contexts--; old.contexts == 0 {
			i := slices.Index(old.account.jobs, old)
			old.account.jobs = slices.Delete(old.account.jobs, i, i+1)
		}
	}
	if was := x.account; was != nil && was != a {
		defer s.forgetAccount(was)
	}
	x.account, x.job = a, nil
	if a != nil && x.group != nil {
		s.setPayer(x.group, a)
	}
	if a == nil {
		x.owner.Account = &s.nobody.Account
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
		s.seat(x)
	}
}

// setPayer sets the account that pays for packets to nodes of a group that are not on this card.
// With nil no account pays.
func (s *scheduler) setPayer(g *group, a *account) {
	was := g.payer
	if was == a {
		return
	}
	if g.payer = a; a != nil {
		a.groups++
	}
	if was != nil {
		was.groups--
		s.forgetAccount(was)
	}
}

// forgetAccount forgets an account that has nothing left.
func (s *scheduler) forgetAccount(a *account) {
	if a.contexts == 0 && a.groups == 0 && a.paths == [2]int{} && !a.Used() && s.accounts[a.id] == a {
		delete(s.accounts, a.id)
	}
}

// seat lets steps visit a context that is awake.
func (s *scheduler) seat(x *Context) {
	j := x.job
	a := j.account
	if len(j.awake) == 0 {
		if len(a.busy) == 0 {
			a.busyIndex = len(s.busy)
			s.busy = append(s.busy, a)
		}
		j.busyIndex = len(a.busy)
		a.busy = append(a.busy, j)
	}
	x.seat = len(j.awake)
	j.awake = append(j.awake, x)
	a.awake++
	s.noteSolo()
}

// noteSolo sets solo, where a step finds the only awake context at once. Without exactly one it is
// nil.
func (s *scheduler) noteSolo() {
	s.solo = nil
	if len(s.busy) == 1 && s.busy[0].awake == 1 {
		s.solo = s.busy[0].busy[0].awake[0]
	}
}

// unseat keeps steps from visiting a context.
func (s *scheduler) unseat(x *Context) {
	defer s.noteSolo()
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
	next := s.busy[len(s.busy)-1]
	s.busy[a.busyIndex], next.busyIndex = next, a.busyIndex
	s.busy[len(s.busy)-1] = nil
	s.busy = s.busy[:len(s.busy)-1]
}

// visitAll serves the contexts that are awake.
func (s *scheduler) visitAll() {
	for i := 0; i < len(s.busy); i++ { // a packet to the own card may wake more
		s.visit(s.busy[i])
	}
}

// spends charges the context's account for work other than packets that takes as long as copying
// that many bytes. The bytes are taken off the account's budget for the step.
func (x *Context) spends(bytes int) {
	if a := x.account; a != nil {
		a.retrieval -= bytes
		x.card.link.Spends(&a.Account, bytes)
	}
}

// works is spends for work that the process asks for now. It also marks its account as one that
// uses the card.
func (x *Context) works(bytes int) {
	if a := x.account; a != nil {
		a.retrieval -= bytes
		x.card.link.Uses(&a.Account, bytes)
	}
}

// rests reports whether an account rests. If so, it has the card run again when the rest ends.
func (s *scheduler) rests(a *account) bool {
	until, so := s.link.Rests(&a.Account)
	if so {
		s.resumes = min(s.resumes, until)
	}
	return so
}

// Charge tells the card that its steps have worked for took nanoseconds until now, while others
// wanted its processor. It splits the time among the accounts that the steps worked for; of one
// call at most 50 us count. Each account then rests for at least twice its share, at most a
// millisecond. The card does not serve the account's processes while it rests. Frames that arrive
// from the network cannot wait; they are charged to the account that they are for.
//
// Charge returns how much of the time went to accounts whose rests this limit cut short. The card
// itself should rest for that time. Without calls to Charge no account ever rests. Charge must be
// called on the goroutine that steps the card.
func (c *Card) Charge(now, took int64) (over int64) {
	c.sched.charged = now
	return c.link.Charge(now, took)
}

// refill adds the budgets of the steps since the last refill to those of an account. Overspending
// is deducted from them: one piece of work may take more than a step's budget. What is saved is not
// kept.
func (a *account) refill(quantum int, step uint64) {
	more := quantum * int(step-a.refilled)
	a.local = min(a.local+more, quantum)
	a.retrieval = min(a.retrieval+more, quantum)
	a.refilled = step
}

// visit serves the contexts of an account that are awake, in turn.
func (s *scheduler) visit(a *account) {
	if s.rests(a) {
		a.refilled = s.clock.step // a rest pays for no work
		return
	}
	if a.refill(s.link.Quantum, s.clock.step); a.stored.head != nil {
		s.issue(a, s.link.Quantum/2) // the rest is for those whose triggers wait
	}
	for seen := a.awake; seen > 0; {
		if a.retrieval <= 0 || a.local <= 0 {
			s.clock.more = true
			return
		}
		if a.turn >= len(a.busy) {
			a.turn = 0
		}
		j := a.busy[a.turn]
		a.turn++
		if j.step != s.clock.step {
			j.step, j.seen = s.clock.step, 0
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
		s.serve(x)
	}
	if a.stored.head != nil {
		s.issue(a, 0)
	}
}

// batch returns the most slots that a visit retrieves from a send queue of the context.
func (x *Context) batch() int {
	return min(retrieveBatch, max(leastSlots, sharedSlots/max(x.account.awake, 1)))
}

// serve looks at a context, its paths and its send queues.
func (s *scheduler) serve(x *Context) {
	s.table.serving = x
	if x.paths.open() {
		s.ultra.look(x)
	}
	if x.calm {
		// At most one message of each level is sent at once, as in a dialogue: without this a round
		// trip takes 6 % more instructions.
		replies, requests, written := x.iface.Asks(x.seen)
		if !written && (replies == 0 || replies == 1 && s.out.lone(x, arctic.Reply)) &&
			(requests == 0 || requests == 1 && s.out.lone(x, arctic.Request)) {
			return // as in most steps
		}
		x.calm = false
	}
	if s.attend(x); x.touched == s.clock.step {
		x.works(visitBytes) // beyond those of the look
	}
	if !x.halted {
		s.out.retrieve(x)
	}
	if x.touched != s.clock.step {
		x.calmDown()
	}
}

// attend looks at a context's CNTL and trigger, and whether the context has made room for packets.
func (s *scheduler) attend(x *Context) {
	if x.modes|x.user<<1&^x.seen != 0 || x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n != 0 || x.iface.Unseen() {
		s.table.touch(x)
	}
	if x.noRoom != [arctic.Levels]bool{} {
		s.out.roomMade(x)
	}
	if x.iface.Load(funi.Control) != x.seen {
		s.table.touch(x)
		x.control()
	}
	if x.iface.Triggers() {
		s.trigger(x)
	}
}

// calmDown lets steps pass over a context that has nothing to do until its process, a packet or its
// owner does something. These end the calm: touch, hold, free, wake, control, Store, and what serve
// does for a context that is not calm.
func (x *Context) calmDown() {
	x.calm = x.modes|x.user == 0 && !x.iface.Triggers() && !x.looping && !x.halted && !x.starved &&
		x.noRoom == [arctic.Levels]bool{} &&
		x.fifo[arctic.Reply].n|x.fifo[arctic.Request].n == 0 &&
		x.finished == [arctic.Levels]int{} && !x.transferring() && !x.asking(arctic.Request) && !x.asking(arctic.Reply)
}
