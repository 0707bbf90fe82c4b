package am

// This file is how the nodes of a job agree that all are there again, so that collective calls can
// go on (as MPIX_Comm_agree of User-Level Failure Mitigation, but with all nodes).
//
// Each node that calls Agree and knows all others to be present tells node 0 its view, a digest of
// all nodes' lives, and the number of its last collective call, and again when its view changes.
// When all nodes have told node 0 its own view, and none is absent, node 0 tells them so, with the
// first number of the calls that come. Whoever has another view by then does not listen; it tells
// node 0, and node 0 waits again. A node that dies afterwards makes all collective calls fail anew.
//
// The first number is beyond the numbers of all calls before, so what is left of those meets
// nobody. Messages of the calls that come may arrive at a node before the word of node 0, and are
// kept (barrier.go, collective.go).

import "fmt"

// agreement is the state of Agree.
type agreement struct {
	calling bool
	news    bool   // at node 0: something has changed since lead looked
	tells   uint32 // how often node 0 was told
	told    bool   // node 0 knows view
	view    uint64 // as it was told; at node 0: as it was agreed on last
	base    uint32 // at node 0: the first number then
	done    bool
	number  uint32      // what was agreed on last: base, at each node
	states  []readiness // at node 0
}

// readiness holds what a node has told node 0.
type readiness struct {
	is bool // and waits for the end of Agree
	// readyMask+1 and the number of the last word from this life of the node; 0: there was none
	since  uint32
	number uint32
	view   uint64
}

// gap is how far the numbers of calls jump: beyond those of a call that some nodes have ended, and
// one that others have begun.
const gap = 2

// Agree returns when all nodes of the job are present and have called it, and know each other's
// lives; from then on collective calls work again until the next event. It returns at once where
// they work, so a program may call it before each of them; it has to when one has returned ErrLeft,
// and in a later life. It waits for nodes that have left until they have joined, and for one that
// has ended for good until it is cancelled (Bind). Main program only (ErrHandler). It returns an
// Undelivered error when any message has come back meanwhile; called again it goes on where it
// stopped. ErrRejoin without Rejoin.
func (e *Endpoint) Agree() error {
	if err := e.refusal(0, 0); err != nil {
		return err
	}
	m := e.member
	if m == nil {
		return fmt.Errorf("agreeing: %w", ErrRejoin)
	}
	a := &m.agree
	if !m.changed && !m.ended {
		a.calling = false // it may have ended after a call that was interrupted
		return nil
	}
	if !a.calling {
		a.calling, a.news, a.told, a.done = true, true, false, false
	}
	for !a.done {
		if e.node == 0 {
			e.lead()
		} else if m.absent == 0 && (!a.told || a.view != m.view) {
			v := announcement{what: memberReady | a.tells&readyMask<<readyShift, a: e.collective.number,
				b: uint32(m.view), c: uint32(m.view >> 32)}
			if e.tell(0, v) {
				a.told, a.view = true, m.view
				a.tells++
			}
		}
		if a.done {
			break
		}
		if _, err := e.Poll(); err != nil {
			return err
		}
	}
	a.calling = false
	e.drive()
	return nil
}

// Agreed returns a number that is the same on all nodes after an Agree, and another after the next;
// 0: there was none. Any context.
func (e *Endpoint) Agreed() uint32 {
	if e.member == nil {
		return 0
	}
	return e.member.agree.number
}

// make makes room at node 0 for what each node tells.
func (a *agreement) make(nodes int) {
	if a.states == nil {
		a.states = make([]readiness, nodes)
	}
}

// forget forgets what a node that has left has told.
func (a *agreement) forget(node int) {
	if a.states != nil {
		a.states[node] = readiness{}
	}
	if node == 0 {
		a.told = false
	}
}

// ready notes at node 0 what a node has told.
func (e *Endpoint) ready(from *Message, number uint32) {
	a := &e.member.agree
	if e.node != 0 {
		e.unknown++
		return
	}
	a.make(e.nodes)
	if s := &a.states[from.Source]; s.since == 0 || (number-s.since)&readyMask <= readyMask/2 {
		*s = readiness{true, readyMask + 1 | number, from.Words[1], uint64(from.Words[2]) | uint64(from.Words[3])<<32}
		a.news = true
	}
}

// lead is node 0's part: it ends the agreement if all nodes have its view.
func (e *Endpoint) lead() {
	m := e.member
	a := &m.agree
	if !a.news || m.absent > 0 {
		return
	}
	a.news = false
	a.make(e.nodes)
	last := e.collective.number
	for i := 1; i < e.nodes; i++ {
		s := &a.states[i]
		if !s.is || s.view != m.view {
			return
		}
		if int32(s.number-last) > 0 {
			last = s.number
		}
	}
	for i := range a.states {
		a.states[i].is = false
	}
	a.view, a.base = m.view, last+gap
	m.announce(announcement{what: memberGo, a: a.base, b: uint32(a.view), c: uint32(a.view >> 32)})
	e.announceAll()
	e.agreed(a.base, uint32(a.view), uint32(a.view>>32))
}

// agreed ends the agreement if it is about this node's view.
func (e *Endpoint) agreed(base, low, high uint32) {
	m := e.member
	if !m.agree.calling || m.absent > 0 || m.view != uint64(low)|uint64(high)<<32 {
		return
	}
	m.agree.done, m.agree.number, m.changed, m.ended = true, base, false, false
	e.collective.restart(base)
	e.rounds.lost = 0 // of a call before that
}

// restart has the next call be the one after base, whatever was under way.
func (c *collective) restart(base uint32) {
	c.number, c.open, c.wrong, c.result = base, false, false, nil
}

// timely reports whether a message of a call may be of this node's call, of the next, or of the
// first after Agree.
func (e *Endpoint) timely(number uint32) bool {
	ahead := number - e.collective.number
	return ahead <= 1 || e.member != nil && (e.member.changed || e.member.ended) && int32(ahead) > 0
}

// together returns ErrLeft if a node has left or joined since the nodes agreed last.
func (e *Endpoint) together() error {
	if m := e.member; m != nil && (m.changed || m.ended && !e.collective.open) {
		return fmt.Errorf("calling it together with all nodes: %w, or joined it, since the last Agree", ErrLeft)
	}
	return nil
}

// apart returns ErrLeft if a collective call cannot go on, although no other node has failed in it.
func (e *Endpoint) apart() error {
	if e.member != nil && e.member.changed {
		return e.together()
	}
	return nil
}

// waitTogether is WaitFor in a collective call.
func (e *Endpoint) waitTogether(node int, done func() bool) error {
	if e.member == nil {
		return e.missing(node, e.WaitFor(node, done))
	}
	over := false
	err := e.wait(func() bool { over = done(); return over || e.member.changed }, func() error { return e.probe(node) })
	if err == nil && !over {
		return e.together()
	}
	return e.missing(node, err)
}

// waitForMember is WaitFor with Rejoin.
func (e *Endpoint) waitForMember(node int, done func() bool) error {
	over := false
	err := e.wait(func() bool {
		over = done()
		return over || uint(node) < uint(e.nodes) && e.member.nodes[node].state == left
	}, func() error { return e.probe(node) })
	if err == nil && !over {
		return fmt.Errorf("waiting for node %d: %w", node, ErrLeft)
	}
	return err
}
