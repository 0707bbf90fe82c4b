package rats

// This file implements lanes. A lane is the way to a node, which the long messages of streams share
// in turns.
//
// The card carries out the requests of the send queue in order, so requests committed behind long
// messages wait for them. For that reason only a few are committed to a node at once, and streams
// with more to send queue here. Each sends one message in its turn, of up to longestMessage bytes.
// So streams share the way evenly, however long their rings are, and a short message waits for
// little. A node that does not answer occupies only that many of the card's records, and only until
// the card has copied the messages (engine/late.go).

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// laneAll is how many long messages to a node may be unretired, of streams and other instances
// together. The card has records for eight, of which one is left to messages to other nodes.
const laneAll = 7

// laneMost is how many long messages of streams to a node may be unretired. The card has the next
// one while it sends one, and a short message waits behind no more than these, 64 KiB. With four, a
// stream was no faster, and a short message waited 2.5 times as long.
const laneMost = 2

type lane struct {
	out     int       // long messages of streams that are not retired
	others  int       // unretired long messages of other instances
	waiting []*Sender // senders that wait or may have more, in the order of their turns
	first   int       // of waiting
	asking  int       // initial requests in flight (initial.go)
	askers  []*Inquiry
}

// onLane is a long message that was committed.
type onLane struct {
	at    uint64 // it is retired when the card has given back this many slots
	lane  *lane
	other bool // it is not of a stream
}

func (m *Manager) laneTo(node uint16) *lane {
	l := m.lanes[node]
	if l == nil {
		l = new(lane)
		m.lanes[node] = l
	}
	return l
}

// enter reports whether a sender may send a long message now. If not, it gets a turn later, after
// those ahead of it.
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

// entered records that a sender has sent a message. Its next turn comes after those of all others,
// no matter how soon it has more to send.
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

// takeTurn sends a message. A sender that has none to send, because its receiver's ring is full or
// nothing was written, loses its turn.
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

// clearLanes lets waiting senders send when earlier messages are retired.
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

// room reports whether an instance other than a stream may send a long message.
func (l *lane) room() bool { return l.out+l.others < laneAll }

// sendAny is send for messages that may be long, of instances other than streams. It returns false
// also if too many are in flight to the node.
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
