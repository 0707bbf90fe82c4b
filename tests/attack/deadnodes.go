package attack

// This file sends messages that cannot be delivered now, but perhaps later, so the card tries them
// again and again. Half of them go to nodes of the group that are expected and never attach. The
// other half go to contexts that are attached and never read.

import "github.com/funet/funet/uspace/funi"

// deadTargets is the number of nodes on each host that never attach.
const deadTargets = 16

func deadNodes(name string, contexts int) Attack {
	return Attack{
		Name: name, Does: "messages to nodes that never attached, and to nodes that never read",
		Groups: 1, Contexts: contexts, Dead: deadTargets, Waits: true, slots: 256,
		round: (*player).sendToDead,
	}
}

// sendToDead sends two messages of each context: to the next target of each kind.
func (p *player) sendToDead() (sent int) {
	attached := 2 * p.Contexts
	for i, s := range p.seats {
		if s.k == nil {
			continue
		}
		n := s.next + i
		sent += s.send(funi.Request, uint16(attached+n%(2*p.Dead)), 1)
		sent += s.send(funi.Request, uint16(n%attached), 1)
		s.next++
	}
	return sent
}
