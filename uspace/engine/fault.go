package engine

// This file handles packets for windows that the window table has no usable entry for (Tokyo,
// sections 2.1, 3.1 and 3.3: the NI's TLB, whose misses and refused accesses are for the operating
// system to decide).
//
// A window is present, or it is not: its process has suspended it or opened it so, or the card's
// owner has had it suspended after a refused access. A packet for a window that is not present is a
// miss. Nothing of it is done. It waits at its sender (arctic.ReasonAbsent), and holds up other
// packets from the same process to the same node. The card tells its owner of the first miss
// (Config.Fault). It also tells the process, by an entry of its notification ring (funi.NoteFault),
// if the window has credit for one. The process brings the window back (funi.ResumeWindow), and the
// packet is carried out when it comes again.
//
// A packet of a process of this card for a node without a route is a miss of the other table:
// routemiss.go.
//
// A process that does not answer costs others at most ConnectTimeout. From then on packets for that
// window are refused for good (arctic.ReasonWithheld), until the process brings it back. The card
// keeps a time for each window and nothing for each packet.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Faults counts the calls of Config.Fault. Most owners of a card only count them.
type Faults struct {
	// Missed counts windows that a packet asked for while they were not present, once for each time
	// that they were not.
	Missed uint64 `json:"windows_missed"`
	// Refused counts packets refused for good, of nodes that use the windows and areas of others.
	Refused uint64 `json:"accesses_refused"`
	// NoRoute counts packets for nodes that the route table lacks, including packets that waited.
	NoRoute uint64 `json:"packets_unrouted"`
}

// Count counts a call of Config.Fault.
func (f *Faults) Count(reason arctic.Reason) {
	switch reason {
	case arctic.ReasonAbsent:
		f.Missed++
	case arctic.ReasonNoRoute:
		f.NoRoute++
	default:
		f.Refused++
	}
}

// suspend makes a window not present. The card does not use its memory any more, not even for
// answers under way.
func (x *Context) suspend(s *keySlot) {
	s.suspended = true
	x.keepAnswers(s.memory)
}

// miss returns the reason of the reject of a node's packet for an address of window n, which is not
// present. It reports the first miss.
func (u *remoteUnit) miss(x *Context, w *keySlot, n, source uint16, address uint64) arctic.Reason {
	switch {
	case w.missed == 0:
		w.missed = max(u.clock.now, 1)
		if u.cfg.Fault != nil {
			u.cfg.Fault(x.gid, x.node, source, arctic.ReasonAbsent)
		}
	case u.clock.now-w.missed >= int64(u.cfg.ConnectTimeout):
		return arctic.ReasonWithheld
	}
	u.tellOfMiss(x, w, n, source, address)
	x.remote.use.Refused.Absent++
	return arctic.ReasonAbsent
}

// tellOfMiss tells the process of the first miss of a window, if the window has credit for it. The
// credit promises room in the ring.
func (u *remoteUnit) tellOfMiss(x *Context, w *keySlot, n, source uint16, address uint64) {
	r := x.remote
	if w.told || w.credit == 0 {
		return
	}
	if w.unread >= w.credit {
		if r.read(x.iface.NotesTail()); w.unread >= w.credit {
			return // what it has not read may bring it here
		}
	}
	r.enter(x, noteOfWindow|uint32(n))
	x.iface.NotifyWindow(r.head-1, funi.NoteFault, n, source, 0, address)
	w.unread++
	w.told = true
	x.stir()
}

// refused counts a node's packet that is refused for good, and tells the card's owner, who may have
// the window of the key suspended. A window without credit is not suspended, since its process
// would never hear of it. Any node that is refused often enough could then take the window away
// from all others for good.
func (u *remoteUnit) refused(x *Context, source uint16, key uint64, reason arctic.Reason) {
	u.counters.RemoteRefused++
	r := x.remote
	if r != nil {
		r.use.Refused.count(reason)
	}
	if u.cfg.Fault == nil || !u.cfg.Fault(x.gid, x.node, source, reason) || r == nil {
		return
	}
	if n, open := r.keySlot(key); open && !r.keySlots[n].suspended && r.keySlots[n].credit > 0 {
		u.settleWrites(x) // what was accepted before
		x.suspend(&r.keySlots[n])
	}
}
