package am

// This file implements the dissemination barrier (Hensgen, Finkel and Manber 1988). In round k each
// node tells the node 2^k further on that it has arrived, together with all nodes that it has heard
// of. It then waits for the message of the node 2^k before it. After ceil(log2 N) rounds a node has
// heard of all nodes. That is half the hops of the way up a tree and down again, for N*ceil(log2 N)
// messages instead of 2(N-1).
//
// Calls are numbered as collective calls are. A node that has finished may begin the next call
// while others are still in this one. Its messages are then one call ahead, and no further, because
// it cannot end that call without the others. So each round remembers the messages of two calls.
// The words of a message are the call number, the kind of call, and the round.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/uspace/funi"
)

// maxRounds is the most rounds of a barrier, of 65536 nodes.
const maxRounds = 16

// rounds is the state of a node's barriers.
type rounds struct {
	round int    // of the call under way
	told  bool   // the node of the round has been told
	lost  uint32 // bit k: the message of round k of the last call came back
	heard [maxRounds][2]struct{ number, what uint32 }
}

// Barrier returns when every node of the group has called it; all nodes call it equally often. With
// nothing else under way it takes ceil(log2 N) hops and N*ceil(log2 N) messages, at request
// priority. Main program only (ErrHandler).
//
// It returns an Undelivered error when a node that it waits for cannot be reached, or when any
// message has come back meanwhile. Called again, it continues where it stopped. A *Missing lists
// the nodes that were not heard from. ErrCollective reports that the nodes do not call the same
// operation.
func (e *Endpoint) Barrier() error {
	if err := e.refusal(0, 0); err != nil {
		return err
	}
	e.charge(callCost)
	c, r := &e.collective, &e.rounds
	again := c.open
	if err := e.enter(&tree{nodes: e.nodes, node: e.node}, uint32(barrierKind), nil); err != nil {
		return err
	}
	if !again {
		r.round, r.told = 0, false
	}
	for ; r.round < bits.Len(uint(e.nodes-1)); r.round++ {
		if err := e.disseminate(r.round); err != nil {
			return err
		}
		r.told = false
	}
	e.drive() // also where there is no one to tell
	c.open = false
	return nil
}

// disseminate carries out one round.
func (e *Endpoint) disseminate(round int) error {
	c, r := &e.collective, &e.rounds
	e.charge(roundCost)
	if e.cpu != nil {
		// the handler, and who waits, reach the table by a pointer
		e.cpu.Work(e.cpu.Library().LoopCycles + 2*e.cpu.Library().CounterCycles)
	}
	if !r.told {
		if err := e.tellRound(round); err != nil {
			return err
		}
		r.told = true
		e.drive()
	}
	from := (e.node - 1<<round%e.nodes + e.nodes) % e.nodes
	h := &r.heard[round][c.number&1]
	if err := e.waitTogether(from, func() bool { return h.number == c.number || c.wrong }); err != nil {
		return err
	}
	if c.wrong || h.what != c.what {
		return fmt.Errorf("hearing from node %d: %w", from, ErrCollective)
	}
	return nil
}

// tellRound sends the message of a round of the last call.
func (e *Endpoint) tellRound(round int) error {
	c := &e.collective
	return e.post4((e.node+1<<round)%e.nodes, typeRound, c.number, c.what, uint32(round), 0, 0)
}

// roundsCameBack records which messages of the last barrier came back: the message of r, or
// possibly all of them if r is nil.
func (e *Endpoint) roundsCameBack(r *funi.Returned) {
	b := &e.rounds
	switch {
	case r == nil:
		if e.collective.what == uint32(barrierKind) {
			b.lost = 1<<bits.Len(uint(e.nodes-1)) - 1
			if e.collective.open {
				b.lost = 1<<b.round - 1
				if b.told {
					b.lost |= 1 << b.round
				}
			}
		}
	case r.Header.Type() == typeRound && !r.Header.Transfer() && r.Word == e.collective.number:
		further := (int(r.Header.Node()) - e.node + e.nodes) % e.nodes
		b.lost |= 1 << bits.TrailingZeros(uint(further))
	}
}

// tellRoundsAgain sends the messages of the last barrier that came back again, even if the barrier
// is over here. The other nodes cannot end it otherwise.
func (e *Endpoint) tellRoundsAgain() error {
	for b := &e.rounds; b.lost != 0; b.lost &= b.lost - 1 {
		if err := e.tellRound(bits.TrailingZeros32(b.lost)); err != nil {
			return err
		}
	}
	return nil
}

// toldRound records the message of a round from another node.
func (e *Endpoint) toldRound(m *Message, number uint32) {
	c := &e.collective
	if len(m.Words) != 4 || m.Words[1] >= maxRounds || !e.timely(number) {
		e.unknown++
		return
	}
	what := m.Words[0]
	h := &e.rounds.heard[m.Words[1]][number&1]
	if int32(number-h.number) < 0 {
		e.unknown++ // from before Agree
		return
	}
	c.wrong = c.wrong || c.open && number == c.number && what != c.what
	h.number, h.what = number, what
}
