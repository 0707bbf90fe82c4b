package engine

// This file is the memory of rejects: a frame of which packets were rejected gets
// the same answer each time it comes, until its sender's age says that it knows.

import "github.com/funet/funet/uspace/arctic"

// rejected is what the receiver remembers of a frame of which it rejected packets.
type rejected struct {
	retry, fail uint64 // packets rejected for a transient, for a permanent reason
	next        *rejected
	sequence    uint32
	retryReason arctic.Reason
	failReason  arctic.Reason
	asked       bool // to be sent
}

// rejects is a list of them, at most a window: linked, because most frames have none,
// and in order, because they are settled in about the order in which they came.
type rejects struct {
	head, tail *rejected
}

// isRefused reports whether rejects of the sequence, at or after expect, are remembered.
func (f *flow) isRefused(seq uint32) bool {
	return f.refused[seq%Window/64]>>(seq%64)&1 != 0
}

// remember remembers the rejects of a frame, to be sent in this step.
func (c *Card) remember(f *flow, verdict *rejected) {
	r := c.spare.rejected
	if r == nil {
		r = new(rejected)
	} else {
		c.spare.rejected = r.next
		c.spare.nRejected--
	}
	*r = *verdict
	if f.rejects.head == nil {
		f.rejects.head = r
	} else {
		f.rejects.tail.next = r
	}
	f.rejects.tail = r
	f.refused[r.sequence%Window/64] |= 1 << (r.sequence % 64)
	c.answer(f, r)
}

// answerAgain sends the rejects of a frame that was refused once more.
func (c *Card) answerAgain(f *flow, seq uint32) {
	r := f.rejects.head
	for r.sequence != seq {
		r = r.next
	}
	c.answer(f, r)
}

// answer lets rejects be sent in this step.
func (c *Card) answer(f *flow, r *rejected) {
	if !r.asked {
		r.asked = true
		f.answers++
	}
	c.oweNow(f.peer)
}

// forget forgets the rejects of a frame that was refused.
func (c *Card) forget(f *flow, seq uint32) {
	f.refused[seq%Window/64] &^= 1 << (seq % 64)
	var before *rejected
	r := f.rejects.head
	for r.sequence != seq {
		before, r = r, r.next
	}
	if before == nil {
		f.rejects.head = r.next
	} else {
		before.next = r.next
	}
	if r.next == nil {
		f.rejects.tail = before
	}
	if r.asked {
		f.answers--
	}
	if c.spare.nRejected < spareRejected {
		r.next = c.spare.rejected
		c.spare.rejected = r
		c.spare.nRejected++
	}
}

// forgetReceived forgets the receiving side: the peer starts from sequence 0.
func (c *Card) forgetReceived(f *flow) {
	for f.rejects.head != nil {
		c.forget(f, f.rejects.head.sequence)
	}
	f.expect, f.unacked, f.reached = 0, 0, nextTurn(f.reached)
	f.accepted = [Window / 64]uint64{}
}
