package link

// This file decides what a card keeps of a quiet peer, and how flows come and go.
//
// A flow is taken from the card's spares when a packet is first queued for the peer or comes from
// it. It is given back when two looks, parkAfter apart, found it quiet and unused in between. The
// peer keeps what must survive: the sequence numbers, and what was learnt of the path. So sequences
// go on where they were, and a frame that the network kept back is known as a duplicate.
//
// A peer that has flows is looked at when its timer fires, and one that may have become quiet has a
// timer. So a card that sleeps is woken for it at most three times, and then no more. (A card that
// is not stepped keeps its flows.) A flow that waits for its peer or a process, not for time, is
// looked at again only when they stir. Such a flow holds packets of a context that does not run, or
// misses a frame that others have overtaken. Or it remembers rejects of frames whose sender has not
// shown that it knows of them. The last two conditions hold until the peer sends packets again or
// is met in another life. A peer may never do either, because all that it sent was rejected for
// good, for example. It costs a flow and its remembered rejects until then. That is 736 bytes, and
// 32 for each frame, at most a sequence window of them.

import "github.com/funet/funet/uspace/arctic"

const (
	// parkAfter is the time in nanoseconds between two looks at a flow. It is longer
	// than a pause between two messages of a dialogue, and short beside PeerTimeout.
	parkAfter = 10e6
	// manyFlows is how many flows a card may have before it puts a quiet one away, at once, when it
	// needs another. So the flows in use are about as many as wait for an answer, however many
	// peers the card speaks to within parkAfter. The card looks at reclaimLooks peers, in turn, and
	// makes a flow if none of them is quiet.
	manyFlows    = 512
	reclaimLooks = 8
	// The spares of a card beyond these numbers go to the garbage collector.
	spareFlows    = 128
	spareFlights  = 8
	spareStreams  = 256
	spareRejected = 256
	spareClasses  = 64
)

// parked is the state that outlives a flow. The peer has answered all frames before sndNext. The
// card has answered for good all of the peer's frames before reached, whose lower 32 bits are
// flow.rcvNext.
type parked struct {
	reached                   int64
	srtt, rttvar              int64
	sndNext                   uint32
	window, threshold, growth uint16
	// node, gid and limit are those of the stream that was used last, if its node's card has
	// answered; limit 0: none is kept.
	node, gid, limit uint16
}

// fresh returns the state of a level that has not been used.
func (e *End) fresh() parked {
	return parked{window: uint16(e.cfg.FirstWindow), threshold: Window}
}

// spare holds what flows are made from: members of lists, and room for sequence windows of frames.
type spare struct {
	flows    spares[flow]
	streams  spares[stream]
	rejected spares[rejected]
	classes  spares[class]
	flights  spares[[Window]frame]

	used int // flows in use
	hand int // index of the peer that reclaim looked at last
}

// spares keeps values that are not in use.
type spares[T any] struct{ free []*T }

// take returns a spare value, as give got it, or a new one.
func (s *spares[T]) take() *T {
	n := len(s.free) - 1
	if n < 0 {
		return new(T)
	}
	x := s.free[n]
	s.free = s.free[:n]
	return x
}

// give keeps a value, unless most are kept already.
func (s *spares[T]) give(x *T, most int) {
	if len(s.free) < most {
		s.free = append(s.free, x)
	}
}

// flow returns the flow of a level, made if need be, and ensures that it is looked at again.
func (e *End) flow(p *peer, l arctic.Level) *flow {
	if f := p.flows[l]; f != nil && p.timer != notTimed {
		return f
	}
	e.watch(p)
	if p.flows[l] == nil {
		e.unpark(p, l)
	}
	return p.flows[l]
}

// watch makes sure that the peer's flows are looked at after a while.
func (e *End) watch(p *peer) {
	if p.lookAt == 0 {
		p.lookAt = e.now + parkAfter
	}
	e.timers.set(p, p.lookAt)
}

func (e *End) unpark(p *peer, l arctic.Level) {
	if len(e.spare.flows.free) == 0 && e.spare.used >= manyFlows {
		e.reclaim()
	}
	e.spare.used++
	f := e.spare.flows.take()
	k := &p.parked[l]
	f.peer, f.level = p, l
	f.frames = f.room[:]
	f.sndNext, f.sndUna, f.rcvNext, f.reached = k.sndNext, k.sndNext, uint32(k.reached), k.reached
	f.srtt, f.rttvar = k.srtt, k.rttvar
	f.window, f.threshold, f.growth = int(k.window), int(k.threshold), int(k.growth)
	f.seen.sndNext, f.seen.rcvNext = f.sndNext, f.rcvNext
	p.flows[l] = f
}

// reclaim puts away the quiet flows of the next peers in turn.
func (e *End) reclaim() {
	for range reclaimLooks {
		e.spare.hand = (e.spare.hand + 1) % len(e.peers)
		for _, f := range e.peers[e.spare.hand].flows {
			if f != nil && !f.waits() && e.quiet(f) {
				e.park(f)
			}
		}
	}
}

// widen gives a flow room for a sequence window of frames.
func (e *End) widen(f *flow) {
	wide := e.spare.flights.take()
	for s := f.sndUna; s != f.sndNext; s++ {
		wide[s%Window] = *f.frame(s)
	}
	f.frames = wide[:]
}

// narrow takes that room back from a flow that has no more than ownFrames frames.
func (e *End) narrow(f *flow) {
	if len(f.frames) == ownFrames {
		return
	}
	for s := f.sndUna; s != f.sndNext; s++ {
		f.room[s%ownFrames] = *f.frame(s)
	}
	e.spare.flights.give((*[Window]frame)(f.frames), spareFlights)
	f.frames = f.room[:]
}

// tidy looks at the peer's flows and puts the quiet ones away. It returns when it wants to look
// again, or Never.
func (e *End) tidy(p *peer) int64 {
	if p.lookAt > e.now {
		return p.lookAt
	}
	p.lookAt = 0
	for _, f := range p.flows {
		if f == nil {
			continue
		}
		if f.sndNext-f.sndUna <= ownFrames {
			e.narrow(f)
		}
		switch used := f.seen.sndNext != f.sndNext || f.seen.rcvNext != f.rcvNext; {
		case used:
			f.seen.sndNext, f.seen.rcvNext = f.sndNext, f.rcvNext
			p.lookAt = e.now + parkAfter
		case f.waits():
			// In flight: the deadline is a timer. Else see above.
		case !e.quiet(f):
			p.lookAt = e.now + parkAfter
		default:
			e.park(f)
		}
	}
	if p.lookAt == 0 {
		return Never
	}
	return p.lookAt
}

// waits reports whether the flow waits for its peer or for a process.
func (f *flow) waits() bool {
	if f.sndNext != f.sndUna || f.rejects.head != nil || f.ahead > 0 {
		return true
	}
	for _, s := range f.streams {
		if s.waiting.head != nil {
			return true
		}
	}
	return false
}

// quiet reports whether a flow that does not wait also owes nothing and backs off from no node. As
// long as a back-off lasts, a node that was full must be tried with care. A flow with a frame that
// is not answered yet is not quiet, because a parked flow counts those before reached as answered.
func (e *End) quiet(f *flow) bool {
	if f.inReady || f.peer.inAckNow || f.peer.ackAt != 0 || e.train.open && e.train.flow == f {
		return false
	}
	for _, s := range f.streams {
		if s.hold > e.now {
			return false
		}
	}
	return true
}

// park keeps the state of a quiet flow that must survive, and frees the flow. The stream that was
// used last goes on where it was. The others start from firstLimit again, as a connection does that
// was idle (RFC 5681 section 4.1).
func (e *End) park(f *flow) {
	k := &f.peer.parked[f.level]
	k.sndNext, k.reached, k.srtt, k.rttvar = f.sndNext, f.reached, f.srtt, f.rttvar
	k.window, k.threshold, k.growth = uint16(f.window), uint16(f.threshold), uint16(f.growth)
	if s := f.recent; s != nil && s.sort == packets && s.met {
		k.node, k.gid, k.limit = s.node, s.owner.GID, uint16(s.limit)
	}
	f.peer.flows[f.level] = nil
	e.spare.used--
	for _, s := range f.streams {
		e.giveStream(s)
	}
	clear(f.streams)
	clear(f.byKey)
	e.narrow(f)
	*f = flow{streams: f.streams[:0], byKey: f.byKey}
	e.spare.flows.give(f, spareFlows)
}

// giveStream takes a stream from its context and keeps it as a spare.
func (e *End) giveStream(s *stream) {
	o := s.owner
	last := o.streams[len(o.streams)-1]
	o.streams[s.index], last.index = last, s.index
	o.streams[len(o.streams)-1] = nil
	o.streams = o.streams[:len(o.streams)-1]
	e.withdraw(s)
	e.quitClass(s)
	*s = stream{}
	e.spare.streams.give(s, spareStreams)
}

// sequence returns the number of the next frame of a level.
func (p *peer) sequence(l arctic.Level) uint32 {
	if f := p.flows[l]; f != nil {
		return f.sndNext
	}
	return p.parked[l].sndNext
}
