package daemon

// This file is what daemons tell each other, as the operating systems of their hosts: messages of
// the system group (thesis 3.3.2), whose node n is the daemon of card n. They travel as those of
// processes do, so they arrive once or come back, and where two hosts have a key they are sealed
// with it. No process can send such a message: frames of processes have the GIDs of their jobs.
//
// The daemon's context is in memory of its own, and the card's thread is its process. Bounds: the
// send queue has postSlots; where it is full the sender tries again for a while, or gives up. What
// has arrived waits for one goroutine, and what finds its queue full is lost. Both are counted, and
// nobody relies on a notice (fate.go).

import (
	"fmt"
	"sync/atomic"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/cluster"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

const (
	postSlots = 256
	// collectAtOnce is how many notices are taken after a step, and mostHeard how many wait.
	collectAtOnce = 16
	mostHeard     = 1024
	// silentHost is after how many hellos without an answer a host is told nothing: what waits for
	// it would take the room of others.
	silentHost = 2
)

// noticeKind is what a notice says, and the type of its packet.
type noticeKind uint16

// The messages; others are refused.
const (
	saysEnded noticeKind = 1 + iota // the process of the node, which is on the sender's host
	saysLives                       // the same
	// a question: is the process of the node, on the receiver's host, that one?
	asksLife
)

// notice is about the process of a node of a direct job, which the incarnation of its card names.
// In words:
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

// put composes the notice for a card.
func (n *notice) put(s *funi.Slot, card uint16) {
	s.SetHeader(funi.NewHeader(card, uint16(n.kind), noticeWords))
	w := s.Payload()
	w[0], w[1], w[2] = uint32(n.gid)<<16|uint32(n.node), uint32(n.tag), uint32(n.tag>>32)
	w[3], w[4], w[5] = n.life, uint32(n.order), uint32(n.order>>32)
}

// noticeOf reads one, and reports whether it is one. Any slot may be given.
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

// heardNotice is one that the daemon of a card has sent.
type heardNotice struct {
	notice
	from uint16
}

// NoticeCounters count notices between daemons since the start.
type NoticeCounters struct {
	Sent     uint64 `json:"told"`
	Returned uint64 `json:"returned"` // of those, that did not arrive
	Heard    uint64 `json:"heard"`
	Strange  uint64 `json:"strange"` // of those, about jobs that are not here, or not any more
	Late     uint64 `json:"late"`    // of those, older than what was known
	// of those, about processes that the sender has no say about, or no notices at all
	Refused uint64 `json:"refused"`
	// lost for want of room or time, to send, to take or to tell; or not sent to a host that is
	// silent
	Unheard  uint64 `json:"unheard"`
	Doubtful uint64 `json:"doubtful"` // that processes of this host have asked for
}

// post is the daemon's context. What is not atomic belongs to the card's thread.
type post struct {
	iface *funi.Interface
	heard chan heardNotice

	sent, returned, arrived, strange, late, refused, unheard, doubtful atomic.Uint64
}

// newPost attaches the daemon's context to its card, which is new, and tells it where the daemons
// are.
func newPost(card *engine.Card, own uint16, peers *cluster.File) (*post, error) {
	p := &post{heard: make(chan heardNotice, mostHeard)}
	return p, p.attach(card, own, peers)
}

// attach does so with another card.
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

// routeDaemons tells the card where the daemons are. The card knows the peers.
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

// send sends a notice to cards until there is no room, and returns to how many of them it need not
// be sent any more.
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

// collect takes what has arrived, and reports whether there is more.
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
func (p *post) counters() *NoticeCounters {
	if p == nil {
		return nil
	}
	return &NoticeCounters{Sent: p.sent.Load(), Returned: p.returned.Load(), Heard: p.arrived.Load(),
		Strange: p.strange.Load(), Late: p.late.Load(), Refused: p.refused.Load(),
		Unheard: p.unheard.Load(), Doubtful: p.doubtful.Load()}
}
