package engine

// This file is the life of a long transfer, an XFER of more than one packet (thesis 3.2.4). It
// begins with the slot that asks for it, and ends when it is delivered or has failed. packetise.go
// retrieves its packets; segments.go holds the memory that they come from.
//
// A level has openTransfers records. When all are taken, the next long transfer stays in the send
// queue. A late write to remote memory, which the card has copied (late.go), leaves its place to
// another record. So silent peers, however many, do not hold all records. A record goes through
// these states, and following returns the next one:
//
//	    free         unused
//	      |   begin: its slot is checked, and the record taken
//	      v
//	  retrieving     (a remote write may be set aside meanwhile, see aside.go)
//	      |          takes lines for its packets as they become free (carryOn). The slots behind
//	      |          it wait, replies do not
//	      |   all of it has been retrieved but the last packet, or it has failed
//	      v
//	+- retrieved     its packets are in the cache or in frames
//	|     |   all of them are answered
//	|     v
//	+--- due         its last packet, which the record holds, waits for a line (finish)
//	|     |   the last packet has one
//	|     v
//	|  ending        its last packet is in the cache or in a frame
//	|     |   that is answered: the transfer is delivered, or has failed
//	|     v
//	+-> over         its slot is not finished, because of one before it in the queue
//	      |   the slot is finished: it will be retired at the next retrieval
//	      v
//	    free
//
// A write to remote memory of many packets (remote.go) is never due. Its receiver counts, so its
// last packet is retrieved behind the others without waiting for them.
//
// The last packet leaves when every other one is acknowledged. So the notice that it makes at the
// receiver completes the whole transfer, over a network that keeps no order, without a receiver
// that counts.
//
// A transfer fails when one of its packets comes back for good, when its node moves to another
// card, or when its peer and this card begin a new epoch. A new epoch ends transfers even if the
// peer has lost nothing. First (life.go) is a sequence number of the old epoch, and packets that
// were acknowledged in it may be those that one of the two cards held to be impossible. A failed
// transfer stays in its state until none of its packets is in the cache. Then it takes the way on
// the left, and comes back to the process once, with the reason.
//
// The process may change the source when the slot is retired. With Config.Blocks the card needs the
// source until every packet but the last is answered, because a lost block is sent again from
// there. Without Config.Blocks data is copied into the lines, and the card needs the source only
// while it retrieves. A slot is finished when neither its transfer nor an earlier one needs its
// source. Then the slots behind it that have been retrieved meanwhile are finished, too, up to the
// next transfer's. For a late remote write the card copies the data that it still needs (late.go).

import (
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// openTransfers is the highest number of records in use of a context and level, apart from those of
// late writes.
const openTransfers = 8

// transferState is the state of a long transfer; the states are described above.
type transferState uint8

const (
	transferFree       transferState = iota // on long.free
	transferRetrieving                      // Context.current, or on long.aside
	transferRetrieved                       // has lines
	transferDue                             // on long.due
	transferEnding                          // has one line
	transferOver                            // on long.slots
)

// parts reports whether the transfer's packets in the cache are parts. The last packet is not a
// part.
func (s transferState) parts() bool { return s != transferEnding }

// transfer is the record of a long transfer.
type transfer struct {
	state       transferState // only advance changes it
	level       arctic.Level
	next        *transfer // on long.free, long.due or long.aside
	of          *long     // owner of the record
	after       *transfer // on a list of retrieval.opened
	before      *transfer
	nextSlot    *transfer   // on long.slots
	behind      int         // slots retrieved after this one's and before nextSlot's
	header      funi.Header // as in the slot
	argument    uint32
	destination uint32 // of the next packet
	from        uint32 // address of the source
	route       uint32 // of all its packets
	first       uint32 // see life.go
	total       uint32 // words
	source      []byte // not yet retrieved, without the last packet's; nil: all is retrieved
	lastSource  []byte // the last packet's
	lines       int    // packets in the cache
	failed      arctic.Reason
	tail        [arctic.MaxSingleWords * arctic.WordSize]byte
	tailSize    int // bytes of tail: the last packet
	put         *put
	late        lateness // of a put; see late.go
}

// isOpen reports whether a transfer has begun and is neither delivered nor failed.
func (t *transfer) isOpen() bool { return t.state != transferFree && t.state != transferOver }

// following returns the state after the present one, or the present one as long as its condition is
// not met. finished says whether the transfer's slot is finished.
func (t *transfer) following(finished bool) transferState {
	failed := t.failed != arctic.ReasonNone
	switch t.state {
	case transferFree:
		if t.source != nil {
			return transferRetrieving
		}
	case transferRetrieving:
		if t.source == nil {
			return transferRetrieved
		}
	case transferRetrieved:
		switch {
		case t.lines > 0:
		case failed, t.put != nil && !t.put.waits(): // whose last packet waits for no other
			return transferOver
		default:
			return transferDue
		}
	case transferDue:
		switch {
		case failed:
			return transferOver
		case t.lines > 0:
			return transferEnding
		}
	case transferEnding:
		if t.lines == 0 {
			return transferOver
		}
	case transferOver:
		if finished {
			return transferFree
		}
	}
	return t.state
}

// advance takes a transfer as far as it can go. Every change to something that a state waits for is
// followed by a call of advance.
func (x *Context) advance(t *transfer) {
	n, l := x.long, t.level
	for {
		was, needed := t.state, x.needsSource(t)
		if t.state = t.following(!n.slots[l].holds(t)); t.state == was {
			return
		}
		switch was {
		case transferRetrieving:
			if x.current[l] == t {
				x.current[l] = nil
			} else {
				n.aside[l].remove(t)
			}
			x.mayBeLate(t)
		case transferRetrieved:
			x.card.out.late.remove(&t.late.item)
		case transferDue:
			n.due[l].remove(t)
		}
		switch t.state {
		case transferFree:
			n.giveRecord(t)
		case transferRetrieving:
			n.open++
			x.card.out.opened.add(t)
			x.current[l] = t
			n.slots[l].push(t)
		case transferDue:
			n.due[l].push(t)
			x.card.clock.more = true
		case transferOver:
			n.open--
			x.card.out.opened.remove(t)
			t.forgetLate()
			switch {
			case t.put != nil && t.put.asked:
				x.putEnded(t.put.asks, t.sendOutcome())
			case t.failed != arctic.ReasonNone:
				x.giveBack(funi.Returned{Reason: t.failed, Level: l, Header: t.header, Word: t.argument})
			}
			x.card.clock.more = true
		}
		if needed && !x.needsSource(t) {
			x.finishSlots(l)
		}
	}
}

// needsSource reports whether the card may still read the source of a transfer.
func (x *Context) needsSource(t *transfer) bool {
	return !t.late.copied &&
		(t.state == transferRetrieving || t.state == transferRetrieved && x.card.out.blockOf(t) > 0)
}

// finishSlots finishes the slots of transfers, and the slots behind each, up to the first transfer
// that needs its source. They are retired at the next retrieval.
func (x *Context) finishSlots(l arctic.Level) {
	for q := &x.long.slots[l]; q.head != nil && !x.needsSource(q.head); {
		t := q.pop()
		x.finished[l] += 1 + t.behind
		x.advance(t)
	}
}

// accounted notes that a packet of a long transfer is done with: its line is being freed.
func (x *Context) accounted(ln *line) {
	t := ln.transfer
	ln.transfer = nil
	t.lines--
	if t.put != nil {
		*x.long.linesTo(t)--
	}
	if t.lines == 0 {
		x.advance(t)
	}
	if x.waitsAside(t.level) {
		x.card.clock.more = true // for what was set aside there may be a line now
	}
}

// failTransfer notes that a transfer fails. It takes the transfer's waiting packets back at once;
// otherwise they would be given up one after the other.
func (x *Context) failTransfer(t *transfer, reason arctic.Reason) {
	if t.failed != arctic.ReasonNone {
		return // the first reason is the cause
	}
	t.failed = reason
	c := x.card
	x.eachBlock(func(ln *line) bool {
		if ln.transfer == t {
			ln.Cut()
		}
		return true
	})
	keep, to := func(ln *link.Line) bool { return c.table.lineOf(ln).transfer != t }, func(ln *link.Line) {
		x.free(c.table.lineOf(ln))
	}
	x.giveUpTo(t, t.route, keep, to)
	if now := x.home(t); now != t.route && now != NoRoute { // its node has moved
		x.giveUpTo(t, now, keep, to)
	}
}

// home returns the route to where the receiver of a transfer is now.
func (x *Context) home(t *transfer) uint32 {
	if x.group == nil { // it has ended
		return t.route
	}
	return x.card.routes.of(x.group, t.header.Node())
}

// giveUpTo takes back the packets of a transfer that wait for a card.
func (x *Context) giveUpTo(t *transfer, route uint32, keep func(*link.Line) bool, to func(*link.Line)) {
	c := x.card
	c.link.GiveUpTo(x.owner, uint16(route), t.level, t.header.Node(), t.state.parts(), keep, to)
	if t.put != nil {
		c.link.GiveUpTo(x.owner, uint16(route), t.level, t.header.Node(), false, keep, to)
	}
}

// failTransfers returns the long transfers to a peer with which the card has begun a new epoch. If
// the peer was restarted, it has lost their data, and a last packet would tell the process that is
// there now of data that never came. Transfers to other cards pay nothing, since a peer can be made
// to begin new epochs often.
func (o *retrieval) failTransfers(card uint16, reason arctic.Reason) {
	o.clock.more = true
	o.failTransfersOf(o.opened.to(uint32(card)), card, reason)
	if !o.routes.moved {
		return
	}
	for i := range o.opened { // some of a transfer may have gone there since its node has
		o.failTransfersOf(&o.opened[i], card, reason)
	}
}

// failTransfersOf returns those of the transfers that are on a list.
func (o *retrieval) failTransfersOf(list **transfer, card uint16, reason arctic.Reason) {
	for t := *list; t != nil; {
		next := t.after // nothing here opens or ends another
		if t.route == uint32(card) || o.routes.moved && t.of.ctx.home(t) == uint32(card) {
			x := t.of.ctx
			x.failTransfer(t, reason)
			if t.state == transferDue { // with nothing in the cache to wait for
				x.advance(t)
			}
		}
		t = next
	}
}

// forgetTransfers takes the open transfers of a context that ends off the card's lists. They never
// end.
func (x *Context) forgetTransfers() {
	if x.long == nil {
		return
	}
	for l := range x.long.records {
		for _, t := range x.long.records[l] {
			if t.isOpen() {
				x.card.out.opened.remove(t)
				x.card.out.late.remove(&t.late.item)
				t.forgetLate()
			}
		}
	}
}

// transfersTo holds the open transfers of a card by their route. It has a list for each remainder,
// so that up to 256 cards have lists of their own.
type transfersTo [256]*transfer

// to returns the list with the transfers of a route, and perhaps of other routes.
func (o *transfersTo) to(route uint32) **transfer { return &o[route%uint32(len(o))] }

func (o *transfersTo) add(t *transfer) {
	head := o.to(t.route)
	t.before, t.after = nil, *head
	if *head != nil {
		(*head).before = t
	}
	*head = t
}

func (o *transfersTo) remove(t *transfer) {
	if t.before != nil {
		t.before.after = t.after
	} else {
		*o.to(t.route) = t.after
	}
	if t.after != nil {
		t.after.before = t.before
	}
	t.before, t.after = nil, nil
}

// giveUpTransfers returns the long transfers of a context without packets in the cache. Afterwards
// the card needs none of the slots that it has taken.
func (x *Context) giveUpTransfers(reason arctic.Reason) {
	if x.long == nil {
		return
	}
	for _, l := range arctic.ByPriority {
		for q := &x.long.due[l]; q.head != nil; {
			q.head.failed = reason
			x.advance(q.head)
		}
		if t := x.current[l]; t != nil {
			t.source, t.lastSource = nil, nil
			t.failed = reason
			x.advance(t)
		}
		for t := x.long.aside[l].head; t != nil; t = x.long.aside[l].head {
			t.source, t.lastSource = nil, nil
			t.failed = reason
			x.advance(t)
		}
	}
}

// transferring reports whether a long transfer is open. Those of a detached
// context never end.
func (x *Context) transferring() bool { return x.long != nil && x.long.open > 0 && !x.detached }

// transfers is a list of transfers, linked through next.
type transfers struct {
	head, tail *transfer
}

func (q *transfers) push(t *transfer) {
	t.next = nil
	if q.head == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
}

// pop takes the first transfer; the list must not be empty.
func (q *transfers) pop() *transfer {
	t := q.head
	q.head = t.next
	t.next = nil
	return t
}

// remove takes a transfer off the list that it is on.
func (q *transfers) remove(t *transfer) {
	if q.head == t {
		q.pop()
		return
	}
	before := q.head
	for before.next != t {
		before = before.next
	}
	before.next, t.next = t.next, nil
	if q.tail == t {
		q.tail = before
	}
}

// slotQueue is a list of transfers whose slots are not finished, in the order of the slots, linked
// through nextSlot.
type slotQueue struct {
	head, tail *transfer
}

func (q *slotQueue) push(t *transfer) {
	if q.head == nil {
		q.head = t
	} else {
		q.tail.nextSlot = t
	}
	q.tail = t
}

// pop takes the first transfer; the queue must not be empty.
func (q *slotQueue) pop() *transfer {
	t := q.head
	if q.head = t.nextSlot; q.head == nil {
		q.tail = nil
	}
	t.nextSlot = nil
	return t
}

// holds reports whether a transfer is in the queue.
func (q *slotQueue) holds(t *transfer) bool { return t.nextSlot != nil || q.tail == t }

// long holds the transfers of a context that has, or had, segments.
type long struct {
	ctx     *Context
	records [arctic.Levels][]*transfer
	free    [arctic.Levels]transfers
	due     [arctic.Levels]transfers
	aside   [arctic.Levels]transfers
	slots   [arctic.Levels]slotQueue
	open    int // number of open transfers
	// held is the number of lines that the remote writes of a level hold, by the number of the card
	// that they go to, modulo 256.
	held [arctic.Levels][256]uint16

	// own is a line for each level that is closed to messages. It carries a transfer whose end the
	// process waits for in order to change its queues. The other lines may be full of packets for
	// nodes that wait in the same way, and take none meanwhile. It also carries a message that has
	// room at its receiver (pushable).
	own   [arctic.Levels]line
	inUse [arctic.Levels]bool
}

func newLong(x *Context) *long {
	n := &long{ctx: x}
	for l := range n.records {
		for range openTransfers {
			n.addRecord(arctic.Level(l))
		}
	}
	return n
}

// addRecord makes a record, which is free.
func (n *long) addRecord(l arctic.Level) {
	t := new(transfer)
	n.records[l] = append(n.records[l], t)
	n.free[l].push(t)
}

// giveRecord makes a record free, or forgets it if another has its place.
func (n *long) giveRecord(t *transfer) {
	l := t.level
	if !t.late.replaced {
		n.free[l].push(t)
		return
	}
	all := n.records[l]
	i, last := slices.Index(all, t), len(all)-1
	all[i], all[last] = all[last], nil
	n.records[l] = all[:last]
}

// linesTo returns the counter of the lines that remote writes of t's level to t's card hold.
func (n *long) linesTo(t *transfer) *uint16 {
	return &n.held[t.level][t.route%uint32(len(n.held[t.level]))]
}
