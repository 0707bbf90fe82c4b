package engine

// This file is the XFER part of the Retrieval Unit (thesis 3.2.4, 5.2.2). It loads XFER packets
// from memory or a slot into the undelivered packet cache, and cuts long transfers into packets.
// transfer.go describes the life of a long transfer.
//
// Without Config.Blocks the data of a packet is copied into its line. With it the packets of a long
// transfer are blocks (design idea 7), each as long as a frame has room for. The line of a block
// holds the address of the data, not the data. The data goes from the source straight into frames,
// and again when a frame is lost. The last packet is no block: its data waits in the transfer.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// loadTransfer loads the XFER packet of a slot into a line. The slot's header was read before and
// is passed in; everything else is read once.
func (o *retrieval) loadTransfer(x *Context, l arctic.Level, ln *line, h funi.Header, s *funi.Slot) {
	t := arctic.Transfer{Address: s.Load(funi.DestinationAddressWord), Argument: s.Load(funi.ArgumentWord)}
	source := s.Load(funi.SourceAddressWord)
	ln.Node, ln.typ, ln.request, ln.argument = h.Node(), h.Type(), h, t.Argument
	most := arctic.MaxSingleWords
	if t.Address != 0 && t.Argument == 0 {
		most = max(most, o.cfg.TransferWords)
	}
	if h.Many() {
		t.Form, t.Total = arctic.Last, s.Load(funi.TotalWord)
		if t.Total == 0 {
			t.Form, most = arctic.Part, arctic.MaxPartWords
		}
		t.First = o.table.beginning(o.routes.of(x.group, h.Node()), l)
	}
	size := h.Words() * arctic.WordSize
	if size%arctic.TransferAlign != 0 || h.Words() > most || h.Many() && t.Address == 0 {
		o.refuse(x, l, ln, arctic.ReasonTransferLength)
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
			o.refuse(x, l, ln, arctic.ReasonSource)
			return
		}
	}
	if t.Address != 0 {
		o.loadPiece(x, l, ln, &t)
		return
	}
	// Memory to queue: a message of the argument and the data.
	arctic.PutWords(ln.Data[arctic.PacketHeaderSize:], []uint32{t.Argument})
	copy(ln.Data[arctic.PacketHeaderSize+arctic.WordSize:], t.Data)
	o.launch(x, l, ln, arctic.KindMessage, 1+h.Words())
}

// loadPiece encodes a packet of KindTransfer into a line and launches it.
func (o *retrieval) loadPiece(x *Context, l arctic.Level, ln *line, t *arctic.Transfer) {
	o.launch(x, l, ln, arctic.KindTransfer, arctic.PutTransfer(ln.Data[arctic.PacketHeaderSize:], t))
}

// refuse returns a request to a process that has no right to what it asked for, and sets the
// process's memory error. The line is freed.
func (o *retrieval) refuse(x *Context, l arctic.Level, ln *line, reason arctic.Reason) {
	if x.trail != nil {
		x.trail.launched(ln, l, o.clock.now)
	}
	wire := arctic.PacketHeader{Level: l}
	wire.Encode(ln.Data[:])
	ln.Size = arctic.PacketHeaderSize
	x.memoryError(reason)
	x.returned(ln, reason)
}

// begin makes the long transfer of a slot current. It returns false when no record is free: the
// slot then stays in the send queue. A transfer without the rights that it needs is returned, and
// none becomes current.
func (o *retrieval) begin(x *Context, l arctic.Level, h funi.Header, s *funi.Slot) bool {
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
	last := size % (arctic.MaxPartWords * arctic.WordSize)
	if last == 0 {
		last = arctic.MaxSingleWords * arctic.WordSize // the part before it is short instead
	}
	*t = transfer{of: x.long, level: l, header: h, argument: argument, destination: destination,
		from: source &^ (arctic.TransferAlign - 1), total: words,
		source: memory[:size-last], lastSource: memory[size-last:], route: o.routes.of(x.group, h.Node())}
	t.first = o.table.beginning(t.route, l)
	x.advance(t)
	x.taken[l]++
	if x.trail != nil {
		x.trail.took(l, o.clock.now)
	}
	return true
}

// carryOn retrieves up to budget packets of the level's current transfer. It returns their number,
// and whether all packets of the transfer have been retrieved or it has failed.
func (o *retrieval) carryOn(x *Context, l arctic.Level, budget int) (n int, done bool) {
	t := x.current[l]
	x.leadsAway(t)
	if t.put != nil {
		return o.remote.carryOnPut(x, l, t, budget)
	}
	// bytes; as long as nothing arrives
	most := max(o.blockTo(t.route), arctic.MaxPartWords*arctic.WordSize)
	for len(t.source) > 0 && t.failed == arctic.ReasonNone {
		if n == budget {
			return n, false
		}
		ln := x.take(l)
		if ln == nil && x.closing {
			ln = x.takeOwn(l)
		}
		if ln == nil {
			o.counters.SendQueueNoTicket++
			return n, false
		}
		size := min(most, len(t.source))
		p := arctic.Transfer{Form: arctic.Part, Address: t.destination, Data: t.source[:size],
			AtOnce: size == len(t.source)}
		if o.block > 0 {
			p.Form, p.Data, ln.Block = arctic.Block, nil, p.Data
		}
		t.source = t.source[size:]
		t.destination += uint32(size)
		t.lines++
		o.loadOf(x, ln, t, &p)
		n++
	}
	t.tailSize = copy(t.tail[:], t.lastSource)
	t.source, t.lastSource = nil, nil
	x.advance(t)
	return n, true
}

// takeOwn returns the level's own line, which is closed to messages, or nil if it is in use.
func (x *Context) takeOwn(l arctic.Level) *line {
	if x.long.inUse[l] {
		return nil
	}
	x.long.inUse[l] = true
	ln := &x.long.own[l]
	ln.ctx, ln.Index = x, ownLine+uint16(l)
	return ln
}

// blockTo returns how many bytes of a block a frame on a route has room for.
func (o *retrieval) blockTo(route uint32) int {
	if route != NoRoute && o.link.IsPeer(uint16(route)) {
		return min(o.block, arctic.MaxBlock(o.link.SizeTo(uint16(route))))
	}
	return o.block
}

// blockOf returns the largest size of a transfer's blocks in bytes, 0 if its packets are not
// blocks.
func (o *retrieval) blockOf(t *transfer) int {
	if t.put != nil && !t.put.window {
		return o.writeBlock
	}
	return o.block
}

// finish sends the last packets of transfers of the level that are due, at most as many as most
// says. It returns false when it found no line for one of them. It also sends what a message has
// the own line for (pushable).
func (o *retrieval) finish(x *Context, l arctic.Level, most int) bool {
	if t := x.pushable(l); t != nil {
		o.remote.push(x, l, t)
	}
	for q := &x.long.due[l]; q.head != nil && most > 0; most-- {
		if x.leadsAway(q.head) {
			x.advance(q.head)
			continue
		}
		ln := x.take(l)
		if ln == nil && q.head.hasRoom() && !x.long.inUse[l] {
			ln = x.takeOwn(l)
		}
		if ln == nil {
			return false
		}
		t := q.head
		t.lines++
		if t.put != nil {
			*x.long.linesTo(t)++
		}
		x.advance(t)
		o.counters.PacketsRetrieved++
		if t.put != nil {
			o.remote.launchTrailer(x, ln, t)
			continue
		}
		o.loadOf(x, ln, t, t.notice())
	}
	return true
}

// notice returns the last packet of a transfer.
func (t *transfer) notice() *arctic.Transfer {
	return &arctic.Transfer{Form: arctic.Last, Address: t.destination, Argument: t.argument, Total: t.total,
		First: t.first, Data: t.tail[:t.tailSize]}
}

// leadsAway fails a transfer if the route to its node has changed since it began and the process
// did not move there. Another process is there now, without the data that the first one got.
func (x *Context) leadsAway(t *transfer) (failed bool) {
	if route := x.card.routes.of(x.group, t.header.Node()); route != t.route && route != NoRoute &&
		!x.group.movedFrom(t.header.Node(), t.route) {
		t.failed = arctic.ReasonReplaced
	}
	return t.failed != arctic.ReasonNone
}

// loadOf loads a packet of a long transfer.
func (o *retrieval) loadOf(x *Context, ln *line, t *transfer, p *arctic.Transfer) {
	ln.Node, ln.typ, ln.transfer, ln.Part = t.header.Node(), t.header.Type(), t, t.state.parts()
	o.loadPiece(x, t.level, ln, p)
}
