package engine

// This file is ULTRA (Froening's thesis, section 3.5): a line of up to seven words of 64 bits goes
// from a store of one process to a load of another, on a path that was set up before
// (ultrapath.go). funi/path.go has the memory of a path's two ends.
//
// A visit of a context looks at its ends. A line is copied once into a line of the end, behind a
// header that needs only its length and sequence, and leaves. The receiver's card finds the end by
// its number, checks who sends, and stores the words in the slice of the sequence. Nothing waits
// for an earlier packet, and the process still receives in order. A packet for which the ring has
// no slice waits at its sender (arctic.ReasonQueueFull), in a stream of its own. Paths have no
// order with other traffic, or among each other.
//
// An end that sends has pathLines lines, which are its slice of the thesis's packet queue. When all
// are in flight the process is told so (funi.PathFull). A context has at most contextPaths ends,
// and no more than it has key slots. The card has arctic.MaxPathEnds of each direction. An account
// may have as many as are free (Choudhury and Hahne, 1998), so another always finds some.
//
// The card stores nothing in the memory of a process outside of a visit, except for packets: what
// happens meanwhile is told at the next one.

import (
	"math/bits"
	"slices"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// pathLines is the most lines of a path in flight.
	pathLines = 16
	// contextPaths is the most ends of a context.
	contextPaths = 64
	// placesOfPath is how many places of the context's table of lines an end has: those of its
	// lines, then that of its packets of set-up.
	placesOfPath = pathLines + 1
	// firstPath is the Index of the first line of the first end.
	firstPath = firstChained + funi.MaxChains*chainLines
	// tellAfter is how long a process may wait for what the target has, in nanoseconds. With its
	// next line it is told at once.
	tellAfter = 4000
	// pathLookBytes is the cost of a look at an end: a cache line that a process may have written.
	pathLookBytes = 32
)

// ultra holds the ends of a card's paths.
type ultra struct {
	core
	table  *contexts
	sched  *scheduler
	routes *routes
	out    *retrieval

	directions [2]pathTable // those that send, and those that receive
	due        agenda[pathEnd]
	generation uint16 // of the last end that receives
}

// pathTable has the ends of one direction by number.
type pathTable struct {
	ends    []*pathEnd // nil: free
	numbers numbers
	used    int
}

// The directions of ends.
const (
	sends = iota
	receives
)

// pathEnd is an end of a path.
type pathEnd struct {
	of        *Context
	payer     *account
	direction int
	number    uint16
	place     int // in paths.places
	node      uint16
	cookie    uint32
	address   uint32 // of its memory
	region    []byte // the same; nil: the card may not touch it any more
	state     pathState
	why       arctic.Reason // it has ended
	memory    funi.CardPath
	told      bool // the process knows the state
	heard     int64

	// The other end, from pathAnswering on, and the generation of that which receives. head is that
	// of the path's data.
	card, peer, generation uint16
	head                   uint64
	header                 arctic.PacketHeader // of the data: all but its length stays the same

	// Of an end that sends. Bit i of free: line i is free.
	lines    []line
	free     uint16
	flags    [pathLines]funi.PathFlags
	sequence uint16
	read     uint32                        // lines that the target has
	readTold uint32                        // as the process knows
	spare    [arctic.MaxPathWords * 8]byte // for a line that is not taken
	// ended is to be told to the process. There are at most as many as lines.
	ended []pathAck

	control line // of set-up
	busy    bool // control is under way
	pending item[pathEnd]
}

// pathAck tells how a line ended whose process wants to know.
type pathAck struct {
	tag uint64
	why arctic.Reason
	irq bool
}

// paths holds the ends of a context.
type paths struct {
	ends    []*pathEnd // in the order in which they were opened
	sending []*pathEnd // those whose process may store lines
	news    bool       // an end has something to tell its process
	since   int64      // since when the process is to be told what the target has; 0: it knows
	places  [contextPaths]*pathEnd
	asked   []pathAsked // requests of others for ends that do not exist yet, oldest first
	flying  int         // lines in use
}

// open reports whether the context has ends.
func (p *paths) open() bool { return p != nil && len(p.ends) > 0 }

// idle reports whether nothing of the context's paths is under way.
func (p *paths) idle() bool { return p == nil || p.flying == 0 }

// stirs reports whether the process has stored a line that the card has not seen, or is to be told
// something.
func (p *paths) stirs() bool {
	if p != nil {
		if p.news || p.since != 0 {
			return true
		}
		for _, e := range p.sending {
			if e.memory.Stored() {
				return true
			}
		}
	}
	return false
}

// line returns the line with an Index of firstPath or more.
func (p *paths) line(index uint16) *line {
	e, i := p.at(index)
	if i == pathLines {
		return &e.control
	}
	return &e.lines[i]
}

// at returns the end of such an Index, and the line's place in it.
func (p *paths) at(index uint16) (*pathEnd, int) {
	i := int(index - firstPath)
	return p.places[i/placesOfPath], i % placesOfPath
}

// look does what the process asks of its ends, and tells it what has happened.
func (u *ultra) look(x *Context) {
	p := x.paths
	if x.halted || x.away {
		return
	}
	sent := false
	for _, e := range p.sending {
		if e.memory.Stored() {
			sent = u.inject(x, e) || sent
		}
	}
	x.account.retrieval -= pathLookBytes * len(p.sending)
	if p.since != 0 && !p.news {
		if p.news = u.clock.now-p.since >= tellAfter; !p.news {
			u.clock.loopNext = min(u.clock.loopNext, p.since+tellAfter)
		}
	}
	if p.news && !sent { // else it delays what was sent; the next visit will do
		p.news, p.since = false, 0
		u.tell(x)
	}
}

// tell tells the process what has happened to its ends, and frees those that have ended.
func (u *ultra) tell(x *Context) {
	for i := 0; i < len(x.paths.ends); i++ {
		e := x.paths.ends[i]
		x.works(pathLookBytes)
		for _, a := range e.ended {
			u.notify(x, e, a)
		}
		e.ended = e.ended[:0]
		if e.readTold != e.read && e.region != nil {
			e.readTold = e.read
			e.memory.PutRead(e.read)
			u.news(x)
		}
		if !e.told {
			e.told = true
			e.memory.PutState(e.tells(), e.why)
			u.news(x)
		}
		if e.state == pathEnded && e.settled() {
			u.release(e)
			i--
		}
	}
}

// news has a process woken that waits for writes: it has something to see in the memory of an end.
func (u *ultra) news(x *Context) {
	x.iface.Wrote()
	u.table.show(x)
}

// inject sends the line that a process has stored, and answers it. It reports whether it has sent
// something.
func (u *ultra) inject(x *Context, e *pathEnd) bool {
	i := bits.TrailingZeros16(e.free | 1<<(pathLines-1))
	ln := &e.lines[i]
	free := e.free&(1<<i) != 0
	data := &e.spare
	if free {
		data = arctic.PathWords(ln.Data[arctic.PacketHeaderSize:])
	}
	size, flags, ok, there := e.memory.Line(data)
	if !there {
		return false
	}
	status, notes := funi.PathTaken, uint32(bits.OnesCount8(uint8(flags&(funi.PathNotify|funi.PathAck))))
	switch {
	case !ok:
		status = funi.PathInvalid
	case e.state != pathOpen:
		status = funi.PathClosed
	case !free || notes > 0 && !x.remote.promise(x, notes):
		status = funi.PathFull
	}
	if status != funi.PathTaken {
		x.works(triggerBytes)
		e.memory.Answer(status)
		return false
	}
	e.free &^= 1 << i
	e.flags[i] = flags
	x.paths.flying++
	words := arctic.PutPathData(ln.Data[arctic.PacketHeaderSize:], e.head, e.sequence, size)
	e.sequence++
	ln.Path = true
	u.sendData(x, e, ln, words)
	u.counters.PathLines++
	e.memory.Answer(funi.PathTaken)
	if e.readTold != e.read {
		e.readTold = e.read
		e.memory.PutRead(e.read)
	}
	if flags&funi.PathNotify != 0 {
		u.notify(x, e, pathAck{tag: tagOf(ln), irq: flags&funi.PathIRQ != 0})
	}
	return true
}

// tagOf returns the tag of the packet in a line: its first word.
func tagOf(ln *line) (tag uint64) {
	if p := ln.Packet().Payload(); len(p) >= 16 {
		for i := range 8 {
			tag |= uint64(p[8+i]) << (8 * i)
		}
	}
	return tag
}

// sendData sends a line. Its header was made when the path was opened: the thesis's
// pre-initialisation.
func (u *ultra) sendData(x *Context, e *pathEnd, ln *line, words int) {
	e.header.Length = uint8(words)
	e.header.Encode(ln.Data[:])
	ln.Size, ln.Node, ln.typ, ln.Owner = uint16(arctic.PacketHeaderSize+words*arctic.WordSize), e.node, 0, x.owner
	x.traffic.Sent++
	x.traffic.SentBytes += uint64(words * arctic.WordSize)
	u.leaves(x, ln, uint32(e.card))
}

// send sends a packet of set-up.
func (u *ultra) send(x *Context, e *pathEnd, ln *line, kind arctic.PathType, words int) {
	ln.Node, ln.typ = e.node, uint16(kind)
	route := u.routes.of(x.group, e.node)
	u.out.compose(x, arctic.Request, ln, arctic.KindExtended, words, route)
	u.leaves(x, ln, route)
}

// leaves hands a packet to the link, or to this card. A lone one leaves at once, as lone does it.
func (u *ultra) leaves(x *Context, ln *line, route uint32) {
	x.account.retrieval -= int(ln.Size) + packetBytes
	if x.trail != nil {
		x.trail.launched(ln, arctic.Request, u.clock.now)
	} else if u.out.model == nil && route != NoRoute && uint16(route) != u.cfg.Card && len(u.sched.awake) == 1 &&
		u.link.Lone(uint16(route), arctic.Request, &ln.Line) {
		return
	}
	u.out.send(x, arctic.Request, ln, route)
	x.calm = false // it may be for this card
}

// notify puts the notification of a line into the ring, where an entry is promised to it.
func (u *ultra) notify(x *Context, e *pathEnd, a pathAck) {
	r := x.remote
	r.enter(x, noteOfRequest)
	x.spends(completionBytes)
	x.iface.NotifyPath(r.head-1, e.cookie, a.tag, a.why)
	if a.irq {
		x.iface.Wrote()
	}
	u.table.touch(x)
}

// settles frees a line of a path. why says why the other card did not take the packet.
func (u *ultra) settles(x *Context, ln *line, why arctic.Reason) {
	e, i := x.paths.at(ln.Index)
	x.paths.flying--
	if i == pathLines {
		e.busy = false
		u.controlEnded(x, e, why)
	} else {
		e.free |= 1 << i
		if e.flags[i]&funi.PathAck != 0 {
			e.ended = append(e.ended, pathAck{tagOf(ln), why, e.flags[i]&funi.PathIRQ != 0})
		}
		if why == arctic.ReasonNone {
			e.heard = u.clock.now
			e.read++
		} else {
			u.fail(e, why)
		}
	}
	if x.detached {
		if e.settled() {
			u.release(e)
		}
		return
	}
	switch p := x.paths; {
	case len(e.ended) > 0 || !e.told || e.state == pathEnded || u.out.model != nil:
		p.news, u.clock.more = true, true
	case p.since == 0:
		p.since = u.clock.now
		fallthrough
	default:
		u.clock.loopNext = min(u.clock.loopNext, p.since+tellAfter)
	}
	if !x.awake {
		x.stir()
	}
}

// settled reports whether nothing of an end is under way.
func (e *pathEnd) settled() bool {
	return !e.busy && (e.direction == receives || e.free == 1<<pathLines-1)
}

// accept takes a packet of a path for the context, or returns the reason of a reject. The packet
// came from the card.
func (u *ultra) accept(x *Context, card uint16, p arctic.Packet, h *arctic.PacketHeader) arctic.Reason {
	if h.Type == uint16(arctic.PathData) && !x.drain {
		return u.acceptData(x, card, p, h)
	}
	var d arctic.PathPacket
	switch {
	case !arctic.ForPaths(h.Type):
		u.counters.UnknownKind++
		return arctic.ReasonUnknownKind
	case !p.Path(h, &d) || h.Level != arctic.Request:
		return arctic.ReasonRemoteForm
	case x.drain: // the owner takes the context off the card
		return arctic.ReasonSwitching
	}
	return u.control(x, card, h.Source, &d)
}

// acceptData takes a line for the context. All that tells its sender was noted when the path was
// opened: the thesis's pre-completion.
func (u *ultra) acceptData(x *Context, card uint16, p arctic.Packet, h *arctic.PacketHeader) arctic.Reason {
	head, sequence, data, ok := p.PathData()
	if !ok || h.Level != arctic.Request {
		return arctic.ReasonRemoteForm
	}
	e := u.end(x, receives, uint16(head>>48))
	if e == nil || e.state != pathOpen || e.head != head || e.card != card || e.node != h.Source {
		return u.refused()
	}
	if !e.memory.Fits(sequence) {
		return arctic.ReasonQueueFull
	}
	e.memory.Put(sequence, data)
	e.heard = u.clock.now
	u.counters.PathPackets++
	x.iface.Wrote()
	x.took(len(data))
	u.table.show(x)
	return arctic.ReasonNone
}

// from reports whether an end accepts packets of set-up of another end.
func (e *pathEnd) from(card, node, number, generation uint16) bool {
	return e.card == card && e.node == node && e.peer == number && e.generation == generation
}

// end returns the context's end of a direction with that number, or nil.
func (u *ultra) end(x *Context, direction int, number uint16) *pathEnd {
	t := &u.directions[direction]
	if int(number) >= len(t.ends) || t.ends[number] == nil || t.ends[number].of != x {
		return nil
	}
	return t.ends[number]
}

// add makes an end with the first number that is free, or returns nil if the context, its account
// or the card has as many ends of that direction as it may have.
func (u *ultra) add(x *Context, direction int, node uint16, m *funi.Path) *pathEnd {
	t, a := &u.directions[direction], x.account
	if x.paths == nil {
		x.paths = new(paths)
	}
	most := pathsOf(len(x.remote.keySlots))
	place := 0
	for place < most && x.paths.places[place] != nil {
		place++
	}
	if place == most || a.paths[direction] >= arctic.MaxPathEnds-t.used {
		return nil
	}
	e := &pathEnd{of: x, payer: a, direction: direction, number: uint16(t.numbers.take()), place: place, node: node,
		memory: funi.NewCardPath(m)}
	e.control.ctx, e.control.Index = x, uint16(firstPath+place*placesOfPath+pathLines)
	if direction == sends {
		e.lines, e.free, e.ended = make([]line, pathLines), 1<<pathLines-1, make([]pathAck, 0, pathLines)
		for i := range e.lines {
			e.lines[i].ctx, e.lines[i].Index = x, uint16(firstPath+place*placesOfPath+i)
		}
		x.paths.sending = append(x.paths.sending, e)
	}
	if int(e.number) == len(t.ends) {
		t.ends = append(t.ends, nil)
	}
	t.ends[e.number] = e
	t.used++
	a.paths[direction]++
	x.paths.places[place] = e
	x.paths.ends = append(x.paths.ends, e)
	return e
}

// pathsOf returns how many ends a context with that many key slots may have.
func pathsOf(keySlots int) int { return min(keySlots, contextPaths) }

// release frees an end of which nothing is under way.
func (u *ultra) release(e *pathEnd) {
	t, p := &u.directions[e.direction], e.of.paths
	u.due.remove(&e.pending)
	t.ends[e.number] = nil
	t.numbers.give(uint32(e.number))
	t.used--
	e.payer.paths[e.direction]--
	if r := e.of.remote; r != nil {
		r.use.Paths--
	}
	u.sched.forgetAccount(e.payer)
	p.places[e.place] = nil
	p.ends, p.sending = without(p.ends, e), without(p.sending, e)
}

// without returns the list without an end.
func without(list []*pathEnd, e *pathEnd) []*pathEnd {
	return slices.DeleteFunc(list, func(f *pathEnd) bool { return f == e })
}
