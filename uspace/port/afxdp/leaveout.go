package afxdp

// This file leaves out queues that hellos have found to lose frames (package hello).

import "slices"

// LeftOut says that frames leave on the other queues: a peer answered hellos that left on those,
// but not hellos that left on this queue.
const LeftOut Proof = "left out"

// QueueCount returns the number of queues that may be sent on: those of the interface, or one
// (Config.Queue), which the functions with a queue number then call 0. It is for the port's
// goroutine.
func (p *Port) QueueCount() int { return len(p.offered) }

// LeaveOut has frames leave on the other queues, except those of SendOn. It returns false, and does
// nothing, if there is no other queue or the queue is left out already. It is for the port's
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
