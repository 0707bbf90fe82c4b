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
	*core
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
	if err := e.member.together(); err != nil {
		return err
	}
	if err := e.rounds.tellAgain(); err != nil {
		return err
	}
	b := &e.rounds
	if !b.open {
		b.number++
		b.open, b.round, b.told = true, 0, false
	}
	for ; b.round < bits.Len(uint(e.nodes-1)); b.round++ {
		if err := e.rounds.disseminate(b.round); err != nil {
			return err
		}
		b.told = false
	}
	e.drive() // also where there is no one to tell
	b.open = false
	return nil
}

// disseminate carries out one round.
func (b *rounds) disseminate(round int) error {
	b.charge(roundCost)
	if b.pace != nil {
		// the handler, and who waits, reach the table by a pointer
		b.pace.cpu.Work(b.pace.cpu.Library().LoopCycles + 2*b.pace.cpu.Library().CounterCycles)
	}
	if !b.told {
		if err := b.tell(round); err != nil {
			return err
		}
		b.told = true
		b.drive()
	}
	from := (b.node - 1<<round%b.nodes + b.nodes) % b.nodes
	heard := &b.heard[round][b.number&1]
	return b.await(from, func() bool { return *heard == b.number })
}

// tell sends the message of a round of the last barrier.
func (b *rounds) tell(round int) error {
	return b.post4((b.node+1<<round)%b.nodes, typeRound, b.number, 0, uint32(round), 0, 0)
}

// cameBack records which messages of the last barrier came back: the message of r, or
// possibly all of them if r is nil.
func (b *rounds) cameBack(r *funi.Returned) {
	switch {
	case r == nil:
		b.lost = 1<<bits.Len(uint(b.nodes-1)) - 1
		if b.open {
			b.lost = 1<<b.round - 1
			if b.told {
				b.lost |= 1 << b.round
			}
		}
	case r.Header.Type() == typeRound && !r.Header.Transfer() && r.Word == b.number:
		further := (int(r.Header.Node()) - b.node + b.nodes) % b.nodes
		b.lost |= 1 << bits.TrailingZeros(uint(further))
	}
}

// tellAgain sends the messages of the last barrier that came back again, even if the barrier
// is over here. The other nodes cannot end it otherwise.
func (b *rounds) tellAgain() error {
	for b := b; b.lost != 0; b.lost &= b.lost - 1 {
		if err := b.tell(bits.TrailingZeros32(b.lost)); err != nil {
			return err
		}
	}
	return nil
}

// arrived records the message of a round from another node.
func (b *rounds) arrived(m *Message, number uint32) {
	if m.Words[0] != 0 || m.Words[1] >= maxRounds || !b.timely(number) {
		b.unknown++
		return
	}
	heard := &b.heard[m.Words[1]][number&1]
	if int32(number-*heard) < 0 {
		b.unknown++ // from before Agree
		return
	}
	*heard = number
}
