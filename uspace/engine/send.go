package engine

// This file sends messages whose receivers have named the memory for them (Froening's thesis,
// sections 2.4.1 and 4.2.3; arctic/send.go, funi/send.go). receive.go is the other end.
//
// A message of up to arctic.MaxFastSend bytes is one packet with a copy of it. One that a frame has
// room for is one packet with a block. A longer one first asks the receiver for room, with the
// record of an operation (request.go). When the answer is there, pieces follow as those of a put do
// (remote.go), and the last leaves when all others are acknowledged. While the message waits for
// the answer it is set aside, so what is behind it in the send queue goes on. Packets that ask for
// room wait for it in the stream of messages; pieces, which have room, do not wait behind them.
//
// No order between messages is promised: frames overtake each other, and a packet that finds no
// room comes again later. A process that needs an order waits for the completion, as for operations
// (rma.With.Ordered), or numbers its messages in the API tag.

import (
	"encoding/binary"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// sending is the part of a put's record that only a message has.
type sending struct {
	on      bool
	single  bool // it is one packet
	granted bool // it has room at its receiver
	cut     bool // the receiver takes only the beginning
	userTag uint64
	apiTag  uint32
	total   uint32 // as in the packets
}

// ungranted reports whether the message waits for room at its receiver.
func (s *sending) ungranted() bool { return s.on && !s.single && !s.granted }

// takeSend takes the block of a message; see takeRemote.
func (u *remoteUnit) takeSend(x *Context, l arctic.Level, h funi.Header, s,
	w *funi.Slot) (bytes int, why arctic.Reason, ok bool) {
	var o funi.SendRequest
	memory, reason := x.readSend(l, w, &o)
	if reason != arctic.ReasonNone {
		return 0, reason, true
	}
	if o.Length > arctic.MaxFastSend {
		return u.beginSend(x, l, h, w, &o, memory)
	}
	ln := x.take(l)
	if ln == nil {
		u.counters.SendQueueNoTicket++
		return 0, arctic.ReasonNone, false
	}
	n, reason := x.encodeFast(ln, l, h, s, &o, memory)
	if reason != arctic.ReasonNone {
		x.free(ln)
		return 0, reason, true
	}
	ln.Node, ln.request = h.Node(), h
	u.out.launch(x, l, ln, arctic.KindSend, n)
	return int(ln.Size), arctic.ReasonNone, true
}

// loneSend encodes the message of a slot into a line, and returns the number of payload words. 0:
// the message cannot be sent by lone.
func (x *Context) loneSend(ln *line, l arctic.Level, h funi.Header, s, w *funi.Slot) int {
	var o funi.SendRequest
	memory, reason := x.readSend(l, w, &o)
	if reason != arctic.ReasonNone || o.Length > arctic.MaxFastSend {
		return 0
	}
	n, _ := x.encodeFast(ln, l, h, s, &o, memory)
	return n
}

// readSend checks a message. It returns the memory of the data if that is not in the slot.
func (x *Context) readSend(l arctic.Level, w *funi.Slot, o *funi.SendRequest) (memory []byte, why arctic.Reason) {
	switch {
	case !funi.ReadSend(w, o) || l != arctic.Request || x.remote == nil:
		return nil, arctic.ReasonRemoteRequest
	case o.Length > arctic.MaxSendBytes || o.Source == 0 && o.Length > arctic.MaxFastSend:
		return nil, arctic.ReasonOperand
	case o.Source == 0 || o.Length == 0:
		return nil, arctic.ReasonNone
	}
	if memory = x.segments.Memory(o.Source, o.Length, funi.Source); memory == nil {
		return nil, arctic.ReasonSource
	}
	return memory, arctic.ReasonNone
}

// encodeFast encodes a message of up to arctic.MaxFastSend bytes into a line, and returns the
// number of payload words, or why the message is refused. The words of the slot are loaded once.
func (x *Context) encodeFast(ln *line, l arctic.Level, h funi.Header, s *funi.Slot, o *funi.SendRequest,
	memory []byte) (words int, why arctic.Reason) {
	var data [arctic.MaxFastSend]byte
	if o.Source == 0 {
		n := wordsOf(o.Length)
		arctic.PutWords(data[:n*arctic.WordSize], s[funi.RemoteDataWord:funi.RemoteDataWord+n])
	} else {
		copy(data[:], memory)
	}
	if o.Ack {
		q := x.newMessage(h, l, o)
		if q == nil {
			return 0, arctic.ReasonNoBuffer
		}
		ln.asksFor(&x.card.remote, q, 0)
	}
	p := arctic.Send{Ack: o.Ack, Total: uint32(o.Length), UserTag: o.UserTag, APITag: o.APITag, Data: data[:o.Length]}
	ln.typ, ln.argument = p.Type(), o.Cookie
	x.card.model.timeWrite(ln, o.Source == 0, o.Length, 0, true)
	return arctic.PutSend(ln.Data[arctic.PacketHeaderSize:], &p), arctic.ReasonNone
}

// newMessage takes the record of a message, or returns nil.
func (x *Context) newMessage(h funi.Header, l arctic.Level, o *funi.SendRequest) *request {
	q := x.takeRequest()
	if q == nil {
		return nil
	}
	q.silent, q.node, q.level, q.operation, q.cookie = o.Silent, h.Node(), l, arctic.RemoteSend, o.Cookie
	q.unasked, q.header = !o.Ack, h
	return q
}

// beginSend begins a message of more than a packet's own data; see takeRemote. Its first packet
// leaves at once. So no slot that was taken waits for a line that messages without room hold, and a
// process that changes its queues waits for none (late.go). The size in bytes is that of the
// packet, negative: the slot is the transfer's.
func (u *remoteUnit) beginSend(x *Context, l arctic.Level, h funi.Header, w *funi.Slot, o *funi.SendRequest,
	memory []byte) (bytes int, why arctic.Reason, ok bool) {
	free := &x.long.free[l] // there is a segment, so there are records
	if free.head == nil {
		return 0, arctic.ReasonNone, false
	}
	ln := x.take(l)
	if ln == nil {
		u.counters.SendQueueNoTicket++
		return 0, arctic.ReasonNone, false
	}
	blocks := len(memory) &^ (arctic.TransferAlign - 1)
	single := blocks <= u.sendBlockTo(u.routes.of(x.group, h.Node()))
	var q *request
	if o.Ack || !single {
		if q = x.newMessage(h, l, o); q == nil {
			x.free(ln)
			return 0, arctic.ReasonNoBuffer, true
		}
	}
	t := free.pop()
	m := t.put
	if m == nil {
		m = new(put) // once for each record
	}
	*m = put{key: u.proofs.Uint64() | 1, sending: sending{on: true, single: single, userTag: o.UserTag,
		apiTag: o.APITag, total: uint32(len(memory))}}
	if q != nil {
		m.asked, m.asks, q.tried = true, q.id(), true
	}
	last := len(memory) - blocks
	if !single {
		last = u.lastOf(0, len(memory))
		q.asks, q.total, q.sends = true, arctic.WordSize, t
	}
	u.makeCurrent(x, l, t, h, w, m, memory, last)
	t.lines++
	*x.long.linesTo(t)++
	ln.Node, ln.transfer = h.Node(), t
	if single {
		u.launchWhole(x, l, ln, t)
		x.retrievedPut(t)
		return -int(ln.Size), arctic.ReasonNone, true
	}
	p := arctic.Send{Form: arctic.SendOpen, Ack: true, Total: m.total, Key: m.key, ID: m.asks, UserTag: m.userTag,
		APITag: m.apiTag}
	ln.asksFor(u, q, arctic.WordSize)
	u.launchSend(x, l, ln, &p)
	x.setAside(t)
	return -int(ln.Size), arctic.ReasonNone, true
}

// sendBlockTo returns the most bytes of a message's block in a frame on a route.
func (u *remoteUnit) sendBlockTo(route uint32) int {
	if u.out.block > 0 && route != NoRoute && u.link.IsPeer(uint16(route)) {
		return min(u.out.block, arctic.MaxSendBlock(u.link.SizeTo(uint16(route))))
	}
	return u.out.block
}

// carryOnSend is carryOnPut for a message that has room at its receiver.
func (u *remoteUnit) carryOnSend(x *Context, l arctic.Level, t *transfer, budget int) (n int, done bool) {
	for t.failed == arctic.ReasonNone && len(t.source) > 0 {
		if n == budget {
			return n, false
		}
		if !x.closing && x.roomTo(t) <= 0 {
			x.setAside(t)
			return n, true
		}
		ln := x.take(l)
		if ln == nil && x.closing {
			ln = x.takeOwn(l)
		}
		if ln == nil {
			u.counters.SendQueueNoTicket++
			return n, false
		}
		n++
		u.launchSendPiece(x, l, ln, t)
	}
	x.retrievedPut(t)
	return n, true
}

// hasRoom reports whether the transfer is a message that has room at its receiver.
func (t *transfer) hasRoom() bool { return t.put != nil && t.put.granted }

// pushable returns a message that has room at its receiver, and finds no line in its turn. It may
// use the level's own line. Otherwise messages that wait for that room could hold all lines that
// this one needs in order to give room back. nil: there is none, or the line is in use.
func (x *Context) pushable(l arctic.Level) *transfer {
	if x.long == nil || x.long.inUse[l] {
		return nil
	}
	for t := x.long.aside[l].head; t != nil; t = t.next {
		if t.put.granted && t.failed == arctic.ReasonNone && (!x.ticket.any(l) || !x.resumes(t)) {
			return t
		}
	}
	return nil
}

// push sends the next piece of such a message.
func (u *remoteUnit) push(x *Context, l arctic.Level, t *transfer) {
	if len(t.source) > 0 && !x.leadsAway(t) {
		u.counters.PacketsRetrieved++
		x.works(pieceBytes)
		u.launchSendPiece(x, l, x.takeOwn(l), t)
	}
	if len(t.source) == 0 || t.failed != arctic.ReasonNone {
		x.retrievedPut(t)
	}
}

// launchWhole launches the only packet of a message with a block.
func (u *remoteUnit) launchWhole(x *Context, l arctic.Level, ln *line, t *transfer) {
	m := t.put
	p := arctic.Send{Block: true, Ack: m.asked, Total: m.total, Key: m.key, UserTag: m.userTag, APITag: m.apiTag,
		Data: t.lastSource}
	ln.Block, t.source = t.source, nil
	u.launchSend(x, l, ln, &p)
}

// launchSendPiece launches the next piece of a message.
func (u *remoteUnit) launchSendPiece(x *Context, l arctic.Level, ln *line, t *transfer) {
	m := t.put
	p := arctic.Send{Form: arctic.SendPiece, Total: m.total, Key: m.key, Offset: m.offset}
	size := min(len(t.source), arctic.MaxSendPiece)
	if most := u.sendBlockTo(t.route); most > 0 {
		size = min(len(t.source), most)
		p.Block, ln.Block = true, t.source[:size]
	} else {
		p.Data = t.source[:size]
	}
	t.lines++
	*x.long.linesTo(t)++
	ln.Node, ln.transfer, ln.Part = t.header.Node(), t, true
	t.source = t.source[size:]
	m.offset += uint32(size)
	p.Ack = len(t.source) == 0 // the last waits for it
	u.launchSend(x, l, ln, &p)
}

// launchSendLast launches the last packet of a message when the others have arrived.
func (u *remoteUnit) launchSendLast(x *Context, ln *line, t *transfer) {
	m := t.put
	p := arctic.Send{Form: arctic.SendLast, Ack: true, Total: m.total, Key: m.key, Offset: m.offset,
		Data: t.tail[:t.tailSize]}
	ln.Node, ln.transfer, ln.Part = t.header.Node(), t, true
	u.launchSend(x, t.level, ln, &p)
}

func (u *remoteUnit) launchSend(x *Context, l arctic.Level, ln *line, p *arctic.Send) {
	ln.typ = p.Type()
	u.model.timeWrite(ln, false, len(p.Data)+len(ln.Block), 0, p.Form == arctic.SendLast)
	u.out.launch(x, l, ln, arctic.KindSend, arctic.PutSend(ln.Data[arctic.PacketHeaderSize:], p))
}

// grants returns how many bytes of its message the answer to a record says that the receiver takes,
// or false if no card answers so.
func (q *request) grants(a *arctic.Response) (bytes uint32, ok bool) {
	if len(a.Data) != arctic.WordSize || q.sends == nil {
		return 0, false
	}
	bytes = binary.LittleEndian.Uint32(a.Data)
	return bytes, bytes > 0 && bytes <= q.sends.put.total
}

// granted takes the answer to a message that has asked for room, which examine has found valid. The
// message goes on, as much of it as the receiver takes.
func (x *Context) granted(q *request, a *arctic.Response) {
	u, t := &x.card.remote, q.sends
	bytes, _ := q.grants(a)
	q.got = q.total
	u.unanswered[q.kind()].remove(&q.pending)
	m := t.put
	m.granted = true
	if bytes < m.total {
		m.total, m.cut = bytes, true
		if size := uint32(len(t.source)); bytes > size {
			t.lastSource = t.lastSource[:bytes-size]
		} else {
			last := uint32(u.lastOf(0, int(bytes)))
			t.lastSource, t.source = t.source[bytes-last:bytes], t.source[:bytes-last]
		}
	}
	x.calm, x.card.clock.more = false, true
	x.stir()
}

// sendOutcome returns the outcome of a message whose transfer is over.
func (t *transfer) sendOutcome() arctic.Reason {
	if t.failed == arctic.ReasonNone && t.put.cut {
		return arctic.ReasonTruncated
	}
	return t.failed
}

// requestSend notes the transactions of the block of a message, and of its data if that goes with
// it. It returns false when no record is free for a message of many packets.
func (u *model) requestSend(w *unit, x *Context, l arctic.Level, s *funi.Slot) bool {
	size, inSlot := int(s.Load(funi.RemoteLengthWord)), s.Load(funi.RemoteSourceWord) == 0
	switch {
	case size > arctic.MaxFastSend && x.long != nil && x.long.free[l].head == nil:
		return false // advance makes the card step again when a transfer is over
	case size > arctic.MaxFastSend:
		inSlot, size = true, 0
	}
	switch {
	case u.times != nil:
		u.fetch(w, inSlot, size)
	case inSlot:
		u.slot(w, funi.RemoteDataWord+wordsOf(size))
	default:
		u.slot(w, funi.RemoteDataWord)
		u.split(w, wordsOf(size))
	}
	return true
}
