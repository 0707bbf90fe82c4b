package am

// This file implements the membership of a job whose nodes may die and be started again (funet run
// --restart). It knows which nodes are present, in which life, and which messages belong to a past
// life. Failures are detected, announced and left behind as in User-Level Failure Mitigation of MPI
// (Bland et al. 2013). New here is that a node returns under its number.
//
// The journey of a node that dies: a message to it comes back, from the program or a heartbeat
// (announce.go), and the node has left. Then calls to it fail, sends to it are refused, collective
// calls end with ErrLeft, and the program gets the event Left. The node's next life says hello to
// all nodes. Each node that hears it makes it a member again, gives the program the event Joined,
// and answers. From then on the two exchange messages. When the program is ready it calls Agree
// (agree.go), and collective calls work again.
//
// A message carries the lives of its sender and of its receiver, 5 bits of each (lives below). A
// message for an earlier life does not run, and its sender gets it back as Undelivered with
// arctic.ReasonReplaced. A message from an earlier life does not run either, so messages from
// before a node left and from after it joined are never mixed. A message of a life that is not
// known yet first makes the events. Messages for objects and segments, Get, Put and transfers carry
// no lives. A program that uses them agrees on new addresses before it uses them again.
//
// If the network fails for a while, the others may take a live node for dead. That node learns of
// it from the first node that it sends anything to, and ends with ErrExpelled, since the others
// have left it behind.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

// Errors of jobs whose nodes may die.
var (
	// ErrLeft reports that the node has left the job, and has not joined it again. From a
	// collective call it reports that some node has left or joined since the last Agree.
	ErrLeft = errors.New("am: a node has left the job")
	// ErrExpelled reports that the others consider this node dead, and go on without it.
	ErrExpelled = errors.New("am: the others have given this node up; it has to be started again")
	// ErrRejoin reports a wrong use of Rejoin. Lives are 0 to MaxLife. Rejoin is called once,
	// before anything else, on real cards only, and by all nodes of the job or by none.
	ErrRejoin = errors.New("am: Rejoin comes before all other calls, on every node of the job, with a life that is not negative; modelled machines have no lives")
)

// MaxLife is the highest number that a life may have.
const MaxLife = 1<<31 - 1

// EventKind says what has happened to a node.
type EventKind uint8

// The kinds of events.
const (
	// Left says that the node has died, or has closed its endpoint. Messages to it that were not
	// handled are lost or come back.
	Left EventKind = iota
	// Joined says that a new process has become the node, and that messages can be sent to it.
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
	Life int // how many processes were the node before the one that left or joined
}

// String says what happened.
func (v Event) String() string {
	return fmt.Sprintf("node %d (life %d) has %v", v.Node, v.Life, v.Kind)
}

// RejoinOptions say which life of its node a process is.
type RejoinOptions struct {
	// Life is how many processes were the node before this one (attach.Config.Life): 0 to MaxLife,
	// and larger than the Life of each of them.
	Life int
	// Now returns the time in nanoseconds from any origin, for heartbeats.
	Now func() int64
	// Event is called for each change, in the order in which this node learns of them, and before
	// any message of the new life is handled. It runs under the rules of a reply handler: it may
	// send nothing. nil: changes are not reported.
	Event func(Event)
}

// presence says whether a node is present.
type presence uint8

const (
	present presence = iota
	left
	unheard // a later life has sent it a hello, not answered yet
)

// member is the state of a node's membership.
type member struct {
	*core
	o      RejoinOptions
	peers  []peer
	absent int // nodes that are not present
	// view is a digest of the lives of all nodes. Equal views mean equal lives, except with a
	// probability of 2^-64.
	view uint64
	// changed is set when a node leaves or joins, and cleared by Agree.
	changed bool
	// ended is set when a node leaves after it has announced that. It has done its part of the
	// calls that others may still be in. So these calls continue, and no other begins before Agree.
	ended bool
	stale staleCount

	announcements []announcement
	nextBeat      int64
	polls         uint32 // until the next look at the clock
	suspects      []uint16
	agree         agreement
}

// peer is the state of another node.
type peer struct {
	life  uint32
	state presence
	// heard: the node has said or answered hello since this process began, or this is its first
	// life.
	heard bool
	rough bool // only the lower bits of life are known
	// leaving: the node has said that it ends. It has left when its context has, and when all that
	// it had sent has arrived.
	leaving bool
	suspect bool // a message without a life has come back; the node is to be probed
}

// staleCount counts the messages that were late for their receiver's life and not reported yet.
type staleCount struct {
	first Undelivered
	count int
}

// Fields of a message's first word: the receiver's life and the sender's. Both are 0 in jobs
// without Rejoin.
const (
	lifeBits      = 5
	lifeMask      = 1<<lifeBits - 1
	receiverShift = 10
	senderShift   = 32 - lifeBits
	lives         = lifeMask<<receiverShift | lifeMask<<senderShift
)

// The purpose of a typeMember, in its first word beside the lives.
const (
	memberHello   = iota // request of a later life
	memberBack           // reply to it
	memberRefused        // reply to it from a node without Rejoin
	memberLeave          // request: the sender ends
	memberGone           // request: node, and its life: it has died
	memberBeat           // request: a heartbeat or a probe
	memberStale          // reply: first word and type of a message for an earlier life
	memberFence          // reply to a message of a node that has left
	memberReady          // request to node 0: see agree.go
	memberGo             // request of node 0
	memberWhat    = 0xff
	// A memberReady carries a number from this bit on, because the network may change the order.
	readyShift = 15
	readyMask  = 1<<12 - 1
)

// Rejoin makes the endpoint a member of a job whose nodes may die and join again. Every node of the
// job calls it once, before it sends or polls. Without it the endpoint knows nothing of lives, and
// a node that dies stays away. ErrRejoin reports that the options are wrong, that Rejoin was called
// before, or that the machine is modelled. In a later life a call that polls returns it if another
// node has not called Rejoin.
//
// Events begin with the process. A later life is told only of nodes that leave and join from then
// on, and of nodes that do not answer it, which count as left.
//
// Calls then behave as follows. A send to a node that has left returns ErrLeft at once, until the
// node has joined. In a later life the first send to a node waits until that node has answered.
// Messages for a past life come back as Undelivered. Barrier and the messages of package collective
// return ErrLeft from the first event on, and in a later life from the start, until Agree. Earlier
// promises hold: a message whose send returned nil is in the receive queue of the life that it was
// sent to, or comes back. Unhandled messages in a process's queue are lost when the process dies.
//
// A node that polls sends the next one a heartbeat each 100 ms, and tells all others when that node
// has died. A node that announced its end (Leave) has left at once. Messages that it sent before
// are handled even if they arrive after the event. Any context.
func (e *Endpoint) Rejoin(o RejoinOptions) error {
	if o.Life < 0 || o.Life > MaxLife || o.Now == nil || e.member != nil || e.pace != nil {
		return fmt.Errorf("life %d of node %d: %w", o.Life, e.node, ErrRejoin)
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	k := &member{core: &e.core, o: o, peers: make([]peer, e.nodes)}
	e.member = k
	k.polls, k.nextBeat = beatLook, o.Now()+beatEvery
	for i := range k.peers {
		k.peers[i].heard = o.Life == 0
		k.view ^= k.digest(i)
	}
	if o.Life == 0 {
		return nil
	}
	k.setLife(e.node, uint32(o.Life))
	k.changed = true
	for i := range k.peers {
		if i != e.node {
			k.setState(i, unheard)
		}
	}
	k.peers[e.node].heard = true
	k.announce(announcement{what: memberHello})
	return nil
}

// Life returns the known life of a node: how many processes were the node before it. Any context.
func (e *Endpoint) Life(node int) int {
	if e.member == nil || uint(node) >= uint(e.nodes) {
		return 0
	}
	return int(e.member.peers[node].life)
}

// Present reports whether messages can be sent to a node, as far as is known. Any context.
func (e *Endpoint) Present(node int) bool {
	return uint(node) < uint(e.nodes) && (e.member == nil ||
		e.member.peers[node].state == present && !e.member.peers[node].leaving)
}

// Heard reports whether a node has answered a later life's hello, so that a send to it does not
// wait for that. Any context.
func (e *Endpoint) Heard(node int) bool {
	return e.member == nil || uint(node) >= uint(e.nodes) || e.member.peers[node].state != unheard
}

// Leave tells the other nodes that this node ends, so that they need not detect it. The program
// closes the card afterwards. Without Rejoin it does nothing. Main program only. Errors are those
// of Poll.
func (e *Endpoint) Leave() error {
	if e.inHandler() {
		return fmt.Errorf("leaving: %w", ErrHandler)
	}
	k := e.member
	if k == nil {
		return nil
	}
	k.announcements = append(k.announcements[:0], announcement{what: memberLeave})
	return e.Wait(func() bool { e.member.announceAll(); return len(k.announcements) == 0 })
}

// digest returns a node's contribution to the view (SplitMix64, Steele, Lea and Flood 2014).
func (k *member) digest(node int) uint64 {
	z := (uint64(node)<<32 | uint64(k.peers[node].life)) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (k *member) setLife(node int, life uint32) {
	k.view ^= k.digest(node)
	k.peers[node].life = life
	k.view ^= k.digest(node)
	k.agree.news = true
}

func (k *member) setState(node int, s presence) {
	p := &k.peers[node]
	if p.state != present {
		k.absent--
	}
	if p.state = s; s != present {
		k.absent++
	}
	k.agree.news = true
}

// stamp returns the lives for a message to a node.
func (k *member) stamp(node int) uint32 {
	return k.peers[node].life&lifeMask<<receiverShift | uint32(k.o.Life)<<senderShift
}

// stamp adds the lives to a word.
func (c *core) stamp(node int, word uint32) uint32 {
	if c.member != nil {
		word |= c.member.stamp(node)
	}
	return word
}

// tellsLives reports whether the first word of a type carries lives.
func tellsLives(typ uint16) bool {
	return typ == typeFour || typ == typeN || typ == typeBytes || typ == typeMember
}

// admit waits until a node can be sent to, and returns an error for a node that has left.
func (k *member) admit(node int) error {
	for k.peers[node].state == unheard {
		if _, err := k.e.Poll(); err != nil {
			return err
		}
	}
	if k.peers[node].state == left || k.peers[node].leaving {
		return fmt.Errorf("sending to node %d: %w", node, ErrLeft)
	}
	return nil
}

// mayRun reports whether a message is from and for the present lives. In a job without Rejoin each
// node has one life.
func (c *core) mayRun(m *Message, typ uint16, word uint32) bool {
	if c.member != nil {
		return c.member.current(m, typ, word)
	}
	if word&lives != 0 {
		c.unknown++
	}
	return word&lives == 0
}

// current reports whether a message is from and for the present lives, so that it may run. It
// records a new life of the sender. It tells the sender of a request if the receiver is in another
// life, or if the sender has left.
func (k *member) current(m *Message, typ uint16, word uint32) bool {
	if m.Source >= k.nodes {
		return false
	}
	p := &k.peers[m.Source]
	if uint32(k.o.Life)&lifeMask != word>>receiverShift&lifeMask {
		// whose caller has been told by hello
		if m.level == funi.Request && typ != typeMember && typ != typeCall && typ != typeReady {
			k.answer(m, memberStale, word, uint32(typ))
		}
		return false
	}
	ahead := (word>>senderShift - p.life) & lifeMask
	switch {
	case !p.heard: // it has heard this node's hello, and its answer comes
		k.helloAnswered(m.Source, word>>senderShift, true)
		return true
	case ahead == 0 && p.state == present:
		return true
	case ahead == 0:
		if m.level == funi.Request {
			k.answer(m, memberFence, p.life, 0)
		}
		return false
	case ahead > lifeMask/2:
		return false // of an earlier life
	}
	k.join(m.Source, p.life+ahead)
	return true
}

// answer replies with a membership message.
func (k *member) answer(m *Message, what, a, b uint32) {
	s, err := m.reserve(4)
	if err != nil {
		return // the endpoint ends
	}
	k.fill(s, m.Source, announcement{what: what, a: a, b: b})
	k.commit(funi.Reply, s)
}

// fill composes a membership message.
func (k *member) fill(s *funi.Slot, node int, n announcement) {
	s.SetHeader(funi.NewHeader(uint16(node), typeMember, 5))
	s[1], s[2], s[3], s[4], s[5] = n.what|k.stamp(node), uint32(k.o.Life), n.a, n.b, n.c
}

// arrived handles a membership message. Its words after the first are the sender's life, and
// three more.
func (k *member) arrived(m *Message, word uint32) {
	what := word & memberWhat
	switch {
	case m.Source == k.node:
		k.unknown++
		return
	case what == memberHello:
		k.hello(m, m.Words[0])
		return
	case what != memberBack && what != memberRefused && !k.current(m, typeMember, word):
		return
	case word>>receiverShift&lifeMask != uint32(k.o.Life)&lifeMask:
		return
	}
	p := &k.peers[m.Source]
	switch what {
	case memberBack:
		k.helloAnswered(m.Source, m.Words[0], false)
	case memberRefused:
		k.failWith(fmt.Errorf("node %d has not asked for it: %w", m.Source, ErrRejoin))
	case memberLeave:
		p.leaving = p.state == present
	case memberGone:
		if n := m.Words[1]; n < uint32(k.nodes) && int(n) != k.node && k.peers[n].state == present &&
			k.peers[n].life == m.Words[2] {
			k.depart(int(n))
		}
	case memberBeat:
	case memberStale:
		k.noteStale(m.Source, m.Words[1], uint16(m.Words[2]))
	case memberFence:
		if m.Words[1] == uint32(k.o.Life) {
			k.failWith(fmt.Errorf("life %d of node %d: %w", k.o.Life, k.node, ErrExpelled))
		}
	case memberReady:
		k.ready(m, word>>readyShift&readyMask)
	case memberGo:
		k.agreed(m.Words[1], m.Words[2], m.Words[3])
	default:
		k.unknown++
	}
}

// refuseMember answers a membership message to a node without Rejoin.
func (c *core) refuseMember(m *Message, word uint32) {
	if word&memberWhat != memberHello || m.level != funi.Request ||
		m.reply4(typeMember, memberRefused|m.Words[0]&lifeMask<<receiverShift, 0, 0, 0, 0) != nil {
		c.unknown++
	}
}

// hello records a later life of a node, and answers it.
func (k *member) hello(m *Message, life uint32) {
	p := &k.peers[m.Source]
	if life > MaxLife || life < p.life && p.state != unheard {
		return // of a life that is over
	}
	switch {
	case !p.heard || p.rough && (life-p.life)&lifeMask == 0: // it did not leave in this node's life
		k.helloAnswered(m.Source, life, false)
	case life != p.life || p.state != present:
		k.join(m.Source, life)
	}
	if m.level == funi.Request {
		k.answer(m, memberBack, 0, 0)
	}
}

// helloAnswered makes a node a member that was present before this life, or that could not be
// reached at its beginning. Of a rough life only the bits are known that a message carries. A
// membership message supplies the rest.
func (k *member) helloAnswered(node int, life uint32, rough bool) {
	p := &k.peers[node]
	switch {
	case life > MaxLife:
		return
	case p.heard:
		if !p.rough || (life-p.life)&lifeMask != 0 {
			return
		}
		k.setLife(node, life)
	case p.state == left:
		k.join(node, life)
	default:
		p.heard = true
		k.setState(node, present)
		k.setLife(node, life)
	}
	p.rough = rough
}

// join makes a node a member again, in a later life.
func (k *member) join(node int, life uint32) {
	if k.peers[node].state == present {
		k.depart(node)
	}
	k.setLife(node, life)
	k.setState(node, present)
	p := &k.peers[node]
	p.heard, p.rough, p.leaving = true, false, false
	k.changed = true
	k.e.tags.endTogether(k.apart())
	k.event(Event{Joined, node, int(life)})
}

// depart records that a node has left, and ends everything that waits for it.
func (k *member) depart(node int) {
	p := &k.peers[node]
	if p.state == left || node == k.node {
		return
	}
	p.suspect = false
	k.setState(node, left)
	k.changed, k.ended = k.changed || !p.leaving, k.ended || p.leaving
	k.agree.forget(node)
	why := fmt.Errorf("calling node %d: %w", node, ErrLeft)
	k.e.calls.failAll(why, func(c *call) bool { return int(c.node) == node })
	k.e.remote.failAll(why, func(c *remoteCall) bool { return int(c.node) == node })
	k.e.bytes.depart(node, why)
	k.e.tags.depart(node, fmt.Errorf("messages of node %d: %w", node, ErrLeft))
	if k.changed {
		k.e.tags.endTogether(k.apart())
	}
	k.event(Event{Left, node, int(p.life)})
}

// event reports an event to the program, which may send nothing.
func (k *member) event(v Event) {
	k.quietly(func() { k.o.Event(v) })
}

// cameBack draws conclusions from a returned message. It reports whether the message was a
// membership message, which the program need not know of.
func (k *member) cameBack(r *funi.Returned) (own bool) {
	own = r.Header.Type() == typeMember && !r.Header.Transfer()
	node := int(r.Header.Node())
	if k == nil || node >= k.nodes {
		return own
	}
	p := &k.peers[node]
	switch {
	case own && !gone(r.Reason):
		k.repeat(node, r.Word&memberWhat)
	case !gone(r.Reason):
	case own && r.Word&memberWhat == memberHello:
		if p.state == unheard {
			k.depart(node) // its next life will say hello
		}
	case p.state != present:
		// It was for an earlier life, or one that is known to be over.
	case r.Header.Transfer() || !tellsLives(r.Header.Type()):
		k.suspect(node)
	case r.Word>>receiverShift&lifeMask != p.life&lifeMask: // likewise
	default:
		k.depart(node)
		if p.leaving {
			break // which it has told all
		}
		k.announce(announcement{what: memberGone, a: uint32(node), b: p.life})
	}
	return own
}

// noteStale counts a message for an earlier life.
func (k *member) noteStale(node int, word uint32, typ uint16) {
	s := &k.stale
	r := funi.Returned{Reason: arctic.ReasonReplaced, Level: funi.Request,
		Header: funi.NewHeader(uint16(node), typ&funi.MaxType, 1), Word: word}
	if s.count == 0 {
		s.first = *k.describe(&r)
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
