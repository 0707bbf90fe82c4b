package hello

// This file keeps the faults that the station finds: each fault of each host once.

import (
	"fmt"
	"net"
)

const (
	// mostFaults is the most faults that are kept. While all of them are fresh, others find no
	// room.
	mostFaults = 32
	// freshFault is how long a fault is kept after it was last seen.
	freshFault = 600 * second
	tellFault  = 20 * second
)

// FaultKind is the kind of a fault.
type FaultKind uint8

// The kinds.
const (
	// SameCard means that two hosts have the same card number: this host and the one at Address, or
	// those at Owner and Address.
	SameCard     FaultKind = iota + 1
	OtherVersion           // means that the host at Address has another version of frames
	OtherCluster           // means that the host at Address is of another cluster
	// OtherFrames means that the longest frames of the host at Address are longer or shorter than
	// this host's. The longer ones of one do not arrive at the other.
	OtherFrames
	WrongCard // means that the host listed as Card, at Owner, says that it is another card
	// Elsewhere means that the host at Address says that it is Card. Card is listed at Owner, where
	// nobody answers.
	Elsewhere
)

var faultNames = [...]string{SameCard: "same card number", OtherVersion: "other version", OtherCluster: "other cluster",
	OtherFrames: "other frame size", WrongCard: "wrong card number", Elsewhere: "elsewhere"}

// String returns the kind in a few words.
func (k FaultKind) String() string { return faultNames[k] }

// Fault is a fault of a host that sent a hello.
type Fault struct {
	Kind    FaultKind
	Card    uint16 // that it is about
	Address [6]byte
	Port    int
	Said    Said // by the host at Address
	Owner   [6]byte
	// Since and Last are when it was first and last seen.
	Since, Last int64
	own         Said
	new         bool
}

// String returns a line for people: the fault, and how to mend it.
func (f Fault) String() string {
	at := func(a [6]byte) string {
		if a == ([6]byte{}) {
			return "an address that the peers file does not have"
		}
		return net.HardwareAddr(a[:]).String()
	}
	who := at(f.Address)
	if f.Said.Host != "" {
		who = fmt.Sprintf("%s (%s)", f.Said.Host, who)
	}
	switch f.Kind {
	case SameCard:
		other := "this host"
		if f.Owner != ([6]byte{}) {
			other = at(f.Owner)
		}
		return fmt.Sprintf("card %d is %s and %s; give each host a card number of its own and restart its funid",
			f.Card, other, who)
	case OtherVersion:
		return fmt.Sprintf("%s, card %d, has frames of version %d, this host of version %d; run the same version of FUNet on all hosts", who, f.Said.Card, f.Said.Frames, f.own.Frames)
	case OtherCluster:
		return fmt.Sprintf("%s, card %d, is of cluster %q, this host of %q; give both the same name, or keep the clusters on segments of their own", who, f.Said.Card, f.Said.Cluster, f.own.Cluster)
	case OtherFrames:
		return fmt.Sprintf("%s, card %d, sends frames of up to %d bytes, this host of up to %d, and the longer ones of one do not arrive at the other; give all interfaces the same MTU, and restart funid", who, f.Said.Card, f.Said.FrameSize, f.own.FrameSize)
	case WrongCard:
		return fmt.Sprintf("%s is listed as card %d and says that it is card %d; correct the peers file, or card: of its funid", who, f.Card, f.Said.Card)
	case Elsewhere:
		return fmt.Sprintf("card %d is listed at %s, where nobody answers, and %s says to be it; correct the peers file", f.Card, at(f.Owner), who)
	}
	return fmt.Sprintf("fault %d of %s", f.Kind, who)
}

// judge looks for faults in a card's hello, and reports whether it is a card of the same cluster
// that this card can talk to.
func (s *Station) judge(now int64, port int, v view) (ours bool) {
	if !v.isCard() {
		return false
	}
	ours = true
	is := func(kind FaultKind, so bool) {
		if so {
			ours = false
			s.fault(now, kind, port, v, v.card(), [6]byte{})
		} else if s.nFaults > 0 {
			s.mended(kind, v.source())
		}
	}
	cluster, own := v.cluster(), s.c.Self.Cluster
	is(OtherCluster, len(cluster) > 0 && own != "" && string(cluster) != own)
	if !ours {
		return false // other faults of another cluster do not matter here
	}
	is(OtherVersion, v.frames() != s.c.Self.Frames)
	if s.c.Self.Encap == 0 { // with datagrams each path has its own length
		is(OtherFrames, int(v.frameSize()) != s.c.Ports[port].FrameSize())
	}
	if v.card() == s.c.Self.Card && v.incarnation() != s.c.Self.Incarnation {
		s.fault(now, SameCard, port, v, v.card(), [6]byte{})
		ours = false
	}
	return ours
}

// fault keeps a fault of a host that sent a hello.
func (s *Station) fault(now int64, kind FaultKind, port int, v view, card uint16, owner [6]byte) {
	from := v.source()
	if f := s.faultAt(kind, from); f != nil {
		f.Last = now // without making the words, which costs time
		return
	}
	// checked before the words are made: a flood would make them for nothing
	if s.room(now) == nil {
		s.n.Crowded++
		return
	}
	s.faultOf(now, Fault{Kind: kind, Card: card, Address: from, Port: port, Said: v.said(), Owner: owner})
}

// room returns a place for another fault: one that is free, or whose fault is no longer fresh.
func (s *Station) room(now int64) *Fault {
	if s.nFaults < mostFaults {
		return &s.faults[s.nFaults]
	}
	for i := range s.faults {
		if now-s.faults[i].Last > freshFault {
			return &s.faults[i]
		}
	}
	return nil
}

func (s *Station) faultAt(kind FaultKind, a [6]byte) *Fault {
	for i := range s.faults[:s.nFaults] {
		if f := &s.faults[i]; f.Kind == kind && f.Address == a {
			return f
		}
	}
	return nil
}

// faultOf keeps a fault, if there is room.
func (s *Station) faultOf(now int64, f Fault) {
	f.Since, f.Last, f.new, f.own = now, now, true, s.c.Self
	f.own.FrameSize = uint16(s.c.Ports[f.Port].FrameSize())
	if old := s.faultAt(f.Kind, f.Address); old != nil {
		old.Last = now
		return
	}
	room := s.room(now)
	if room == nil {
		s.n.Crowded++
		return
	}
	if s.nFaults < mostFaults {
		s.nFaults++
	}
	*room, s.told = f, false
}

// mended forgets a fault of a host that no longer shows it.
func (s *Station) mended(kind FaultKind, a [6]byte) {
	if f := s.faultAt(kind, a); f != nil {
		s.nFaults--
		*f = s.faults[s.nFaults]
		s.faults[s.nFaults] = Fault{}
	}
}

// Faults returns the faults that are fresh.
func (s *Station) Faults(now int64) (all []Fault) {
	for _, f := range s.faults[:s.nFaults] {
		if now-f.Last <= freshFault {
			all = append(all, f)
		}
	}
	return all
}

// TakeFaults returns the new faults, each once while it lasts. It returns mostFaults at first, then
// one each tellFault, and omits the others, so that a host that keeps changing its hellos does not
// fill a log.
func (s *Station) TakeFaults(now int64) (all []Fault) {
	for i := range s.faults[:s.nFaults] {
		f := &s.faults[i]
		if f.new && s.tells.take(now, tellFault, mostFaults) {
			all = append(all, *f)
		}
		f.new = false
	}
	s.told = true
	return all
}
