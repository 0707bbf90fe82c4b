package chaos

// This file has the program that every process runs: random operations, and the handling of what
// arrives in between. To add a kind of operation, add an entry to operations.

import (
	"errors"
	"math/bits"
	"math/rand/v2"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// member is one process of the cluster, through all its lives.
type member struct {
	place
	number   int
	run      *run
	process  *sim.Process // nil: dead
	deaths   uint16
	attached uint16 // times
	moved    uint16 // times; only where cards may lose each other
	job      uint32 // of the present life, or of the last
	random   *rand.Rand
	peers    []int32 // members of its group
	probes   []int32 // members that it has yet to probe

	// These are for transfers. memory is that of the present life, until the card must not touch
	// it. sources says which sources the card has not read, and pending how many packets were sent.
	// targets says where transfers of other members write, in any life. graves is the memory of
	// earlier lives.
	memory  *memory
	sources arena
	pending [arctic.Levels][]pending
	targets arena
	graves  []*memory
	// keyed is of the present life; nil: neither package rats nor windows nor chains are used
	keyed   *keyed
	windows *windows // of the present life; nil: there are none, or it has no key slot for one
	paths   *paths   // of the present life; nil: there are none
	inbox   *inbox   // of the present life; nil: there is none
}

// returnsLost counts the returns that the return ring of the present life had no room for.
func (m *member) returnsLost() uint32 {
	if m.process == nil {
		return 0
	}
	return m.process.Interface().ReturnsLost()
}

// operations has the actions of a program, with the relative frequency of each. No action leaves
// anything half done.
var operations = []struct {
	weight int
	kind   Faults // that the scenario must have, if any
	do     func(m *member)
}{
	{16, 0, (*member).burst},
	{3, 0, (*member).flood},
	{1, 0, (*member).stray},
	{1, 0, (*member).long},
	{4, Resize, (*member).resize},
	{4, Transfer, (*member).moves},
	{2, Transfer, (*member).movesMuch},
	{1, Transfer, (*member).trespass},
	{4, Rats, (*member).converse},
	{6, RMA, (*member).operate},
	{4, Chains, (*member).multicasts},
	{6, Paths, (*member).opensPath},
	{6, Sends, (*member).writes},
}

// program runs a life of the member. It starts an operation every now and then, until all messages
// of the scenario are sent, and serves its queues for ever. It carries out requests to probe at
// once.
func (m *member) program(p *sim.Process) error {
	total := 0
	for _, o := range operations {
		if m.run.scenario.Faults&o.kind == o.kind {
			total += o.weight
		}
	}
	m.joins()
	next := p.Now() + m.idle()
	for {
		m.serve(p, funi.Request)
		switch {
		case len(m.probes) > 0:
			to := m.probes[0]
			m.probes = m.probes[1:]
			m.send(p, funi.Request, to, m.run.members[to].node, 1)
			if m.run.transfers() {
				m.move(p, funi.Request, to, m.run.members[to].node, m.single())
			}
			continue
		case !m.run.quota():
			next = sim.Never
		case p.Now() >= next:
			k := m.random.IntN(total)
			for _, o := range operations {
				if m.run.scenario.Faults&o.kind != o.kind {
					continue
				}
				if k -= o.weight; k < 0 {
					o.do(m)
					break
				}
			}
			next = p.Now() + m.idle()
		}
		if m.keyed != nil {
			due := m.keyed.due
			if m.windows != nil {
				due = min(due, m.windows.due())
			}
			if m.paths != nil {
				due = min(due, m.paths.due())
			}
			if m.inbox != nil {
				due = min(due, m.inbox.due())
			}
			p.Wait(min(next, due))
		} else {
			p.Wait(next)
		}
	}
}

// idle draws the time between two operations, at most twice the mean.
func (m *member) idle() int64 { return m.random.Int64N(2*m.run.pause + 1) }

// serve takes what has arrived, replies first, and what came back. At level Reply it takes replies
// only: a handler that waits for room to reply may take nothing else.
func (m *member) serve(p *sim.Process, lowest funi.Level) {
	i := p.Interface()
	if m.keyed != nil {
		m.keyed.step()
		if m.windows != nil {
			m.windows.step()
		}
		if m.paths != nil {
			m.paths.step()
		}
		if m.inbox != nil {
			m.inbox.step()
		}
	}
	for l := funi.Reply; l <= funi.Reply && l >= lowest; l-- {
		for s := i.Receive(l); s != nil; s = i.Receive(l) {
			if m.copied(l, s) {
				i.Release(l)
				continue
			}
			msg := m.run.oracle.arrived(m, l, s)
			node := s.Source()
			i.Release(l)
			if l == funi.Request {
				if msg != nil && m.random.IntN(16) < m.run.replies && m.run.more() {
					m.answer(p, msg.from, node)
				}
				m.serve(p, funi.Reply)
			}
		}
	}
	for b, ok := i.NextReturn(); ok; b, ok = i.NextReturn() {
		if m.unsent(b) || m.notCarriedOut(b) || m.windows != nil && m.windows.returned(b) || m.keyed != nil && m.keyed.Returned(b) {
			continue
		}
		m.run.oracle.returned(m, b)
		if m.run.notices != nil {
			m.run.judge(m, b)
		}
	}
}

func (m *member) answer(p *sim.Process, to int32, node uint16) {
	switch {
	case !m.run.transfers() || m.random.IntN(4) != 0:
		m.send(p, funi.Reply, to, node, 1+m.random.IntN(4))
	case m.random.IntN(8) != 0:
		m.move(p, funi.Reply, to, node, m.single())
	default:
		m.move(p, funi.Reply, to, node, m.many())
	}
}

// send sends one message unless all have been sent.
func (m *member) send(p *sim.Process, l funi.Level, to int32, node uint16, words int) {
	if s := m.slot(p, l); s != nil {
		m.run.oracle.sends(s, m, to, node, l, m.typ(), words)
		m.commit(l)
	}
}

// slot returns the slot for the next message, or nil if all have been sent. It waits for room in
// the queue by the rules of package am.
func (m *member) slot(p *sim.Process, l funi.Level) *funi.Slot {
	i := p.Interface()
	for s := i.Reserve(l); m.run.more(); s = i.Reserve(l) {
		if s != nil {
			return s
		}
		next := int64(sim.Never)
		if m.inbox != nil { // what this member keeps may be what its own messages wait for
			next = m.inbox.due()
		}
		p.Wait(next)
		m.serve(p, l)
	}
	return nil
}

func (m *member) commit(l funi.Level) {
	m.process.Interface().Commit(l)
}

func (m *member) typ() uint16 { return uint16(m.random.IntN(funi.MaxType + 1)) }

// burst sends some requests to members of the group.
func (m *member) burst() {
	for range 1 + m.random.IntN(15) {
		if !m.run.quota() {
			return
		}
		to := m.choose()
		m.send(m.process, funi.Request, to, m.run.members[to].node, 1+m.random.IntN(funi.MaxPayloadWords))
		if m.random.IntN(4) == 0 {
			m.serve(m.process, funi.Request)
		}
	}
}

// flood sends many short requests to one member, and takes nothing that arrives as long as there is
// room to send.
func (m *member) flood() {
	to := m.choose()
	for n := 20 + m.random.IntN(200); n > 0 && m.run.quota(); n-- {
		m.send(m.process, funi.Request, to, m.run.members[to].node, 1)
	}
}

// stray sends a request to a node that the group does not have: one of another group,
// or one without a route. It must come back.
func (m *member) stray() {
	if !m.run.quota() {
		return
	}
	node := uint16(m.random.IntN(len(m.run.routes)))
	for _, k := range m.peers {
		if m.run.members[k].node == node {
			return
		}
	}
	m.send(m.process, funi.Request, nobody, node, 1)
}

// long does nothing for up to ten times the usual pause, while messages pile up.
func (m *member) long() { m.process.Sleep(min(10*m.idle(), m.run.horizon)) }

// resize changes the size of the queues, to at most their initial size. Queues that hold more than
// would fit stay as they are. Long transfers under way do not delay it, whatever their receivers
// do: a card needs no room in a queue to carry one on.
func (m *member) resize() {
	p := m.process
	slots := 2 << m.random.IntN(bits.Len(uint(m.run.queue(m.number)))-1)
	err := p.Interface().Resize(slots, func() error { p.Drive(); return nil })
	if err != nil && !errors.Is(err, funi.ErrTooSmall) {
		panic(err)
	}
}

// Patterns: to which members a member sends.
const (
	uniform  = iota // everybody, themselves included
	incast          // mostly the first of the group
	pairs           // a neighbour
	patterns        // how many there are
)

// choose draws the receiver of a request.
func (m *member) choose() int32 {
	k := m.random.IntN(len(m.peers))
	switch m.run.pattern {
	case incast:
		if m.random.IntN(4) != 0 {
			k = 0
		}
	case pairs:
		for i, number := range m.peers {
			if number == int32(m.number) {
				k = (i ^ 1) % len(m.peers)
			}
		}
	}
	return m.peers[k]
}
