package link

// This file is the owner of lines: a context, as far as its packets travel. The link knows an owner
// by what stands in frames, by the account that its frames are on, and by its streams.

import "github.com/funet/funet/uspace/arctic"

// Owner is whose lines are. It is there until Bury has forgotten its streams.
type Owner struct {
	// Number tells the engine whose it is.
	Number uint32
	// GID and Tag are what its frames carry, also those that are sent again.
	GID uint16
	// Halted: nothing new is dispatched but answers. After it ends call Resume.
	Halted bool
	// Ended: nobody takes what comes back, so what is rejected for now is not tried again.
	Ended bool
	Tag   uint64
	// Account is on whose account its frames are; set before the first Queue, and changed only
	// while no line is queued.
	Account *Account
	// Follower sees what becomes of its frames; nil, as a rule: nobody.
	Follower Follower
	// Retried counts packets that were rejected for a transient reason, to be sent again.
	Retried uint64

	streams []*stream // of all flows
	looked  int       // index of the stream that thin looked at last
}

// Follower sees the frames of an owner on their way, for a trace. Times are Step's.
type Follower interface {
	// Dispatched: a train got its frame's number for the first time.
	Dispatched(to uint16, l arctic.Level, sequence uint32, train *Line)
	// Sent: a frame was given to the port.
	Sent(train *Line)
	// Answered: a frame was answered.
	Answered(train *Line, verdict Verdict)
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

// Resume lets an owner's streams send on that was halted, or halted just now.
func (e *End) Resume(o *Owner) {
	for _, s := range o.streams {
		e.mayGo(s)
		e.makeReady(s.flow)
	}
}

// GiveUp takes the owner's lines back that wait and are not in flight: to gets each. nil for keep
// means all, else those stay for which it returns true.
func (e *End) GiveUp(o *Owner, keep func(*Line) bool, to func(*Line)) {
	for _, s := range o.streams {
		e.empty(s, keep, to)
	}
}

// GiveUpTo does the same for what waits for one node behind a card: parts of long transfers, or the
// other lines. It costs nothing for the other nodes that the owner sends to.
func (e *End) GiveUpTo(o *Owner, card uint16, l arctic.Level, node uint16, part bool, keep func(*Line) bool,
	to func(*Line)) {
	if int(card) >= len(e.byCard) || e.byCard[card] == nil {
		return
	}
	if f := e.byCard[card].flows[l]; f != nil {
		of := packets
		if part {
			of = parts
		}
		if s := f.find(o, node, of); s != nil {
			e.empty(s, keep, to)
		}
	}
}

// TakeBack takes back what of the owner's waits for a node behind a card and is not in flight: to
// gets each.
func (e *End) TakeBack(o *Owner, card, node uint16, to func(*Line)) {
	for _, s := range o.streams {
		if s.flow.peer.Card == card && s.node == node {
			e.empty(s, nil, to)
		}
	}
}

// empty takes the lines that wait off a stream.
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

// Bury forgets up to most streams of an owner that has no line in the link any more, and returns
// how many fewer it forgot. The owner has no streams left when Buried says so.
func (e *End) Bury(o *Owner, most int) (left int) {
	for ; len(o.streams) > 0 && most > 0; most-- {
		s := o.streams[len(o.streams)-1]
		s.flow.forget(s)
		e.giveStream(s)
	}
	return most
}
