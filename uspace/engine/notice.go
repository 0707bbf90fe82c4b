package engine

// This file is the XFER part of the Delivery Unit (thesis 3.2.4, 5.2.3). It writes data to memory
// and a notice into the receive queue.
//
// A destination that may not be written is the fault of the sender, which named it. The packet is
// rejected for good and comes back to the sender, and the card counts it. The receiver's status
// does not change; otherwise any member of a group could put another into an error.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// acceptTransfer takes an XFER packet for the context, or returns the reason for rejecting it.
func (d *delivery) acceptTransfer(x *Context, train *link.Train, l arctic.Level, p arctic.Packet,
	h *arctic.PacketHeader, block []byte) arctic.Reason {
	var t arctic.Transfer
	if !p.Transfer(&t) || (t.Form == arctic.Block) != (block != nil) {
		d.counters.UnknownKind++
		return arctic.ReasonTransferForm
	}
	if t.Form == arctic.Block {
		t.Data = block
	}
	var memory []byte
	if len(t.Data) > 0 {
		memory = x.destination(&t)
		if memory == nil {
			d.counters.DestinationRefused++
			return arctic.ReasonDestination
		}
	}
	if t.Form == arctic.Last && d.table.torn(x, train, &t) {
		d.counters.TransfersTorn++
		return arctic.ReasonReplaced
	}
	d.atOnce = d.atOnce || t.AtOnce
	if t.Form == arctic.Block && x.drain {
		return d.drainBlock(x, l, &t, h)
	}
	q := &x.fifo[l]
	if t.Form == arctic.Block || t.Form == arctic.Part && !x.drain && q.bypass {
		copy(memory, t.Data)
		x.took(len(t.Data))
		return arctic.ReasonNone
	}
	if q.n == 0 && q.bypass {
		if s := x.iface.Vacant(l); s != nil {
			d.deliverTransfer(x, l, s, &t, h)
			return arctic.ReasonNone
		}
	}
	return x.hold(l, p, t.Form == arctic.Part && !x.drain)
}

// drainBlock puts all parts of a block into the receive queue, or none of them. A block without
// room is rejected for now and comes again. A queue with fewer slots than a block has parts never
// takes one.
func (d *delivery) drainBlock(x *Context, l arctic.Level, t *arctic.Transfer, h *arctic.PacketHeader) arctic.Reason {
	const size = arctic.MaxPartWords * arctic.WordSize
	if x.fifo[l].n > 0 || x.iface.Room(l) < (len(t.Data)+size-1)/size {
		return arctic.ReasonQueueFull
	}
	part := arctic.Transfer{Form: arctic.Part, Address: t.Address}
	for data := t.Data; len(data) > 0; part.Address += uint32(len(part.Data)) {
		part.Data = data[:min(size, len(data))]
		data = data[len(part.Data):]
		d.deliverTransfer(x, l, x.iface.Vacant(l), &part, h)
	}
	return arctic.ReasonNone
}

// destination returns the memory for the data of a packet, or nil. The whole transfer that a Last
// ends must lie in one segment, so that its notice covers only memory that the process allowed.
func (x *Context) destination(t *arctic.Transfer) []byte {
	if t.Form == arctic.Last {
		all := x.segments.Memory(t.Start(), int(t.Total)*arctic.WordSize, funi.Destination)
		if all == nil {
			return nil
		}
		return all[len(all)-len(t.Data):]
	}
	return x.segments.Memory(t.Address, len(t.Data), funi.Destination)
}

// deliverTransfer writes the data of an XFER packet to memory and its notice into a
// slot of the receive queue, or in DRAIN mode both into the slot.
func (d *delivery) deliverTransfer(x *Context, l arctic.Level, s *funi.Slot, t *arctic.Transfer,
	h *arctic.PacketHeader) {
	words := len(t.Data) / arctic.WordSize
	switch {
	case x.drain:
		if t.Form == arctic.Single {
			s.SetNotice(x.node, h.Type, false, funi.Notice{Address: t.Address, Argument: t.Argument, Words: words})
		} else {
			s.SetPiece(x.node, h.Type, t.Address, t.Argument, t.Total, words)
		}
		arctic.Words(s[funi.DataWord:funi.DataWord+words], t.Data)
	case t.Form == arctic.Last:
		copy(x.destination(t), t.Data)
		s.SetNotice(x.node, h.Type, true, funi.Notice{Address: t.Start(), Argument: t.Argument, Words: int(t.Total)})
	default:
		copy(x.destination(t), t.Data)
		s.SetNotice(x.node, h.Type, false, funi.Notice{Address: t.Address, Argument: t.Argument, Words: words})
	}
	s[funi.SourceWord] = uint32(h.Source)
	x.iface.Deliver(l)
	x.took(len(t.Data))
}

// drainTransfer delivers the XFER packet at the head of a receive FIFO, and returns false when the
// receive queue is full.
func (d *delivery) drainTransfer(x *Context, l arctic.Level, p arctic.Packet, h *arctic.PacketHeader) bool {
	var t arctic.Transfer
	p.Transfer(&t) // as when it was accepted
	if t.Form == arctic.Part && !x.drain {
		copy(x.destination(&t), t.Data) // it came in DRAIN mode, which has ended
		x.took(len(t.Data))
		return true
	}
	s := x.iface.Vacant(l)
	if s == nil {
		return false
	}
	d.deliverTransfer(x, l, s, &t, h)
	return true
}

// holdsTransfer reports whether an XFER packet waits in the FIFO.
func (q *fifo) holdsTransfer() bool {
	for i := range q.n {
		if q.at(i).Header().Kind == arctic.KindTransfer {
			return true
		}
	}
	return false
}
