package engine

// This file sends remote writes (Hamlyn, HPL-95-86, sections 2.3 and 2.5). It takes request blocks
// from the send queue, copies each once, checks it, and carries it out or makes packets of it.
//
// The deltas of a write's packets sum up to its count: each but the last has 1, the last has the
// rest. The packets do not wait for each other, as the receiver counts. A write that fits one
// packet is copied, as a message is. A longer one has the record of a long transfer, without its
// last state. On a card that sends blocks its packets are blocks, but for the last 1 to 15 bytes.
// With metadata the last packet may also have 16 bytes, because a packet with a block has no
// metadata.

import (
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// remoteUnit is the part of the card that works on the memory of processes for others: it sends and
// carries out remote writes, operations on windows and multicasts, and takes their answers.
type remoteUnit struct {
	core
	routes *routes
	table  *contexts
	out    *retrieval
	in     *delivery
	model  *model

	// unanswered lists operations that wait for answers only, and apart from them multicasts, which
	// wait longer for each answer (request.patience).
	unanswered [2]agenda[request]
	reserved   agenda[reservation] // for messages of others; see receive.go
	proofs     rand.ChaCha8        // of multicasts; see ledger.go
	generation uint16              // the latest of records of operations; see request.go
	lent       *Tables             // tables for contexts that are made; nil: none
}

// put holds the fields of a remote write's record that a transfer's record lacks.
type put struct {
	key      uint64
	offset   uint32 // of the next packet
	area     uint16
	counted  bool
	count    uint32 // sum of the deltas of the packets to come
	bytes    int    // of all packets but the last
	words    int    // of metadata, which the last packet has
	metadata [arctic.MaxRemoteMetadata * arctic.WordSize]byte

	// Of a put to a window, which counts nothing (request.go).
	window  bool
	counts  bool   // the window counts it
	address uint64 // of the next packet
	trailer [8 * arctic.WordSize]byte
	inSlot  bool // its data was in the slot, and is here now; it crosses the end of a page
	data    [arctic.MaxRemoteBytes]byte
	asked   bool   // it has a record of an operation
	asks    uint32 // identification of that record

	sending // of a message (send.go)
}

// waits reports whether the last packet leaves when all others have arrived: that of a put with a
// trailer or which the window counts, and of a message of many packets.
func (p *put) waits() bool { return p.window && (p.words > 0 || p.counts) || p.on && !p.single }

// takeRemote takes a request block. It returns false when there is no line or no record for it; the
// block then stays in the send queue. Otherwise it returns the size in bytes of the packet that it
// made, 0 for a block that makes none, less than 0 for a message that is a transfer (beginSend). A
// write of many packets becomes current.
func (u *remoteUnit) takeRemote(x *Context, l arctic.Level, h funi.Header, s *funi.Slot) (bytes int, ok bool) {
	var w funi.Slot
	reason := arctic.ReasonRemoteRequest
	if loadRequest(h, s, &w) {
		op := h.Operation()
		_, operation := h.WindowOperation()
		packets := true // it makes some
		switch {
		case operation:
			bytes, reason, ok = u.takeOperation(x, l, h, s, &w)
		case op == funi.RemotePut:
			bytes, reason, ok = u.takePut(x, l, h, s, &w)
		case op == funi.Multicast:
			bytes, reason, ok = u.takeMulticast(x, l, h, s, &w)
		case op == funi.Send:
			bytes, reason, ok = u.takeSend(x, l, h, s, &w)
		default:
			packets, reason = false, x.execute(h, &w)
		}
		if packets && (!ok || reason == arctic.ReasonNone) {
			return bytes, ok
		}
	}
	if reason != arctic.ReasonNone {
		if reason != arctic.ReasonNotOpened && reason != arctic.ReasonRange && reason != arctic.ReasonNoBuffer {
			x.memoryError(reason)
		}
		x.giveBack(funi.Returned{Reason: reason, Level: l, Header: h, Word: w[funi.RemoteCookieWord]})
	}
	return 0, true
}

// takePut takes a write. w holds the words of the slot up to the data.
func (u *remoteUnit) takePut(x *Context, l arctic.Level, h funi.Header, s,
	w *funi.Slot) (bytes int, why arctic.Reason, ok bool) {
	var r arctic.Remote
	memory, reason := x.readPut(w, &r)
	if reason != arctic.ReasonNone {
		return 0, reason, true
	}
	if !fitsPacket(w) {
		return 0, arctic.ReasonNone, u.beginPut(x, l, h, s, w, &r, memory)
	}
	ln := x.take(l)
	if ln == nil {
		u.counters.SendQueueNoTicket++
		return 0, arctic.ReasonNone, false
	}
	ln.Node, ln.request, ln.argument = h.Node(), h, w[funi.RemoteCookieWord]
	n := encodePut(ln, s, w, &r, memory)
	u.model.timeWrite(ln, w[funi.RemoteSourceWord] == 0, int(w[funi.RemoteLengthWord]), putWords(w)*arctic.WordSize,
		true)
	u.out.launch(x, l, ln, arctic.KindRemote, n)
	return int(ln.Size), arctic.ReasonNone, true
}

// loneRequest encodes the write, operation or message of a slot into a line. It returns the kind of
// the packet and the number of payload words. 0: the request cannot be sent by lone.
func (x *Context) loneRequest(ln *line, l arctic.Level, h funi.Header, s *funi.Slot) (kind arctic.Kind, words int) {
	var w funi.Slot
	if !loadRequest(h, s, &w) {
		return arctic.KindRemote, 0
	}
	if _, operation := h.WindowOperation(); operation {
		return arctic.KindRemote, x.loneOperation(ln, l, h, s, &w)
	}
	if h.Operation() == funi.Send {
		return arctic.KindSend, x.loneSend(ln, l, h, s, &w)
	}
	if h.Operation() != funi.RemotePut || !fitsPacket(&w) {
		return arctic.KindRemote, 0
	}
	var r arctic.Remote
	memory, reason := x.readPut(&w, &r)
	if reason != arctic.ReasonNone {
		return arctic.KindRemote, 0
	}
	ln.argument = w[funi.RemoteCookieWord]
	return arctic.KindRemote, encodePut(ln, s, &w, &r, memory)
}

// loadRequest loads the words of a request block up to the data. It reports whether the words that
// must be 0 are 0.
func loadRequest(h funi.Header, s, w *funi.Slot) bool {
	for i := 1; i < funi.RemoteDataWord; i++ {
		w[i] = s.Load(i)
	}
	_, operation := h.WindowOperation()
	switch h.Operation() {
	case funi.OpenKeySlot:
		for i := range 3 {
			w[funi.RemoteDataWord+i] = s.Load(funi.RemoteDataWord + i)
		}
	case funi.SetChain:
		for i := range funi.MaxNext {
			w[funi.RemoteDataWord+i] = s.Load(funi.RemoteDataWord + i)
		}
	case funi.Multicast, funi.Send:
		operation = true // its address has 48 bits; it has an API tag
	}
	return h.Words() == 0 && (w[3] == 0 || operation) && w[funi.RemoteOffsetWord+1]|w[funi.RemoteSourceWord+1] == 0
}

// putWords returns the number of words of a write's metadata.
func putWords(w *funi.Slot) int { return int(w[funi.RemoteAreaWord] & 0xf) }

// fitsPacket reports whether data and metadata of a write fit one packet.
func fitsPacket(w *funi.Slot) bool {
	return uint64(w[funi.RemoteLengthWord])+uint64(putWords(w)*arctic.WordSize) <= arctic.MaxRemoteBytes
}

// readPut checks a write. It returns the write in r, without data and metadata, and the memory of
// the data if that is not in the slot.
func (x *Context) readPut(w *funi.Slot, r *arctic.Remote) (memory []byte, why arctic.Reason) {
	area, source, size := w[funi.RemoteAreaWord], w[funi.RemoteSourceWord], int(w[funi.RemoteLengthWord])
	words := putWords(w)
	counted := area&funi.RemoteCounted != 0
	if area&(0xffff&^(0xf|funi.RemoteCounted)) != 0 || words > arctic.MaxRemoteMetadata || !counted && words > 0 ||
		size > arctic.MaxTransferWords*arctic.WordSize {
		return nil, arctic.ReasonRemoteRequest
	}
	if uint64(w[funi.RemoteOffsetWord])+uint64(size) > 1<<32 {
		// and no key slot's: no piece of it may come to another offset
		return nil, arctic.ReasonRange
	}
	if source == 0 && !fitsPacket(w) {
		return nil, arctic.ReasonRemoteRequest
	}
	if source != 0 && size > 0 {
		if memory = x.segments.Memory(source, size, funi.Source); memory == nil {
			return nil, arctic.ReasonSource
		}
	}
	r.Counted, r.Area, r.Offset = counted, uint16(area>>16), w[funi.RemoteOffsetWord]
	r.Key = uint64(w[funi.RemoteKeyWord]) | uint64(w[funi.RemoteKeyWord+1])<<32
	if counted {
		r.Delta = w[funi.RemoteCountWord]
	}
	return memory, arctic.ReasonNone
}

// encodePut encodes a write that fits one packet into a line, and returns the number of payload
// words. The words of the slot are loaded once. Metadata and data have the same layout in the slot
// as in the packet.
func encodePut(ln *line, s, w *funi.Slot, r *arctic.Remote, memory []byte) int {
	words, size := putWords(w), int(w[funi.RemoteLengthWord])
	ln.typ = r.Type()
	b := ln.Data[arctic.PacketHeaderSize:]
	n, pad := arctic.PutRemoteHead(b, r, words, size)
	b = b[n:]
	inSlot := words
	if w[funi.RemoteSourceWord] == 0 {
		inSlot += (size + pad) / arctic.WordSize
	}
	arctic.PutWords(b[:inSlot*arctic.WordSize], s[funi.RemoteDataWord:funi.RemoteDataWord+inSlot])
	data := words * arctic.WordSize
	copy(b[data:data+size], memory)
	clear(b[data+size : data+size+pad])
	return (n + data + size + pad) / arctic.WordSize
}

// launchPut encodes a remote write into a line and launches it.
func (u *remoteUnit) launchPut(x *Context, l arctic.Level, ln *line, r *arctic.Remote) {
	ln.typ = r.Type()
	u.out.launch(x, l, ln, arctic.KindRemote, arctic.PutRemote(ln.Data[arctic.PacketHeaderSize:], r))
}

// beginPut makes a write of many packets current. It returns false when no record is free.
func (u *remoteUnit) beginPut(x *Context, l arctic.Level, h funi.Header, s, w *funi.Slot, r *arctic.Remote,
	memory []byte) bool {
	q := &x.long.free[l] // there is a segment, so there are records
	if q.head == nil {
		return false
	}
	t := q.pop()
	m := t.put
	if m == nil {
		m = new(put) // once for each record
	}
	words := putWords(w)
	*m = put{key: r.Key, offset: r.Offset, area: r.Area, counted: r.Counted, count: r.Delta, words: words}
	arctic.PutWords(m.metadata[:words*arctic.WordSize], s[funi.RemoteDataWord:funi.RemoteDataWord+words])
	u.makeCurrent(x, l, t, h, w, m, memory, u.lastBytes(len(memory), words))
	return true
}

// lastBytes returns the number of bytes in the last packet of a write of many packets, 0 if that
// packet is a block.
func (u *remoteUnit) lastBytes(size, words int) int {
	last := size % arctic.TransferAlign
	if last == 0 && (words > 0 || u.out.writeBlock == 0) {
		last = arctic.TransferAlign
	}
	return last
}

// makeCurrent makes the write of many packets in m current. t is its record, and last is the number
// of bytes in its last packet.
func (u *remoteUnit) makeCurrent(x *Context, l arctic.Level, t *transfer, h funi.Header, w *funi.Slot, m *put,
	memory []byte, last int) {
	m.bytes = len(memory) - last
	*t = transfer{of: x.long, level: l, header: h, argument: w[funi.RemoteCookieWord],
		from: w[funi.RemoteSourceWord], put: m,
		source: memory[:len(memory)-last], lastSource: memory[len(memory)-last:], route: u.routes.of(x.group, h.Node())}
	x.advance(t)
	x.taken[l]++
	if x.trail != nil {
		x.trail.took(l, u.clock.now)
	}
}

// beginWindowPut makes a put of many packets to a window current; the caller has made sure that a
// record is free. memory is the data, nil if that is in the slot. q is the record of the operation,
// or nil.
func (u *remoteUnit) beginWindowPut(x *Context, l arctic.Level, h funi.Header, s, w *funi.Slot, words int,
	o *funi.Operation, memory []byte, q *request) {
	t := x.long.free[l].pop()
	m := t.put
	if m == nil {
		m = new(put) // once for each record
	}
	*m = put{key: o.Key, window: true, counts: o.Counts, address: o.Address, words: words}
	arctic.PutWords(m.trailer[:words*arctic.WordSize], s[funi.RemoteDataWord:funi.RemoteDataWord+words])
	if o.Source == 0 {
		m.inSlot = true
		from := funi.RemoteDataWord + words
		arctic.PutWords(m.data[:wordsOf(o.Length)*arctic.WordSize], s[from:from+wordsOf(o.Length)])
		memory = m.data[:o.Length]
	}
	if q != nil {
		m.asked, m.asks = true, q.id()
		q.tried = true
	}
	u.makeCurrent(x, l, t, h, w, m, memory, u.lastOf(o.Address, len(memory)))
}

// carryOnPut retrieves up to budget packets of the level's current write. It returns their number,
// and whether the write is no longer current: it may have been set aside.
func (u *remoteUnit) carryOnPut(x *Context, l arctic.Level, t *transfer, budget int) (n int, done bool) {
	m := t.put
	if m.on {
		return u.carryOnSend(x, l, t, budget)
	}
	most := arctic.MaxRemoteBytes
	if b := u.out.blockOf(t); b > 0 {
		most = u.remoteBlockTo(t.route, b)
	}
	room := budget
	if !x.closing {
		room = min(budget, x.roomTo(t))
	}
	for t.failed == arctic.ReasonNone && (len(t.source) > 0 || !m.waits()) {
		if n == budget {
			return n, false
		}
		if n >= room {
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
		if m.window {
			t.lines++
			*x.long.linesTo(t)++
			n++
			u.launchPiece(x, l, ln, t, most)
			if t.source == nil {
				break
			}
			continue
		}
		r := arctic.Remote{Counted: m.counted, Area: m.area, Key: m.key, Offset: m.offset}
		ln.Node, ln.transfer = t.header.Node(), t
		t.lines++
		*x.long.linesTo(t)++
		n++
		if len(t.source) == 0 {
			r.Metadata, r.Data, r.Delta = m.metadata[:m.words*arctic.WordSize], t.lastSource, m.count
			u.model.timeWrite(ln, false, len(r.Data), len(r.Metadata), true)
			u.launchPut(x, l, ln, &r)
			break
		}
		size := min(most, len(t.source))
		if r.Data = t.source[:size]; u.out.writeBlock > 0 {
			r.Block, r.Data, ln.Block, ln.Counts = true, nil, r.Data, m.counted
		}
		last := size == len(t.source) && len(t.lastSource) == 0
		switch {
		case m.counted && last:
			r.Delta = m.count
		case m.counted:
			r.Delta = 1
			m.count--
		}
		t.source = t.source[size:]
		m.offset += uint32(size)
		ln.Part = true
		u.model.timeWrite(ln, false, size, 0, last)
		u.launchPut(x, l, ln, &r)
		if last {
			break
		}
	}
	x.retrievedPut(t)
	return n, true
}

// retrievedPut notes that all packets of a write have been retrieved but the last, or that it has
// failed.
func (x *Context) retrievedPut(t *transfer) {
	if t.put.waits() && t.failed == arctic.ReasonNone {
		t.tailSize = copy(t.tail[:], t.lastSource)
	}
	t.source, t.lastSource = nil, nil
	x.advance(t)
}

// launchPiece launches the next packet of a put to a window. When that is the last packet, the put
// no longer has a source.
func (u *remoteUnit) launchPiece(x *Context, l arctic.Level, ln *line, t *transfer, most int) {
	m := t.put
	r := arctic.WindowRequest{Key: m.key, Address: m.address, ID: m.asks}
	ln.Node, ln.transfer, ln.Part = t.header.Node(), t, true
	size := min(most, len(t.source), u.inPage(m.address))
	switch {
	case size == 0:
		r.Operands, t.source = t.lastSource, nil
		r.Ack = m.asked
		r.Bytes = len(r.Operands)
	case u.out.block > 0 && !m.inSlot && (size%arctic.TransferAlign == 0 || size > arctic.MaxRemoteBytes):
		size &^= arctic.TransferAlign - 1 // what is left up to the end of the page fits a packet
		r.Block, ln.Block = true, t.source[:size]
	default:
		r.Operands, r.Bytes = t.source[:size], size
	}
	if size > 0 {
		t.source = t.source[size:]
		if len(t.source) == 0 && m.waits() {
			r.Ack = true // for the last waits for it
		}
		m.address += uint64(size)
	}
	u.model.timeWrite(ln, m.inSlot, len(r.Operands)+len(ln.Block), 0, t.source == nil)
	ln.typ = r.Type()
	u.out.launch(x, l, ln, arctic.KindRemote, arctic.PutWindowRequest(ln.Data[arctic.PacketHeaderSize:], &r))
}

// launchTrailer launches the last packet of a put when the others have arrived.
func (u *remoteUnit) launchTrailer(x *Context, ln *line, t *transfer) {
	m := t.put
	if m.on {
		u.launchSendLast(x, ln, t)
		return
	}
	r := arctic.WindowRequest{Key: m.key, Address: m.address, Bytes: t.tailSize, ID: m.asks, Ack: true,
		Counts: m.counts}
	ln.Node, ln.transfer, ln.Part, ln.typ = t.header.Node(), t, true, r.Type()
	if m.words > 0 {
		ln.typ |= arctic.TrailerFlag
	}
	b := ln.Data[arctic.PacketHeaderSize:]
	n := arctic.PutWindowRequest(b, &r) * arctic.WordSize
	n += copy(b[n:], m.trailer[:m.words*arctic.WordSize])
	n += copy(b[n:], t.tail[:t.tailSize])
	for ; n%arctic.WordSize != 0; n++ {
		b[n] = 0
	}
	u.model.timeWrite(ln, m.inSlot, t.tailSize, m.words*arctic.WordSize, true)
	u.out.launch(x, t.level, ln, arctic.KindRemote, n/arctic.WordSize)
}

// remoteBlockTo returns the number of bytes, up to most, that a frame on a route can carry of a
// remote write's block.
func (u *remoteUnit) remoteBlockTo(route uint32, most int) int {
	if route != NoRoute && u.link.IsPeer(uint16(route)) {
		return min(most, arctic.MaxRemoteBlock(u.link.SizeTo(uint16(route))))
	}
	return most
}
