package engine

// This file is the memory that a process has opened for others (Hamlyn, HPL-95-86, sections 2.4 and
// 2.5): its key slots and areas. Request blocks open, close and reset them (funi/remote.go),
// without a system call and in the order of the send queue.
//
// A key slot is a part of a segment with the right Keyed, and a key of 64 bits. One load finds the
// slot, and one comparison says both whether it is open and whether the key is right. The tables
// have the size that the context's memory was made for (funi.RemoteSizes). The maker of that memory
// has charged a user for it.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// keySlot is a key slot, or window (Tokyo, section 3.1); without memory it is not open.
type keySlot struct {
	key       uint64
	memory    []byte
	address   uint64 // of the first byte, for others
	rights    funi.WindowRights
	suspended bool // it is not present (fault.go)
	told      bool // the process has been told of a miss since
	locked    bool
	from      uint32 // address of memory among the segments
	missed    int64  // when the first packet found it suspended; 0: none has
	locker    uint16 // the node that has locked it
	life      uint32 // the life of that node
	counts    uint32 // address of its counts among the segments; 0: it has none
	// credit is how many notifications of puts may be unread. unread is how many are, also of a
	// window that is closed.
	credit, unread uint32
}

// area is a notification assembly area.
type area struct {
	counter  uint32
	keySlot  uint16
	credit   uint32 // notifications that may be unread; 0: not open
	unread   uint32 // notifications in the ring, also of a closed area
	metadata uint8  // words that came early
	returns  bool   // a packet that finds no credit goes back to its sender
}

// remote is the remote memory of a context.
type remote struct {
	keySlots []keySlot
	areas    []area
	// ring holds, for each notification that the process has not read, its kind: an area's number,
	// noteOfWindow, noteOfRequest or noteOfMessage. Its entries are those from tail to head.
	ring       []uint32
	head, tail uint32
	// promised is the sum of three: the credits of open areas and windows and for messages, the
	// unread notifications of what is closed, and the operations that are not completed or whose
	// completion was not read.
	promised uint32
	requests requests // records of the process's own operations on others' windows
	guesses  guesses
	barriers *barriers
	moved    bool          // the context has come from another card
	receiver *receiver     // where it receives messages; nil: it has received none (receive.go)
	missed   int64         // when the first message came that it does not receive; 0: none has
	entries  []windowEntry // entries of its window table that a modelled machine's card holds
	use      RemoteUse     // what is open, notified and refused
}

// keySlot returns the number of the key slot that a key opens.
func (r *remote) keySlot(key uint64) (n uint16, open bool) {
	n = uint16(key)
	return n, int(n) < len(r.keySlots) && r.keySlots[n].memory != nil && r.keySlots[n].key == key
}

// execute carries out a request block other than a write. It returns why it could not, or
// ReasonNone. The words are the card's copy.
func (x *Context) execute(h funi.Header, w *funi.Slot) arctic.Reason {
	op, r := h.Operation(), x.remote
	if r == nil {
		return arctic.ReasonNotOpened
	}
	if op >= funi.CloseKeySlot {
		x.card.remote.settleWrites(x) // what was accepted before
	}
	ok := false
	switch key := uint64(w[funi.RemoteKeyWord]) | uint64(w[funi.RemoteKeyWord+1])<<32; op {
	case funi.OpenKeySlot:
		ok = x.openKeySlot(key, w)
	case funi.CloseKeySlot:
		var n uint16
		if n, ok = r.keySlot(key); ok {
			x.closeKeySlot(&r.keySlots[n])
		}
	case funi.SuspendWindow, funi.ResumeWindow:
		var n uint16
		if n, ok = r.keySlot(key); ok {
			s := &r.keySlots[n]
			if op == funi.SuspendWindow {
				x.suspend(s)
			} else {
				s.suspended, s.told, s.missed, s.locked = false, false, 0, false
			}
		}
	case funi.OpenArea:
		ok = w[funi.RemoteCountWord] <= 1 && x.openArea(w[funi.RemoteAreaWord]>>16, key, w[funi.RemoteLengthWord],
			w[funi.RemoteCountWord] == 1)
	case funi.CloseArea, funi.ResetArea:
		n := w[funi.RemoteAreaWord] >> 16
		if int(n) >= len(r.areas) || r.areas[n].credit == 0 {
			break
		}
		a := &r.areas[n]
		a.counter, a.metadata, ok = 0, 0, true
		if op == funi.CloseArea {
			r.promised -= a.credit - a.unread
			a.credit = 0
			r.use.AreasOpen--
		}
	case funi.SetChain:
		ok = x.setChain(w)
	case funi.OpenPath:
		ok = x.card.ultra.openPath(x, h.Node(), w)
	case funi.ClosePath:
		ok = x.card.ultra.closePath(x, w)
	case funi.OpenReceive:
		ok = x.openReceive(w)
	case funi.CloseReceive:
		ok = x.closeReceive()
	case funi.GiveReceive:
		ok = x.giveReceive(w[funi.RemoteLengthWord])
	default:
		return arctic.ReasonRemoteRequest
	}
	if !ok {
		return arctic.ReasonNotOpened
	}
	return arctic.ReasonNone
}

// openKeySlot gives a key to memory of a segment.
func (x *Context) openKeySlot(key uint64, w *funi.Slot) bool {
	r, n := x.remote, int(uint16(key))
	o, ok := funi.OpenedWindow(w)
	if !ok || n >= len(r.keySlots) || r.keySlots[n].memory != nil || o.Bytes == 0 ||
		o.Address+uint64(o.Bytes)-1 > arctic.MaxAddress || o.Counts != 0 && countsAt(&x.segments, o.Counts) == nil {
		return false
	}
	memory := x.segments.Memory(o.Base, int(o.Bytes), funi.Keyed)
	if memory == nil {
		return false
	}
	s := &r.keySlots[n]
	if s.unread != 0 || o.Credit > uint32(len(r.ring))-r.promised {
		r.read(x.iface.NotesTail()) // the process may have read them since the card looked
	}
	if s.unread != 0 || o.Credit > uint32(len(r.ring))-r.promised {
		return false
	}
	if o.Rights&(funi.RightRead|funi.RightAtomic) != 0 {
		x.makeAnswers()
	}
	*s = keySlot{key: key, memory: memory, address: o.Address, rights: o.Rights, credit: o.Credit,
		suspended: o.Absent, from: o.Base, counts: o.Counts}
	r.promised += o.Credit
	r.use.KeySlotsOpen++
	return true
}

// closeKeySlot takes a key back. The card does not use the memory for it any more, not even for
// answers under way.
func (x *Context) closeKeySlot(s *keySlot) {
	x.keepAnswers(s.memory)
	x.remote.promised -= s.credit - s.unread
	x.remote.forgetEntries()
	*s = keySlot{unread: s.unread}
	x.remote.use.KeySlotsOpen--
}

// openArea binds an area to a key slot. The ring must have room for the credits of all areas.
func (x *Context) openArea(n uint32, key uint64, credit uint32, returns bool) bool {
	r := x.remote
	slot, open := r.keySlot(key)
	if !open || int(n) >= len(r.areas) || credit == 0 || r.areas[n].credit != 0 {
		return false
	}
	if r.areas[n].unread != 0 || credit > uint32(len(r.ring))-r.promised {
		r.read(x.iface.NotesTail()) // the process may have read them since the card looked
	}
	if r.areas[n].unread != 0 || credit > uint32(len(r.ring))-r.promised {
		return false // its number would count what an earlier area has in the ring
	}
	r.areas[n] = area{keySlot: slot, credit: credit, returns: returns}
	r.promised += credit
	r.use.AreasOpen++
	return true
}

// closeWithin closes the key slots in a segment that the card may not use any more, and those whose
// counts are there. The tables have at most 65,536 key slots.
func (x *Context) closeWithin(s funi.Segment) {
	if x.remote == nil || s.Rights&funi.Keyed == 0 {
		return
	}
	x.card.remote.settleWrites(x)
	x.receiveWithin(s)
	for i := range x.remote.keySlots {
		if k := &x.remote.keySlots[i]; k.memory != nil && (s.Covers(k.from) || k.counts != 0 && s.Covers(k.counts)) {
			x.closeKeySlot(k)
		}
	}
	x.failInto(s)
	x.card.ultra.forsakeWithin(x, s)
}

// read takes notifications off the ring that the process says it has read. Numbers beyond the head
// are ignored.
func (r *remote) read(tail uint32) {
	if tail-r.tail > r.head-r.tail {
		return
	}
	for ; r.tail != tail; r.tail++ {
		switch of := r.ring[r.tail&uint32(len(r.ring)-1)]; {
		case of == noteOfMessage:
			v := r.receiver
			if v.unread--; v.credit == 0 {
				r.promised--
			}
		case of >= noteOfRequest:
			r.promised--
		case of >= noteOfWindow:
			w := &r.keySlots[of-noteOfWindow]
			if w.unread--; w.credit == 0 {
				r.promised--
			}
		default:
			a := &r.areas[of]
			if a.unread--; a.credit == 0 {
				r.promised--
			}
		}
	}
}

// These are the kinds of entries of remote.ring besides the numbers of areas.
const (
	noteOfWindow  = 1 << 16 // and the number of the key slot
	noteOfRequest = 1 << 17
	noteOfMessage = 1<<17 + 1
)

// promise promises entries of the notification ring to something that will be told there.
func (r *remote) promise(x *Context, n uint32) bool {
	if r.promised+n > uint32(len(r.ring)) {
		if r.read(x.iface.NotesTail()); r.promised+n > uint32(len(r.ring)) {
			return false
		}
	}
	r.promised += n
	return true
}

// enter notes the kind of the next entry of the ring. The promises ensure that there is room.
func (r *remote) enter(x *Context, of uint32) {
	if r.head-r.tail == uint32(len(r.ring)) {
		r.read(x.iface.NotesTail())
	}
	r.ring[r.head&uint32(len(r.ring)-1)] = of
	r.head++
}

const (
	// guessSecond and mostGuesses bound wrong keys: a node that brought more in a second waits for
	// the rest of that second.
	guessSecond = 1e9
	mostGuesses = 1000
	// guessers is how many nodes can have a count. guessPlaces is how many places a node's may be
	// in.
	guessers    = 64
	guessPlaces = 4
)

// guess is the count of a node. While the count is 0 the place is free.
type guess struct{ node, count uint16 }

// guesses counts packets with wrong keys in this second, for each node by itself. A node whose
// places others have taken has no count. Then its packets with wrong keys wait until the second is
// over, and those with right keys do not.
type guesses struct {
	until int64
	table [guessers]guess
}

// of returns the count of a node, or a free place for it, or nil.
func (g *guesses) of(node uint16) *guess {
	for i := range uint16(guessPlaces) {
		if e := &g.table[(node+i)%guessers]; e.node == node || e.count == 0 {
			return e
		}
	}
	return nil
}

// tooMany reports whether a node has guessed too often in this second.
func (g *guesses) tooMany(node uint16, now int64) bool {
	if now >= g.until {
		return false
	}
	e := g.of(node)
	return e != nil && e.count >= mostGuesses
}

// note counts a wrong key of a node, and reports whether there is a place for the count.
func (g *guesses) note(node uint16, now int64) bool {
	if now >= g.until {
		*g = guesses{until: now + guessSecond}
	}
	e := g.of(node)
	if e == nil {
		return false
	}
	*e = guess{node, e.count + 1}
	return true
}
