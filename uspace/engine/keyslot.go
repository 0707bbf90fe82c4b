package engine

// This file is what a process has opened for others (Hamlyn, HPL-95-86, sections 2.4 and 2.5): its key slots and areas. Request
// blocks open, close and reset them (funi/remote.go), without a system call and in the order of the send queue.
//
// A key slot is a part of a segment with the right Keyed, and a key of 64 bits. One load finds it, and the same comparison says
// whether it is there and the key right. The tables are as large as the context's memory was made for (funi.RemoteSizes), and whoever
// made that has charged somebody for it.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// keySlot is a key slot; without memory it is not open.
type keySlot struct {
	key    uint64
	memory []byte
}

// area is a notification assembly area.
type area struct {
	counter  uint32
	keySlot  uint16
	credit   uint32 // notifications that may be unread; 0: not open
	unread   uint32 // notifications in the ring, of an area that is closed, too
	metadata uint8  // words that came early
	returns  bool   // what finds no credit goes back to its sender
}

// remote is the remote memory of a context.
type remote struct {
	keySlots []keySlot
	areas    []area
	// ring says which area each notification is of that the process has not read; its entries are those from tail to head.
	ring       []uint16
	head, tail uint32
	// promised is the sum of the credits of areas that are open, and of the unread notifications of those that are not.
	promised uint32
	guesses  guesses
	use      RemoteUse // what is open, notified and refused
}

// newRemote returns tables in which nothing is open; nil for none.
func newRemote(s funi.RemoteSizes) *remote {
	if s.KeySlots == 0 {
		return nil
	}
	return &remote{keySlots: make([]keySlot, s.KeySlots), areas: make([]area, s.Areas), ring: make([]uint16, s.Notifications)}
}

// keySlot returns the number of the key slot that a key opens.
func (r *remote) keySlot(key uint64) (n uint16, open bool) {
	n = uint16(key)
	return n, int(n) < len(r.keySlots) && r.keySlots[n].memory != nil && r.keySlots[n].key == key
}

// execute carries out a request block other than a write, and returns why not. The words are the card's copy.
func (x *Context) execute(op funi.RemoteOperation, w *funi.Slot) arctic.Reason {
	r := x.remote
	if r == nil {
		return arctic.ReasonNotOpened
	}
	if op >= funi.CloseKeySlot {
		x.card.settleWrites(x) // what was accepted before
	}
	ok := false
	switch key := uint64(w[funi.RemoteKeyWord]) | uint64(w[funi.RemoteKeyWord+1])<<32; op {
	case funi.OpenKeySlot:
		ok = w[funi.RemoteAreaWord] == 0 && x.openKeySlot(key, w[funi.RemoteOffsetWord], w[funi.RemoteLengthWord])
	case funi.CloseKeySlot:
		var n uint16
		if n, ok = r.keySlot(key); ok {
			r.keySlots[n] = keySlot{}
			r.use.KeySlotsOpen--
		}
	case funi.OpenArea:
		ok = w[funi.RemoteCountWord] <= 1 && x.openArea(w[funi.RemoteAreaWord]>>16, key, w[funi.RemoteLengthWord], w[funi.RemoteCountWord] == 1)
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
	default:
		return arctic.ReasonRemoteRequest
	}
	if !ok {
		return arctic.ReasonNotOpened
	}
	return arctic.ReasonNone
}

// openKeySlot gives a key to memory of a segment.
func (x *Context) openKeySlot(key uint64, address, bytes uint32) bool {
	r, n := x.remote, int(uint16(key))
	if n >= len(r.keySlots) || r.keySlots[n].memory != nil || bytes == 0 {
		return false
	}
	memory := x.segments.Memory(address, int(bytes), funi.Keyed)
	if memory == nil {
		return false
	}
	r.keySlots[n] = keySlot{key, memory}
	r.use.KeySlotsOpen++
	return true
}

// openArea binds an area to a key slot. The ring has room for the credits of all.
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

// closeWithin closes the key slots in a segment, which the card may use no more. The tables are at most 65,536 key slots long.
func (x *Context) closeWithin(s funi.Segment) {
	if x.remote == nil || s.Rights&funi.Keyed == 0 {
		return
	}
	x.card.settleWrites(x)
	for i := range x.remote.keySlots {
		if k := &x.remote.keySlots[i]; k.memory != nil && s.Holds(k.memory) {
			*k = keySlot{}
			x.remote.use.KeySlotsOpen--
		}
	}
}

// read takes notifications that the process says it has read off the ring. What it says is bounded by what there is: a number
// that lies beyond is none.
func (r *remote) read(tail uint32) {
	if tail-r.tail > r.head-r.tail {
		return
	}
	for ; r.tail != tail; r.tail++ {
		a := &r.areas[r.ring[r.tail&uint32(len(r.ring)-1)]]
		a.unread--
		if a.credit == 0 {
			r.promised--
		}
	}
}

const (
	// guessSecond and mostGuesses bound wrong keys: a node that brought more in a second waits for the rest of it.
	guessSecond = 1e9
	mostGuesses = 1000
	// guessers is how many nodes can have a count, and guessPlaces in how many places a node's is looked for.
	guessers    = 64
	guessPlaces = 4
)

// guess is the count of a node; nobody's while it is 0.
type guess struct{ node, count uint16 }

// guesses counts packets with wrong keys in this second, each node's for itself. A node whose places others have taken has no
// count: then its packets with wrong keys wait until the second is over, and those with right ones do not.
type guesses struct {
	until int64
	table [guessers]guess
}

// of returns the count of a node, or a free one for it, or nil.
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
