package engine

// This file sends operations on windows (Tokyo, section 3.3.1; funi/operation.go), and keeps the
// records of operations whose process waits for their completion.
//
// An operation with a record is completed once: when its packets are acknowledged, or all of its
// answer is there, or one of its packets has come back. A record and an entry of the notification
// ring are taken before the first packet leaves. So every answer has its place, and the process
// hears of each completion. A process that asks for more gets the block back
// (arctic.ReasonNoBuffer).
//
// A get of many bytes asks packet by packet, as long as lines are free, with at most 64 packets
// unanswered. Its slot is retired at once. If the window is to count the get, its last packet
// leaves when all other answers are there. It asks for so few bytes that the answer is copied at
// once. So all of the get has been read when it is counted.
//
// The card waits for an answer as long as PeerTimeout and the longest back-off (MaxHold) together.
// An answer that has not come by then never will: the card that owes it would send it again. The
// operation then fails with arctic.ReasonSilent, and may have been carried out. An answer that
// comes later finds another generation in the record. While the context is away its answers are
// rejected for now, and it has the full time again when it is back.
//
// The generation also keeps out answers to a process that has ended and whose place another has.
// The records of a context begin with a generation that no record of the card has had
// (remoteUnit.generation). The next incarnation of a card begins elsewhere among the 65,536. A
// process may have made up the generations in an image, so they count in its job alone
// (group.generation). A job with such an image begins its records after them, too.
//
//	free --take--> asking --all asked--> waiting --complete--> free
//
// Records are per context, at most funi.MaxRequests and as many as the ring has entries. They are
// allocated with the first.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// openPieces is the number of packets of a get that may be unanswered. It is half of the receiver's
// lines for answers, since the acknowledgments of answers take as long as the answers.
const openPieces = answerLines / 2

// request is the record of an operation.
type request struct {
	generation uint16
	open       bool
	silent     bool
	asks       bool // it is complete when it is answered
	counts     bool // a get that the window counts
	tried      bool // one of its packets has left
	node       uint16
	level      arctic.Level
	operation  arctic.Operation
	cookie     uint32
	index      uint16
	lines      int // of its packets, not acknowledged
	key        uint64
	address    uint64 // from which a get asks next
	total      int    // bytes of the answer
	asked, got int
	memory     []byte // for a get's answer; nil: the answer goes into answer
	into       uint32 // address of memory
	answer     [funi.MaxAnswer]byte
	ledger     *ledger // of a multicast

	// Of a message (send.go).
	unasked bool        // it comes back if it fails, and its process hears nothing else
	header  funi.Header // of its block
	sends   *transfer   // of a message of many packets

	listed     bool     // on requests.asking
	nextAsking *request // on that list
	of         *Context
	pending    item[request] // on remoteUnit.unanswered
}

// requests holds the records of a context.
type requests struct {
	table     []request
	free      []uint16
	asking    [arctic.Levels]asks
	completed uint64
	latest    *uint16 // remoteUnit.generation, or that of the group
	// owed are completions that wait for the context to be back.
	owed []completion
	long [longLedgers]*longLedger
}

// completion is the report of an operation to its process.
type completion struct {
	cookie    uint32
	node      uint16
	operation arctic.Operation
	reason    arctic.Reason
	bytes     uint32
	answer    [funi.MaxAnswer]byte
}

// request returns the record that an identification names, or nil.
func (r *remote) request(id uint32) *request {
	if r == nil || int(uint16(id)) >= len(r.requests.table) {
		return nil
	}
	if q := &r.requests.table[uint16(id)]; q.open && q.generation == uint16(id>>16) {
		return q
	}
	return nil
}

// id returns the identification of the record.
func (q *request) id() uint32 { return uint32(q.generation)<<16 | uint32(q.index) }

// takeRequest takes a record and promises an entry of the ring, or returns nil.
func (x *Context) takeRequest() *request {
	r := x.remote
	n := &r.requests
	if n.table == nil {
		r.makeRequests(x)
	}
	if len(n.free) == 0 {
		return nil
	}
	if !r.promise(x, 1) {
		return nil
	}
	q := &n.table[n.free[len(n.free)-1]]
	n.free = n.free[:len(n.free)-1]
	*q = request{generation: q.generation, index: q.index, of: x, open: true, ledger: q.ledger}
	r.use.RequestsOpen++
	return q
}

// makeRequests allocates the records.
func (r *remote) makeRequests(x *Context) {
	n := &r.requests
	n.table = make([]request, min(len(r.ring), funi.MaxRequests))
	n.free = make([]uint16, len(n.table))
	n.latest = &x.card.remote.generation
	if g := x.group; g != nil && g.adopted {
		reached(&g.generation, x.card.remote.generation)
		n.latest = &g.generation
	}
	*n.latest++
	for i := range n.free {
		n.free[i] = uint16(len(n.free) - 1 - i)
		n.table[i].index, n.table[i].of, n.table[i].generation = uint16(i), x, *n.latest
	}
}

// adoptRequests allocates the records of a context that comes from another card. generations has
// one for each record: those that the records had there.
func (r *remote) adoptRequests(x *Context, generations []uint16) {
	g := x.group
	if !g.adopted {
		g.adopted, g.generation = true, x.card.remote.generation
	}
	r.makeRequests(x)
	for i := range r.requests.table {
		q := &r.requests.table[i]
		reached(&q.generation, generations[i])
		reached(&g.generation, q.generation)
	}
}

// reached notes the generation of a record. It compares modulo 2^16: the later of two generations
// is known if they are less than 2^15 apart.
func reached(latest *uint16, generation uint16) {
	if int16(generation-*latest) > 0 {
		*latest = generation
	}
}

// generations is the distance between the first generations of successive incarnations of a card.
// It is 65,536 divided by the golden ratio, so that few lie close together (Knuth, The Art of
// Computer Programming, volume 3, section 6.4).
const generations = 40503

// takeOperation takes the request block of an operation on a window; see takeRemote.
func (u *remoteUnit) takeOperation(x *Context, l arctic.Level, h funi.Header, s,
	w *funi.Slot) (bytes int, why arctic.Reason, ok bool) {
	var o funi.Operation
	memory, words, reason := x.readOperation(h, s, w, &o)
	if reason != arctic.ReasonNone {
		return 0, reason, true
	}
	asks := o.Asked()
	crosses := u.crossesPage(&o)
	long := o.Operation == arctic.RemotePut && (crosses || o.Source != 0 && o.Length+words*arctic.WordSize >
		arctic.MaxRemoteBytes)
	if long && x.long == nil {
		x.long = newLong(x) // it has no segments: the data is in the slot
	}
	switch {
	case crosses && !long && o.Operation != arctic.RemoteGet:
		return 0, arctic.ReasonOperand, true
	case long && x.long.free[l].head == nil:
		return 0, arctic.ReasonNone, false
	}
	var ln *line
	if !long && o.Operation != arctic.RemoteGet {
		if ln = x.take(l); ln == nil {
			u.counters.SendQueueNoTicket++
			return 0, arctic.ReasonNone, false
		}
	}
	var q *request
	if o.Ack || asks {
		if q = x.newRequest(h, l, &o, asks); q == nil {
			if ln != nil {
				x.free(ln)
			}
			return 0, arctic.ReasonNoBuffer, true
		}
	}
	switch {
	case long:
		u.beginWindowPut(x, l, h, s, w, words, &o, memory, q)
		return 0, arctic.ReasonNone, true
	case o.Operation == arctic.RemoteGet:
		q.total, q.memory, q.into = o.Length, memory, o.Source
		x.remote.requests.asking[l].push(q)
		u.askMore(x, l, retrieveBatch)
		return 0, arctic.ReasonNone, true
	}
	ln.Node, ln.request, ln.argument = h.Node(), h, w[funi.RemoteCookieWord]
	n := encodeOperation(ln, s, words, &o, memory)
	u.model.timeWrite(ln, o.Source == 0, o.OperandBytes(), words*arctic.WordSize, true)
	ln.asksFor(u, q, o.Bytes)
	u.out.launch(x, l, ln, arctic.KindRemote, n)
	return int(ln.Size), arctic.ReasonNone, true
}

// loneOperation encodes the operation of a slot into a line, and returns the number of payload
// words. 0: the operation cannot be sent by lone.
func (x *Context) loneOperation(ln *line, l arctic.Level, h funi.Header, s, w *funi.Slot) int {
	var o funi.Operation
	memory, words, reason := x.readOperation(h, s, w, &o)
	if reason != arctic.ReasonNone || o.Length+words*arctic.WordSize > arctic.MaxRemoteBytes || x.asking(l) ||
		x.card.remote.crossesPage(&o) {
		return 0
	}
	var q *request
	if asks := o.Asked(); asks || o.Ack {
		if q = x.newRequest(h, l, &o, asks); q == nil {
			return 0
		}
	}
	ln.argument = w[funi.RemoteCookieWord]
	n := 0
	if o.Operation == arctic.RemoteGet {
		q.total, q.memory, q.into = o.Length, memory, o.Source
		var offset [arctic.WordSize]byte
		r := arctic.WindowRequest{Operation: arctic.RemoteGet, Key: o.Key, Address: o.Address, Bytes: o.Length,
			ID: o.ID, Counts: o.Counts, Operands: offset[:]}
		ln.typ, ln.Part = r.Type(), true
		n = arctic.PutWindowRequest(ln.Data[arctic.PacketHeaderSize:], &r)
	} else {
		n = encodeOperation(ln, s, words, &o, memory)
	}
	ln.asksFor(&x.card.remote, q, o.Length)
	return n
}

// newRequest takes the record of an operation, or returns nil.
func (x *Context) newRequest(h funi.Header, l arctic.Level, o *funi.Operation, asks bool) *request {
	q := x.takeRequest()
	if q == nil {
		return nil
	}
	q.silent, q.asks, q.node, q.level, q.operation, q.cookie = o.Silent, asks, h.Node(), l, o.Operation, o.Cookie
	q.key, q.address, q.counts = o.Key, o.Address, o.Counts
	o.ID = q.id()
	if asks && o.Operation != arctic.RemoteGet {
		q.total = o.Bytes
	}
	return q
}

// readOperation checks an operation. It returns the process's own memory that the operation names,
// and the number of words of its trailer, which stands in the slot before the operands.
func (x *Context) readOperation(h funi.Header, s, w *funi.Slot,
	o *funi.Operation) (memory []byte, words int, why arctic.Reason) {
	words, ok := funi.ReadOperation(h, w, o)
	if !ok || x.remote == nil {
		return nil, 0, arctic.ReasonRemoteRequest
	}
	if words > 0 {
		w[funi.RemoteDataWord] = s.Load(funi.RemoteDataWord)
		if o.Operation != arctic.RemotePut || arctic.TrailerWords(w[funi.RemoteDataWord]) != words {
			return nil, 0, arctic.ReasonOperand
		}
	}
	right := funi.Source
	switch o.Operation {
	case arctic.RemotePut:
		if o.Source == 0 && o.Length+words*arctic.WordSize > arctic.MaxRemoteBytes ||
			o.Length > arctic.MaxTransferWords*arctic.WordSize {
			return nil, 0, arctic.ReasonOperand
		}
		o.Bytes = o.Length
	case arctic.RemoteGet:
		if o.Source == 0 && o.Length > funi.MaxAnswer || o.Length > arctic.MaxTransferWords*arctic.WordSize {
			return nil, 0, arctic.ReasonOperand
		}
		right = funi.Keyed
	default:
		o.Bytes = o.Length
		if o.Source != 0 || o.Bytes > funi.MaxAnswer || o.OperandBytes() > arctic.MaxRemoteBytes {
			return nil, 0, arctic.ReasonOperand
		}
	}
	if o.Source != 0 && o.Length > 0 {
		if memory = x.segments.Memory(o.Source, o.Length, right); memory == nil {
			if right == funi.Keyed {
				return nil, 0, arctic.ReasonWindow
			}
			return nil, 0, arctic.ReasonSource
		}
	}
	return memory, words, arctic.ReasonNone
}

// encodeOperation encodes an operation that fits one packet into a line, and returns the number of
// payload words. The words of the slot are loaded once. Trailer and operands have the same layout
// in the slot as in the packet.
func encodeOperation(ln *line, s *funi.Slot, words int, o *funi.Operation, memory []byte) int {
	ln.typ, ln.Part = o.Type(), true // a stream without packets that wait for room
	if words > 0 {
		ln.typ |= arctic.TrailerFlag
	}
	b := ln.Data[arctic.PacketHeaderSize:]
	operands := o.OperandBytes()
	o.Operands = nil
	head := arctic.PutWindowRequest(b, &o.WindowRequest)
	b = b[head*arctic.WordSize:]
	inSlot := words
	if o.Source == 0 {
		inSlot += wordsOf(operands)
	}
	arctic.PutWords(b[:inSlot*arctic.WordSize], s[funi.RemoteDataWord:funi.RemoteDataWord+inSlot])
	data := words * arctic.WordSize
	copy(b[data:data+operands], memory)
	whole := wordsOf(operands)
	clear(b[data+operands : data+whole*arctic.WordSize])
	return head + words + whole
}

// asksFor makes a line's packet one of the record's operation. If the operation has an answer, the
// packet asks for the given number of bytes of it. Without a record asksFor does nothing.
func (ln *line) asksFor(u *remoteUnit, q *request, bytes int) {
	if q == nil {
		return
	}
	ln.asked, ln.asks = true, q.id()
	q.lines++
	q.tried = true
	if q.asks {
		q.asked += bytes
	}
	u.unanswered[q.kind()].remove(&q.pending) // that it is accepted comes first
}

// askMore sends packets of the level's gets, within the budget and the account's bytes, and returns
// their number. noLine: one of them found no line.
func (u *remoteUnit) askMore(x *Context, l arctic.Level, budget int) (n int, noLine bool) {
	list := &x.remote.requests.asking[l]
	for q := list.head; q != nil; q = list.head {
		if !q.open || q.total == q.asked && q.tried { // it has asked for all, or has failed
			list.pop()
			if !q.open {
				x.remote.requests.free = append(x.remote.requests.free, q.index)
			}
			continue
		}
		size := u.pieceOf(x, q)
		if q.awaitsOthers(size) {
			list.pop() // answered puts it back
			continue
		}
		if !q.mayAsk(size) {
			return n, false // those behind it wait: they may be for the same node
		}
		if n == budget || x.account.retrieval <= 0 {
			u.clock.more = true
			return n, false
		}
		ln := x.take(l)
		if ln == nil {
			u.counters.SendQueueNoTicket++
			return n, true
		}
		w := arctic.WindowRequest{Operation: arctic.RemoteGet, Key: q.key, Address: q.address, Bytes: size, ID: q.id(),
			Counts: q.counts && q.asked+size == q.total}
		at := uint32(q.asked)
		offset := [arctic.WordSize]byte{byte(at), byte(at >> 8), byte(at >> 16), byte(at >> 24)}
		w.Operands = offset[:]
		q.address += uint64(size)
		n++
		x.works(pieceBytes)
		ln.Node, ln.typ, ln.Part = q.node, w.Type(), true
		ln.request, ln.argument = 0, q.cookie
		u.model.timeWrite(ln, true, 0, 0, true)
		ln.asksFor(u, q, size)
		u.out.launch(x, l, ln, arctic.KindRemote, arctic.PutWindowRequest(ln.Data[arctic.PacketHeaderSize:], &w))
	}
	return n, false
}

// pieceOf returns the number of bytes that the next packet of a get asks for. A rest that fits a
// packet, of the pages or of the get, is asked for whole. Otherwise the packet asks for at most a
// frame's block.
func (u *remoteUnit) pieceOf(x *Context, q *request) int {
	left := min(q.total-q.asked, u.inPage(q.address), u.inPage(uint64(q.into)+uint64(q.asked)))
	if left <= arctic.MaxResponseBytes {
		return left
	}
	most := arctic.MaxResponseBytes
	if u.out.block > 0 {
		most = max(min(u.remoteBlockTo(u.routes.of(x.group, q.node), u.out.block), arctic.MaxGetBytes),
			most) &^ (arctic.TransferAlign - 1)
	}
	size := min(most, left&^(arctic.TransferAlign-1))
	if q.counts && q.asked+size == q.total {
		size -= arctic.TransferAlign
	}
	return size
}

// awaitsOthers reports whether the next packet of a get, for size bytes, is one that the window
// counts, and answers to earlier packets are missing.
func (q *request) awaitsOthers(size int) bool {
	return q.counts && q.asked+size == q.total && q.got < q.asked
}

// mayAsk reports whether a get may ask for size more bytes although answers to its earlier packets
// are missing.
func (q *request) mayAsk(size int) bool {
	return q.asked-q.got+size <= max(openPieces*size, openPieces*arctic.MaxResponseBytes)
}

// asking reports whether a get of the level has more to ask for now.
func (x *Context) asking(l arctic.Level) bool {
	if x.remote == nil {
		return false
	}
	q := x.remote.requests.asking[l].head
	if q == nil || !q.open || q.total == q.asked {
		return q != nil
	}
	size := x.card.remote.pieceOf(x, q)
	return q.awaitsOthers(size) || q.mayAsk(size)
}

// acknowledged notes that a packet of the operation with that identification has been accepted.
func (x *Context) acknowledged(id uint32) {
	q := x.remote.request(id)
	if q == nil || x.detached {
		return // it was answered already, or nobody hears of it
	}
	if q.lines--; !q.asks {
		x.complete(q, arctic.ReasonNone)
	} else if q.lines == 0 && q.got < q.total {
		x.card.remote.awaitAnswer(q)
	}
}

// cameBack notes that a packet of the operation came back for good.
func (x *Context) cameBack(id uint32, reason arctic.Reason) {
	if q := x.remote.request(id); q != nil && !x.detached {
		if q.operation == arctic.RemoteMulticast {
			q.ledger.takes(&arctic.Report{Left: uint16(q.total), Node: q.node, Reason: reason})
		}
		x.complete(q, reason)
	}
}

// putEnded notes that a put of many packets has ended.
func (x *Context) putEnded(id uint32, reason arctic.Reason) {
	if q := x.remote.request(id); q != nil && !x.detached {
		x.complete(q, reason)
	}
}

// delivered notes that the packet of a line was accepted, and frees the line.
func (x *Context) delivered(l *line) {
	if l.asked {
		l.asked = false
		if x.forward != nil {
			x.forward.answered(x, l, arctic.ReasonNone)
			return
		}
		x.acknowledged(l.asks)
	}
	x.free(l)
}

// answered takes an answer that examine has found valid.
func (q *request) answered(x *Context, a *arctic.Response) {
	switch {
	case q.memory != nil:
		copy(q.memory[a.Offset:], a.Data)
	case len(a.Data) > 0:
		copy(q.answer[a.Offset:], a.Data)
	}
	q.got += len(a.Data)
	if q.got == q.total {
		x.complete(q, arctic.ReasonNone)
		return
	}
	if q.pending.waits {
		x.card.remote.awaitAnswer(q)
	}
	if q.counts && q.got == q.asked && !q.listed {
		x.remote.requests.asking[q.level].push(q)
		x.stir()
	}
	x.calm, x.card.clock.more = false, true // the next may be asked for
}

// complete reports an operation to its process, and frees the record.
func (x *Context) complete(q *request, reason arctic.Reason) {
	r := x.remote
	x.card.remote.unanswered[q.kind()].remove(&q.pending)
	if q.operation == arctic.RemoteMulticast {
		var d funi.Delivery
		reason, d = q.ledger.close(reason)
		q.got = d.Delivered + d.Failed
		d.Put(&q.answer)
	}
	q.open = false
	q.memory = nil
	q.generation++
	q.sends = nil
	reached(r.requests.latest, q.generation)
	if q.operation == arctic.RemoteBarrier {
		r.leaves(q, reason)
	} else if !q.unasked {
		r.requests.completed++
	}
	r.use.RequestsOpen--
	r.use.Completed++
	x.card.counters.Completions++
	x.spends(completionBytes)
	if reason != arctic.ReasonNone {
		r.use.Failed++
	}
	if !q.listed { // else whoever takes it off the list does so
		r.requests.free = append(r.requests.free, q.index)
	}
	switch {
	case q.unasked:
		r.promised--
		if reason != arctic.ReasonNone {
			x.giveBack(funi.Returned{Reason: reason, Level: q.level, Header: q.header, Word: q.cookie})
		}
		return
	case reason == arctic.ReasonNone && q.silent:
		r.promised--
		if !x.away {
			x.iface.PutCompleted(r.requests.completed)
		}
		x.stir()
		return
	}
	done := completion{cookie: q.cookie, node: q.node, operation: q.operation, reason: reason, bytes: uint32(q.got),
		answer: q.answer}
	if x.away {
		r.requests.owed = append(r.requests.owed, done) // at most as many as there are records
		x.stir()
		return
	}
	x.tell(&done)
	x.stir()
}

// stir has the card visit the context in its steps, and publish its state.
func (x *Context) stir() {
	x.card.table.touch(x)
	if !x.away && !x.awake {
		x.card.sched.wake(x)
	}
}

// tell puts a completion into the ring. The ring has room: it was promised.
func (x *Context) tell(done *completion) {
	r := x.remote
	r.enter(x, noteOfRequest)
	x.iface.Complete(r.head-1, done.cookie, done.node, done.operation, done.reason, done.bytes, done.answer[:])
	x.iface.PutCompleted(r.requests.completed)
}

// tellOwed reports the operations that were completed while the context was away. Operations that
// still wait for an answer have their full time from now on.
func (x *Context) tellOwed() {
	if x.remote == nil {
		return
	}
	n := &x.remote.requests
	for i := range n.table {
		if q := &n.table[i]; q.pending.waits {
			x.card.remote.awaitAnswer(q)
		}
	}
	for i := range n.owed {
		x.tell(&n.owed[i])
	}
	n.owed = n.owed[:0]
	if n.completed > 0 {
		x.iface.PutCompleted(n.completed)
	}
}

// failInto completes the gets whose answers would go to memory that the card may no longer use.
func (x *Context) failInto(s funi.Segment) {
	if x.remote == nil {
		return
	}
	for i := range x.remote.requests.table {
		if q := &x.remote.requests.table[i]; q.open && q.memory != nil && s.Covers(q.into) {
			x.complete(q, arctic.ReasonWindow)
		}
	}
}

// asks is a list of gets that have more to ask for, linked through nextAsking.
type asks struct{ head, tail *request }

func (a *asks) push(q *request) {
	q.listed, q.nextAsking = true, nil
	if a.head == nil {
		a.head = q
	} else {
		a.tail.nextAsking = q
	}
	a.tail = q
}

// pop takes the first off the list, which must not be empty.
func (a *asks) pop() {
	q := a.head
	a.head = q.nextAsking
	q.listed, q.nextAsking = false, nil
}

// forgetRequests takes the records of a context that ends off the card's list. They are never
// completed.
func (x *Context) forgetRequests() {
	if x.remote == nil {
		return
	}
	x.forgetReservations()
	for i := range x.remote.requests.table {
		q := &x.remote.requests.table[i]
		x.card.remote.unanswered[q.kind()].remove(&q.pending)
	}
}

// answerTimeout is how long an operation waits for an answer that is owed, in nanoseconds.
func (u *remoteUnit) answerTimeout() int64 { return int64(u.cfg.PeerTimeout + u.cfg.MaxHold) }

// kind returns the index of the record's list in remoteUnit.unanswered.
func (q *request) kind() int {
	if q.operation == arctic.RemoteMulticast || q.operation == arctic.RemoteBarrier {
		return 1
	}
	return 0
}

// awaitAnswer gives an operation its full time for its next answer, from now on.
func (u *remoteUnit) awaitAnswer(q *request) {
	u.unanswered[q.kind()].push(&q.pending, q, u.clock.now+q.patience())
}

// givenUpInStep is the highest number of operations that a step gives up.
const givenUpInStep = 64

// giveUpUnanswered completes operations whose answers are overdue.
func (u *remoteUnit) giveUpUnanswered() {
	for range givenUpInStep {
		list := &u.unanswered[0]
		if u.clock.at[reportDue] < u.clock.at[answerDue] {
			list = &u.unanswered[1]
		}
		q := list.overdue()
		if q == nil {
			return
		}
		u.table.serving = q.of
		switch x := q.of; {
		case x.away: // what is owed to it is rejected for now, until it is back
			u.awaitAnswer(q)
		case q.operation == arctic.RemoteBarrier:
			u.arriveAgain(x, q)
		case q.sends != nil: // whose end completes the operation
			u.unanswered[q.kind()].remove(&q.pending)
			x.failTransfer(q.sends, arctic.ReasonSilent)
			x.stir()
		default:
			x.complete(q, arctic.ReasonSilent)
		}
	}
	u.clock.more = true
}
