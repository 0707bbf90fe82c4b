package am

// This file sends the announcements of a member: hello, deaths, and heartbeats. The end of each
// Poll sends as many as the send queue takes without waiting, so that they do not hold up the
// program.
//
// Each node that polls sends a heartbeat to the next present node, in a ring, each beatEvery. If
// that node is dead the heartbeat comes back, and the sender tells all other nodes. So the job
// learns of a death within some beats even if no messages went to the dead node. The cost is one
// message for each beat and node. A node that computes and does not poll is late but not dead, and
// its card takes heartbeats for it.
//
// The limit is one announcement of each kind for each node, because a node dies once a life.

import "github.com/funet/funet/uspace/funi"

const (
	beatEvery = 100_000_000 // nanoseconds
	// beatLook is how many polls pass between two looks at the clock.
	beatLook = 16
)

// announcement is a message to all nodes that are present, or to one.
type announcement struct {
	what    uint32
	a, b, c uint32
	only    bool
	next    int // the next node to tell; all before it have been told
}

// announce queues an announcement for all nodes.
func (m *member) announce(n announcement) { m.announcements = append(m.announcements, n) }

// repeat tells a node again if the announcement came back for a reason other than its death.
func (m *member) repeat(node int, what uint32) {
	switch what {
	case memberHello:
		m.announce(announcement{what: what, only: true, next: node})
	case memberReady:
		m.agree.told = false
	case memberGo:
		m.announce(announcement{what: what, a: m.agree.base, b: uint32(m.agree.view), c: uint32(m.agree.view >> 32),
			only: true, next: node})
	}
}

// suspect queues the question whether a node is alive.
func (m *member) suspect(node int) {
	if p := &m.nodes[node]; p.state == present && !p.suspect {
		p.suspect = true
		m.suspects = append(m.suspects, uint16(node))
	}
}

// tend sends the announcements that are due. It returns the errors of the node's own messages, or
// of the node itself.
func (e *Endpoint) tend() error {
	m := e.member
	e.announceAll()
	for len(m.suspects) > 0 {
		node := int(m.suspects[0])
		if m.nodes[node].state == present && !e.tell(node, announcement{what: memberBeat}) {
			break
		}
		m.nodes[node].suspect = false
		m.suspects = append(m.suspects[:0], m.suspects[1:]...)
	}
	if m.polls--; m.polls == 0 {
		m.polls = beatLook
		e.beat()
	}
	return m.stale.take()
}

// announceAll sends announcements until the queue is full.
func (e *Endpoint) announceAll() {
	m := e.member
	for len(m.announcements) > 0 {
		n := &m.announcements[0]
		for ; n.next < e.nodes; n.next++ {
			if n.next != e.node && (m.nodes[n.next].state == present || n.what == memberHello) && !e.tell(n.next, *n) {
				return
			}
			if n.only {
				break
			}
		}
		m.announcements = append(m.announcements[:0], m.announcements[1:]...)
	}
}

// tell sends a membership message. It returns false, and sends nothing, if the queue is full.
func (e *Endpoint) tell(node int, n announcement) bool {
	s := e.iface.Reserve(funi.Request)
	if s == nil {
		return false
	}
	e.fillMember(s, node, n)
	e.commit(funi.Request, s)
	return true
}

// beat sends a heartbeat when it is due.
func (e *Endpoint) beat() {
	m := e.member
	now := m.o.Now()
	if now < m.nextBeat {
		return
	}
	for i := 1; i < e.nodes; i++ {
		next := (e.node + i) % e.nodes
		if m.nodes[next].state == present {
			if !e.tell(next, announcement{what: memberBeat}) {
				return // the next look tries again
			}
			break
		}
	}
	for node := range m.nodes {
		p := &m.nodes[node]
		// Some were dead when this life said hello, or had not come yet.
		if !p.heard && !e.tell(node, announcement{what: memberHello}) {
			return
		}
		// has it left by now?
		if p.leaving && p.state == present && !e.tell(node, announcement{what: memberBeat}) {
			return
		}
	}
	m.nextBeat = now + beatEvery
}
