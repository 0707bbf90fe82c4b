package engine

// This file models the time that operations on windows take on a modelled machine (Tokyo, sections
// 2.2.2, 3.3.1.1 and 3.3.1.2). An operation takes time at the card with the window, and its answer
// at the card that asked. The Operation Unit moves their data over the bus. The Retrieval Unit
// fetches requests (heldwrite.go).
//
// Accepting a packet executes it (execute.go), so its time passes before it is accepted. For each
// packet of a frame that the link has found good and new, the Preprocessor computes the words that
// the packet will move. The unit then has the bus for them, burst by burst. Afterwards the frame is
// judged as on a card without times. An operation that is no longer allowed by then is refused: its
// window may have been closed, or its process may be away. No operation takes effect before that,
// so a RESET or a context switch in the meantime loses nothing: the packet is not accepted, and
// comes again.
//
// A refused packet takes no time here. The checks use words that the card has: keys, rights,
// bounds. So a packet costs the bus no more than the data that it was allowed to move. A frame that
// comes twice, or that differs from what its sender sent, costs nothing.
//
//	put                 its data
//	get, read           the data that it reads
//	write               the data that it writes
//	every other         the data that it reads, and as much written
//	lock, unlock        nothing
//	signal of a put     two words, and two read before if it is added
//	count of a window   two words, and two read before
//	notification        16 words and the head of the ring, or Timing.Card's record
//	copy of a put       its data (chain.go)
//	message             its data, and behind the last its entry: 16 words and the head
//	answer              its data if that goes to memory (else the completion's record holds it);
//	                    behind the last one the record: 16 words and the head
//
// The completion of a put takes no time at its origin. An acknowledgment reports it, and the card
// handles acknowledgments itself.
//
// Before the first of these, the unit fetches the entry of the window's table if the card does not
// have it (windowentry.go).
//
// The unit works on one packet at a time. Packets from this card to itself use it, too, from the
// head of their list. A frame that has waited for one of them goes before the next of them. The
// unit takes turns for the bus with the Retrieval and the Delivery Unit.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// maxMoves is the highest number of moves of a packet: two entries, data read and written, a signal
// and a count read and written, a record and its head.
const maxMoves = 10

// signalWords is the number of words of a put's signal, and of a count.
const signalWords = 2

// operateUnit is the Operation Unit.
type operateUnit struct {
	moves [maxMoves]int // words left of each move; a move's words go in the longest bursts
	n, at int
	tail  int64 // busy time after its last transaction
	busy  bool
	until int64
	// line and from are the line and the sender of a packet from this card to itself. nil: the
	// unit works for the Preprocessor.
	line *line
	from *Context
	// over is the line whose time has just passed.
	over *line
	// waits says that a frame asked for the unit while it worked on a packet from this card to
	// itself.
	waits bool
}

// move notes words that the bus carries in one sequence.
func (o *operateUnit) move(words int) {
	if words > 0 {
		o.moves[o.n] = words
		o.n++
	}
}

// begins starts the time of the packet whose moves were noted, and reports whether it takes any.
func (o *operateUnit) begins() bool {
	o.busy = o.n > 0 || o.tail > 0
	return o.busy
}

// timePacket notes the words that the bus carries when a packet for the context is accepted, with
// the block behind it if there is one. A packet that will be refused takes nothing. timePacket
// changes nothing else but the table entries that the card holds.
func (u *model) timePacket(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	o := &u.operate
	o.n, o.at, o.tail = 0, 0, 0
	o.line, o.from = nil, nil
	if x == nil || x.rejection != arctic.ReasonNone || x.remote == nil || x.drain {
		return
	}
	switch {
	case h.Kind == arctic.KindRemote && arctic.IsOperation(h.Type):
		u.timeOperation(x, p, h, block)
	case h.Kind == arctic.KindResponse:
		u.timeAnswer(x, p, h, block)
	case h.Kind == arctic.KindSend:
		u.timeSend(x, p, h, block)
	case h.Kind == arctic.KindMulticast:
		u.timeMulticast(x, p, h)
	}
}

// timeOperation notes the words that an operation moves.
func (u *model) timeOperation(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	var q arctic.WindowRequest
	if !p.WindowRequest(h, &q) || q.Block != (len(block) > 0) {
		return
	}
	if q.Block {
		q.Operands = block
	}
	var e examined
	if u.remote.examine(x, x.remote, h.Source, &q, &e) != arctic.ReasonNone {
		return
	}
	o := &u.operate
	words := wordsOf(len(e.memory))
	switch q.Operation {
	case arctic.RemoteLock, arctic.RemoteUnlock:
		return
	case arctic.RemotePut:
		u.fetchEntry(x, q.Key, q.Address)
		o.move(words)
	case arctic.RemoteGet, arctic.RemoteRead:
		u.fetchEntry(x, q.Key, q.Address)
		o.move(words)
	default:
		u.fetchEntry(x, q.Key, q.Address)
		if q.Operation != arctic.RemoteWrite || q.Fetch {
			o.move(words)
		}
		o.move(words)
	}
	if t := &q.Trailer; e.signal != nil {
		u.fetchEntry(x, t.Key, t.Address)
		if t.Add {
			o.move(signalWords)
		}
		o.move(signalWords)
	}
	if q.Counts && e.window.counts != 0 {
		o.move(signalWords)
		o.move(signalWords)
	}
	if q.Trailer.Notify {
		u.timeRecord()
	}
}

// timeAnswer notes the words that an answer moves.
func (u *model) timeAnswer(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) {
	var a arctic.Response
	if !p.Response(h, &a) || a.Block != (len(block) > 0) || h.Level != arctic.Reply {
		return
	}
	if a.Block {
		a.Data = block
	}
	q := x.remote.request(a.ID)
	if q != nil && q.operation == arctic.RemoteMulticast {
		u.timeReport(q, &a)
		return
	}
	if q.examine(h.Source, &a) != arctic.ReasonNone {
		return
	}
	if q.memory != nil {
		u.operate.move(wordsOf(len(a.Data)))
	}
	if q.got+len(a.Data) == q.total && !q.silent {
		u.timeRecord()
	}
}

// timeRecord notes the words and the time of an entry of the notification ring.
func (u *model) timeRecord() {
	o := &u.operate
	if t := u.times; t != nil {
		o.tail = int64(t.Notify.Duration(0, 0))
		return
	}
	o.move(noteWords)
	o.move(1)
}

// timeTrain has the Operation Unit move the words of each packet of the frame in the Preprocessor,
// one packet after the other. It reports whether their time is over.
func (u *model) timeTrain() (over bool) {
	w, o := &u.receive, &u.operate
	for {
		if o.busy {
			o.waits = o.line != nil
			return false
		}
		o.waits = false
		if len(w.untimed) == 0 {
			return true
		}
		var p arctic.Packet
		p, w.untimed = arctic.Next(w.untimed)
		if h := p.Header(); h.Kind != arctic.KindMessage && h.Kind != arctic.KindTransfer {
			u.timePacket(u.addressee(w.train), p, &h, w.train.Block)
			if o.begins() {
				return false
			}
		}
	}
}

// addressee returns the context that the packets of a frame are for, or nil if they will be
// rejected.
func (u *model) addressee(t *link.Train) *Context {
	x, _ := u.routes.lookup(t.Header.GID, t.First.Destination, t.Header.Tag)
	if x == nil || x.rejection != arctic.ReasonNone || u.routes.fromElsewhere(t) {
		return nil
	}
	return x
}

// timeLocal has the Operation Unit move the words of a packet for a context of this card. It
// reports whether the packet's time is over; if not, the packet stays where it is.
func (u *model) timeLocal(from, to *Context, ln *line, p arctic.Packet, h *arctic.PacketHeader) (over bool) {
	o := &u.operate
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
	u.timePacket(to, p, h, ln.Block)
	if !o.begins() {
		return true
	}
	o.line, o.from, from.forBus = ln, from, true
	return false
}

// runOperation lets the Operation Unit go on, and reports whether it is free again.
func (u *model) runOperation() (free bool) {
	o := &u.operate
	for o.busy {
		switch {
		case o.until > u.clock.now:
			u.next = min(u.next, o.until)
			return false
		case o.at == o.n && o.tail > 0:
			o.until, o.tail = u.clock.now+o.tail, 0
		case o.at == o.n:
			u.endOperation()
			return true
		default:
			words := u.burst(o.moves[o.at])
			at, granted := u.bus.Card(u.clock.now, words)
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

// endOperation ends the time of a packet, which is then judged.
func (u *model) endOperation() {
	o := &u.operate
	o.busy = false
	u.receive.next = u.clock.now
	x := o.from
	if x == nil || x.halted || !x.looping {
		return
	}
	o.over, o.line, o.from = o.line, nil, nil
	x.account.local = link.AloneBytes
	x.holdLoop(u.out.loopback(x))
	o.over = nil // also when its line is not there any more
}

// leave takes the packet of a context from the unit. A transaction under way ends, and belongs to
// no packet.
func (o *operateUnit) leave(x *Context) {
	if o.from == x {
		o.line, o.from = nil, nil
	}
}

// burst returns the number of words in the next transaction.
func (u *model) burst(words int) int { return burstOf(u.sizes, words) }

// burstOf returns the longest burst of the given sizes that does not exceed the words. If there is
// none it returns the shortest burst that holds them: two single words take longer than a burst.
func burstOf(sizes []int, words int) int {
	size := holds(sizes, words)
	for _, s := range sizes {
		if s > 2 && s <= words {
			size = s
		}
	}
	return size
}
