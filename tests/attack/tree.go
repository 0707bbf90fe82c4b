package attack

// This file sends multicasts from every context along one tree of all contexts of both hosts. For
// each copy a member's card must deliver, send on and report.

import "github.com/funet/funet/uspace/funi"

const (
	// treeContexts is the number of members on a host.
	treeContexts = 32
	// treeDegree is the number of members that follow each member.
	treeDegree = 2
	// treeBurst is the number of multicasts that a context begins in a round.
	treeBurst = 4
)

func tree() Attack {
	return Attack{
		Name: "tree_64", Does: "multicasts of all members of a tree of 64",
		Groups: 1, Contexts: treeContexts, slots: 64, segment: pageBytes, remote: remoteSizes,
		seated: (*player).joinTree,
		round:  (*player).multicast,
	}
}

// below returns the number of members of the subtree that begins at a node.
func below(node int) (n int) {
	if node >= 2*treeContexts {
		return 0
	}
	n = 1
	for i := 1; i <= treeDegree; i++ {
		n += below(treeDegree*node + i)
	}
	return n
}

func (p *player) joinTree(s *seat) error {
	node := int(s.node)
	c := funi.Chain{First: node == 0, Parent: uint16((max(node, 1) - 1) / treeDegree)}
	for i := 1; i <= treeDegree; i++ {
		if next := treeDegree*node + i; below(next) > 0 {
			c.Next = append(c.Next, funi.Next{Node: uint16(next), Members: uint16(below(next))})
		}
	}
	s.commit(func(w *funi.Slot) { w.SetChain(&c, 0) })
	return nil
}

// multicast has each context read what arrived, and begin a burst of multicasts.
func (p *player) multicast() (sent int) {
	for _, s := range p.seats {
		if s.k == nil {
			continue
		}
		s.forget()
		s.receive(funi.Request, p.slots)
		for range treeBurst {
			if !s.commit(func(w *funi.Slot) {
				w.SetMulticast(0, &funi.MulticastRequest{Members: 2 * treeContexts, Message: messageType,
					Data: make([]byte, 16)})
			}) {
				break
			}
			sent++
		}
	}
	return sent
}
