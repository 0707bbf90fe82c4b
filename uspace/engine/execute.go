package engine

// This file takes operations on windows that arrive (Tokyo, sections 2.2.2 and 3.3.1;
// arctic/operation.go). To accept a packet is to execute it: a packet is accepted once, so an
// operation is carried out once. Every check comes first, then the line for the answer is taken,
// and only then anything changes. So a refused operation has changed nothing. The process that owns
// the window is never called. The checks are:
//
//	window      there, with that key (else the node's wrong keys are counted), and present
//	rights      of the window, for this operation
//	lock        not another node's
//	range       all bytes lie in the window
//	operation   the card knows it, for that type and that many elements, and they are aligned
//	trailer     the same for the word that it changes, and credit for its notification
//	answer      a line for it, if one is asked for
//
// At last the window counts the operation, if it has counts and the packet asks for that. The
// packet of an operation that does so is its last, and was sent when all others had arrived (waits
// in remote.go, awaitsOthers in request.go). So each operation counts once, when all of it is
// there.
//
// For windows that are not present see fault.go.
//
// On a modelled machine the bus first carries the data that the operation reads and writes. Then
// the operation is checked and carried out (operateunit.go).

import (
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// acceptOperation takes an operation for the context, with the block behind it if there is one. It
// returns the reason of a reject, or ReasonNone.
func (u *remoteUnit) acceptOperation(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) arctic.Reason {
	var q arctic.WindowRequest
	reason := arctic.ReasonNone
	r := x.remote
	switch {
	case !p.WindowRequest(h, &q) || q.Block != (len(block) > 0):
		reason = arctic.ReasonRemoteForm
	case r == nil:
		reason = arctic.ReasonKeySlot
	case x.drain: // the owner takes the context off the card
		return arctic.ReasonSwitching
	default:
		if q.Block {
			q.Operands = block
		}
		reason = u.operate(x, r, h, &q)
	}
	switch {
	case reason == arctic.ReasonNone:
		u.in.atOnce = u.in.atOnce || q.Ack
		u.counters.Operations++
	case reason.Permanent():
		u.refused(x, h.Source, q.Key, reason)
	}
	return reason
}

// examined holds the findings of an operation's checks.
type examined struct {
	window   *keySlot // nil: none
	number   uint16   // the window's number
	memory   []byte   // the memory that the operation is on
	elements bool     // the operation is on elements
	signal   []byte   // the word that its trailer changes
	// Of a refusal with arctic.ReasonAbsent: the window that is not present, its number, and the
	// address that the packet wanted there.
	missed       *keySlot
	missedNumber uint16
	missedAt     uint64
}

// examine returns why an operation of a node is refused, or ReasonNone. It changes nothing: no
// count, and nothing that others see.
func (u *remoteUnit) examine(x *Context, r *remote, source uint16, q *arctic.WindowRequest, e *examined) arctic.Reason {
	w, n, reason := u.find(r, source, q.Key)
	if reason != arctic.ReasonNone {
		return reason
	}
	e.window, e.number = w, n
	if w.suspended {
		e.missed, e.missedNumber, e.missedAt = w, n, q.Address
		return arctic.ReasonAbsent
	}
	if reason := w.permits(source, rightFor(q)); reason != arctic.ReasonNone {
		return reason
	}
	if q.Operation == arctic.RemoteLock || q.Operation == arctic.RemoteUnlock {
		return arctic.ReasonNone
	}
	size := q.Bytes
	if q.Operation == arctic.RemotePut {
		size = len(q.Operands)
	}
	if e.memory = w.at(q.Address, size); e.memory == nil {
		return arctic.ReasonRange
	}
	e.elements = q.Operation != arctic.RemotePut && q.Operation != arctic.RemoteGet
	if e.elements {
		if reason := operable(q, e.memory, w.memory); reason != arctic.ReasonNone {
			return reason
		}
	} else if reason := u.movable(q, size); reason != arctic.ReasonNone {
		return reason
	}
	if q.Trailer.Words() > 0 {
		if reason := u.examineTrailer(x, r, source, &q.Trailer, e); reason != arctic.ReasonNone {
			return reason
		}
	}
	if q.Asked() && !x.canAnswer() {
		return arctic.ReasonBusy
	}
	return arctic.ReasonNone
}

// unfit counts a refusal that examine has found, and returns the reason that the packet's sender
// gets.
func (u *remoteUnit) unfit(x *Context, r *remote, source uint16, e *examined, reason arctic.Reason) arctic.Reason {
	switch reason {
	case arctic.ReasonKeySlot:
		return r.guessed(source, u.clock.now)
	case arctic.ReasonAbsent:
		return u.miss(x, e.missed, e.missedNumber, source, e.missedAt)
	case arctic.ReasonBusy:
		r.use.Refused.Busy++
	case arctic.ReasonQueueFull:
		if e.window == nil {
			r.use.Refused.Guessing++
		} else {
			r.use.Refused.NoCredit++
		}
	}
	return reason
}

// operate checks an operation and carries it out.
func (u *remoteUnit) operate(x *Context, r *remote, h *arctic.PacketHeader, q *arctic.WindowRequest) arctic.Reason {
	var e examined
	if reason := u.examine(x, r, h.Source, q, &e); reason != arctic.ReasonNone {
		if q.Key == 0 && reason == arctic.ReasonKeySlot {
			return u.arrived(x, h.Source, q)
		}
		return u.unfit(x, r, h.Source, &e, reason)
	}
	if q.Operation == arctic.RemoteLock || q.Operation == arctic.RemoteUnlock {
		return e.window.changeLock(h.Source, q)
	}
	// From here on it is carried out, as far as there is memory.
	var ln *line
	if q.Asked() {
		ln = x.takeAnswer()
	}
	if reason := u.access(x, h, q, &e, ln); reason != arctic.ReasonNone {
		if ln != nil {
			x.free(ln)
		}
		if reason == arctic.ReasonBusy {
			r.use.Refused.Busy++
		}
		return reason
	}
	counted := q.Counts && e.window.counts != 0
	if counted {
		x.count(e.window, q)
	}
	if counted || e.signal != nil || len(e.memory) > 0 && changes(q.Operation) {
		x.iface.Wrote()
	}
	if q.Trailer.Notify {
		u.notifyPut(x, r, e.window, e.number, h.Source, q)
	}
	x.took(len(q.Operands))
	r.use.Operations++
	return arctic.ReasonNone
}

// access reads and writes the memory of an operation, and sends the answer in the line. It returns
// ReasonBusy if the one element changed under each try, and ReasonRange for memory that the process
// has unmapped. Then the line is as before.
func (u *remoteUnit) access(x *Context, h *arctic.PacketHeader, q *arctic.WindowRequest, e *examined,
	ln *line) (reason arctic.Reason) {
	defer unmapped(&reason)
	switch {
	case e.elements:
		var old [arctic.MaxElements * 8]byte
		if !perform(q, e.memory, old[:len(e.memory)]) {
			return arctic.ReasonBusy
		}
		if ln != nil {
			u.answer(x, ln, h.Source, q.ID, 0, old[:len(e.memory)])
		}
	case q.Operation == arctic.RemoteGet && len(e.memory) > arctic.MaxResponseBytes:
		touch(e.memory)
		u.answerBlock(x, ln, h.Source, q.ID, offsetOf(q), e.memory)
	case q.Operation == arctic.RemoteGet:
		u.answer(x, ln, h.Source, q.ID, offsetOf(q), e.memory)
	default:
		copy(e.memory, q.Operands)
	}
	if e.signal != nil {
		signalWord(e.signal, q.Trailer.Add, q.Trailer.Value)
	}
	return arctic.ReasonNone
}

// count adds an operation that was carried out to the counts of its window. A process that has
// unmapped their memory loses the count; the operation has succeeded.
func (x *Context) count(w *keySlot, q *arctic.WindowRequest) {
	var lost arctic.Reason
	defer unmapped(&lost)
	kind := funi.CountWrites
	switch {
	case q.Operation == arctic.RemoteGet || q.Operation == arctic.RemoteRead:
		kind = funi.CountReads
	case q.Fetch:
		kind = funi.CountFetches
	}
	if b := countsAt(&x.segments, w.counts); b != nil {
		signalWord(b[8*kind:], true, 1)
	}
}

// countsAt returns the memory of counts at an address among the segments, or nil.
func countsAt(segments *funi.Segments, address uint32) []byte {
	b := segments.Memory(address, funi.CountsBytes, funi.Keyed)
	if b == nil || uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
		return nil
	}
	return b
}

// unmapped turns a fault of the function that defers it into ReasonRange. The goroutine that drives
// a card in the process of its program makes faults panics (debug.SetPanicOnFault).
func unmapped(reason *arctic.Reason) {
	switch v := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }:
		*reason = arctic.ReasonRange
	default:
		panic(v)
	}
}

// touch reads the first and the last byte of memory, so that a region that is unmapped faults here
// and not when a frame of its answer is sent. It reads no more, since a request may ask for 64 MiB,
// and others would wait for as many pages.
//
//go:noinline
func touch(b []byte) byte { return b[0] + b[len(b)-1] }

// changes reports whether an operation may change memory. A compare-and-swap does not always.
func changes(op arctic.Operation) bool { return op != arctic.RemoteGet && op != arctic.RemoteRead }

// find finds the window of a key for a node's packet, or returns the reason of a reject. It counts
// nothing.
func (u *remoteUnit) find(r *remote, source uint16, key uint64) (w *keySlot, n uint16, why arctic.Reason) {
	if r.guesses.tooMany(source, u.clock.now) {
		return nil, 0, arctic.ReasonQueueFull
	}
	n, open := r.keySlot(key)
	if !open {
		return nil, 0, arctic.ReasonKeySlot
	}
	return &r.keySlots[n], n, arctic.ReasonNone
}

// guessed counts a wrong key of a node, and returns the reason that the node gets.
func (r *remote) guessed(source uint16, now int64) arctic.Reason {
	if !r.guesses.note(source, now) {
		r.use.Refused.Guessing++
		return arctic.ReasonQueueFull
	}
	return arctic.ReasonKeySlot
}

// rightFor returns the right that an operation needs.
func rightFor(q *arctic.WindowRequest) funi.WindowRights {
	switch q.Operation {
	case arctic.RemoteGet, arctic.RemoteRead:
		return funi.RightRead
	case arctic.RemotePut:
		return funi.RightWrite
	case arctic.RemoteWrite, arctic.RemoteMaskedSwap:
		if !q.Fetch { // else it is a swap: who may only write does not learn what was there
			return funi.RightWrite
		}
	}
	return funi.RightAtomic
}

// permits returns why a node may not do what needs the right, or ReasonNone.
func (w *keySlot) permits(source uint16, right funi.WindowRights) arctic.Reason {
	switch {
	case w.rights&right == 0:
		return arctic.ReasonRights
	case w.locked && w.locker != source:
		return arctic.ReasonLocked
	}
	return arctic.ReasonNone
}

// changeLock locks or unlocks a window for a node. The operands say which life of the node asks. If
// an earlier life of the node has locked the window, the present life may lock it, because no
// process of the earlier one is there. It may not unlock it.
func (w *keySlot) changeLock(source uint16, q *arctic.WindowRequest) arctic.Reason {
	life := uint32(q.Operands[0]) | uint32(q.Operands[1])<<8 | uint32(q.Operands[2])<<16 | uint32(q.Operands[3])<<24
	switch {
	case q.Fetch || q.Bytes != 0 || q.Element != 0:
		return arctic.ReasonOperation
	case q.Operation == arctic.RemoteLock && w.locked && w.life == life:
		return arctic.ReasonLocked // by another thread of it
	case q.Operation == arctic.RemoteLock:
		w.locked, w.locker, w.life = true, source, life
	case !w.locked || w.life != life:
		return arctic.ReasonLocked
	default:
		w.locked = false
	}
	return arctic.ReasonNone
}

// at returns size bytes of the window at an address of the window's numbering, or nil. It accepts
// any address of 48 bits and any size.
func (w *keySlot) at(address uint64, size int) []byte {
	offset := address - w.address
	if address < w.address || offset > uint64(len(w.memory)) || uint64(size) > uint64(len(w.memory))-offset {
		return nil
	}
	return w.memory[offset : offset+uint64(size) : offset+uint64(size)]
}

// movable returns why this card does not carry out a put or get, or ReasonNone. A get of more than
// a packet has its answer in a block.
func (u *remoteUnit) movable(q *arctic.WindowRequest, size int) arctic.Reason {
	if q.Element != 0 || q.Fetch || q.Operation == arctic.RemoteGet && size > arctic.MaxResponseBytes &&
		(size%arctic.TransferAlign != 0 || u.model != nil && u.out.block == 0) {
		return arctic.ReasonOperation
	}
	return arctic.ReasonNone
}

// offsetOf returns the offset that the answer of a get repeats.
func offsetOf(q *arctic.WindowRequest) uint32 {
	b := q.Operands
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// examineTrailer is examine for the trailer of a put. It finds the word that is the trailer's
// signal.
func (u *remoteUnit) examineTrailer(x *Context, r *remote, source uint16, t *arctic.Trailer,
	e *examined) arctic.Reason {
	if t.Set || t.Add {
		s, n, reason := u.find(r, source, t.Key)
		if reason != arctic.ReasonNone {
			return reason
		}
		if s.suspended {
			e.missed, e.missedNumber, e.missedAt = s, n, t.Address
			return arctic.ReasonAbsent
		}
		if reason := s.permits(source, funi.RightAtomic); reason != arctic.ReasonNone {
			return reason
		}
		if e.signal = s.at(t.Address, 8); e.signal == nil {
			return arctic.ReasonRange
		}
		if uintptr(unsafe.Pointer(&e.signal[0]))%8 != 0 {
			return arctic.ReasonAlignment
		}
	}
	if w := e.window; t.Notify {
		if w.rights&funi.RightNotify == 0 {
			return arctic.ReasonRights
		}
		if w.unread >= w.credit {
			if r.read(x.iface.NotesTail()); w.unread >= w.credit {
				return arctic.ReasonQueueFull
			}
		}
	}
	return arctic.ReasonNone
}

// notifyPut puts the notification of a put into the ring. The ring has room: it is promised to the
// window's credit.
func (u *remoteUnit) notifyPut(x *Context, r *remote, w *keySlot, n, source uint16, q *arctic.WindowRequest) {
	r.enter(x, noteOfWindow|uint32(n))
	x.iface.NotifyWindow(r.head-1, funi.NoteWindow, n, source, q.Trailer.Tag, q.Address)
	w.unread++
	u.counters.Notifications++
	r.use.Notified++
}
