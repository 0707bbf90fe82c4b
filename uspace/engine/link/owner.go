package link

// This file is the owner of lines: a context, as far as its packets travel. The link knows of an
// owner what its frames carry, the account that pays for them, and its streams.

import "github.com/funet/funet/uspace/arctic"

// Owner is the owner of lines. It must exist until Bury has forgotten its streams.
type Owner struct {
	Number uint32 // tells the engine which owner it is
	GID    uint16 // and Tag are carried by its frames, also by those that are sent again
	Halted bool   // nothing new but answers is dispatched. Call Resume after it ends.
	// Ended: returned packets have no receiver any more, so a packet that is rejected for now is
	// not tried again.
	Ended bool
	Tag   uint64
	// Account pays for its frames. It is set before the first Queue, and changed only while no line
	// is queued.
	Account  *Account
	Follower Follower // sees what becomes of its frames; nil, as a rule: there is none
	Retried  uint64   // counts packets that were rejected for a transient reason, to be sent again

	streams []*stream // of all flows
	looked  int       // index of the stream that thin looked at last
}

// Follower sees the frames of an owner on their way, for a trace. Times are Step's.
type Follower interface {
	// Dispatched: a train got its frame's number for the first time.
	Dispatched(to uint16, l arctic.Level, sequence uint32, train *Line)
	Sent(train *Line)                      // a frame was given to the port
	Answered(train *Line, verdict Verdict) // a frame was answered
}

// Outstanding reports whether packets of the owner have been sent and not answered.
func (o *Owner) Outstanding() bool {
	for _, s := range o.streams {
		if s.flying > 0 {
			return true
		}
	}
	return false
}

// Grounded reports whether the link has no line of the owner.
func (o *Owner) Grounded() bool {
	for _, s := range o.streams {
		if s.flying > 0 || s.waiting.head != nil {
			return false
		}
	}
	return true
}

// Buried reports whether the owner has no stream any more.
func (o *Owner) Buried() bool { return len(o.streams) == 0 }

// Resume makes the streams of an owner ready again after Halted has changed. Streams that Halted
// stops send nothing, but void frames for those that were deferred.
func (e *End) Resume(o *Owner) {
	for _, s := range o.streams {
		if s.held && s.list == onHold {
			e.withdraw(s)
		}
		e.mayGo(s)
		e.makeReady(s.flow)
	}
}

// GiveUp takes back the owner's lines that wait and are not in flight, and calls to for each. Lines
// stay for which keep returns true; a nil keep keeps none.
func (e *End) GiveUp(o *Owner, keep func(*Line) bool, to func(*Line)) {
	for _, s := range o.streams {
		e.empty(s, keep, to)
	}
}

// GiveUpTo does the same for the lines of a level that wait for one node behind a card. It takes
// the parts of long transfers or, without part, the packets that need room in the node's queue. It
// costs nothing for the other nodes that the owner sends to.
func (e *End) GiveUpTo(o *Owner, card uint16, l arctic.Level, node uint16, part bool, keep func(*Line) bool,
	to func(*Line)) {
	if int(card) >= e.byCard.size || e.byCard.at(card) == nil {
		return
	}
	if f := e.byCard.at(card).flows[l]; f != nil {
		of := packets
		if part {
			of = parts
		}
		if s := f.find(o, node, of); s != nil {
			e.empty(s, keep, to)
		}
	}
}

// TakeBack takes back the owner's lines that wait for a node behind a card and are not in flight,
// and calls to for each.
func (e *End) TakeBack(o *Owner, card, node uint16, to func(*Line)) {
	for _, s := range o.streams {
		if s.flow.peer.Card == card && s.node == node {
			e.empty(s, nil, to)
		}
	}
}

// empty takes the waiting lines off a stream, as GiveUp does.
func (e *End) empty(s *stream, keep func(*Line) bool, to func(*Line)) {
	old := s.waiting
	s.waiting = Lines{}
	for old.head != nil {
		if ln := old.Pop(); keep != nil && keep(ln) {
			s.waiting.Push(ln)
		} else {
			to(ln)
		}
	}
	e.watch(s.flow.peer)
}

// Bury forgets up to most streams of an owner that has no line in the link any more. It returns
// most less the number of streams that it forgot. Buried reports when the owner has none left.
func (e *End) Bury(o *Owner, most int) (left int) {
	for ; len(o.streams) > 0 && most > 0; most-- {
		s := o.streams[len(o.streams)-1]
		s.flow.forget(s)
		e.giveStream(s)
	}
	return most
}
