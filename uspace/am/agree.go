package am

// This file implements Agree: the nodes of a job agree that all are present again, so that
// collective calls can continue (as MPIX_Comm_agree of User-Level Failure Mitigation, but with all
// nodes).
//
// A node that calls Agree waits until it knows all others to be present. It then sends node 0 its
// view, a digest of all nodes' lives, and the number of its last collective call. It does so again
// when its view changes. When all nodes have sent node 0 the view that node 0 has itself, and none
// is absent, node 0 announces the agreement, with the number of the first call after it. A node
// whose view has changed by then ignores the announcement and sends node 0 its new view; node 0
// then waits again. If a node dies afterwards, all collective calls fail anew.
//
// The first number is larger than the numbers of all calls before, so late messages of those match
// no call. Messages of the new calls may arrive at a node before the announcement of node 0, and
// are kept (barrier.go).

import "fmt"

// agreement is the state of Agree.
type agreement struct {
	calling bool
	news    bool   // at node 0: something has changed since lead last looked
	tells   uint32 // how many messages node 0 got
	told    bool   // node 0 knows view
	view    uint64 // as sent to node 0; at node 0: the view of the last agreement
	base    uint32 // at node 0: the first number of the last agreement
	done    bool
	number  uint32      // base of the last agreement, at each node
	states  []readiness // at node 0
}

// readiness is the last message of a node to node 0.
type readiness struct {
	is bool // the node is ready and waits for the end of Agree
	// readyMask+1 and the number of the last message from this life of the node; 0: there was none
	since  uint32
	number uint32
	view   uint64
}

// gap is how far the numbers of calls jump. It skips the call that some nodes have ended, and the
// one that others have begun.
const gap = 2

// Agree returns when all nodes of the job are present, have called it, and know each other's lives.
// From then on collective calls work again until the next event. Agree returns at once while they
// work, so a program may call it before each of them. It must be called after ErrLeft, and at the
// start of a later life. It waits until nodes that have left have joined again; for a node that has
// ended for good it waits until it is cancelled (Bind). Main program only (ErrHandler). It returns
// an Undelivered error when any message has come back meanwhile; called again it continues where it
// stopped. Without Rejoin it returns ErrRejoin.
func (e *Endpoint) Agree() error {
	if err := e.refusal(0, 0); err != nil {
		return err
	}
	k := e.member
	if k == nil {
		return fmt.Errorf("agreeing: %w", ErrRejoin)
	}
	a := &k.agree
	if !k.changed && !k.ended {
		a.calling = false // it may have ended after a call that was interrupted
		return nil
	}
	if !a.calling {
		a.calling, a.news, a.told, a.done = true, true, false, false
	}
	for !a.done {
		if e.node == 0 {
			e.member.lead()
		} else if k.absent == 0 && (!a.told || a.view != k.view) {
			v := announcement{what: memberReady | a.tells&readyMask<<readyShift, a: e.rounds.number,
				b: uint32(k.view), c: uint32(k.view >> 32)}
			if e.member.tell(0, v) {
				a.told, a.view = true, k.view
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

// Agreed returns the number of the last Agree, the same on all nodes and different after each
// Agree; 0: there was none. Any context.
func (e *Endpoint) Agreed() uint32 {
	if e.member == nil {
		return 0
	}
	return e.member.agree.number
}

// make allocates, at node 0, the records of the nodes' messages.
func (a *agreement) make(nodes int) {
	if a.states == nil {
		a.states = make([]readiness, nodes)
	}
}

// forget deletes the record of a node that has left.
func (a *agreement) forget(node int) {
	if a.states != nil {
		a.states[node] = readiness{}
	}
	if node == 0 {
		a.told = false
	}
}

// ready records, at node 0, the message of a node.
func (k *member) ready(from *Message, number uint32) {
	a := &k.agree
	if k.node != 0 {
		k.unknown++
		return
	}
	a.make(k.nodes)
	if s := &a.states[from.Source]; s.since == 0 || (number-s.since)&readyMask <= readyMask/2 {
		*s = readiness{true, readyMask + 1 | number, from.Words[1], uint64(from.Words[2]) | uint64(from.Words[3])<<32}
		a.news = true
	}
}

// lead is node 0's part: it ends the agreement if all nodes have its view.
func (k *member) lead() {
	a := &k.agree
	if !a.news || k.absent > 0 {
		return
	}
	a.news = false
	a.make(k.nodes)
	last := k.e.rounds.number
	for i := 1; i < k.nodes; i++ {
		s := &a.states[i]
		if !s.is || s.view != k.view {
			return
		}
		if int32(s.number-last) > 0 {
			last = s.number
		}
	}
	for i := range a.states {
		a.states[i].is = false
	}
	a.view, a.base = k.view, last+gap
	k.announce(announcement{what: memberGo, a: a.base, b: uint32(a.view), c: uint32(a.view >> 32)})
	k.announceAll()
	k.agreed(a.base, uint32(a.view), uint32(a.view>>32))
}

// agreed ends the agreement if it has this node's view.
func (k *member) agreed(base, low, high uint32) {
	if !k.agree.calling || k.absent > 0 || k.view != uint64(low)|uint64(high)<<32 {
		return
	}
	k.agree.done, k.agree.number, k.changed, k.ended = true, base, false, false
	// The next barrier is the one after base. One under way ends, and lost was of one before.
	k.e.rounds.number, k.e.rounds.open, k.e.rounds.lost = base, false, 0
}

// timely reports whether a message may belong to this node's collective call, to the next one, or
// to the first after Agree.
func (b *rounds) timely(number uint32) bool {
	ahead := number - b.number
	return ahead <= 1 || b.member != nil && (b.member.changed || b.member.ended) && int32(ahead) > 0
}

// together returns ErrLeft if a node has left or joined since the last agreement.
func (k *member) together() error {
	if k != nil && (k.changed || k.ended && !k.e.rounds.open) {
		return fmt.Errorf("calling it together with all nodes: %w, or joined it, since the last Agree", ErrLeft)
	}
	return nil
}

// apart returns ErrLeft if a collective call cannot go on, although no other node has failed in it.
func (k *member) apart() error {
	if k != nil && k.changed {
		return k.together()
	}
	return nil
}

// await is WaitFor in a collective call.
func (b *rounds) await(node int, done func() bool) error {
	if b.member == nil {
		return b.missing(node, b.e.WaitFor(node, done))
	}
	over := false
	err := b.wait(func() bool { over = done(); return over || b.member.changed }, func() error { return b.probe(node) })
	if err == nil && !over {
		return b.member.together()
	}
	return b.missing(node, err)
}

// waitFor is WaitFor with Rejoin.
func (k *member) waitFor(node int, done func() bool) error {
	over := false
	err := k.wait(func() bool {
		over = done()
		return over || uint(node) < uint(k.nodes) && k.peers[node].state == left
	}, func() error { return k.probe(node) })
	if err == nil && !over {
		return fmt.Errorf("waiting for node %d: %w", node, ErrLeft)
	}
	return err
}
