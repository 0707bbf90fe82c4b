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
func (k *member) announce(n announcement) { k.announcements = append(k.announcements, n) }

// repeat tells a node again if the announcement came back for a reason other than its death.
func (k *member) repeat(node int, what uint32) {
	switch what {
	case memberHello:
		k.announce(announcement{what: what, only: true, next: node})
	case memberReady:
		k.agree.told = false
	case memberGo:
		k.announce(announcement{what: what, a: k.agree.base, b: uint32(k.agree.view), c: uint32(k.agree.view >> 32),
			only: true, next: node})
	}
}

// suspect queues the question whether a node is alive.
func (k *member) suspect(node int) {
	if p := &k.peers[node]; p.state == present && !p.suspect {
		p.suspect = true
		k.suspects = append(k.suspects, uint16(node))
	}
}

// tend sends the announcements that are due. It returns the errors of the node's own messages, or
// of the node itself.
func (k *member) tend() error {
	k.announceAll()
	for len(k.suspects) > 0 {
		node := int(k.suspects[0])
		if k.peers[node].state == present && !k.tell(node, announcement{what: memberBeat}) {
			break
		}
		k.peers[node].suspect = false
		k.suspects = append(k.suspects[:0], k.suspects[1:]...)
	}
	if k.polls--; k.polls == 0 {
		k.polls = beatLook
		k.beat()
	}
	return k.stale.take()
}

// still reports whether tend has nothing to do before the next heartbeat.
func (k *member) still() bool {
	return len(k.announcements) == 0 && len(k.suspects) == 0 && k.stale.count == 0
}

// announceAll sends announcements until the queue is full.
func (k *member) announceAll() {
	for len(k.announcements) > 0 {
		n := &k.announcements[0]
		for ; n.next < k.nodes; n.next++ {
			if n.next != k.node && (k.peers[n.next].state == present || n.what == memberHello) && !k.tell(n.next, *n) {
				return
			}
			if n.only {
				break
			}
		}
		k.announcements = append(k.announcements[:0], k.announcements[1:]...)
	}
}

// tell sends a membership message. It returns false, and sends nothing, if the queue is full.
func (k *member) tell(node int, n announcement) bool {
	s := k.iface.Reserve(funi.Request)
	if s == nil {
		return false
	}
	k.fill(s, node, n)
	k.commit(funi.Request, s)
	return true
}

// beat sends a heartbeat when it is due.
func (k *member) beat() {
	now := k.o.Now()
	if now < k.nextBeat {
		return
	}
	for i := 1; i < k.nodes; i++ {
		next := (k.node + i) % k.nodes
		if k.peers[next].state == present {
			if !k.tell(next, announcement{what: memberBeat}) {
				return // the next look tries again
			}
			break
		}
	}
	for node := range k.peers {
		p := &k.peers[node]
		// Some were dead when this life said hello, or had not come yet.
		if !p.heard && !k.tell(node, announcement{what: memberHello}) {
			return
		}
		// has it left by now?
		if p.leaving && p.state == present && !k.tell(node, announcement{what: memberBeat}) {
			return
		}
	}
	k.nextBeat = now + beatEvery
}
