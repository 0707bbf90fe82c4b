package engine

// This file is the XFER part of the Retrieval Unit (thesis 3.2.4, 5.2.2): from
// memory or a slot into the undelivered packet cache, and the packetisation of long
// transfers.
//
// A transfer of more than one packet is current while it is retrieved: it takes
// lines as they become free, and the slots behind it wait and replies do not. Its last
// data stays in the transfer until every other packet is acknowledged, and leaves
// then: so the notice that it makes at the receiver is the completion of the whole,
// over a network that keeps no order, and no receiver counts. If a packet comes back
// for good, the last is not sent, and the process gets one return for all.
//
// With Config.Blocks its packets are blocks (design idea 7): a line has where the data
// is, not the data, which goes from the source straight into frames, and again when one
// is lost. So the source is needed until the last block is acknowledged, and the slot is
// retired only then, with those behind it that were retrieved meanwhile. Without, data
// is copied into the lines, and the slot is retired when all of it has been.
//
// A level has openTransfers records. When all are taken, the next long transfer
// stays in the send queue.

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// openTransfers is the most long transfers of a context and level that are not
// delivered.
const openTransfers = 8

// ErrSegmentBusy is returned when a segment is unregistered that the card still uses.
var ErrSegmentBusy = errors.New("engine: transfers of the context are under way; wait until they are done")

// transfer is a transfer of many packets that is not delivered yet.
type transfer struct {
	next        *transfer // on a list
	nextSlot    *transfer // the next one whose slot is not retired
	queued      bool      // the slot is not retired
	spent       bool      // the source is not needed any more
	open        bool      // begun, and neither delivered nor failed
	over        bool      // nothing but the slot is left
	behind      int       // slots retrieved after this one's and before nextSlot's
	level       arctic.Level
	header      funi.Header // as in the slot
	argument    uint32
	destination uint32 // of the next packet
	route       uint32 // of all its packets
	first       uint32 // see life.go
	source      []byte // not yet retrieved, without the last packet's
	total       uint32 // words
	lines       int    // packets in the cache
	current     bool   // being retrieved
	ending      bool   // the last packet has left
	failed      arctic.Reason
	tail        [arctic.MaxSingleWords * arctic.WordSize]byte
	tailSize    int // bytes of tail: the last packet
	lastSource  []byte
}

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

func (q *transfers) pop() *transfer {
	t := q.head
	q.head = t.next
	t.next = nil
	return t
}

// long is what a context has for transfers, once it has segments.
type long struct {
	records [arctic.Levels][openTransfers]transfer
	free    [arctic.Levels]transfers
	due     [arctic.Levels]transfers // all but the last packet is acknowledged
	slots   [arctic.Levels]slotQueue
	open    int

	// own is a line for each level that no message takes. It carries a transfer on of
	// which the process waits for the end to change its queues: the other lines may be
	// full of packets for nodes that wait in the same way, and take none meanwhile.
	own   [arctic.Levels]line
	inUse [arctic.Levels]bool
}

// slotQueue is the transfers whose slots are not retired, in the order of the slots.
type slotQueue struct{ head, tail *transfer }

// Register lets the card use a segment for the context's transfers. Errors are those
// of funi.Segments.
func (x *Context) Register(s funi.Segment) error {
	if err := x.segments.Register(s); err != nil {
		return fmt.Errorf("node %d of group %d: %w", x.node, x.gid, err)
	}
	if x.long == nil {
		x.long = newLong()
	}
	return nil
}

func newLong() *long {
	n := &long{}
	for l := range n.records {
		for i := range n.records[l] {
			n.free[l].push(&n.records[l][i])
		}
	}
	return n
}

// Unregister ends the use of the segment that starts at base: after it the card
// neither reads nor writes its memory. It returns funi.ErrNoSegment, or
// ErrSegmentBusy while the slot of a transfer is not retired or one waits in a receive
// FIFO.
func (x *Context) Unregister(base uint32) error {
	busy := false
	for l := range x.fifo {
		busy = busy || x.long != nil && x.long.slots[l].head != nil || x.fifo[l].holdsTransfer()
	}
	if busy {
		return fmt.Errorf("unregistering the segment at %#x: %w", base, ErrSegmentBusy)
	}
	return x.segments.Unregister(base)
}

// loadTransfer loads the XFER packet of a slot into a line. The header is the slot's,
// read before; everything else is read once.
func (c *Card) loadTransfer(x *Context, l arctic.Level, ln *line, h funi.Header, s *funi.Slot) {
	t := arctic.Transfer{Address: s.Load(funi.DestinationAddressWord), Argument: s.Load(funi.ArgumentWord)}
	source := s.Load(funi.SourceAddressWord)
	ln.Node, ln.typ, ln.request, ln.argument = h.Node(), h.Type(), h, t.Argument
	most := arctic.MaxSingleWords
	if h.Many() {
		t.Form, t.Total = arctic.Last, s.Load(funi.TotalWord)
		if t.Total == 0 {
			t.Form, most = arctic.Part, arctic.MaxPartWords
		}
		t.First = c.beginning(c.route(x.group, h.Node()), l)
	}
	size := h.Words() * arctic.WordSize
	if size%arctic.TransferAlign != 0 || h.Words() > most || h.Many() && t.Address == 0 {
		c.refuse(x, l, ln, arctic.ReasonTransferLength)
		return
	}
	var data [arctic.MaxPartWords * arctic.WordSize]byte
	switch {
	case size == 0:
	case source == 0:
		arctic.PutWords(data[:size], s[funi.DataWord:funi.DataWord+h.Words()])
		t.Data = data[:size]
	default:
		t.Data = x.segments.Memory(source&^(arctic.TransferAlign-1), size, funi.Source)
		if t.Data == nil {
			c.refuse(x, l, ln, arctic.ReasonSource)
			return
		}
	}
	if t.Address != 0 {
		c.loadPiece(x, l, ln, &t)
		return
	}
	// Memory to queue: a message of the argument and the data.
	arctic.PutWords(ln.Data[arctic.PacketHeaderSize:], []uint32{t.Argument})
	copy(ln.Data[arctic.PacketHeaderSize+arctic.WordSize:], t.Data)
	c.launch(x, l, ln, arctic.KindMessage, 1+h.Words())
}

// loadPiece encodes a packet of KindTransfer into a line and launches it.
func (c *Card) loadPiece(x *Context, l arctic.Level, ln *line, t *arctic.Transfer) {
	c.launch(x, l, ln, arctic.KindTransfer, arctic.PutTransfer(ln.Data[arctic.PacketHeaderSize:], t))
}

// refuse returns the request of a line whose slot asked for what the process may not
// have, and sets its memory error.
func (c *Card) refuse(x *Context, l arctic.Level, ln *line, reason arctic.Reason) {
	if x.trail != nil {
		x.trail.launched(ln, l, c.now)
	}
	wire := arctic.PacketHeader{Level: l}
	wire.Encode(ln.Data[:])
	ln.Size = arctic.PacketHeaderSize
	x.memoryError(reason)
	x.returned(ln, reason)
}

// begin makes the long transfer of a slot current. It returns false when there is no
// record for it, so that it stays in the send queue. One that asks for what the
// process may not have is returned, and nothing becomes current.
func (c *Card) begin(x *Context, l arctic.Level, h funi.Header, s *funi.Slot) bool {
	source, destination := s.Load(funi.SourceAddressWord), s.Load(funi.DestinationAddressWord)
	argument, words := s.Load(funi.ArgumentWord), s.Load(funi.LengthWord)
	size := int(words) * arctic.WordSize
	destination &^= arctic.TransferAlign - 1
	reason := arctic.ReasonNone
	var memory []byte
	switch {
	case words == 0 || words%4 != 0 || words > arctic.MaxTransferWords || source == 0:
		reason = arctic.ReasonTransferLength
	case destination == 0 || uint64(destination)+uint64(size) > 1<<32:
		reason = arctic.ReasonDestination
	default:
		memory = x.segments.Memory(source&^(arctic.TransferAlign-1), size, funi.Source)
		if memory == nil {
			reason = arctic.ReasonSource
		}
	}
	if reason != arctic.ReasonNone {
		x.memoryError(reason)
		x.giveBack(funi.Returned{Reason: reason, Level: l, Header: h, Word: argument})
		return true
	}
	q := &x.long.free[l]
	if q.head == nil {
		return false
	}
	t := q.pop()
	x.long.open++
	last := size % (arctic.MaxPartWords * arctic.WordSize)
	if last == 0 {
		last = arctic.MaxSingleWords * arctic.WordSize // the part before it is short instead
	}
	*t = transfer{level: l, header: h, argument: argument, destination: destination, total: words, current: true, open: true,
		source: memory[:size-last], lastSource: memory[size-last:], queued: true, route: c.route(x.group, h.Node())}
	t.first = c.beginning(t.route, l)
	x.current[l] = t
	slots := &x.long.slots[l]
	if slots.head == nil {
		slots.head = t
	} else {
		slots.tail.nextSlot = t
	}
	slots.tail = t
	x.taken[l]++
	if x.trail != nil {
		x.trail.took(l, c.now)
	}
	return true
}

// carryOn retrieves up to budget packets of the level's current transfer and returns
// how many, and whether the transfer is retrieved or has failed.
func (c *Card) carryOn(x *Context, l arctic.Level, budget int) (n int, done bool) {
	t := x.current[l]
	x.leadsAway(t)
	most := max(c.blockTo(t.route), arctic.MaxPartWords*arctic.WordSize) // bytes; as long as nothing arrives
	for len(t.source) > 0 && t.failed == arctic.ReasonNone {
		if n == budget {
			return n, false
		}
		ln := x.take(l)
		if ln == nil && x.closing {
			ln = x.takeOwn(l)
		}
		if ln == nil {
			c.counters.SendQueueNoTicket++
			return n, false
		}
		size := min(most, len(t.source))
		p := arctic.Transfer{Form: arctic.Part, Address: t.destination, Data: t.source[:size], AtOnce: size == len(t.source)}
		if c.block > 0 {
			p.Form, p.Data, ln.Block = arctic.Block, nil, p.Data
		}
		t.source = t.source[size:]
		t.destination += uint32(size)
		c.loadOf(x, ln, t, &p)
		n++
	}
	t.tailSize = copy(t.tail[:], t.lastSource)
	t.source, t.lastSource = nil, nil
	t.current, x.current[l] = false, nil
	switch {
	case t.lines == 0:
		x.settle(t)
	case c.block == 0:
		x.spend(t)
	}
	return n, true
}

// finish sends the last packets of the level's transfers of which all else is
// delivered, so many of them at most. It returns false when one found no line.
func (c *Card) finish(x *Context, l arctic.Level, most int) bool {
	for q := &x.long.due[l]; q.head != nil && most > 0; most-- {
		if x.leadsAway(q.head) {
			x.settle(q.pop())
			continue
		}
		ln := x.take(l)
		if ln == nil {
			return false
		}
		t := q.pop()
		t.ending = true
		c.counters.PacketsRetrieved++
		c.loadOf(x, ln, t, &arctic.Transfer{Form: arctic.Last, Address: t.destination, Argument: t.argument, Total: t.total, First: t.first, Data: t.tail[:t.tailSize]})
	}
	return true
}

// leadsAway fails a transfer if the route to its node is another than when it began: what
// is there now is another process, which lacks what the first has got.
func (x *Context) leadsAway(t *transfer) (failed bool) {
	if route := x.card.route(x.group, t.header.Node()); route != t.route && route != NoRoute {
		t.failed = arctic.ReasonReplaced
	}
	return t.failed != arctic.ReasonNone
}

// loadOf loads a packet of a long transfer.
func (c *Card) loadOf(x *Context, ln *line, t *transfer, p *arctic.Transfer) {
	t.lines++
	ln.Node, ln.typ, ln.transfer, ln.Part = t.header.Node(), t.header.Type(), t, !t.ending
	c.loadPiece(x, t.level, ln, p)
}

// accounted notes that a packet of a long transfer is accounted for: its line is
// being freed.
func (x *Context) accounted(ln *line) {
	t := ln.transfer
	ln.transfer = nil
	t.lines--
	if t.lines == 0 && !t.current {
		x.settle(t)
	}
}

// settle decides what becomes of a transfer that is retrieved and has no packet in
// the cache: it failed, it is delivered, or its last packet is due.
func (x *Context) settle(t *transfer) {
	x.card.more = true
	x.spend(t)
	if t.failed == arctic.ReasonNone && !t.ending {
		x.long.due[t.level].push(t)
		return
	}
	if t.failed != arctic.ReasonNone {
		x.giveBack(funi.Returned{Reason: t.failed, Level: t.level, Header: t.header, Word: t.argument})
	}
	x.long.open--
	t.open, t.over = false, true
	if !t.queued {
		x.long.free[t.level].push(t)
	}
}

// spend notes that the source of a transfer is not needed any more: its slot, and those
// behind it up to the next transfer's, are retired at the next retrieval, if no transfer
// before it is unfinished.
func (x *Context) spend(t *transfer) {
	t.spent = true
	q := &x.long.slots[t.level]
	for q.head != nil && q.head.spent {
		first := q.head
		q.head = first.nextSlot
		x.finished[t.level] += 1 + first.behind
		first.queued, first.nextSlot = false, nil
		if first.over {
			x.long.free[t.level].push(first)
		}
	}
}

// takeOwn returns the line of the level that no message takes, or nil if it is in use.
func (x *Context) takeOwn(l arctic.Level) *line {
	if x.long.inUse[l] {
		return nil
	}
	x.long.inUse[l] = true
	ln := &x.long.own[l]
	ln.ctx, ln.Index = x, ownLine+uint16(l)
	return ln
}

// keptInCall is how many bytes of blocks a call of SwitchOut copies at the most, and one block.
const keptInCall = 64 << 10

// keepBlocks copies the data of blocks that are in the cache, so that the card does not
// read the process's memory for them any more; not all in one call. It reports whether that
// was all.
func (x *Context) keepBlocks() (all bool) {
	bytesLeft := keptInCall
	return x.eachBlock(func(ln *line) bool {
		if ln.kept {
			return true
		}
		if bytesLeft <= 0 {
			return false
		}
		bytesLeft -= len(ln.Block)
		ln.Block, ln.kept = bytes.Clone(ln.Block), true
		return true
	})
}

// forsakeBlocks lets the card read the process's memory no more, for a context that ends. Its
// blocks in flight may have to be sent again, because their sequence numbers must be answered,
// but they are of transfers that will never be complete: the last packet of one leaves when all
// its blocks are acknowledged. So nothing is copied: what is sent again is a part without data,
// which the receiver rejects for good.
func (x *Context) forsakeBlocks() {
	x.eachBlock(func(ln *line) bool {
		arctic.Packet(ln.Data[:ln.Size]).Void()
		ln.Block = nil
		return true
	})
}

// eachBlock looks at the lines with blocks until one of the calls returns false, and reports
// whether none did.
func (x *Context) eachBlock(do func(*line) bool) bool {
	all := func(lines []line) bool {
		for i := range lines {
			if ln := &lines[i]; ln.Block != nil && !do(ln) {
				return false
			}
		}
		return true
	}
	return all(x.lines) && (x.long == nil || all(x.long.own[:]))
}

// failTransfer notes that a transfer fails because a packet of it came back. Its packets that wait are taken back with
// it: one would otherwise be given up after the other.
func (x *Context) failTransfer(t *transfer, reason arctic.Reason) {
	if first := t.failed == arctic.ReasonNone; !first {
		t.failed = reason
		return
	}
	t.failed = reason
	c := x.card
	x.eachBlock(func(ln *line) bool {
		if ln.transfer == t {
			ln.Cut()
		}
		return true
	})
	c.link.GiveUp(x.owner, func(ln *link.Line) bool { return c.lineOf(ln).transfer != t }, func(ln *link.Line) { x.free(c.lineOf(ln)) })
}

// failTransfers returns the long transfers to a peer that has lost its memory: what it
// has of them is gone, and a last packet would tell the process that is there now of data
// that never came.
func (c *Card) failTransfers(card uint16, reason arctic.Reason) {
	c.more = true
	for _, x := range c.owners {
		if x == nil || x.long == nil {
			continue
		}
		for l := range x.long.records {
			for i := range x.long.records[l] {
				if t := &x.long.records[l][i]; t.open && t.route == uint32(card) {
					x.failTransfer(t, reason)
				}
			}
			// Of those that fail, the ones that wait for nothing but their end.
			due := x.long.due[l]
			x.long.due[l] = transfers{}
			for due.head != nil {
				if t := due.pop(); t.failed != arctic.ReasonNone {
					x.settle(t)
				} else {
					x.long.due[l].push(t)
				}
			}
		}
	}
}

// blockTo returns how many bytes of a block a frame on a route has room for.
func (c *Card) blockTo(route uint32) int {
	if route != NoRoute && c.link.IsPeer(uint16(route)) {
		return min(c.block, arctic.MaxBlock(c.link.SizeTo(uint16(route))))
	}
	return c.block
}

// giveUpTransfers returns the long transfers of a context of which nothing is in the
// cache any more: the card needs none of the slots that it has taken after it.
func (x *Context) giveUpTransfers(reason arctic.Reason) {
	if x.long == nil {
		return
	}
	for l := arctic.Reply; l <= arctic.Reply; l-- {
		for q := &x.long.due[l]; q.head != nil; {
			t := q.pop()
			t.failed = reason
			x.settle(t)
		}
		if t := x.current[l]; t != nil {
			t.current, x.current[l] = false, nil
			t.source, t.lastSource = nil, nil
			t.failed = reason
			x.settle(t)
		}
	}
}

// giveSlotsBack retires what can be retired of send queues that are halted, and reports
// whether the card has no slot of them left.
func (x *Context) giveSlotsBack() bool {
	if x.taken != x.finished {
		return false
	}
	if x.taken != [arctic.Levels]int{} && x.iface.LatchSend() == nil {
		for l := range x.taken {
			x.card.retireFinished(x, arctic.Level(l))
		}
		x.iface.HaltSend()
	}
	x.taken, x.finished = [arctic.Levels]int{}, [arctic.Levels]int{} // of registers that are no queue's, too
	return true
}

// transferring reports whether a long transfer is not delivered yet. Those of a detached
// context never will be.
func (x *Context) transferring() bool { return x.long != nil && x.long.open > 0 && !x.detached }
