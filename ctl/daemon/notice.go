package daemon

// This file sends notices between daemons, which act as the operating systems of their hosts. A
// notice is a message of the system group (thesis 3.3.2), whose node n is the daemon of card n.
// Notices travel as the messages of processes do. So they arrive once or come back, and where two
// hosts have a key they are sealed with it. No process can send a notice: frames of processes have
// the GIDs of their jobs.
//
// The daemon's context is in memory of its own, and the card's thread is its process. Two queues
// bound it. The send queue has postSlots; when it is full the sender tries again for a while, or
// gives up. Notices that have arrived wait for one goroutine; those that find its queue full are
// lost. Both are counted, and nothing relies on a notice (fate.go).

import (
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	postSlots = 256
	// collectAtOnce is how many notices are taken after a step, and mostHeard how many may wait.
	collectAtOnce = 16
	mostHeard     = 1024
	// silentHost is the number of hellos without an answer after which a host is sent no notices:
	// they would take up room that others need.
	silentHost = 2
)

// noticeKind is the kind of a notice, and the type of its packet.
type noticeKind uint16

// The kinds of notices; others are refused.
const (
	saysEnded noticeKind = 1 + iota // the process of the node, which is on the sender's host
	saysLives                       // likewise: the process lives
	// asksLife asks whether the process of the node, on the receiver's host, is still that one.
	asksLife
)

// notice is about the process of a node of a direct job. It names the process by the incarnation of
// its card. In words:
//
//	word 0  GID 31:16, node 15:0   words 1, 2  tag of the job   word 3 incarnation words 4, 5
//	                                                            order: greater in later notices
//	                                                            about the node
type notice struct {
	kind      noticeKind
	gid, node uint16
	tag       uint64
	life      uint32
	order     uint64
}

const noticeWords = 6

// noticeOfFate is the notice of the fate of a process of a job.
func noticeOfFate(j *job, f attach.Fate) *notice {
	kind := saysEnded
	if f.Lives {
		kind = saysLives
	}
	return &notice{kind, j.gid, f.Node, j.tag, f.Life, f.Order}
}

// fate is what a notice of saysEnded or saysLives says.
func (n *notice) fate() attach.Fate {
	return attach.Fate{Node: n.node, Lives: n.kind == saysLives, Life: n.life, Order: n.order}
}

func (n *notice) put(s *funi.Slot, card uint16) {
	s.SetHeader(funi.NewHeader(card, uint16(n.kind), noticeWords))
	w := s.Payload()
	w[0], w[1], w[2] = uint32(n.gid)<<16|uint32(n.node), uint32(n.tag), uint32(n.tag>>32)
	w[3], w[4], w[5] = n.life, uint32(n.order), uint32(n.order>>32)
}

// noticeOf reads a notice from any slot, and reports whether it is valid.
func noticeOf(s *funi.Slot) (n notice, ok bool) {
	h := s.Header()
	if !h.Plain() || h.Length() != noticeWords {
		return n, false
	}
	w := s.Payload()
	n = notice{kind: noticeKind(h.Type()), gid: uint16(w[0] >> 16), node: uint16(w[0]),
		tag: uint64(w[2])<<32 | uint64(w[1]), life: w[3], order: uint64(w[5])<<32 | uint64(w[4])}
	return n, n.kind >= saysEnded && n.kind <= asksLife && n.gid != 0 && n.gid <= arctic.MaxGID && n.life != 0
}

// heardNotice is a notice with the card whose daemon sent it.
type heardNotice struct {
	notice
	from uint16
}

// post is the daemon's context on its card. Fields that are not atomic belong to the card's thread.
type post struct {
	iface *funi.Interface
	heard chan heardNotice

	sent, returned, arrived, strange, late, refused, unheard, doubtful atomic.Uint64
}

// attach attaches the daemon's context to a new card, and gives the card routes to the daemons.
func (p *post) attach(card *engine.Card, own uint16, peers *cluster.File) error {
	memory, err := funi.NewMemory(postSlots)
	if err == nil {
		p.iface, err = funi.Initialize(memory)
	}
	if err == nil {
		err = routeDaemons(card, own, peers)
	}
	if err == nil {
		_, err = card.Attach(memory, engine.SystemGroup, own, arctic.JobTag(nil, engine.SystemGroup))
	}
	if err != nil {
		return fmt.Errorf("attaching the daemon to its card: %w", err)
	}
	return nil
}

// routeDaemons gives the card the routes to the daemons. The card already knows the peers.
func routeDaemons(card *engine.Card, own uint16, peers *cluster.File) error {
	routes := make([]uint32, max(len(peers.Peers), int(own)+1))
	for i := range routes {
		routes[i] = engine.NoRoute
		if present(peers, i) != nil || i == int(own) {
			routes[i] = uint32(i)
		}
	}
	return card.SetGroupRoutes(engine.SystemGroup, routes)
}

// send sends a notice to cards until there is no room. It returns how many cards are done with; a
// silent host is done with, too.
func (l *loop) send(n *notice, cards []uint16) int {
	for i, card := range cards {
		if q, ok := l.hello.Peer(card); !ok || q.Silent >= silentHost {
			l.post.unheard.Add(1)
			continue
		}
		s := l.post.iface.Reserve(funi.Request)
		if s == nil {
			return i
		}
		n.put(s, card)
		l.post.iface.Commit(funi.Request)
		l.post.sent.Add(1)
	}
	return len(cards)
}

// collect takes arrived notices, and reports whether there are more.
func (p *post) collect() bool {
	for range collectAtOnce {
		s := p.iface.Receive(funi.Request)
		if s == nil {
			break
		}
		n, ok := noticeOf(s)
		from := s.Source()
		p.iface.Release(funi.Request)
		p.arrived.Add(1)
		if !ok {
			p.refused.Add(1)
			continue
		}
		select {
		case p.heard <- heardNotice{n, from}:
		default:
			p.unheard.Add(1)
		}
	}
	for p.iface.Receive(funi.Reply) != nil { // nobody sends any
		p.iface.Release(funi.Reply)
		p.refused.Add(1)
	}
	for p.iface.Returns() {
		_, _ = p.iface.NextReturn()
		p.returned.Add(1)
	}
	return !p.iface.SeemsEmpty(funi.Request)
}

// counters returns the totals; nil without a post.
func (p *post) counters() *report.NoticeCounters {
	if p == nil {
		return nil
	}
	return &report.NoticeCounters{Sent: p.sent.Load(), Returned: p.returned.Load(), Heard: p.arrived.Load(),
		Strange: p.strange.Load(), Late: p.late.Load(), Refused: p.refused.Load(),
		Unheard: p.unheard.Load(), Doubtful: p.doubtful.Load()}
}
