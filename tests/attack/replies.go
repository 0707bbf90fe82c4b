package attack

// This file floods the reply level, which goes before the request level everywhere. It sends
// replies without a request to nodes on both hosts, which read them all.

import "github.com/funet/funet/uspace/funi"

// replyBurst is the number of replies that a context sends in a round.
const replyBurst = 32

func replies() Attack {
	return Attack{
		Name: "replies", Does: "replies without end on the level that goes first",
		Groups: 1, Contexts: 4, slots: 256,
		round: (*player).floodReplies,
	}
}

// floodReplies has each context read what arrived, and send a burst to the next node.
func (p *player) floodReplies() (sent int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.receive(funi.Reply, 4*replyBurst)
		sent += s.send(funi.Reply, uint16(s.next%(2*p.Contexts)), replyBurst)
		s.next++
	}
	return sent
}
