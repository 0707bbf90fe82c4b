package engine

// This file is the time that remote writes take on a modelled machine (units.go), and where they
// wait meanwhile.
//
// The time is that of XFER. Retrieval takes the words of the request block with the data in it, in
// bursts as for any slot, and the data of one packet from memory. Each further packet of a long
// write takes its data alone. A block that opens, closes or resets takes its words. The same holds
// for requests of operations on windows; the packets of a get take no words beyond those of its
// block. Delivery takes the metadata and data of the packet. The packet that completes an area also
// takes the words of its notification and the head of the ring. The block of a multicast takes its
// words with the data in it (chain.go).
//
// A packet is checked when it is accepted, as on other cards, because its sender hears of nothing
// later. So the results of the checks must hold until it is written. Its bytes, count and
// notification appear when its last burst has ended. Until then it waits in its level's receive
// FIFO. There it passes messages that find no room, and has the entry that is reserved for parts.
// Each entry has room for a block of Config.BlockBytes. A longer block, of a card that is tuned
// otherwise, is written when it arrives, after all packets that wait.
//
//   - The credit of an area is shadowed: its future counter is computed from the packets that wait,
//     one after the other. Packets of one area wait on one level alone, so they are carried out in
//     the order in which they were counted.
//   - Closing a key slot or an area, resetting one, or withdrawing the segment takes effect after
//     all writes accepted before: it carries these out at once. The Delivery Unit then spends its
//     time on a packet without a payload, and has nothing left to do for it.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// noteWords is how many words a notification has: 64 bytes (HPL-95-86, section 2.5).
const noteWords = 16

// takeTurns sets the current write of a level aside if its node may have no more packets in the
// cache. Then it makes current a write that was set aside and may go on.
func (x *Context) takeTurns(l arctic.Level) {
	if t := x.current[l]; t != nil && t.put != nil && t.failed == arctic.ReasonNone && !x.closing && x.roomTo(t) <= 0 {
		x.setAside(t)
	}
	if x.current[l] == nil && x.waitsAside(l) {
		x.resume(l)
	}
}

// opensRemote reports whether the next slot of a send queue is a request block that makes no
// packet: it needs no line.
func (x *Context) opensRemote(l arctic.Level) bool {
	h := funi.Header(x.iface.Slot(l, x.taken[l]).Load(0))
	_, operation := h.WindowOperation()
	return h.Remote() && h.Operation() != funi.RemotePut && h.Operation() != funi.Multicast &&
		h.Operation() != funi.Send && !operation
}

// wordsOf returns how many words hold that many bytes; the last may be partly filled.
func wordsOf(bytes int) int { return (bytes + arctic.WordSize - 1) / arctic.WordSize }

// request notes the transactions of a request block. It returns false when no record is free for a
// write of many packets. The process may change the words until they are carried out, so no bound
// rests on them.
func (u *model) request(w *unit, x *Context, l arctic.Level, h funi.Header, s *funi.Slot) bool {
	if _, operation := h.WindowOperation(); operation {
		return u.requestOperation(w, x, l, h, s)
	}
	switch h.Operation() {
	case funi.RemotePut:
	case funi.Send:
		return u.requestSend(w, x, l, s)
	case funi.Multicast:
		size := int(min(s.Load(funi.RemoteLengthWord), arctic.MaxMulticastWords*arctic.WordSize))
		if u.times != nil {
			u.fetch(w, false, size)
			return true
		}
		u.slot(w, funi.RemoteDataWord+wordsOf(size))
		return true
	default:
		u.slot(w, funi.RemoteDataWord)
		return true
	}
	words := min(int(s.Load(funi.RemoteAreaWord)&0xf), arctic.MaxRemoteMetadata)
	data := int(min(s.Load(funi.RemoteLengthWord), arctic.MaxRemoteBytes))
	if length := s.Load(funi.RemoteLengthWord); data+words*arctic.WordSize > arctic.MaxRemoteBytes ||
		length > arctic.MaxRemoteBytes {
		if x.long != nil && x.long.free[l].head == nil {
			return false // advance makes the card step again when a transfer is over
		}
		if most := u.out.writeBlock; most > 0 {
			length := int(min(length, arctic.MaxTransferWords*arctic.WordSize))
			data = min(length-u.remote.lastBytes(length, words),
				u.remote.remoteBlockTo(u.routes.of(x.group, h.Node()), most))
		}
	}
	inSlot := s.Load(funi.RemoteSourceWord) == 0
	if u.times != nil {
		u.fetch(w, inSlot, data)
		return true
	}
	if inSlot {
		u.slot(w, min(funi.RemoteDataWord+words+wordsOf(data), funi.SlotWords))
		return true
	}
	u.slot(w, funi.RemoteDataWord+words)
	u.split(w, wordsOf(data))
	return true
}

// requestOperation notes the transactions of the request block of an operation on a window, and of
// the data that the block names. The data of a get goes the other way. requestOperation returns
// false when no record is free for a put of many packets.
func (u *model) requestOperation(w *unit, x *Context, l arctic.Level, h funi.Header, s *funi.Slot) bool {
	var block funi.Slot
	var o funi.Operation
	ok := loadRequest(h, s, &block)
	words := 0
	if ok {
		words, ok = funi.ReadOperation(h, &block, &o)
	}
	if !ok || o.Length > arctic.MaxTransferWords*arctic.WordSize { // it will be refused
		u.slot(w, funi.RemoteDataWord)
		return true
	}
	o.Bytes = o.Length
	inSlot, size := o.Source == 0, 0
	switch {
	case o.Operation == arctic.RemoteGet:
		inSlot = true
	case o.Operation != arctic.RemotePut:
		inSlot, size = true, o.OperandBytes()
	default:
		size = o.Length
		crosses := u.remote.crossesPage(&o)
		if crosses || !inSlot && size+words*arctic.WordSize > arctic.MaxRemoteBytes {
			if x.long != nil && x.long.free[l].head == nil {
				return false // advance makes the card step again when a transfer is over
			}
			if !inSlot {
				size = min(size, arctic.MaxRemoteBytes, u.remote.inPage(o.Address))
			}
		}
	}
	switch {
	case u.times != nil:
		u.fetch(w, inSlot, size)
	case inSlot:
		u.slot(w, min(funi.RemoteDataWord+words+wordsOf(size), funi.SlotWords))
	default:
		u.slot(w, funi.RemoteDataWord+words)
		u.split(w, wordsOf(size))
	}
	return true
}

// putPart notes the transactions of the next packet of a write of many.
func (u *model) putPart(w *unit, t *transfer) {
	most := arctic.MaxRemoteBytes
	if b := u.out.blockOf(t); b > 0 {
		most = u.remote.remoteBlockTo(t.route, b)
	}
	if m := t.put; m.on {
		// what is left has to wait, or has failed
		if w.direct = !m.granted || len(t.source) == 0; !w.direct {
			u.split(w, wordsOf(min(len(t.source), arctic.MaxSendPiece)))
		}
		return
	} else if m.window {
		size := min(len(t.source), most, u.remote.inPage(m.address))
		if len(t.source) == 0 && !m.waits() {
			size = len(t.lastSource)
		}
		// else it has been read, or what is left has to wait
		if w.direct = m.inSlot || size == 0; !w.direct {
			u.split(w, wordsOf(size))
		}
		return
	}
	if len(t.source) > 0 {
		u.split(w, wordsOf(min(len(t.source), most)))
		return
	}
	u.split(w, max(wordsOf(len(t.lastSource)), 1)) // its metadata has been read with the slot
}

// lastPart notes the transactions of the last packet of a transfer, or of the last packet of a put
// whose other packets have arrived.
func (u *model) lastPart(w *unit, t *transfer) {
	switch {
	case t.put == nil:
		u.split(w, arctic.MaxSingleWords)
	case t.put.inSlot || t.tailSize == 0:
		w.direct = true
	default:
		u.split(w, wordsOf(t.tailSize))
	}
}

// heldWrite notes the transactions of a remote write that waits in a receive FIFO.
func (u *model) heldWrite(w *unit, x *Context, q *fifo, at int, h *arctic.PacketHeader) {
	var r arctic.Remote
	if !q.write(at, h, &r) {
		u.add(w, 1) // it was carried out already
		return
	}
	notifies := r.Counted && x.remote.areas[r.Area].counter+r.Delta == 0
	if u.times != nil {
		u.place(w, &r, notifies)
		return
	}
	u.split(w, max(wordsOf(len(r.Metadata)+len(r.Data)), 1))
	if notifies {
		u.split(w, noteWords)
		u.add(w, 1)
	}
}

// holdsForm reports whether a remote write waits in the FIFO before it is carried out. It does on a
// modelled machine, if there is room for its block.
func (q *fifo) holdsForm(w *arctic.Remote) bool {
	return !q.bypass && (!w.Block || q.blocks != nil && len(w.Data) <= cap(q.blocks[0]))
}

// holdWrite puts such a remote write into a receive FIFO. It returns ReasonQueueFull if that is
// full.
func (x *Context) holdWrite(l arctic.Level, p arctic.Packet, w *arctic.Remote) arctic.Reason {
	q := &x.fifo[l]
	reason := x.hold(l, p, true)
	if reason == arctic.ReasonNone && w.Block {
		b := &q.blocks[q.place(q.n-1)]
		*b = append((*b)[:0], w.Data...)
	}
	return reason
}

// write decodes the remote write at an index of a receive FIFO, and reports whether it is still to
// be carried out.
func (q *fifo) write(i int, h *arctic.PacketHeader, w *arctic.Remote) bool {
	if h.Kind != arctic.KindRemote || !q.at(i)[:arctic.PacketHeaderSize+int(h.Length)*arctic.WordSize].Remote(h, w) {
		return false
	}
	if w.Block {
		w.Data = q.blocks[q.place(i)]
	}
	return true
}

// carryOutHeld carries out the remote write at an index of a receive FIFO, once.
func (u *remoteUnit) carryOutHeld(x *Context, q *fifo, i int, h *arctic.PacketHeader) {
	var w arctic.Remote
	if !q.write(i, h, &w) {
		return
	}
	n, _ := x.remote.keySlot(w.Key) // it is open: what closes it carries this out before
	u.carryOut(x, x.remote, n, h, &w)
	h.Length = 0
	h.Encode(q.at(i))
}

// settleWrites carries out all remote writes of a context that wait in its receive FIFOs.
func (u *remoteUnit) settleWrites(x *Context) {
	for _, l := range arctic.ByPriority {
		q := &x.fifo[l]
		for i := range q.n {
			if h := q.at(i).Header(); h.Kind == arctic.KindRemote {
				u.carryOutHeld(x, q, i, &h)
			}
		}
	}
}

// countHeld returns the counter that an area will have once a write is carried out after those that
// wait, and how many notifications the waiting writes will make.
func (u *remoteUnit) countHeld(x *Context, l arctic.Level, a *area, w *arctic.Remote) (counter, notifications uint32) {
	var before arctic.Remote
	if other := &x.fifo[1-l]; !x.fifo[l].holdsForm(w) || other.holdsWrite(w.Area, 0, &before) < other.n {
		u.settleWrites(x) // what waits on the other level might be carried out behind this
	}
	counter = a.counter
	q := &x.fifo[l]
	for i := q.holdsWrite(w.Area, 0, &before); i < q.n; i = q.holdsWrite(w.Area, i+1, &before) {
		if counter += before.Delta; counter == 0 {
			notifications++
		}
	}
	return counter + w.Delta, notifications
}

// holdsWrite returns the index of the first counted write of an area, from an index on, and decodes
// the write into w. Without one it returns how many packets the FIFO holds.
func (q *fifo) holdsWrite(area uint16, from int, w *arctic.Remote) int {
	for i := from; i < q.n; i++ {
		if h := q.at(i).Header(); q.write(i, &h, w) && w.Counted && w.Area == area {
			return i
		}
	}
	return q.n
}
