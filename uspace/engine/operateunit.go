package engine

// This file is the time that operations on windows take on a modelled machine (Tokyo, sections
// 2.2.2, 3.3.1.1 and 3.3.1.2). Operations take it at the card whose window it is, and their answers
// at the card that asked. The Operation Unit moves their data over the bus. The Retrieval Unit
// fetches requests (heldwrite.go).
//
// Execution is acceptance (execute.go), so the time comes before both. For each packet of a frame
// that the link has found good and new, the Preprocessor asks what the packet will move. The unit
// has the bus for that, burst by burst. Then the frame is judged as on a card without times. What
// is not allowed any more by then is refused: a window may have been closed, its process may be
// away. Nothing of an operation is done before, so a RESET or a context switch meanwhile loses
// nothing: the packet is not accepted, and comes again.
//
// What is refused takes nothing here. The checks use words that the card has: keys, rights, bounds.
// So no packet costs the bus more than what it was allowed to move, and a frame that comes twice,
// or that is not what its sender sent, costs none.
//
//	put                 its data
//	get, read           what it reads
//	write               what it writes
//	every other         what it reads, and as much written
//	lock, unlock        nothing
//	signal of a put     two words, and two read before if it is added
//	notification        16 words and the head of the ring, or Timing.Card's record
//	copy of a put       its data (chain.go)
//	answer              its data; what stands in the record of the completion goes with that: 16
//	                    words and the head
//
// The completion of a put takes nothing at its origin: an acknowledgment tells of it, which the
// card handles itself.
//
// Before the first of these the entry of the window's table is fetched, if the card does not have
// it (windowentry.go).
//
// The unit works on one packet at a time. Packets for this very card ask for it, too, from the head
// of their list. A frame that has waited for one of them is before the next. For the bus it takes
// turns with the Retrieval and the Delivery Unit.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// maxMoves is the most moves of a packet: two entries, data read and written, a signal read and
// written, a record and its head.
const maxMoves = 8

// signalWords is how many words the signal of a put has.
const signalWords = 2

// operateUnit is the Operation Unit.
type operateUnit struct {
	moves [maxMoves]int // words that are left of each; those of one move go in the longest bursts
	n, at int
	tail  int64 // it is busy behind its last transaction for so long
	busy  bool
	until int64
	// Of a packet for this very card: its line and its sender. nil: it is the Preprocessor's.
	line *line
	from *Context
	// over is the line whose time has just passed.
	over *line
	// waits says that a frame has asked while the unit worked on a packet for this very card.
	waits bool
}

// move notes words that the bus carries one behind the other.
func (o *operateUnit) move(words int) {
	if words > 0 {
		o.moves[o.n] = words
		o.n++
	}
}

// begins reports whether the packet that was asked for takes any time, and if so begins with it.
func (o *operateUnit) begins() bool {
	o.busy = o.n > 0 || o.tail > 0
	return o.busy
}

// timePacket notes what the bus carries when a packet for the context is accepted, with the block
// behind it if there is one. What will be refused takes nothing. It changes nothing else, but for
// the entries that the card holds.
func (c *Card) timePacket(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	o := &c.units.operate
	o.n, o.at, o.tail = 0, 0, 0
	o.line, o.from = nil, nil
	if x == nil || x.rejection != arctic.ReasonNone || x.remote == nil || x.drain {
		return
	}
	switch {
	case h.Kind == arctic.KindRemote && arctic.IsOperation(h.Type):
		c.timeOperation(x, p, h, block)
	case h.Kind == arctic.KindResponse:
		c.timeAnswer(x, p, h, block)
	case h.Kind == arctic.KindMulticast:
		c.timeMulticast(x, p, h)
	}
}

// timeOperation notes what an operation moves.
func (c *Card) timeOperation(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	var q arctic.WindowRequest
	if !p.WindowRequest(h, &q) || q.Block != (len(block) > 0) {
		return
	}
	if q.Block {
		q.Operands = block
	}
	var e examined
	if c.examine(x, x.remote, h.Source, &q, &e) != arctic.ReasonNone {
		return
	}
	o := &c.units.operate
	words := wordsOf(len(e.memory))
	switch q.Operation {
	case arctic.RemoteLock, arctic.RemoteUnlock:
		return
	case arctic.RemotePut:
		c.fetchEntry(x, q.Key, q.Address)
		o.move(words)
	case arctic.RemoteGet, arctic.RemoteRead:
		c.fetchEntry(x, q.Key, q.Address)
		o.move(words)
	default:
		c.fetchEntry(x, q.Key, q.Address)
		if q.Operation != arctic.RemoteWrite || q.Fetch {
			o.move(words)
		}
		o.move(words)
	}
	if t := &q.Trailer; e.signal != nil {
		c.fetchEntry(x, t.Key, t.Address)
		if t.Add {
			o.move(signalWords)
		}
		o.move(signalWords)
	}
	if q.Trailer.Notify {
		c.timeRecord()
	}
}

// timeAnswer notes what an answer moves.
func (c *Card) timeAnswer(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	var a arctic.Response
	if !p.Response(h, &a) || a.Block != (len(block) > 0) || h.Level != arctic.Reply {
		return
	}
	if a.Block {
		a.Data = block
	}
	q := x.remote.request(a.ID)
	if q != nil && q.operation == arctic.RemoteMulticast {
		c.timeReport(q, &a)
		return
	}
	if q.examine(h.Source, &a) != arctic.ReasonNone {
		return
	}
	if q.memory != nil {
		c.units.operate.move(wordsOf(len(a.Data)))
	}
	if q.got+len(a.Data) == q.total && !q.silent {
		c.timeRecord()
	}
}

// timeRecord notes what an entry of the notification ring takes.
func (c *Card) timeRecord() {
	o := &c.units.operate
	if t := c.units.card; t != nil {
		o.tail = int64(t.Notify.Duration(0, 0))
		return
	}
	o.move(noteWords)
	o.move(1)
}

// timeTrain has the Operation Unit move what the packets of the frame in the Preprocessor take, one
// packet after the other, and reports whether that is over.
func (c *Card) timeTrain() (over bool) {
	u, o := &c.units.receive, &c.units.operate
	for {
		if o.busy {
			o.waits = o.line != nil
			return false
		}
		o.waits = false
		if len(u.untimed) == 0 {
			return true
		}
		var p arctic.Packet
		p, u.untimed = arctic.Next(u.untimed)
		if h := p.Header(); h.Kind != arctic.KindMessage && h.Kind != arctic.KindTransfer {
			c.timePacket(c.addressee(u.train), p, &h, u.train.Block)
			if o.begins() {
				return false
			}
		}
	}
}

// addressee returns the context that the packets of a frame are for, or nil if they will be
// rejected.
func (c *Card) addressee(t *link.Train) *Context {
	x := c.lookup(t.Header.GID, t.First.Destination, t.Header.Tag)
	if x == nil || x.rejection != arctic.ReasonNone || c.fromElsewhere(t) {
		return nil
	}
	return x
}

// timeLocal has the Operation Unit move what a packet for a context of this card takes, and reports
// whether that is over. A packet for which it is not stays where it is.
func (c *Card) timeLocal(from, to *Context, ln *line, p arctic.Packet, h *arctic.PacketHeader) (over bool) {
	o := &c.units.operate
	switch {
	case o.over == ln:
		o.over = nil
		return true
	case h.Kind == arctic.KindMessage || h.Kind == arctic.KindTransfer:
		return true
	case o.busy || o.waits:
		from.forBus = true
		return false
	}
	c.timePacket(to, p, h, ln.Block)
	if !o.begins() {
		return true
	}
	o.line, o.from, from.forBus = ln, from, true
	return false
}

// runOperation lets the Operation Unit go on, and reports whether it is free again.
func (c *Card) runOperation() (free bool) {
	u := c.units
	o := &u.operate
	for o.busy {
		switch {
		case o.until > c.now:
			u.next = min(u.next, o.until)
			return false
		case o.at == o.n && o.tail > 0:
			o.until, o.tail = c.now+o.tail, 0
		case o.at == o.n:
			c.endOperation()
			return true
		default:
			words := u.burst(o.moves[o.at])
			at, granted := u.bus.Card(c.now, words)
			if !granted {
				u.next = min(u.next, at)
				return false
			}
			if o.moves[o.at] -= words; o.moves[o.at] <= 0 {
				o.at++
			}
			o.until, u.first = at, retrievesFirst
		}
	}
	return false
}

// endOperation is the end of the time of a packet: now it is judged.
func (c *Card) endOperation() {
	o := &c.units.operate
	o.busy = false
	c.units.receive.next = c.now
	x := o.from
	if x == nil || x.halted || !x.looping {
		return
	}
	o.over, o.line, o.from = o.line, nil, nil
	x.account.local = link.AloneBytes
	x.holdLoop(c.loopback(x))
	o.over = nil // also when its line is not there any more
}

// leave takes the packet of a context from the unit: what is under way ends, and is nobody's.
func (o *operateUnit) leave(x *Context) {
	if o.from == x {
		o.line, o.from = nil, nil
	}
}

// burst returns how many of the words the next transaction moves.
func (u *units) burst(words int) int { return burstOf(u.sizes, words) }

// burstOf returns the longest burst of some sizes that does not exceed the words, or the shortest
// that holds them: two single words take longer than a burst.
func burstOf(sizes []int, words int) int {
	size := holds(sizes, words)
	for _, s := range sizes {
		if s > 2 && s <= words {
			size = s
		}
	}
	return size
}
