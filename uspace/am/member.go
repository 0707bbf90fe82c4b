package am

// This file is the membership of a job whose nodes may die and be started again (funet run
// --restart): who is there, in which life, and which messages are of a life that is over. Failed
// nodes are noticed, told of and left behind as in User-Level Failure Mitigation of MPI (Bland et
// al. 2013); that a node comes back under its number is ours.
//
// The journey of a node that dies: a message to it comes back, the program's or a heartbeat
// (announce.go), and the node has left. Then calls to it fail, sends to it are refused, collective
// calls end with ErrLeft, and the program gets the event Left. Its next life says hello to all
// nodes. Each that hears it takes it for a member again, gives the program the event Joined and
// answers, and from then on the two exchange messages. When the program has done what it must it
// calls Agree (agree.go), and collective calls work again.
//
// A message tells the life that it is from and the life that it is for, 5 bits of each (lives
// below). One for an earlier life does not run, and its sender gets it back as Undelivered with
// arctic.ReasonReplaced. One from an earlier life does not run either: what a node sent before it
// left and what it sends after it joined are never mixed. One of a life that is not known yet makes
// the events first. Messages for objects and segments, Get, Put and transfers tell no lives: a
// program that uses them agrees on new addresses before it does so again.
//
// The others may take a node that lives for dead, because the network to it failed for a while.
// That node hears so from the first node that it sends anything to. It ends with ErrExpelled: the
// others have left it behind.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Errors of jobs whose nodes may die.
var (
	// ErrLeft: the node has left the job, and has not joined it again; of a collective call: some
	// node has left or joined since the last Agree.
	ErrLeft = errors.New("am: a node has left the job")
	// ErrExpelled: the others hold this node to be dead, and go on without it.
	ErrExpelled = errors.New("am: the others have given this node up; it has to be started again")
	// ErrRejoin: lives are 0 to MaxLife, told once before anything else is called, on real cards;
	// and all nodes of the job ask for Rejoin, or none.
	ErrRejoin = errors.New("am: Rejoin comes before all other calls, on every node of the job, with a life that is not negative; modelled machines have no lives")
)

// MaxLife is the highest number of a life.
const MaxLife = 1<<31 - 1

// EventKind says what has happened to a node.
type EventKind uint8

// The events.
const (
	// Left: the node has died, or has closed its endpoint. What was sent to it and not handled is
	// lost or comes back.
	Left EventKind = iota
	// Joined: a process has become the node, and can be sent to.
	Joined
)

// String returns "left" or "joined".
func (k EventKind) String() string {
	if k == Joined {
		return "joined"
	}
	return "left"
}

// Event is a change of the job's membership.
type Event struct {
	Kind EventKind
	Node int
	Life int // of the process that has left or joined: how many were the node before it
}

// String says what happened.
func (v Event) String() string {
	return fmt.Sprintf("node %d (life %d) has %v", v.Node, v.Life, v.Kind)
}

// RejoinOptions say which life of its node a process is.
type RejoinOptions struct {
	// Life is how many processes were the node before this one (attach.Config.Life): 0 to MaxLife,
	// and more than that of each of them.
	Life int
	// Now returns the time in nanoseconds from any beginning, for heartbeats.
	Now func() int64
	// Event is called for each change, in the order in which this node learns of them, and before
	// any message of the new life is handled. It runs as a reply handler does: it may send nothing.
	// nil: nobody wants to know.
	Event func(Event)
}

// presence is whether a node is there.
type presence uint8

const (
	present presence = iota
	left
	unheard // a later life has said hello to it, and has no answer yet
)

// member is the state of a node's membership.
type member struct {
	o      RejoinOptions
	nodes  []peer
	absent int // nodes that are not present
	// view is a digest of the lives of all nodes: equal views are equal lives, but for a chance of
	// 2^-64.
	view uint64
	// changed is set when a node leaves or joins, and cleared by Agree.
	changed bool
	// ended is set when a node leaves that has said so. It has done its part of the calls that
	// others may still be in, so these go on, and no other begins before Agree.
	ended bool
	stale staleCount

	announcements []announcement
	nextBeat      int64
	polls         uint32 // to the next look at the clock
	suspects      []uint16
	agree         agreement
}

// peer holds what is known of a node.
type peer struct {
	life  uint32
	state presence
	// heard: the node has said or answered hello since this process began, or this is a first life.
	heard bool
	rough bool // only the lower bits of life are known
	// leaving: it has said that it ends; it has left when its context has, and all that it had sent
	// has come.
	leaving bool
	suspect bool // a message without a life has come back, and the node is to be asked
}

// staleCount is messages that came too late for their receiver's life, not yet reported.
type staleCount struct {
	first Undelivered
	count int
}

// Bits of a message's first word: the receiver's life and the sender's. Both are 0 in jobs without
// Rejoin.
const (
	lifeBits      = 5
	lifeMask      = 1<<lifeBits - 1
	receiverShift = 10
	senderShift   = 32 - lifeBits
	lives         = lifeMask<<receiverShift | lifeMask<<senderShift
)

// What a typeMember is for, in its first word beside the lives.
const (
	memberHello   = iota // request of a later life
	memberBack           // reply to it
	memberRefused        // reply to it of a node that knows no lives
	memberLeave          // request: the sender ends
	memberGone           // request: node; its life: it has died
	memberBeat           // request without meaning
	memberStale          // reply: first word and type of a message for an earlier life
	memberFence          // reply to a message of a node that has left
	memberReady          // request to node 0: see agree.go
	memberGo             // request of node 0
	memberWhat    = 0xff
	// A memberReady has a number there, for the network may change the order.
	readyShift = 15
	readyMask  = 1<<12 - 1
)

// Rejoin makes the endpoint a member of a job whose nodes may die and join again. Every node of the
// job calls it once, before it sends or polls. Without it the endpoint knows nothing of lives, and
// a node that dies stays away. ErrRejoin: the options are wrong, it was called before, or the
// machine is modelled; a call that polls returns it in a later life when another node has not asked
// for Rejoin.
//
// Events begin with the process: a later life is told only who leaves and joins from then on, and
// of nodes that do not answer it, which have left for it.
//
// Then calls behave like this. A send to a node that has left returns ErrLeft at once, until the
// node has joined. In a later life the first send to a node waits until that has answered. Messages
// for a life that is over come back as Undelivered. Barrier, Broadcast and reductions return
// ErrLeft from the first event on, and in a later life from the start, until Agree. What was
// promised holds: a message whose send returned nil is in the receive queue of the life that it was
// sent to, or comes back; what a process had in its queue and had not handled dies with it.
//
// A node that polls sends the next one a heartbeat each 100 ms, and tells all others when it has
// died. A node that said that it ends (Leave) has left at once; what it had sent before is handled
// also when it arrives after the event. Any context.
func (e *Endpoint) Rejoin(o RejoinOptions) error {
	if o.Life < 0 || o.Life > MaxLife || o.Now == nil || e.member != nil || e.cpu != nil {
		return fmt.Errorf("life %d of node %d: %w", o.Life, e.node, ErrRejoin)
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	m := &member{o: o, nodes: make([]peer, e.nodes)}
	e.member = m
	m.polls, m.nextBeat = beatLook, o.Now()+beatEvery
	for i := range m.nodes {
		m.nodes[i].heard = o.Life == 0
		m.view ^= m.digest(i)
	}
	if o.Life == 0 {
		return nil
	}
	m.setLife(e.node, uint32(o.Life))
	m.changed = true
	for i := range m.nodes {
		if i != e.node {
			m.setState(i, unheard)
		}
	}
	m.nodes[e.node].heard = true
	m.announce(announcement{what: memberHello})
	return nil
}

// Life returns which life of a node is known: how many processes were the node before it. Any
// context.
func (e *Endpoint) Life(node int) int {
	if e.member == nil || uint(node) >= uint(e.nodes) {
		return 0
	}
	return int(e.member.nodes[node].life)
}

// Present reports whether a node can be sent to, as far as is known. Any context.
func (e *Endpoint) Present(node int) bool {
	return uint(node) < uint(e.nodes) && (e.member == nil ||
		e.member.nodes[node].state == present && !e.member.nodes[node].leaving)
}

// Heard reports whether a send to a node does not have to wait until that has answered a later
// life's hello. Any context.
func (e *Endpoint) Heard(node int) bool {
	return e.member == nil || uint(node) >= uint(e.nodes) || e.member.nodes[node].state != unheard
}

// Leave tells the others that this node ends, so that they need not find out. The program closes
// the card afterwards. It does nothing without Rejoin. Main program only. Errors are those of Poll.
func (e *Endpoint) Leave() error {
	if e.inHandler() {
		return fmt.Errorf("leaving: %w", ErrHandler)
	}
	m := e.member
	if m == nil {
		return nil
	}
	m.announcements = append(m.announcements[:0], announcement{what: memberLeave})
	return e.Wait(func() bool { e.announceAll(); return len(m.announcements) == 0 })
}

// digest returns what a node's life adds to the view (SplitMix64, Steele, Lea and Flood 2014).
func (m *member) digest(node int) uint64 {
	z := (uint64(node)<<32 | uint64(m.nodes[node].life)) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (m *member) setLife(node int, life uint32) {
	m.view ^= m.digest(node)
	m.nodes[node].life = life
	m.view ^= m.digest(node)
	m.agree.news = true
}

func (m *member) setState(node int, s presence) {
	p := &m.nodes[node]
	if p.state != present {
		m.absent--
	}
	if p.state = s; s != present {
		m.absent++
	}
	m.agree.news = true
}

// stamp returns the lives of a message to a node.
func (m *member) stamp(node int) uint32 {
	return m.nodes[node].life&lifeMask<<receiverShift | uint32(m.o.Life)<<senderShift
}

// stamped returns the first word of a message of a type that tells lives.
func (e *Endpoint) stamped(node int, typ uint16, first uint32) uint32 {
	if tellsLives(typ) {
		return e.stamp(node, first)
	}
	return first
}

// stamp adds the lives to a word.
func (e *Endpoint) stamp(node int, word uint32) uint32 {
	if e.member != nil {
		word |= e.member.stamp(node)
	}
	return word
}

// tellsLives reports whether the first word of a type has lives.
func tellsLives(typ uint16) bool {
	return typ == typeFour || typ == typeN || typ == typeBytes || typ == typeMember
}

// admit waits until a node can be sent to, and refuses one that has left.
func (e *Endpoint) admit(node int) error {
	m := e.member
	for m.nodes[node].state == unheard {
		if _, err := e.Poll(); err != nil {
			return err
		}
	}
	if m.nodes[node].state == left || m.nodes[node].leaving {
		return fmt.Errorf("sending to node %d: %w", node, ErrLeft)
	}
	return nil
}

// mayRun reports whether a message is of the lives that are now, of which a job without Rejoin
// knows one.
func (e *Endpoint) mayRun(m *Message, typ uint16, word uint32) bool {
	if e.member != nil {
		return e.current(m, typ, word)
	}
	if word&lives != 0 {
		e.unknown++
	}
	return word&lives == 0
}

// current reports whether a message is of the lives that are now, so that it may run, and notices a
// life that is new. It answers one that is not.
func (e *Endpoint) current(m *Message, typ uint16, word uint32) bool {
	k := e.member
	if m.Source >= e.nodes {
		return false
	}
	p := &k.nodes[m.Source]
	if uint32(k.o.Life)&lifeMask != word>>receiverShift&lifeMask {
		// whose caller has been told by hello
		if m.level == funi.Request && typ != typeMember && typ != typeCall && typ != typeReady {
			e.answerMember(m, memberStale, word, uint32(typ))
		}
		return false
	}
	ahead := (word>>senderShift - p.life) & lifeMask
	switch {
	case !p.heard: // it has heard this node's hello, and its answer comes
		e.helloAnswered(m.Source, word>>senderShift, true)
		return true
	case ahead == 0 && p.state == present:
		return true
	case ahead == 0:
		if m.level == funi.Request {
			e.answerMember(m, memberFence, p.life, 0)
		}
		return false
	case ahead > lifeMask/2:
		return false // of an earlier life
	}
	e.join(m.Source, p.life+ahead)
	return true
}

// answerMember replies with a message of the membership's own.
func (e *Endpoint) answerMember(m *Message, what, a, b uint32) {
	s, err := m.reserve(4)
	if err != nil {
		return // the endpoint ends
	}
	e.fillMember(s, m.Source, announcement{what: what, a: a, b: b})
	e.commit(funi.Reply, s)
}

// fillMember composes a message of the membership's own.
func (e *Endpoint) fillMember(s *funi.Slot, node int, n announcement) {
	s.SetHeader(funi.NewHeader(uint16(node), typeMember, 5))
	s[1], s[2], s[3], s[4], s[5] = n.what|e.member.stamp(node), uint32(e.member.o.Life), n.a, n.b, n.c
}

// memberArrived takes a message of the membership's own. Its words after the first: the sender's
// life, and three more.
func (e *Endpoint) memberArrived(m *Message, word uint32) {
	k := e.member
	what := word & memberWhat
	switch {
	case len(m.Words) != 4 || m.Source == e.node || m.Source >= e.nodes:
		e.unknown++
		return
	case k == nil && what == memberHello && m.level == funi.Request:
		if m.reply4(typeMember, memberRefused|m.Words[0]&lifeMask<<receiverShift, 0, 0, 0, 0) != nil {
			e.unknown++
		}
		return
	case k == nil:
		e.unknown++
		return
	case what == memberHello:
		e.hello(m, m.Words[0])
		return
	case what != memberBack && what != memberRefused && !e.current(m, typeMember, word):
		return
	case word>>receiverShift&lifeMask != uint32(k.o.Life)&lifeMask:
		return
	}
	p := &k.nodes[m.Source]
	switch what {
	case memberBack:
		e.helloAnswered(m.Source, m.Words[0], false)
	case memberRefused:
		e.fail(fmt.Errorf("node %d has not asked for it: %w", m.Source, ErrRejoin))
	case memberLeave:
		p.leaving = p.state == present
	case memberGone:
		if n := m.Words[1]; n < uint32(e.nodes) && int(n) != e.node && k.nodes[n].state == present &&
			k.nodes[n].life == m.Words[2] {
			e.depart(int(n))
		}
	case memberBeat:
	case memberStale:
		e.noteStale(m.Source, m.Words[1], uint16(m.Words[2]))
	case memberFence:
		if m.Words[1] == uint32(k.o.Life) {
			e.fail(fmt.Errorf("life %d of node %d: %w", k.o.Life, e.node, ErrExpelled))
		}
	case memberReady:
		e.ready(m, word>>readyShift&readyMask)
	case memberGo:
		e.agreed(m.Words[1], m.Words[2], m.Words[3])
	default:
		e.unknown++
	}
}

// hello notes a later life of a node, and answers it.
func (e *Endpoint) hello(m *Message, life uint32) {
	p := &e.member.nodes[m.Source]
	if life > MaxLife || life < p.life && p.state != unheard {
		return // of a life that is over
	}
	switch {
	case !p.heard || p.rough && (life-p.life)&lifeMask == 0: // it did not leave in this node's life
		e.helloAnswered(m.Source, life, false)
	case life != p.life || p.state != present:
		e.join(m.Source, life)
	}
	if m.level == funi.Request {
		e.answerMember(m, memberBack, 0, 0)
	}
}

// helloAnswered takes a node for a member that was there before this life, or could not be reached
// at its beginning. Of a rough life only the bits are known that a message tells; a word of the
// membership's own tells the rest.
func (e *Endpoint) helloAnswered(node int, life uint32, rough bool) {
	k := e.member
	p := &k.nodes[node]
	switch {
	case life > MaxLife:
		return
	case p.heard:
		if !p.rough || (life-p.life)&lifeMask != 0 {
			return
		}
		k.setLife(node, life)
	case p.state == left:
		e.join(node, life)
	default:
		p.heard = true
		k.setState(node, present)
		k.setLife(node, life)
	}
	p.rough = rough
}

// join makes a node a member again, in a later life.
func (e *Endpoint) join(node int, life uint32) {
	k := e.member
	if k.nodes[node].state == present {
		e.depart(node)
	}
	k.setLife(node, life)
	k.setState(node, present)
	p := &k.nodes[node]
	p.heard, p.rough, p.leaving = true, false, false
	k.changed = true
	e.endTogether(e.apart())
	e.event(Event{Joined, node, int(life)})
}

// depart notes that a node has left, and ends what waits for it.
func (e *Endpoint) depart(node int) {
	k := e.member
	p := &k.nodes[node]
	if p.state == left || node == e.node {
		return
	}
	p.suspect = false
	k.setState(node, left)
	k.changed, k.ended = k.changed || !p.leaving, k.ended || p.leaving
	k.agree.forget(node)
	why := fmt.Errorf("calling node %d: %w", node, ErrLeft)
	e.calls.failAll(why, func(c *call) bool { return int(c.node) == node })
	e.failCalls(why, func(c *remoteCall) bool { return int(c.node) == node })
	e.departBytes(node, why)
	e.departTagged(node, fmt.Errorf("messages of node %d: %w", node, ErrLeft))
	if k.changed {
		e.endTogether(e.apart())
	}
	e.event(Event{Left, node, int(p.life)})
}

// event tells the program, which may send nothing.
func (e *Endpoint) event(v Event) {
	before := e.depth[funi.Reply]
	e.depth[funi.Reply] = true
	e.member.o.Event(v)
	e.depth[funi.Reply] = before
}

// memberCameBack learns what it can from a message that came back. It reports whether it was one of
// the membership's own, of which the program need not know.
func (e *Endpoint) memberCameBack(r *funi.Returned) (own bool) {
	k := e.member
	own = r.Header.Type() == typeMember && !r.Header.Transfer()
	node := int(r.Header.Node())
	if k == nil || node >= e.nodes {
		return own
	}
	p := &k.nodes[node]
	switch {
	case own && !gone(r.Reason):
		k.repeat(node, r.Word&memberWhat)
	case !gone(r.Reason):
	case own && r.Word&memberWhat == memberHello:
		if p.state == unheard {
			e.depart(node) // its next life will say hello
		}
	case p.state != present:
		// It was for an earlier life, or one that is known to be over.
	case r.Header.Transfer() || !tellsLives(r.Header.Type()):
		k.suspect(node)
	case r.Word>>receiverShift&lifeMask != p.life&lifeMask: // likewise
	default:
		e.depart(node)
		if p.leaving {
			break // which it has told all
		}
		k.announce(announcement{what: memberGone, a: uint32(node), b: p.life})
	}
	return own
}

// noteStale counts a message for an earlier life.
func (e *Endpoint) noteStale(node int, word uint32, typ uint16) {
	s := &e.member.stale
	r := funi.Returned{Reason: arctic.ReasonReplaced, Level: funi.Request,
		Header: funi.NewHeader(uint16(node), typ&funi.MaxType, 1), Word: word}
	if s.count == 0 {
		s.first = *e.describe(&r)
	}
	s.count++
}

// take returns the error for the messages that were counted, or nil.
func (s *staleCount) take() error {
	if s.count == 0 {
		return nil
	}
	u := s.first
	u.Count, s.count = s.count, 0
	return &u
}
