package rats

// This file is the way to a node, as far as the long messages of streams share it: they take turns.
//
// The card carries the requests of the send queue out in order, so what is committed behind long
// messages waits for them. Few are committed to a node at once for that reason, and streams that
// have more to say are in a queue here: each sends one message in its turn, of up to longestMessage
// bytes. So streams share the way evenly, however long their rings are, and a short message waits
// for little. A node that does not answer holds no more of the card's records than that at a time,
// and those only until the card has copied the messages (engine/late.go).

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// laneAll is how many long messages to a node may be unretired, those of streams and of other
// instances together: the card has records for eight, one of which is left to what goes to other
// nodes.
const laneAll = 7

// laneMost is how many long messages to a node may be unretired: the card has the next while it
// sends one, and a short message waits behind no more than these, 64 KiB. Four made a stream no
// faster, and a short message wait 2.5 times as long.
const laneMost = 2

// lane is the way to a node.
type lane struct {
	out     int       // long messages of streams that are not retired
	others  int       // and of other instances
	waiting []*Sender // and those that have sent and may have more, in the order of their turns
	first   int       // of waiting
	asking  int       // initial requests under way (initial.go)
	askers  []*Inquiry
}

// onLane is a long message that was committed.
type onLane struct {
	at    uint64 // it is retired when so many slots are
	lane  *lane
	other bool // it is not of a stream
}

// laneTo returns the way to a node.
func (m *Manager) laneTo(node uint16) *lane {
	l := m.lanes[node]
	if l == nil {
		l = new(lane)
		m.lanes[node] = l
	}
	return l
}

// enter reports whether a sender may send a long message now. If not it has a turn later. Those
// before it have theirs first.
func (s *Sender) enter() bool {
	l := s.lane
	if l == nil {
		l = s.m.laneTo(s.peer.Node)
		s.lane = l
	}
	if s.hasTurn {
		return true
	}
	for l.free() && l.first < len(l.waiting) {
		next := l.pop()
		if next == s {
			return true
		}
		next.takeTurn()
	}
	if l.free() {
		return true
	}
	s.queue()
	return false
}

// entered notes that a sender has sent one. Its next turn is behind those of all others, however
// soon it has more to say.
func (s *Sender) entered() {
	s.hasTurn = false
	s.lane.out++
	s.m.onLanes = append(s.m.onLanes, onLane{at: s.m.iface.Committed(funi.Request), lane: s.lane})
	s.queue()
}

func (s *Sender) queue() {
	if !s.queued {
		s.queued = true
		s.lane.waiting = append(s.lane.waiting, s)
	}
}

func (l *lane) pop() *Sender {
	s := l.waiting[l.first]
	l.waiting[l.first] = nil
	if l.first++; 2*l.first >= len(l.waiting) {
		l.waiting = append(l.waiting[:0], l.waiting[l.first:]...)
		l.first = 0
	}
	s.queued = false
	return s
}

// takeTurn sends a message. A sender that has none, because its receiver's ring is full or nothing
// was written, loses its turn.
func (s *Sender) takeTurn() {
	if s.dropped {
		return
	}
	s.hasTurn = true
	if !s.turn() {
		s.m.await(&s.instance)
	}
	s.hasTurn = false
}

// clearLanes has those send that wait when what was sent is retired.
func (m *Manager) clearLanes(retired uint64) {
	n := 0
	for ; n < len(m.onLanes) && m.onLanes[n].at <= retired; n++ {
		l := m.onLanes[n].lane
		if m.onLanes[n].other {
			l.others-- // an instance that waits for that is in Manager.waiting
		} else {
			l.out--
		}
		for l.free() && l.first < len(l.waiting) {
			l.pop().takeTurn()
		}
	}
	if n > 0 {
		m.onLanes = append(m.onLanes[:0], m.onLanes[n:]...) // turns may have added some
	}
}

// free reports whether a stream may send a long message.
func (l *lane) free() bool { return l.out < laneMost && l.room() }

// room reports whether an instance that is no stream may send a long message.
func (l *lane) room() bool { return l.out+l.others < laneAll }

// sendAny is send for messages that may be long, of instances other than streams. It returns false
// also if too many are on their way to the node.
func (i *instance) sendAny(t Ticket, data []byte, metadata []uint32) bool {
	if len(data)+len(metadata)*arctic.WordSize <= arctic.MaxRemoteBytes {
		return i.send(t, 0, data, metadata, true)
	}
	l := i.m.laneTo(t.Node)
	if !l.room() || !i.send(t, 0, data, metadata, true) {
		return false
	}
	l.others++
	i.m.onLanes = append(i.m.onLanes, onLane{at: i.m.iface.Committed(funi.Request), lane: l, other: true})
	return true
}
