package link

// This file is the memory of rejects. A frame with rejected packets gets the same answer each time
// it comes, until the age in its sender's frames shows that the sender knows the answer.

// rejected is the receiver's record of a frame in which it rejected packets.
type rejected struct {
	Verdict
	next *rejected
}

// rejects is a list of such records, at most a sequence window of them. It is linked because most
// frames have none. It is in the order in which the frames came, which is about the order in which
// they are settled.
type rejects struct {
	head, tail *rejected
}

// remember remembers the rejects of a frame, to be sent in this step.
func (e *End) remember(f *flow, v Verdict) {
	r := e.spare.rejected.take()
	*r = rejected{Verdict: v}
	if f.rejects.head == nil {
		f.rejects.head = r
	} else {
		f.rejects.tail.next = r
	}
	f.rejects.tail = r
	f.refused.add(r.sequence)
	e.answer(f, r)
}

// answerAgain sends the remembered rejects of a frame once more.
func (e *End) answerAgain(f *flow, seq uint32) {
	r := f.rejects.head
	for r.sequence != seq {
		r = r.next
	}
	e.answer(f, r)
}

// answer makes the step send the rejects of a frame.
func (e *End) answer(f *flow, r *rejected) {
	if !r.asked {
		r.asked = true
		f.answers++
	}
	e.oweNow(f.peer)
}

func (e *End) forget(f *flow, seq uint32) {
	f.refused.remove(seq)
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
	e.spare.rejected.give(r, spareRejected)
}

// forgetReceived forgets the receiving side, because the peer starts from sequence 0.
func (e *End) forgetReceived(f *flow) {
	for f.rejects.head != nil {
		e.forget(f, f.rejects.head.sequence)
	}
	f.rcvNext, f.unacked, f.reached = 0, 0, nextTurn(f.reached)
	f.accepted, f.ahead = bitmap{}, 0
}
