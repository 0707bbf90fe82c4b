package engine

// This file is the context: one process's attachment to the card.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

var (
	// ErrAttached reports a group and node that already have a context on this card.
	ErrAttached = errors.New("engine: group and node are already attached to this card")
	// ErrDirect reports a card that is another node's, or another job's (Config.Direct).
	ErrDirect = errors.New("engine: the card is that of one node of another job, or of another node")
	// ErrContexts reports a card that already has the most contexts a card can have.
	ErrContexts = errors.New("engine: no room for another context; detach one")
	// ErrNoSet reports that every set of the undelivered packet cache is in use.
	ErrNoSet = errors.New("engine: every set of the packet cache is in use; detach a context, or switch one out that has nothing undelivered")
)

// contexts is the table of a card's contexts.
type contexts struct {
	core
	sched *scheduler

	all     []*Context // resident and switched out
	owners  []*Context // by link.Owner.Number, dead contexts included; nil: free
	free    numbers    // of owners
	called  []*Context // to be woken by the owner: see TakeCalled
	touched []*Context // in this step
	dead    []*Context // detached, with packets in flight
	grave   int        // index in dead of the context that bury looked at last
	sets    int        // sets of the cache that are in use
	spare   []*shelf   // parts of sets that no context has
	shelves int        // all of them that were made
	lives   int64      // how many lives of contexts have begun; see life.go
	serving *Context   // the card works for it; nil: for all, or not at all (serving.go)
}

// Context is one process's attachment to a card.
type Context struct {
	card    *Card
	gid     uint16
	node    uint16
	tag     uint64   // tag of its job: the packets that it sends and takes carry it
	nextTag uint64   // its tag from the next store of GID on
	group   *group   // nil: no GID assigned
	account *account // nil: the context has ended
	job     *job     // of the account
	owner   *link.Owner
	paid    *account // the last account of a context that has ended
	iface   *funi.Card
	calm    bool // only the process can give a step work here; see calmDown
	traffic Traffic
	trail   *Trail // nil: it is not traced; see trace.go
	ticket  ticket
	shelves []*shelf // its set of the cache; nil: never used
	fifo    [arctic.Levels]fifo
	starved bool                                  // a packet found no line in the last retrieval
	loop    [arctic.Levels][loopQueues]link.Lines // packets for contexts of this very card
	looping bool                                  // one of them may hold packets
	// forBus is set while the first of these packets waits for the Operation Unit of a modelled
	// machine.
	forBus bool
	noRoom [arctic.Levels]bool // it had no room for packets of this card
	// unrouted holds packets that wait for a route, longest wait first (routemiss.go).
	unrouted link.Lines
	// Packets for this card are not tried before loopHold, unless account.room is not loopRoom.
	loopHold, loopBackoff int64
	loopRoom              uint32

	// Modes and status; see control.go.
	modes              uint32 // privileged bits of CNTL
	user               uint32 // CSQM and CRQM as last seen
	seen               uint32 // CNTL as last published
	sending, receiving bool   // the queues are latched
	closing            bool   // CSQM waits for the end of a long transfer
	suspended          bool   // by MERR
	halted             bool   // nothing is dispatched
	// A unit of a modelled machine works on a packet of the context; see units.go.
	retrieving, delivering bool
	rejection              arctic.Reason

	// See wake.go and switch.go.
	index      int // in contexts.all
	bell       uint32
	bells      *bells // the page that its process rings at
	awake      bool
	asleep     bool   // a context that is away is neither awake nor asleep
	told       bool   // its process has been told that the card's thread sleeps
	awakeIndex int    // in scheduler.awake
	called     bool   // in contexts.called
	seat       int    // in job.awake
	touched    uint64 // the last step that did something for the context
	away       bool   // switched out or detached: the process's memory is not the card's
	detached   bool
	holdsSet   bool            // it has a set of the cache
	saved      *Saved          // the state of a context that is switched out
	owed       []funi.Returned // packets that came back since it was last published
	torn       bool            // see Abandon
	wanted     bool            // a packet for it has been rejected since it went away

	entry entry // its place in the conditional store buffer (trigger.go)

	// taken is how many slots of a send queue the card has taken and not retired. finished is how
	// many of them, at the tail, can be retired; see finishSlots.
	taken, finished [arctic.Levels]int

	segments funi.Segments
	current  [arctic.Levels]*transfer // long transfers being retrieved
	long     *long                    // nil: no segment was ever registered
	drain    bool                     // DRAIN mode: transfers go to the receive queue

	restoring bool // drained packets are being returned to the FIFOs

	haltedAt int64    // when it began to take nothing new because it leaves
	leaving  bool     // it leaves for another card: nothing is taken from its send queues (move.go)
	arriving bool     // it comes from another card, and has no image yet
	before   *Context // while it arrives: the sign that it has replaced
	forward  *forward // it has left, and says where it is (forward.go)

	// life is the number of the present life. born is how far the card had come with each peer's
	// frames when that life began, by card number; nil: no peer had sent any. See life.go.
	life    int64
	born    []birth
	lineage uint64 // names the first life of the process, also on other cards
	// bornElsewhere is set if the context came from another card. Then the numbers in born are one
	// less than those that the card had reached (forward.go).
	bornElsewhere bool

	// answers holds lines for answers; nil: no window was ever open that others read or change
	// (response.go).
	answers *answers
	chains  *chains // chains that it is a member of (chain.go)
	paths   *paths  // ends of paths; nil: it never had any (ultra.go)
	// remote holds what the process has opened for others; nil: it has asked for no room
	// (keyslot.go).
	remote *remote
}

// PowerUp makes a context for a node in the state of thesis 3.1.2 after RESET: in context-switch
// mode, its registers not initialised, in no group. The owner then sets the tag of its job, and by
// Store assigns GID, resets TICKET and clears CTXM. The owner leaves CSQM and CRQM set: the process
// clears them when it has written the Queue Registers (thesis 3.2.1, funi.Start). PowerUp returns
// ErrContexts or ErrNoSet when the card is full.
func (c *Card) PowerUp(m *funi.Memory, node uint16) (*Context, error) {
	x, err := c.newContext(funi.NewCard(m), node)
	if err != nil {
		return nil, fmt.Errorf("powering up node %d: %w", node, err)
	}
	x.storeControl(funi.CTXM | funi.UserModes)
	c.table.serving = nil
	return x, nil
}

// Attach does all of the start-up for a process that has initialised its registers. The context,
// for node of group gid, of the job with the tag, runs at once. If the process has set CSQM and
// CRQM, clearing them is left to the process. Errors are those of PowerUp, ErrAttached, ErrDirect,
// ErrRegister, funi.ErrSlots and funi.ErrLayout.
func (c *Card) Attach(m *funi.Memory, gid, node uint16, tag uint64) (*Context, error) {
	x, err := c.attach(m, gid, node, tag)
	if err != nil {
		return nil, fmt.Errorf("attaching node %d of group %d: %w", node, gid, err)
	}
	return x, nil
}

func (c *Card) attach(m *funi.Memory, gid, node uint16, tag uint64) (*Context, error) {
	if gid > arctic.MaxGID {
		return nil, fmt.Errorf("GIDs are at most %d: %w", arctic.MaxGID, ErrRegister)
	}
	if d := c.cfg.Direct; d != nil && (node != c.cfg.Card || tag != *d) {
		return nil, ErrDirect
	}
	if g := c.routes.groups[gid]; g != nil && g.nodes[node] != nil {
		return nil, ErrAttached
	}
	user := m.Page.Load(funi.Control) & funi.UserModes
	iface := funi.NewCard(m)
	if user == 0 {
		var err error
		if iface, err = funi.Attach(m); err != nil {
			return nil, err
		}
	}
	x, err := c.newContext(iface, node)
	if err != nil {
		return nil, err
	}
	x.sending, x.receiving = user == 0, user == 0
	x.storeControl(funi.CTXM | user)
	x.SetTag(tag)
	_ = x.store(funi.GID, uint32(gid)) // refusals have been ruled out
	x.storeControl(user)
	x.publish()
	c.table.serving = nil
	return x, nil
}

// newContext makes a context that is in no group.
func (c *Card) newContext(iface *funi.Card, node uint16) (*Context, error) {
	if len(c.table.all) == funi.MaxContexts {
		return nil, ErrContexts
	}
	if !c.table.takeSet() {
		return nil, ErrNoSet
	}
	x := &Context{card: c, node: node, iface: iface, ticket: c.table.emptyTicket(), index: len(c.table.all),
		holdsSet: true}
	for l := range x.fifo {
		x.fifo[l] = newFIFO(&c.cfg)
	}
	x.remote = c.remote.newRemote(iface.Memory().Remote)
	c.table.serving = x
	c.table.add(x)
	c.sched.awake = roomFor(len(c.table.all), c.sched.awake) // waking must not allocate
	c.bells.ringing = roomFor(len(c.table.all), c.bells.ringing)
	c.bells.give(x)
	c.bells.join(x, c.cfg.Doorbells, c.bells.far)
	c.sched.charge(x, &c.sched.nobody)
	c.sched.wake(x)
	return x, nil
}

// add puts a context into the table. The lists of a step then have room for all.
func (t *contexts) add(x *Context) {
	t.newOwner(x)
	t.all = append(t.all, x)
	t.called = roomFor(len(t.all), t.called)
	t.touched = roomFor(len(t.all), t.touched)
}

// roomFor returns the list with room for n elements in all. It may have more of them already: those
// of a step include contexts that have been detached since.
func roomFor[T any](n int, list []T) []T { return slices.Grow(list, max(0, n-len(list))) }

// remove takes a detached context out of the table.
func (t *contexts) remove(x *Context) {
	last := t.all[len(t.all)-1]
	t.all[x.index], last.index = last, x.index
	t.all[len(t.all)-1] = nil
	t.all = t.all[:len(t.all)-1]
	t.dead = append(t.dead, x)
}

// newOwner makes the context's owner of lines, with the first number that is free.
func (t *contexts) newOwner(x *Context) {
	i := t.free.take()
	if int(i) == len(t.owners) {
		t.owners = append(t.owners, nil)
	}
	t.owners[i] = x
	x.owner = &link.Owner{Number: i, Account: &t.sched.nobody.Account, Halted: x.halted}
	if x.account != nil {
		x.owner.Account = &x.account.Account
	}
}

// emptyTicket returns the TICKET of an empty cache.
func (t *contexts) emptyTicket() (empty ticket) {
	empty.reset(t.cfg.Lines, t.cfg.ReplyLines)
	return empty
}

// Detach ends a context, resident or switched out. Packets that are not sent are given up, and the
// process hears no more of those in flight. Packets that wait for the process in the card are
// dropped and counted. From then on packets for the context are rejected for good, with
// ReasonNoContext, and the card does not touch its memory. TakeCalled does not return the context:
// if its process may be waiting, the caller of Detach wakes the process (Dismiss). Detaching twice
// does nothing.
func (c *Card) Detach(x *Context) {
	if x.detached {
		return
	}
	if !x.away {
		x.payBack()
		x.iface.Publish()
		x.iface.Wake()
	}
	c.table.uncall(x)
	c.sched.unlist(x)
	c.bells.rise(x)
	c.bells.leave(x)
	x.detached, x.away, x.halted = true, true, true
	x.giveTables()
	x.owner.Ended, x.owner.Halted, x.paid = true, true, x.account
	c.sched.charge(x, nil)
	c.routes.quit(x)
	c.discard(x)
	if x.saved != nil {
		for _, slots := range x.saved.Drained {
			c.counters.Discarded += uint64(len(slots))
		}
		x.saved = nil
	}
	if x.holdsSet {
		c.table.offerSet(x) // or bury does, when nothing is in flight any more
	}
	c.table.remove(x)
	c.bells.takeBack(x)
	if x.forward != nil {
		c.move.signs = slices.DeleteFunc(c.move.signs, func(y *Context) bool { return y == x })
	}
}

// discard forgets all packets of a context that wait in the card; its process is gone.
func (c *Card) discard(x *Context) {
	if x.retrieving || x.delivering {
		c.model.leave(x)
	}
	x.forgetRequests()
	c.ultra.leave(x)
	c.out.giveUp(x, func(ln *line) {
		c.counters.Discarded++
		ln.asked = false
		x.free(ln)
	})
	x.forsakeBlocks()
	for l := range x.fifo {
		c.counters.Discarded += uint64(x.fifo[l].n)
		x.fifo[l].first, x.fifo[l].n = 0, 0
	}
}

// reset starts a context's RESET mode (thesis 3.1.2). Packets that wait are given up. Packets in
// flight pass to a detached context without a process.
func (c *Card) reset(x *Context) {
	c.discard(x)
	if !x.allFree() {
		nobody := &Context{card: c, gid: x.gid, tag: x.tag, node: x.node, ticket: x.ticket, shelves: x.shelves,
			owner: x.owner, paid: x.account,
			long: x.long, current: x.current, answers: x.answers, away: true, detached: true, halted: true,
			holdsSet: c.table.takeSet()} // if there is none free, the card has one more for a while
		for _, s := range nobody.shelves {
			for i := 0; s != nil && i < len(s); i++ {
				s[i].ctx = nobody
			}
		}
		if nobody.long != nil {
			nobody.long.ctx = nobody
			for l := range nobody.long.own {
				nobody.long.own[l].ctx = nobody
			}
		}
		if nobody.answers != nil {
			for i := range nobody.answers.lines {
				nobody.answers.lines[i].ctx = nobody
			}
		}
		if x.chains != nil {
			nobody.inheritChains(x.chains)
		}
		if x.paths != nil {
			nobody.inheritPaths(x.paths)
		}
		nobody.owner.Ended, nobody.owner.Halted = true, true
		c.table.owners[nobody.owner.Number] = nobody
		c.table.newOwner(x)
		c.table.dead = append(c.table.dead, nobody)
		x.shelves = nil
	} else {
		x.forgetTransfers()
	}
	c.routes.quit(x)
	x.gid, x.tag, x.nextTag, x.ticket, x.owed = 0, 0, 0, c.table.emptyTicket(), nil
	c.sched.tickets = true
	x.segments, x.long, x.current = funi.Segments{}, nil, [arctic.Levels]*transfer{}
	x.forgetRequests()
	x.answers, x.chains, x.paths = nil, nil, nil
	if x.remote != nil {
		x.remote = x.remote.anew()
		x.iface.PutRemoteSizes()
	}
	x.taken, x.finished = [arctic.Levels]int{}, [arctic.Levels]int{}
	x.suspended = false
	c.sched.charge(x, x.account) // in no group
}

const (
	// mourned is how many detached contexts a step looks at. buried is how many of their streams a
	// step forgets at most.
	mourned = 16
	buried  = 64
)

// bury forgets the streams of detached contexts that have nothing in flight any more, some in each
// step. It offers their sets of the cache to other contexts.
func (t *contexts) bury() {
	left := buried
	for n := min(mourned, len(t.dead)); n > 0 && left > 0; n-- {
		t.grave++
		i := t.grave % len(t.dead)
		x := t.dead[i]
		if !x.allFree() && !(x.torn && x.owner.Grounded()) {
			continue
		}
		t.clock.more = true // the next one may be ready, too
		if x.holdsSet {
			t.offerSet(x)
		}
		if left = t.link.Bury(x.owner, left); x.owner.Buried() {
			x.card.ultra.buryPaths(x)
			t.owners[x.owner.Number] = nil
			t.free.give(x.owner.Number)
			x.forgetTransfers()
			if x.paid != nil {
				t.sched.forgetAccount(x.paid)
			}
			last := len(t.dead) - 1
			t.dead[i], t.dead[last] = t.dead[last], nil
			t.dead = t.dead[:last]
		}
	}
}

// touch notes that the step has done something for a context, so that its end publishes the
// context. A context that is away is left out: its memory is not the card's.
func (t *contexts) touch(x *Context) {
	x.calm = false
	t.show(x)
}

// show is touch for work that only the process has to see: a calm context stays calm.
func (t *contexts) show(x *Context) {
	if x.touched != t.clock.step && !x.away {
		x.touched = t.clock.step
		t.touched = append(t.touched, x)
	}
}

// allFree reports whether the context has nothing undelivered.
func (x *Context) allFree() bool {
	return x.ticket.used == 0 && x.allAnswered() && x.allSentOn() && x.paths.idle() &&
		(x.long == nil || x.long.inUse == [arctic.Levels]bool{})
}

// free gives a line back once its packet is accounted for.
func (x *Context) free(l *line) {
	if l.Part || l.Answer || l.Block != nil || l.Chain != 0 || l.Takes|l.Behind != 0 {
		l.Clear()
		l.kept, l.asked = false, false
	}
	if l.transfer != nil {
		x.calm, l.kept, l.asked = false, false, false
		l.Clear()
		x.accounted(l)
	}
	switch {
	case l.Index < ownLine:
		x.card.sched.tickets = true
		x.ticket.give(int(l.Index))
	case l.Index >= firstPath:
		x.card.ultra.settles(x, l, arctic.ReasonNone)
		return
	case l.Index >= firstChained:
		x.freeChained(l)
		return
	case l.Index >= firstAnswer:
		x.answers.free |= 1 << (l.Index - firstAnswer)
		if r := x.remote; r != nil && r.barriers != nil && r.barriers.tells != 0 && !x.detached && !x.away {
			x.card.remote.tellMembers(x)
		}
		return // no message waits for it
	default:
		x.long.inUse[l.Index-ownLine] = false
	}
	if x.starved {
		x.starved, x.calm = false, false
		x.card.clock.more = true // for what found no line there is one now
	}
}

// returned gives the packet of a line back to the process, with the reason, and
// frees the line.
func (x *Context) returned(l *line, reason arctic.Reason) {
	if x.trail != nil {
		x.trail.returned(l, reason, x.card.clock.now)
	}
	switch {
	case l.transfer != nil:
		x.failTransfer(l.transfer, reason)
		x.free(l)
		return
	case x.forward != nil:
		x.forward.answered(x, l, reason)
		return
	case l.asked:
		l.asked = false
		x.cameBack(l.asks, reason)
		x.free(l)
		return
	case l.Index >= firstPath:
		x.card.ultra.settles(x, l, reason)
		return
	case l.Index >= firstChained:
		x.notSentOn(l, reason)
		return
	case l.Index >= firstAnswer:
		x.card.counters.AnswersReturned++
		x.free(l)
		return
	}
	p := arctic.Packet(l.Data[:l.Size])
	h := p.Header()
	r := funi.Returned{Reason: reason, Level: h.Level, Header: funi.NewHeader(l.Node, l.typ, int(h.Length))}
	switch {
	case l.request.Transfer(), l.request.Remote():
		r.Header, r.Word = l.request, l.argument
	case h.Length > 0:
		r.Word = p.Word(0)
	}
	x.giveBack(r)
	x.free(l)
}

// giveBack returns a request to the process at the end of the step, or when the context is back.
// The requests of a detached context are discarded.
func (x *Context) giveBack(r funi.Returned) {
	if x.detached {
		x.card.counters.Discarded++
		return
	}
	x.card.counters.Returned++
	x.traffic.Returned++
	x.spends(completionBytes)
	x.owed = append(x.owed, r) // at most as many as there are lines in a step
	x.card.table.touch(x)
	if !x.away && !x.awake {
		x.card.sched.wake(x)
	}
}

// payBack puts the requests that giveBack has collected into the return ring.
func (x *Context) payBack() {
	for _, r := range x.owed {
		x.iface.Return(r)
	}
	x.owed = x.owed[:0]
}

// publish makes what the card did visible to the process, once a step. TICKET follows
// (publishTickets).
func (x *Context) publish() {
	c := x.card
	if x.calm {
		x.iface.Publish()
		c.table.call(x)
		return
	}
	if len(x.owed) > 0 {
		x.payBack()
	}
	x.iface.Publish()
	if x.modes|x.user != 0 {
		x.control()
	}
	c.table.call(x)
	x.calmDown()
}

// publishTickets stores TICKET, for which no program waits. It is called when the card has nothing
// else to do, and at every 64th step.
func (s *scheduler) publishTickets() {
	s.tickets = false
	for _, x := range s.awake {
		x.publishTicket()
	}
}

func (x *Context) publishTicket() {
	if x.ticket.changed {
		x.ticket.changed = false
		x.iface.Store(funi.Ticket, uint32(x.ticket.words[0]))
	}
}

// Idle reports whether the context has nothing waiting in the card: no slot to retrieve, no packet
// undelivered, nothing in the receive FIFOs. If the context is switched out, its saved state must
// be empty, too: slots that its process has committed wait there for their turn.
func (x *Context) Idle() bool {
	var pending bool
	switch {
	case !x.away:
		pending = x.iface.Pending(arctic.Reply)+x.iface.Pending(arctic.Request) > 0
	case x.saved != nil:
		pending = x.saved.pending()
	}
	pending = pending || !x.away && x.paths.stirs()
	return !pending && !x.entry.in && x.allFree() && x.drained() && !x.transferring()
}

// Dismiss tells the process that the card will detach the context (funi.ErrDetached).
// Its owner wakes it. Until then the context goes on.
func (x *Context) Dismiss() { x.iface.PutGone() }

// Bell returns the number of the context's doorbell, below funi.MaxContexts. No other
// context of the card has it until this one is detached.
func (x *Context) Bell() uint32 { return x.bell }

// GID returns the context's group.
func (x *Context) GID() uint16 { return x.gid }

// Node returns the context's node number in its group.
func (x *Context) Node() uint16 { return x.node }
