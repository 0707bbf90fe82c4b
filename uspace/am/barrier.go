package am

// This file implements the dissemination barrier (Hensgen, Finkel and Manber 1988). In round k each
// node tells the node 2^k further on that it has arrived, together with all nodes that it has heard
// of. It then waits for the message of the node 2^k before it. After ceil(log2 N) rounds a node has
// heard of all nodes. That is half the hops of the way up a tree and down again, for N*ceil(log2 N)
// messages instead of 2(N-1).
//
// Barriers are numbered. A node that has finished one may begin the next while others are still in
// this one. Its messages are then one barrier ahead, and no further, because it cannot end that
// barrier without the others. So each round remembers the messages of two barriers. The words of a
// message are the number, 0, and the round.

import (
	"math/bits"

	"github.com/funet/funet/uspace/funi"
)

// maxRounds is the most rounds of a barrier, of 65536 nodes.
const maxRounds = 16

// rounds is the state of a node's barriers.
type rounds struct {
	number uint32               // of the barrier under way, or the last
	open   bool                 // a barrier is under way, maybe one that ended with an error
	round  int                  // of the barrier under way
	told   bool                 // the node of the round has been told
	lost   uint32               // bit k: the message of round k of the last barrier came back
	heard  [maxRounds][2]uint32 // the numbers of the last barriers that each round was heard of
}

// Barrier returns when every node of the group has called it; all nodes call it equally often. With
// nothing else under way it takes ceil(log2 N) hops and N*ceil(log2 N) messages, at request
// priority. Main program only (ErrHandler).
//
// It returns an Undelivered error when a node that it waits for cannot be reached, or when any
// message has come back meanwhile. Called again, it continues where it stopped. A *Missing lists
// the nodes that were not heard from. With Rejoin it returns ErrLeft until Agree.
func (e *Endpoint) Barrier() error {
	if err := e.refusal(0, 0); err != nil {
		return err
	}
	e.charge(callCost)
	if err := e.together(); err != nil {
		return err
	}
	if err := e.tellRoundsAgain(); err != nil {
		return err
	}
	r := &e.rounds
	if !r.open {
		r.number++
		r.open, r.round, r.told = true, 0, false
	}
	for ; r.round < bits.Len(uint(e.nodes-1)); r.round++ {
		if err := e.disseminate(r.round); err != nil {
			return err
		}
		r.told = false
	}
	e.drive() // also where there is no one to tell
	r.open = false
	return nil
}

// disseminate carries out one round.
func (e *Endpoint) disseminate(round int) error {
	r := &e.rounds
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
	heard := &r.heard[round][r.number&1]
	return e.waitTogether(from, func() bool { return *heard == r.number })
}

// tellRound sends the message of a round of the last barrier.
func (e *Endpoint) tellRound(round int) error {
	return e.post4((e.node+1<<round)%e.nodes, typeRound, e.rounds.number, 0, uint32(round), 0, 0)
}

// roundsCameBack records which messages of the last barrier came back: the message of r, or
// possibly all of them if r is nil.
func (e *Endpoint) roundsCameBack(r *funi.Returned) {
	b := &e.rounds
	switch {
	case r == nil:
		b.lost = 1<<bits.Len(uint(e.nodes-1)) - 1
		if b.open {
			b.lost = 1<<b.round - 1
			if b.told {
				b.lost |= 1 << b.round
			}
		}
	case r.Header.Type() == typeRound && !r.Header.Transfer() && r.Word == b.number:
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
	if len(m.Words) != 4 || m.Words[0] != 0 || m.Words[1] >= maxRounds || !e.timely(number) {
		e.unknown++
		return
	}
	heard := &e.rounds.heard[m.Words[1]][number&1]
	if int32(number-*heard) < 0 {
		e.unknown++ // from before Agree
		return
	}
	*heard = number
}
