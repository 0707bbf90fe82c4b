package engine

// This file takes remote writes that arrive (Hamlyn, HPL-95-86, section 2.5). It makes every check
// first, then copies the data straight to memory, then adds to the counter. A packet waits in no
// queue: it is written, or it is refused and changes no byte. So packets may come in any order, and
// one notification tells the process of all of them. On a modelled machine a checked packet waits
// for the Delivery Unit (heldwrite.go).
//
// A counter that becomes 0 costs its area a credit, which the process gives back when it has read
// the notification. A packet that finds no credit waits at its sender, or returns to it if the area
// was opened so. The ring has an entry for each credit, so it is never full.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// acceptRemote takes a remote write for the context, with the block behind it if there is one. It
// returns the reason of a reject, or ReasonNone.
func (u *remoteUnit) acceptRemote(x *Context, p arctic.Packet, h *arctic.PacketHeader, block []byte) arctic.Reason {
	if arctic.IsOperation(h.Type) {
		return u.acceptOperation(x, p, h, block)
	}
	var w arctic.Remote
	if !p.Remote(h, &w) || w.Block != (len(block) > 0) || !w.Counted && len(w.Metadata) > 0 {
		u.refused(x, h.Source, 0, arctic.ReasonRemoteForm)
		return arctic.ReasonRemoteForm
	}
	if w.Block {
		w.Data = block
	}
	r := x.remote
	if r == nil {
		u.refused(x, h.Source, 0, arctic.ReasonKeySlot)
		return arctic.ReasonKeySlot
	}
	if x.drain { // the owner takes the context off the card
		return arctic.ReasonSwitching
	}
	reason := u.writeRemote(x, r, p, h, &w)
	if reason.Permanent() {
		u.refused(x, h.Source, w.Key, reason)
	}
	return reason
}

// writeRemote checks a remote write and carries it out; on a modelled machine it goes into the
// receive FIFO (heldwrite.go).
func (u *remoteUnit) writeRemote(x *Context, r *remote, p arctic.Packet, h *arctic.PacketHeader,
	w *arctic.Remote) arctic.Reason {
	if r.guesses.tooMany(h.Source, u.clock.now) {
		r.use.Refused.Guessing++
		return arctic.ReasonQueueFull
	}
	n, open := r.keySlot(w.Key)
	if !open {
		if !r.guesses.note(h.Source, u.clock.now) {
			r.use.Refused.Guessing++
			return arctic.ReasonQueueFull
		}
		return arctic.ReasonKeySlot
	}
	s := &r.keySlots[n]
	if uint64(w.Offset)+uint64(len(w.Data)) > uint64(len(s.memory)) {
		return arctic.ReasonRange
	}
	if s.suspended {
		return u.miss(x, s, n, h.Source, s.address+uint64(w.Offset))
	}
	if reason := s.permits(h.Source, funi.RightWrite); reason != arctic.ReasonNone {
		return reason
	}
	holds := x.fifo[h.Level].holdsForm(w)
	if !w.Counted {
		if holds {
			return x.holdWrite(h.Level, p, w)
		}
		u.carryOut(x, r, n, h, w)
		return arctic.ReasonNone
	}
	if int(w.Area) >= len(r.areas) {
		return arctic.ReasonArea
	}
	a := &r.areas[w.Area]
	if a.credit == 0 || a.keySlot != n {
		return arctic.ReasonArea
	}
	counter, ahead := a.counter+w.Delta, uint32(0)
	if !x.fifo[h.Level].bypass {
		counter, ahead = u.countHeld(x, h.Level, a, w)
	}
	if counter == 0 && a.unread+ahead == a.credit {
		if r.read(x.iface.NotesTail()); a.unread+ahead == a.credit {
			if a.returns {
				return arctic.ReasonNoBuffer
			}
			r.use.Refused.NoCredit++
			return arctic.ReasonQueueFull
		}
	}
	if holds {
		return x.holdWrite(h.Level, p, w)
	}
	u.carryOut(x, r, n, h, w)
	return arctic.ReasonNone
}

// carryOut carries out a remote write that was checked, to key slot n.
func (u *remoteUnit) carryOut(x *Context, r *remote, n uint16, h *arctic.PacketHeader, w *arctic.Remote) {
	copy(r.keySlots[n].memory[w.Offset:], w.Data)
	if len(w.Data) > 0 {
		x.iface.Wrote()
	}
	x.took(len(w.Data) + len(w.Metadata))
	if !w.Counted {
		return
	}
	a := &r.areas[w.Area]
	if a.counter += w.Delta; a.counter == 0 {
		u.notify(x, r, a, n, h, w)
	} else if len(w.Metadata) > 0 {
		x.iface.KeepMetadata(w.Area, w.Metadata)
		a.metadata = uint8(len(w.Metadata) / arctic.WordSize)
	}
}

// notify puts a notification into the ring. The process can read it at once, and is told of it at
// the end of the step.
func (u *remoteUnit) notify(x *Context, r *remote, a *area, keySlot uint16, h *arctic.PacketHeader, w *arctic.Remote) {
	r.enter(x, uint32(w.Area))
	x.iface.Notify(r.head-1, keySlot, w.Area, h.Source, w.Metadata, int(a.metadata))
	a.unread++
	a.metadata = 0
	u.counters.Notifications++
	r.use.Notified++
}
