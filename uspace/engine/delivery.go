package engine

// This file is the Delivery Unit (thesis 5.2.3) and the receive FIFO of the
// Synchronization FIFO Group (5.5): from accepted packets into receive queues.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// delivery judges the packets that arrive, and gives them to the contexts that they are for.
type delivery struct {
	core
	routes *routes
	table  *contexts
	out    *retrieval
	remote *remoteUnit
	move   *moves
	ultra  *ultra

	received   [receiveBatch][]byte
	arrived    bool            // a frame has arrived in this step
	atOnce     bool            // a packet of the frame being looked at asks for an acknowledgment
	single     bool            // the packet that is being judged is the only one of its frame
	due        *line           // the answer to that packet, composed and not yet sent
	dueTo      uint16          // the card that due goes to
	flushes    bool            // such an answer has been sent in this step
	rejections link.Rejections // of packets that arrived; see tally.go
}

// fifo holds accepted packets that the receive queue had no room for. It is a
// ring; when it is full, packets are rejected.
type fifo struct {
	size    int                          // how many entries it has
	entries [][arctic.MaxPacketSize]byte // nil: none was ever used
	// blocks holds the blocks behind the entries, of remote writes on a modelled machine that takes
	// blocks. nil: there is no room for any.
	blocks [][]byte
	first  int
	n      int
	// bypass lets a packet that finds the FIFO empty go straight to its destination. It is clear on
	// a modelled machine, where every packet goes by way of the FIFO and takes the Delivery Unit
	// its time.
	bypass bool
}

// newFIFO returns an empty receive FIFO of a card. A modelled machine's FIFO has one entry more
// than its profile says, for parts of long transfers (units.go).
func newFIFO(cfg *Config) fifo {
	entries := cfg.FIFO
	if cfg.Timing != nil {
		entries++
	}
	q := fifo{size: entries, bypass: cfg.Timing == nil}
	if cfg.Timing != nil && cfg.Blocks {
		q.blocks = make([][]byte, entries)
		for i := range q.blocks {
			q.blocks[i] = make([]byte, 0, cfg.BlockBytes)
		}
	}
	return q
}

// accept takes a packet, whose header is h, for the context, with the block behind it if there is
// one. It returns the reason of a reject, or ReasonNone. The packet came in the frame of train t;
// nil: from this card. A message goes straight into the receive queue if its level's FIFO may be
// passed by and is empty.
func (d *delivery) accept(x *Context, t *link.Train, l arctic.Level, p arctic.Packet, h *arctic.PacketHeader,
	block []byte) arctic.Reason {
	if x == nil {
		return d.acceptForCard(t, p, h)
	}
	if x.rejection != arctic.ReasonNone {
		return d.rejectFor(x, t, p, h)
	}
	if h.Kind == arctic.KindTransfer {
		return d.acceptTransfer(x, t, l, p, h, block)
	}
	if h.Kind != arctic.KindMessage {
		return d.acceptOther(x, t, p, h, block)
	}
	q := &x.fifo[l]
	if q.n == 0 && q.bypass {
		if s := x.iface.Vacant(l); s != nil {
			d.deliver(x, l, s, p, h)
			return arctic.ReasonNone
		}
	}
	return x.hold(l, p, false)
}

// rejectFor returns why a context takes no packets now. It takes those that are for the card
// itself.
func (d *delivery) rejectFor(x *Context, t *link.Train, p arctic.Packet, h *arctic.PacketHeader) arctic.Reason {
	switch {
	case x.forward != nil:
		return d.move.rejectMoved(x, t, p, h)
	case h.Kind == arctic.KindForward && x.group != nil: // which is for the card
		return d.move.acceptForward(x.group, x, t, p, h)
	}
	x.wanted = true
	return x.rejection
}

// acceptForCard takes a packet that is for no context but the card itself.
func (d *delivery) acceptForCard(t *link.Train, p arctic.Packet, h *arctic.PacketHeader) arctic.Reason {
	if h.Kind != arctic.KindForward {
		return arctic.ReasonNoContext
	}
	return d.move.acceptForward(d.routes.moving(t.Header), nil, t, p, h)
}

// acceptOther takes a packet that is neither message nor transfer, or returns the reason of a
// reject.
func (d *delivery) acceptOther(x *Context, t *link.Train, p arctic.Packet, h *arctic.PacketHeader,
	block []byte) arctic.Reason {
	switch h.Kind {
	case arctic.KindRemote:
		return d.remote.acceptRemote(x, p, h, block)
	case arctic.KindResponse:
		return d.remote.acceptResponse(x, p, h, block)
	case arctic.KindSend:
		return d.remote.acceptSend(x, p, h, block)
	case arctic.KindMulticast:
		return d.remote.acceptMulticast(x, p, h)
	case arctic.KindForward:
		return d.move.acceptForward(x.group, x, t, p, h)
	case arctic.KindExtended:
		card := d.cfg.Card
		if t != nil {
			card = t.Header.SourceCard
		}
		return d.ultra.accept(x, card, p, h)
	}
	d.counters.UnknownKind++
	return arctic.ReasonUnknownKind
}

// hold is fifo.hold, but keeps an entry free for parts of long transfers and remote writes: the one
// that a modelled machine's FIFO has beyond its profile. These pass packets that wait for room, and
// are accepted whatever the process does.
func (x *Context) hold(l arctic.Level, p arctic.Packet, part bool) arctic.Reason {
	x.calm = false
	if q := &x.fifo[l]; part || x.restoring || q.n < x.card.cfg.FIFO {
		return q.hold(p)
	}
	return arctic.ReasonQueueFull
}

// hold keeps an accepted packet until the receive queue has room. It returns ReasonQueueFull if the
// FIFO is full, too.
func (q *fifo) hold(p arctic.Packet) arctic.Reason {
	if q.n == q.size {
		return arctic.ReasonQueueFull
	}
	if q.entries == nil {
		q.entries = make([][arctic.MaxPacketSize]byte, q.size)
	}
	copy(q.entries[q.place(q.n)][:], p)
	q.n++
	return arctic.ReasonNone
}

// deliver writes a packet into a slot of the receive queue (thesis 3.2.3).
func (d *delivery) deliver(x *Context, l arctic.Level, s *funi.Slot, p arctic.Packet, h *arctic.PacketHeader) {
	arctic.Words(s[funi.PayloadWord:funi.PayloadWord+int(h.Length)], p.Payload())
	s[funi.SourceWord] = uint32(h.Source)
	s.SetHeader(funi.NewHeader(x.node, h.Type, int(h.Length)))
	x.iface.Deliver(l)
	x.took(int(h.Length) * arctic.WordSize)
}

// drain moves packets from the receive FIFOs into the receive queues as far as there is room,
// replies first. Packets of contexts of this card may wait for that room in the FIFO, so the card
// steps again.
func (d *delivery) drain(x *Context) {
	for _, l := range arctic.ByPriority {
		if x.fifo[l].n > 0 && x.iface.Vacant(l) == nil && !x.passes(x.fifo[l].at(0)) {
			continue
		}
		for x.fifo[l].n > 0 && d.drainOne(x, l, 0) {
			d.clock.more = true
		}
	}
}

// drainOne moves the packet at an index of a receive FIFO to its destination. It returns false when
// the receive queue is full.
func (d *delivery) drainOne(x *Context, l arctic.Level, at int) bool {
	q := &x.fifo[l]
	p := q.at(at)
	h := p.Header()
	switch h.Kind {
	case arctic.KindRemote:
		d.remote.carryOutHeld(x, q, at, &h)
	case arctic.KindTransfer:
		if !d.drainTransfer(x, l, p[:arctic.PacketHeaderSize+int(h.Length)*arctic.WordSize], &h) {
			return false
		}
	default:
		s := x.iface.Vacant(l)
		if s == nil {
			return false
		}
		d.deliver(x, l, s, p, &h)
	}
	q.remove(at)
	return true
}

// at returns the packet at an index, 0 for the first, and the bytes behind the packet in its entry.
func (q *fifo) at(i int) arctic.Packet { return q.entries[q.place(i)][:] }

// place returns the entry of an index.
func (q *fifo) place(i int) int { return (q.first + i) % q.size }

// remove takes away the packet at an index. The packets before it move up.
func (q *fifo) remove(i int) {
	for ; i > 0; i-- {
		copy(q.at(i), q.at(i-1))
		if q.blocks != nil {
			a, b := q.place(i), q.place(i-1)
			q.blocks[a], q.blocks[b] = q.blocks[b], q.blocks[a]
		}
	}
	q.first = (q.first + 1) % q.size
	q.n--
}
