package tokyo

// This file has the exchange of access IDs (section 3.1): to get another process's ID, a process
// has to provide its own. The exchange is a message of the request level with the asker's ID, and
// one of the reply level. The reply has the ID of the process asked, or none if that one refuses.

import (
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/rma"
)

const idWords = 2

// introduction is the introduction that this process waits for.
type introduction struct {
	node    uint16
	waiting bool
	err     error
}

// Introduce gives a node this process's access ID, and waits for the node's ID in return. For a
// known node it does nothing. Errors are ErrRefused, rma.ErrUnreachable, and those of drive.
func (p *Process) Introduce(node uint16) error {
	if p.ids[node] != 0 {
		return nil
	}
	p.asked = introduction{node: node, waiting: true}
	defer func() { p.asked = introduction{} }()
	lost := p.iface.ReturnsLost()
	err := p.ask(node)
	// it may introduce itself at the same time
	for err == nil && p.asked.waiting && p.ids[node] == 0 {
		if err = p.step(); err == nil {
			p.end.Poll()
		}
		// the introduction may be among them; another does no harm
		if now := p.iface.ReturnsLost(); err == nil && now != lost {
			lost, err = now, p.ask(node)
		}
	}
	if err == nil {
		err = p.asked.err
	}
	if err != nil {
		return fmt.Errorf("introducing this process to node %d: %w", node, err)
	}
	return nil
}

// ask sends this process's access ID.
func (p *Process) ask(node uint16) error {
	for {
		if s := p.iface.Reserve(funi.Request); s != nil {
			p.compose(s, node, true)
			p.iface.Commit(funi.Request)
			return nil
		}
		if err := p.step(); err != nil {
			return err
		}
	}
}

// Met notes a node's access ID that came by other means than an introduction.
func (p *Process) Met(node uint16, id AccessID) { p.ids[node] = id }

// Knows reports whether this process has a node's access ID.
func (p *Process) Knows(node uint16) bool { return p.ids[node] != 0 }

func (p *Process) compose(s *funi.Slot, node uint16, given bool) {
	words := 0
	if given {
		words = idWords
		s[funi.PayloadWord], s[funi.PayloadWord+1] = uint32(p.AccessID()), uint32(p.AccessID()>>32)
	}
	s.SetHeader(funi.NewHeader(node, p.options.Type, words))
}

// takeMessages takes the messages in the receive queues, replies first. A request stays there while
// there is no room for its answer. The program's own messages stay, too, if there is no
// Options.Others.
func (p *Process) takeMessages() {
	for _, l := range arctic.ByPriority {
		for s := p.iface.Receive(l); s != nil; s = p.iface.Receive(l) {
			h := s.Header()
			switch {
			case h.Transfer() || h.Type() != p.options.Type:
				if p.options.Others == nil {
					s = nil
				} else {
					p.options.Others(l, s)
				}
			case l == funi.Reply:
				p.answered(s)
			default:
				if !p.introduced(s) {
					s = nil
				}
			}
			if s == nil {
				break
			}
			p.iface.Release(l)
		}
	}
}

// read returns the access ID of an introduction, 0 if it has none.
func read(s *funi.Slot) AccessID {
	if s.Header().Length() != idWords {
		return 0
	}
	return AccessID(s[funi.PayloadWord]) | AccessID(s[funi.PayloadWord+1])<<32
}

// introduced answers a process that introduces itself. It returns false while there is no room.
func (p *Process) introduced(s *funi.Slot) bool {
	node, id := s.Source(), read(s)
	answer := p.iface.Reserve(funi.Reply)
	if answer == nil {
		return false
	}
	accepted := id != 0 && (p.options.Accept == nil || p.options.Accept(node))
	if accepted {
		p.ids[node] = id
	}
	p.compose(answer, node, accepted)
	p.iface.Commit(funi.Reply)
	return true
}

// answered takes the answer to this process's introduction. It drops an answer that the process
// does not wait for.
func (p *Process) answered(s *funi.Slot) {
	a := &p.asked
	if !a.waiting || s.Source() != a.node {
		return
	}
	a.waiting = false
	if id := read(s); id != 0 {
		p.ids[a.node] = id
	} else {
		a.err = ErrRefused
	}
}

// cameBack takes a message that could not be delivered.
func (p *Process) cameBack(r funi.Returned) {
	a := &p.asked
	switch {
	case r.Header.Transfer() || r.Header.Remote() || r.Header.Type() != p.options.Type:
		if p.options.Returned != nil {
			p.options.Returned(r)
		}
	case a.waiting && r.Level == funi.Request && r.Header.Node() == a.node:
		a.waiting, a.err = false, fmt.Errorf("%w: %v", rma.ErrUnreachable, r.Reason)
	}
}
