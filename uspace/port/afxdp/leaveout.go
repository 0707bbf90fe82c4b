package afxdp

// This file leaves out queues that lose frames, as hellos have found out (package hello).

import "slices"

// LeftOut: a peer did not answer hellos that left on the queue, but answered those on others, so
// frames leave on the others.
const LeftOut Proof = "left out"

// QueueCount returns how many queues may be sent on: those of the interface, or one (Config.Queue),
// which the functions that take a queue then call 0. It is for the port's goroutine.
func (p *Port) QueueCount() int { return len(p.offered) }

// LeaveOut has frames leave on the other queues, but for those of SendOn. It does nothing and
// returns false if there is no other, or the queue is left out already. It is for the port's
// goroutine.
func (p *Port) LeaveOut(number int) bool {
	i := slices.IndexFunc(p.sends, func(q *queue) bool { return q.number == number })
	if i < 0 || len(p.sends) == 1 {
		return false
	}
	q := p.sends[i]
	p.sends = slices.Concat(p.sends[:i], p.sends[i+1:])
	q.proof.leftOut.Store(true)
	if q.remembered.under { // nothing that leaves on it will be acknowledged
		q.remembered.under = false
		p.waited--
	}
	return true
}

// TakeIn has frames leave on the queue again, and reports whether it was left out. It is for the
// port's goroutine.
func (p *Port) TakeIn(number int) bool {
	if number < 0 || number >= len(p.offered) || slices.Contains(p.sends, p.offered[number]) {
		return false
	}
	q := p.offered[number]
	at, _ := slices.BinarySearchFunc(p.sends, q.number, func(q *queue, number int) int { return q.number - number })
	p.sends = slices.Insert(slices.Clone(p.sends), at, q)
	q.proof.leftOut.Store(false)
	return true
}
