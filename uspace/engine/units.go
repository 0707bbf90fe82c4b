package engine

// This file models the time that the Retrieval and the Delivery Unit take (thesis 5.2) on the card
// of a modelled machine (Config.Timing).
//
// A unit works on one packet at a time. It asks for the bus burst by burst; between two of its
// bursts the processor and then the other units may go first. The packet moves when the last burst
// has ended. Only then is its line taken, is the slot retired, or does the receive queue grow. The
// data that the bursts carry is read then, too. A process that changes a slot after sending it
// sends either the old or the new content, as with the hardware.
//
// Accepted packets always go by way of the receive FIFO (fifo.bypass), and wait there for the
// Delivery Unit. A full FIFO rejects packets. It has one entry more, for parts of long transfers
// and remote writes, which pass packets that the receive queue has no room for. Other files have
// other times: remote writes in heldwrite.go, Dispatch and Transmit beside the port's link in
// link/timed.go, Preprocess in receiveunit.go, operations on windows in operateunit.go.
//
// A mode that halts the unit's transactions (thesis 3.1.2, 4.2) lets the unit end the packet that
// it works on; its ready bit comes then. RESET takes the packet from the unit.
//
// Bursts (5.2.2): the first four words of a slot are one burst, which tells what the packet is. The
// remaining words, and the data of XFER, follow in the longest bursts that do not exceed them.
// Words of a slot go in no burst longer than Timing.QueueBurst. The words left at the end go in the
// shortest burst that holds them. A delivery ends with the word of the cached head register, so
// that the processor's copy is invalidated (5.2.3).

import (
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// Timing holds the times that a card's units take. The card shares the bus with the processor, and
// with no other card.
type Timing struct {
	Bus *timing.Bus
	// Bursts are the numbers of words that a transaction of the card may have, rising from 1 to at
	// most 16.
	Bursts []int
	// QueueBurst is the longest burst for words of a slot (thesis 3.2.4); 0: there is no such
	// limit. The data of XFER goes in the longest of all bursts.
	QueueBurst int
	// HeadUnwritten says that the delivery of a message ends without the word of the cached head
	// register: a hypothesis about the thesis's simulator, against 5.2.3. Behind the data of XFER,
	// which goes elsewhere, the word is written.
	HeadUnwritten bool
	// GroupWords is the number of arguments of a message, the words behind its first, that move at
	// a time. The last group is filled up. 0 stands for 1. This is another hypothesis: the header
	// has the number of arguments.
	GroupWords int
	// Retrieval and Delivery are the times that the units are busy with a packet before its first
	// transaction.
	Retrieval, Delivery time.Duration
	// Dispatch is the time that the Dispatch Unit is busy with a packet before it leaves the cache
	// for the Send Queue (thesis 5.2.4). Transmit is the time that the Transmit Scheduler is busy
	// with a frame before it is on the link (5.6.3). Preprocess is the time that the Network Packet
	// Preprocessor is busy with a packet before it is accepted or rejected (5.6.2).
	Dispatch, Transmit, Preprocess time.Duration
	// Card holds the times of remote writes for each kind and step, on a card for which these are
	// known (HPL-95-86, tables 3 and 4). nil: remote writes take the time of every packet. Frames
	// without packets take no time on such a card: Hamlyn had no acknowledgments. See writetime.go.
	Card *timing.Card
	// WindowEntries is the number of entries of a context's window table that the card holds. 0: it
	// holds all. It first fetches a missing entry from memory (windowentry.go): EntryWords words,
	// where 0 stands for 1.
	WindowEntries, EntryWords int
}

// mostEntries is the highest number of entries of a window table that a card may hold, and
// mostEntryWords the highest number of words in an entry.
const mostEntries, mostEntryWords = 1 << 16, 16

// check refuses times and sizes that no unit could work with.
func (t *Timing) check() error {
	if t.Bus == nil || len(t.Bursts) == 0 || t.Bursts[0] != 1 || !slices.IsSorted(t.Bursts) ||
		t.Bursts[len(t.Bursts)-1] > 16 ||
		min(t.Retrieval, t.Delivery, t.Dispatch, t.Transmit, t.Preprocess) < 0 ||
		max(t.Retrieval, t.Delivery, t.Dispatch, t.Transmit, t.Preprocess) > longest {
		return fmt.Errorf("timing needs a bus, bursts that rise from 1 to at most 16 words, and durations from 0 to %v",
			longest)
	}
	if min(t.WindowEntries, t.EntryWords) < 0 || t.WindowEntries > mostEntries || t.EntryWords > mostEntryWords {
		return fmt.Errorf("entries of window tables are from 0 to %d, of at most %d words", mostEntries, mostEntryWords)
	}
	if t.Card != nil && !checkCard(t.Card) {
		return fmt.Errorf("times of remote writes are from 0 to a second, and so are those of a byte")
	}
	return nil
}

// maxBursts is the highest number of transactions of a packet, word by word. They move the request
// block of a remote write with its metadata, and data in a packet or as a block of a remote write.
const maxBursts = funi.RemoteDataWord + arctic.MaxRemoteMetadata + MaxTimedBlock/arctic.WordSize

// MaxTimedBlock is the largest size in bytes of a block on a card whose units take time
// (Config.BlockBytes).
const MaxTimedBlock = 1024

// unit is the Retrieval or the Delivery Unit.
type unit struct {
	x      *Context // context of the packet that it works on; nil: none
	level  arctic.Level
	bursts [maxBursts]uint8 // words of its transactions
	n      int              // transactions of the packet
	queue  int              // of these, the first ones, which move words of a slot
	done   int              // transactions that have ended or begun
	until  int64            // busy until then; 0: waits for the bus
	setup  int64            // before the first transaction
	lead   int64            // the same, of the packet that it works on
	tail   int64            // after the last
	direct bool             // it has no transactions, and needs none
	at     int              // the packet's index in the receive FIFO
}

// model holds these two units, the Operation Unit, and those of the network's side.
type model struct {
	core
	routes *routes
	sched  *scheduler
	in     *delivery
	out    *retrieval
	remote *remoteUnit

	receive  receiveUnit
	operate  operateUnit
	bus      *timing.Bus
	sizes    []int
	slots    []int        // sizes that move words of slots
	unmarked bool         // Timing.HeadUnwritten
	group    int          // Timing.GroupWords
	times    *timing.Card // Timing.Card
	retrieve unit
	deliver  unit
	first    int   // unit that asks for the bus first: retrievesFirst, ...
	turn     int   // of the contexts
	next     int64 // when one of them next has something to do, or Never

	entries, entryWords int // Timing.WindowEntries, Timing.EntryWords
}

// The unit that asks for the bus first: the one behind the unit that had it last.
const (
	retrievesFirst = iota
	deliversFirst
	operatesFirst
)

func newModel(all core, routes *routes, sched *scheduler, in *delivery, out *retrieval, remote *remoteUnit) *model {
	t := all.cfg.Timing
	slots := t.Bursts
	if t.QueueBurst > 0 {
		slots = slices.DeleteFunc(slices.Clone(slots), func(words int) bool { return words > t.QueueBurst })
	}
	return &model{core: all, routes: routes, sched: sched, in: in, out: out, remote: remote,
		bus: t.Bus, sizes: t.Bursts, slots: slots, unmarked: t.HeadUnwritten, group: max(t.GroupWords, 1),
		times: t.Card, retrieve: unit{setup: int64(t.Retrieval)}, deliver: unit{setup: int64(t.Delivery)}, next: Never,
		receive: receiveUnit{takes: int64(t.Preprocess), next: Never}, entries: t.WindowEntries,
		entryWords: max(t.EntryWords, 1)}
}

// sends reports whether retrieval or dispatch works on a packet of the context.
func (x *Context) sends() bool { return x.retrieving || x.card.link.WorksFor() == x.owner }

// underWay reports whether a unit works on a packet of the context, or will at once. In
// context-switch mode delivery goes on as far as there is room (thesis 4.2).
func (x *Context) underWay() bool {
	if x.sends() || x.delivering {
		return true
	}
	for l := range arctic.Levels {
		if !x.fifo[l].bypass && x.next(arctic.Level(l)) >= 0 {
			x.card.clock.more = true // the owner steps the card for it
			return true
		}
	}
	return false
}

// leave takes the packets of a context that is being reset or detached from the units. A
// transaction that is under way ends.
func (u *model) leave(x *Context) {
	for _, w := range []*unit{&u.retrieve, &u.deliver} {
		if w.x == x {
			u.release(w)
		}
	}
	u.operate.leave(x)
}

// engage gives a unit a packet of the context, and notes in the context that the packet is
// under way, for control.go and switch.go.
func (u *model) engage(w *unit, x *Context, l arctic.Level) {
	w.x, w.level = x, l
	*u.note(w) = true
}

// release takes the packet from a unit.
func (u *model) release(w *unit) {
	*u.note(w) = false
	w.x = nil
}

// note returns the flag in a context that says that the unit works on a packet of the context.
func (u *model) note(w *unit) *bool {
	if w == &u.retrieve {
		return &w.x.retrieving
	}
	return &w.x.delivering
}

// runUnits ends the work whose time has passed and starts the work that a free unit can start.
func (u *model) runUnits() {
	u.moveWithoutBus() // a context that had no room, or was away, may take them now
	for again := true; again; {
		u.next = Never
		again = false
		first := u.first
		for i := range 3 {
			switch (first + i) % 3 {
			case retrievesFirst:
				again = u.runUnit(&u.retrieve) || again
			case deliversFirst:
				again = u.runUnit(&u.deliver) || again
			default:
				again = u.runOperation() || again
			}
		}
		if again {
			u.moveWithoutBus()
		}
	}
}

// moveWithoutBus does the work that needs no bus. Packets from this card to itself go into FIFOs
// that have room, and slots that are no longer needed are retired.
func (u *model) moveWithoutBus() {
	for i := 0; i < len(u.sched.awake); i++ { // one of them may wake more
		x := u.sched.awake[i]
		if x.looping && !x.halted {
			x.account.local = link.AloneBytes // the FIFOs hold less
			if freed := u.out.loopback(x); freed || x.loopHold <= u.clock.now {
				x.holdLoop(freed)
			}
		}
		for l := range arctic.Levels {
			if x.finished[l] > 0 && x.sending {
				u.out.retireFinished(x, arctic.Level(l))
			}
			if !x.halted && x.sending && x.asking(arctic.Level(l)) {
				x.account.retrieval = link.AloneBytes // the lines are fewer
				asked, noLine := u.remote.askMore(x, arctic.Level(l), retrieveBatch)
				u.counters.PacketsRetrieved += uint64(asked)
				x.starved = x.starved || noLine
			}
		}
	}
}

// runUnit lets a unit go on and reports whether it has moved a packet. If it has, there may be work
// for either unit.
func (u *model) runUnit(w *unit) (moved bool) {
	for {
		if w.until > u.clock.now {
			u.next = min(u.next, w.until)
			return moved
		}
		if w.until != 0 && w.done == w.n && w.tail > 0 {
			w.until = u.clock.now + w.tail
			w.tail = 0
			continue
		}
		if w.until != 0 && w.done == w.n {
			w.until = 0
			u.move(w)
			u.after(w)
			moved = true
		}
		w.until = 0
		if w.x == nil {
			if !u.assign(w) {
				return moved
			}
			if w.lead > 0 {
				w.until = u.clock.now + w.lead
				continue
			}
		}
		if w.n == 0 && w.tail > 0 {
			w.until = u.clock.now + w.tail
			w.tail = 0
			continue
		}
		if w.n == 0 {
			u.move(w)
			moved = true
			continue
		}
		at, granted := u.bus.Card(u.clock.now, int(w.bursts[w.done]))
		if !granted {
			u.next = min(u.next, at)
			return moved
		}
		if w == &u.deliver && w.done < w.queue {
			u.bus.Deliver(int(w.level))
		}
		w.done++
		w.until = at
		u.after(w)
	}
}

// after lets the units behind a unit ask for the bus before it.
func (u *model) after(w *unit) {
	if u.first = operatesFirst; w == &u.retrieve {
		u.first = deliversFirst
	}
}

// move moves the packet whose transactions have ended, unless its context has left meanwhile. A
// mode that waits for the packet's end has closed the send queues to others.
func (u *model) move(w *unit) {
	x := w.x
	if x == nil {
		return
	}
	u.release(w)
	switch {
	case w == &u.deliver:
		u.in.drainOne(x, w.level, w.at)
	default:
		more, closing := u.clock.more, x.closing
		x.account.retrieval = link.AloneBytes            // a packet at a time, for any account
		x.closing = closing && x.current[w.level] != nil // a part may have to take its own line
		if x.long != nil && x.long.due[w.level].head != nil || x.pushable(w.level) != nil {
			u.out.finish(x, w.level, 1)
		} else {
			u.out.retrieveLevel(x, w.level, 1)
		}
		u.clock.more, x.closing = more, closing // the unit itself sees what else is pending
	}
}

// assign gives an idle unit its next packet: replies first, contexts in turn.
func (u *model) assign(w *unit) bool {
	for i := range u.sched.awake {
		x := u.sched.awake[(u.turn+i)%len(u.sched.awake)]
		for _, l := range arctic.ByPriority {
			w.n, w.done, w.queue, w.lead, w.tail, w.direct = 0, 0, 0, w.setup, 0, false
			if w == &u.retrieve && u.retrievable(x, l) || w == &u.deliver && u.deliverable(x, l) {
				u.engage(w, x, l)
				u.turn += i + 1
				return true
			}
		}
	}
	return false
}

// retrievable notes the transactions of the next packet of a send queue. It returns false
// if there is none, or no line for it.
func (u *model) retrievable(x *Context, l arctic.Level) bool {
	w := &u.retrieve
	if x.halted {
		return false
	}
	x.takeTurns(l)
	last, pushed := x.long != nil && x.long.due[l].head != nil, x.pushable(l)
	pending := x.current[l] != nil || x.iface.Pending(l) > x.taken[l] && !x.closing
	if !last && !pending && pushed == nil {
		return false
	}
	// A transfer that the process waits for the end of has a line of its own, and so has a message
	// that has room at its receiver.
	own := pushed != nil || last && x.long.due[l].head.hasRoom() && !x.long.inUse[l] ||
		x.closing && !last && x.current[l] != nil && !x.long.inUse[l]
	if !own && !x.ticket.any(l) && !(x.current[l] == nil && !last && x.opensRemote(l)) {
		if !x.starved {
			u.counters.SendQueueNoTicket++
		}
		x.starved = true // the line that comes free makes the card step again
		return false
	}
	switch t := x.current[l]; {
	case pushed != nil:
		u.putPart(w, pushed)
	case last:
		u.lastPart(w, x.long.due[l].head)
	case t != nil && t.put != nil:
		u.putPart(w, t)
	case t != nil:
		u.split(w, min(arctic.MaxPartWords, len(t.source)/arctic.WordSize))
	default:
		s := x.iface.Slot(l, x.taken[l])
		h := funi.Header(s.Load(0))
		switch {
		case h.Remote():
			if !u.request(w, x, l, h, s) {
				return false
			}
		case h.Many() && h.Words() == 0:
			if x.long != nil && x.long.free[l].head == nil {
				return false // advance makes the card step again when a transfer is over
			}
			u.slot(w, funi.DataWord+1)
			u.split(w, arctic.MaxPartWords)
		case h.Transfer():
			u.slot(w, funi.DataWord)
			u.split(w, min(h.Words(), arctic.MaxPartWords))
		default:
			u.message(w, h.Length())
		}
	}
	return w.n > 0 || w.direct
}

// deliverable notes the transactions of the next packet of a receive FIFO. It returns
// false if there is none, or no slot for it.
func (u *model) deliverable(x *Context, l arctic.Level) bool {
	q := &x.fifo[l]
	at := x.next(l)
	if at < 0 {
		return false
	}
	w := &u.deliver
	w.at = at
	p := q.at(at)
	h := p.Header()
	switch {
	case h.Kind == arctic.KindRemote:
		u.heldWrite(w, x, q, at, &h)
		return true
	case h.Kind != arctic.KindTransfer:
		u.message(w, int(h.Length))
		if u.unmarked {
			return true // the bursts into the queue have done what a write of the head does
		}
	default:
		var t arctic.Transfer
		p[:arctic.PacketHeaderSize+int(h.Length)*arctic.WordSize].Transfer(&t)
		if t.Form == arctic.Part && !x.drain {
			u.split(w, max(1, len(t.Data)/arctic.WordSize))
			return true
		}
		u.slot(w, funi.DataWord)
		u.split(w, len(t.Data)/arctic.WordSize)
	}
	u.add(w, 1) // the head register
	return true
}

// next returns the index in a receive FIFO of the packet that can be delivered next, or -1. If
// there is no room for the first packet, one that needs no room is next.
func (x *Context) next(l arctic.Level) int {
	q := &x.fifo[l]
	if x.away || q.n == 0 {
		return -1
	}
	if x.user&funi.CRQM == 0 && x.iface.Vacant(l) != nil {
		return 0
	}
	for i := range q.n {
		if x.passes(q.at(i)) {
			return i
		}
	}
	return -1
}

// passes reports whether a packet of a receive FIFO needs no room in the receive queue.
func (x *Context) passes(p arctic.Packet) bool { return p.IsRemote() || !x.drain && isPart(p) }

// isPart reports whether a packet of a receive FIFO is a part of a long transfer.
func isPart(p arctic.Packet) bool {
	h := p.Header()
	var t arctic.Transfer
	return h.Kind == arctic.KindTransfer && p[:arctic.PacketHeaderSize+int(h.Length)*arctic.WordSize].Transfer(&t) &&
		t.Form == arctic.Part
}

// message notes the transactions of a message of the given number of words.
func (u *model) message(w *unit, words int) {
	if words > 0 {
		arguments := (words - 1 + u.group - 1) / u.group * u.group
		words = 1 + min(arguments, arctic.MaxPayloadWords-1)
	}
	u.slot(w, funi.PayloadWord+words)
}

// slot notes the transactions of the first words of a slot.
func (u *model) slot(w *unit, words int) {
	first := min(words, funi.DataWord)
	u.splitBy(w, u.slots, first)
	u.splitBy(w, u.slots, words-first)
	w.queue = w.n
}

// split notes the transactions that move a number of words of data.
func (u *model) split(w *unit, words int) { u.splitBy(w, u.sizes, words) }

// splitBy notes transactions of the given sizes that move a number of words.
func (u *model) splitBy(w *unit, sizes []int, words int) {
	for words > 0 {
		size := burstOf(sizes, words)
		u.add(w, size)
		words -= size
	}
}

// holds returns the shortest burst that holds a number of words, or else the longest.
func holds(sizes []int, words int) int {
	for _, s := range sizes {
		if s >= words {
			return s
		}
	}
	return sizes[len(sizes)-1]
}

func (u *model) add(w *unit, words int) {
	w.bursts[w.n] = uint8(words)
	w.n++
}
