package engine

// This file sets paths up, and notices their end (Froening's thesis, section 3.5.6). The target
// begins. Its end has a number, and waits. The origin's end gets that number, and answers with its
// own. The target enables its end when it accepts the answer, and the origin when the answer is
// acknowledged: what a card accepts is done, so the thesis's message of completion is not needed.
//
//	target                               origin
//	asking   -- PathInit, its number -->  waiting, or noted until its process opens the end
//	         <-- PathResponse, number --  answering
//	open     -- acknowledgment -------->  open
//
// An origin's process may open its end later than the target's. The card notes up to askedPaths
// requests for a context, for pathTimeout. Ends of a context for one node are joined in the order
// in which they were opened.
//
// An end fails when its packets come back. An end that was not set up within pathTimeout fails,
// too. An open end that has heard nothing for so long asks whether the other end is still there
// (arctic.PathOrigin, PathTarget). So no end outlives the other by much more than pathTimeout, or
// than PeerTimeout if the other card is gone. An end that has failed is told to its process, and is
// free when nothing of it is under way.

import (
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// pathTimeout is how long an end may wait for the other, and may hear nothing before it asks,
	// in nanoseconds.
	pathTimeout = 5e9
	// askedPaths is the most requests for a context that wait for its process to open an end. More
	// wait at their senders.
	askedPaths = 64
	// openBytes is the cost of opening or closing an end, or of a packet of set-up.
	openBytes = 1024
)

// pathState is the state of an end.
type pathState uint8

const (
	pathWaiting   pathState = iota // it sends, and no request for it has come
	pathAsking                     // it receives, and waits for the answer to its request
	pathAnswering                  // it sends, and its answer is under way
	pathOpen
	pathEnded
)

// tells returns the state as the process knows it.
func (e *pathEnd) tells() funi.PathState {
	switch e.state {
	case pathOpen:
		return funi.PathOpen
	case pathEnded:
		return funi.PathEnded
	}
	return funi.PathOpening
}

// pathAsked is a request for an end that the process has not opened yet.
type pathAsked struct {
	node, card         uint16
	number, generation uint16 // of the end that receives
	until              int64
}

// openPath carries out a block that opens an end. It reports whether the block was valid, and there
// is room for the end.
func (u *ultra) openPath(x *Context, node uint16, w *funi.Slot) bool {
	slices, address := int(w[funi.RemoteLengthWord]), w[funi.RemoteSourceWord]
	size, err := funi.PathBytes(slices)
	if err != nil || x.group == nil || x.leaving || address%64 != 0 || x.paths.named(address) != nil {
		return false
	}
	region := x.segments.Memory(address, size, funi.Keyed)
	m, err := funi.MapPath(region, slices)
	if err != nil {
		return false
	}
	direction := sends
	if slices > 0 {
		direction = receives
	}
	x.works(openBytes)
	e := u.add(x, direction, node, m)
	if e == nil {
		return false
	}
	e.address, e.region, e.cookie = address, region, w[funi.RemoteCookieWord]
	x.remote.use.Paths++
	u.due.push(&e.pending, e, u.clock.now+pathTimeout)
	if direction == sends {
		u.join(x, e)
	} else {
		u.generation++
		e.state, e.generation = pathAsking, u.generation
		u.say(x, e, arctic.PathInit)
	}
	u.clock.more = true
	return true
}

// named returns the end whose memory is at the address, or nil.
func (p *paths) named(address uint32) *pathEnd {
	if p != nil {
		for _, e := range p.ends {
			if e.region != nil && e.address == address {
				return e
			}
		}
	}
	return nil
}

// closePath carries out a block that closes an end. What is under way still arrives.
func (u *ultra) closePath(x *Context, w *funi.Slot) bool {
	e := x.paths.named(w[funi.RemoteSourceWord])
	if e == nil {
		return false
	}
	x.works(openBytes)
	u.fail(e, arctic.ReasonGivenUp)
	e.memory.PutState(e.tells(), e.why)
	u.forsake(e)
	return true
}

// forsake ends all use of an end's memory.
func (u *ultra) forsake(e *pathEnd) {
	u.fail(e, arctic.ReasonGivenUp)
	e.region, e.memory, e.told = nil, funi.CardPath{}, true
	p := e.of.paths
	p.sending, p.news, u.clock.more = without(p.sending, e), true, true
}

// forsakeWithin ends all use of memory in a segment for paths.
func (u *ultra) forsakeWithin(x *Context, s funi.Segment) {
	if x.paths != nil {
		for _, e := range x.paths.ends {
			if e.region != nil && s.Holds(e.region) {
				u.forsake(e)
			}
		}
	}
}

// say sends a packet of set-up. If the last one is still under way the end says nothing: what was
// to be asked is asked again later.
func (u *ultra) say(x *Context, e *pathEnd, kind arctic.PathType) {
	if e.busy {
		return
	}
	d := arctic.PathPacket{Kind: kind, Generation: e.generation, Origin: e.number, Target: e.peer}
	if e.direction == receives {
		d.Origin, d.Target = e.peer, e.number
	}
	if kind == arctic.PathInit {
		d.Origin = 0
	}
	e.busy = true
	x.paths.flying++
	e.control.Part = true
	u.send(x, e, &e.control, kind, arctic.PutPath(e.control.Data[arctic.PacketHeaderSize:], &d))
}

// join answers the oldest request for an end that waits, if there is one.
func (u *ultra) join(x *Context, e *pathEnd) {
	p := x.paths
	for i := range p.asked {
		a := p.asked[i]
		if a.node != e.node || a.until <= u.clock.now {
			continue
		}
		p.asked = append(p.asked[:i], p.asked[i+1:]...)
		e.card, e.peer, e.generation, e.state = a.card, a.number, a.generation, pathAnswering
		u.say(x, e, arctic.PathResponse)
		return
	}
}

// control takes a packet of set-up for the context, or returns the reason of a reject.
func (u *ultra) control(x *Context, card, node uint16, d *arctic.PathPacket) arctic.Reason {
	x.spends(openBytes)
	switch d.Kind {
	case arctic.PathInit:
		return u.asked(x, pathAsked{node, card, d.Target, d.Generation, u.clock.now + pathTimeout})
	case arctic.PathResponse:
		e := u.end(x, receives, d.Target)
		if e == nil || e.state != pathAsking || e.node != node || e.generation != d.Generation {
			return u.refused()
		}
		e.card, e.peer = card, d.Origin
		u.open(x, e)
		return arctic.ReasonNone
	}
	direction, number, other := sends, d.Origin, d.Target
	if d.Kind == arctic.PathTarget {
		direction, number, other = receives, d.Target, d.Origin
	}
	e := u.end(x, direction, number)
	if e == nil || e.state != pathOpen && e.state != pathAnswering || !e.from(card, node, other, d.Generation) {
		return u.refused()
	}
	e.heard = u.clock.now
	return arctic.ReasonNone
}

func (u *ultra) refused() arctic.Reason {
	u.counters.PathsRefused++
	return arctic.ReasonNoPath
}

// asked notes a request for an end of the context, and answers it if the end is there.
func (u *ultra) asked(x *Context, a pathAsked) arctic.Reason {
	if x.remote == nil {
		return u.refused() // its process can open none
	}
	if x.paths == nil {
		x.paths = new(paths)
	}
	p := x.paths
	p.asked = slices.DeleteFunc(p.asked, func(b pathAsked) bool { return b.until <= u.clock.now })
	if len(p.asked) == askedPaths {
		return arctic.ReasonQueueFull
	}
	p.asked = append(p.asked, a)
	for _, e := range p.ends {
		if e.direction == sends && e.state == pathWaiting && e.node == a.node {
			u.join(x, e)
			break
		}
	}
	return arctic.ReasonNone
}

// open enables an end.
func (u *ultra) open(x *Context, e *pathEnd) {
	e.state, e.told, e.heard = pathOpen, false, u.clock.now
	d := arctic.PathPacket{Generation: e.generation, Origin: e.number, Target: e.peer}
	if e.direction == receives {
		d.Origin, d.Target = e.peer, e.number
	}
	e.head = d.Head()
	e.header = arctic.PacketHeader{Level: arctic.Request, Kind: arctic.KindExtended, Route: uint32(e.card), GID: x.gid,
		Destination: e.node, Source: x.node}
	u.due.push(&e.pending, e, u.clock.now+pathTimeout)
	u.counters.PathsOpened++
	x.paths.news = true
	x.stir()
}

// fail ends an end. Its process is told in the next visit.
func (u *ultra) fail(e *pathEnd, why arctic.Reason) {
	if e.state == pathEnded {
		return
	}
	e.state, e.why, e.told, e.of.paths.news = pathEnded, why, false, true
	u.due.remove(&e.pending)
}

// controlEnded notes how a packet of set-up ended.
func (u *ultra) controlEnded(x *Context, e *pathEnd, why arctic.Reason) {
	switch {
	case e.state == pathEnded:
	case why == arctic.ReasonNone:
		if e.heard = u.clock.now; e.state == pathAnswering {
			u.open(x, e)
		}
	case why == arctic.ReasonNoPath && e.state == pathAnswering:
		// The target has given up; another may ask.
		e.state = pathWaiting
		u.join(x, e)
	default:
		u.fail(e, why)
	}
}

// overdue fails ends that were not set up in time, and has open ones that have heard nothing ask.
func (u *ultra) overdue() {
	for range givenUpInStep {
		e := u.due.overdue()
		if e == nil {
			return
		}
		x := e.of
		u.table.serving = x
		switch {
		case e.state != pathOpen:
			u.fail(e, arctic.ReasonSilent)
			x.stir()
			continue
		case u.clock.now-e.heard < pathTimeout || x.away || x.halted:
		case e.direction == sends:
			u.say(x, e, arctic.PathTarget)
		default:
			u.say(x, e, arctic.PathOrigin)
		}
		u.due.push(&e.pending, e, u.clock.now+pathTimeout)
	}
	u.clock.more = true
}

// leave ends all ends of a context that ends. Those of which something is under way are free when
// that has ended.
func (u *ultra) leave(x *Context) {
	if x.paths == nil {
		return
	}
	for i := 0; i < len(x.paths.ends); {
		e := x.paths.ends[i]
		u.fail(e, arctic.ReasonGivenUp)
		if e.settled() {
			u.release(e)
		} else {
			i++
		}
	}
	x.paths.asked = nil
}

// buryPaths frees the ends of a context whose lines will not come back.
func (u *ultra) buryPaths(x *Context) {
	for x.paths != nil && len(x.paths.ends) > 0 {
		u.release(x.paths.ends[0])
	}
}

// inherit moves the ends of another context to this one, which takes over what is under way.
func (x *Context) inheritPaths(p *paths) {
	x.paths = p
	for _, e := range p.ends {
		e.of, e.control.ctx = x, x
		for i := range e.lines {
			e.lines[i].ctx = x
		}
	}
}
