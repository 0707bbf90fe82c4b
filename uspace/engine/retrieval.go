package engine

// This file is the Retrieval Unit (thesis 5.2.2). It moves packets from the send queues into the
// undelivered packet cache.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// retrieval moves what processes send into lines, and the lines to the link or to contexts of this
// card.
type retrieval struct {
	core
	routes *routes
	table  *contexts
	sched  *scheduler
	in     *delivery
	model  *model
	remote *remoteUnit

	opened     transfersTo      // long transfers
	late       agenda[transfer] // remote writes that may become late, in the order in which they do
	block      int              // most bytes of a block, or 0: none
	writeBlock int              // the same for writes that areas may count (remote.go)
	unrouted   int              // packets that wait for a route (routemiss.go)
}

// retrieve moves pending packets of the context into free lines, replies first. A packet for which
// there is no line stays in the send queue.
func (o *retrieval) retrieve(x *Context) {
	noLine := false
	for _, l := range arctic.ByPriority {
		pending := x.iface.Pending(l)
		if (x.long == nil || x.long.open == 0) && x.finished[l] == 0 && !x.asking(l) &&
			(pending == 0 || pending == 1 && o.lone(x, l)) {
			continue
		}
		noLine = o.retrieveLevel(x, l, x.batch()) || noLine
	}
	if x.looping {
		if x.loopHold <= o.clock.now || x.loopRoom != x.account.room {
			freed := o.loopback(x)
			if freed && noLine {
				o.clock.more = true // for what found no line there is one now
			}
			x.holdLoop(freed)
		}
		o.clock.loopNext = min(o.clock.loopNext, x.loopHold)
	}
	if x.starved = noLine; noLine {
		x.works(triedBytes)
	}
}

// lone sends the only message of a send queue, or a write or operation of one packet, at once. It
// does so only if nothing unusual is about the packet or before it; the link checks its own part. A
// request goes this way only if no other context may have a reply. Without lone a round trip takes
// 30 % more instructions.
func (o *retrieval) lone(x *Context, l arctic.Level) bool {
	if x.taken[l] != 0 || x.closing || x.trail != nil || l == arctic.Request && len(o.sched.awake) > 1 {
		return false
	}
	s := x.iface.Slot(l, 0)
	h := funi.Header(s.Load(0))
	plain := h.Plain()
	if !plain && !h.Remote() {
		return false
	}
	node, typ, n := h.Fields()
	route := o.routes.of(x.group, node)
	if route == NoRoute || uint16(route) == o.cfg.Card {
		return false
	}
	ln := x.take(l)
	if ln == nil {
		return false
	}
	ln.Node, ln.request = node, h
	kind := arctic.KindMessage
	if plain {
		ln.typ = typ
		arctic.PutWords(ln.Data[arctic.PacketHeaderSize:], s[funi.PayloadWord:funi.PayloadWord+n])
	} else if kind, n = x.loneRequest(ln, l, h, s); n == 0 {
		x.free(ln)
		return false
	}
	o.compose(x, l, ln, kind, n, route)
	if !o.link.Lone(uint16(route), l, &ln.Line) {
		o.link.Queue(uint16(route), l, &ln.Line)
	}
	x.iface.Retire(l, 1)
	o.table.show(x)
	o.counters.PacketsRetrieved++
	a := x.account
	a.retrieval -= int(ln.Size) + packetBytes
	return true
}

// retrieveLevel moves up to budget pending packets of a level, within the bytes that the account
// has left in this step. It reports whether it found no line for one of them.
func (o *retrieval) retrieveLevel(x *Context, l arctic.Level, budget int) (noLine bool) {
	if x.long != nil && !o.finish(x, l, openTransfers) {
		noLine = true
	}
	if x.finished[l] > 0 && x.sending {
		o.retireFinished(x, l)
	}
	if x.asking(l) && x.sending {
		asked, none := o.remote.askMore(x, l, budget)
		o.counters.PacketsRetrieved += uint64(asked)
		noLine = noLine || none
	}
	n := x.iface.Pending(l)
	// current without a slot: HD was taken back
	if n == 0 && (x.current[l] == nil && !x.waitsAside(l) || !x.sending) {
		return noLine
	}
	if x.trail != nil {
		x.trail.saw(l, n-x.taken[l], o.clock.now)
	}
	packets := 0
	a := x.account
	for packets < budget && a.retrieval > 0 {
		if x.current[l] == nil && x.waitsAside(l) {
			x.resume(l)
		}
		if x.current[l] != nil {
			most := min(budget-packets, a.retrieval/pieceBytes+1)
			some, done := o.carryOn(x, l, most)
			packets += some
			a.retrieval -= some * pieceBytes
			if !done {
				noLine = noLine || some < most
				break
			}
			continue
		}
		if x.taken[l] >= n || x.closing { // closing: the process waits for CSQR
			break
		}
		s := x.iface.Slot(l, x.taken[l])
		h := funi.Header(s.Load(0))
		if h.Remote() {
			took, ok := o.remote.takeRemote(x, l, h, s)
			if !ok {
				noLine = true
				break
			}
			made, passed := x.tookRemote(l, took)
			packets, budget = packets+made, budget-passed
			continue
		}
		if h.Many() && h.Words() == 0 {
			if !o.begin(x, l, h, s) {
				noLine = true // or rather no record, which comes free like a line
				break
			}
			if x.current[l] == nil {
				x.taken[l]++ // it was refused, which takes as long as a packet
				x.passed(l)
				budget--
			}
			continue
		}
		ln := x.take(l)
		if ln == nil {
			o.counters.SendQueueNoTicket++
			noLine = true
			break
		}
		o.load(x, l, ln, h, s)
		a.retrieval -= int(ln.Size) + packetBytes
		x.taken[l]++
		x.retrieved(l)
		packets++
	}
	if packets > 0 {
		o.link.Uses(&a.Account, packets*slotBytes)
	}
	if (packets == budget || a.retrieval <= 0) && (x.current[l] != nil || x.waitsAside(l) || n > x.taken[l]) {
		o.clock.more = true
	}
	if x.finished[l] > 0 {
		o.retireFinished(x, l)
	}
	o.counters.PacketsRetrieved += uint64(packets)
	return noLine
}

// tookRemote accounts for a request block that takeRemote has taken. It returns how many packets it
// has made, and how many slots it has passed.
func (x *Context) tookRemote(l arctic.Level, took int) (made, passed int) {
	switch {
	case took < 0:
		x.account.retrieval += took - packetBytes
		return 1, 0
	case x.current[l] != nil:
		return 0, 0
	}
	x.taken[l]++
	if took > 0 {
		x.retrieved(l)
		x.account.retrieval -= took + packetBytes
		return 1, 0
	}
	x.passed(l) // it was refused, or opened something
	return 0, 1
}

// passed notes that a slot was taken without becoming a packet.
func (x *Context) passed(l arctic.Level) {
	if x.trail != nil {
		x.trail.took(l, x.card.clock.now)
	}
	x.retrieved(l)
	x.works(slotBytes)
}

// retrieved notes that the content of a slot has been taken. The slot can be retired together with
// the slots before it.
func (x *Context) retrieved(l arctic.Level) {
	if x.long != nil && x.long.slots[l].head != nil {
		x.long.slots[l].tail.behind++
	} else {
		x.finished[l]++
	}
}

// retireFinished gives slots back to the process.
func (o *retrieval) retireFinished(x *Context, l arctic.Level) {
	o.table.touch(x)
	x.iface.Retire(l, x.finished[l])
	x.taken[l] -= x.finished[l]
	x.finished[l] = 0
}

// load copies a slot once into a line in wire format and queues the line to its flow. From here on
// the process cannot change the packet. The slot's header was read before and is passed in.
func (o *retrieval) load(x *Context, l arctic.Level, ln *line, h funi.Header, s *funi.Slot) {
	if h.Transfer() {
		o.loadTransfer(x, l, ln, h, s)
		return
	}
	n := h.Length()
	ln.Node, ln.typ, ln.request = h.Node(), h.Type(), h
	arctic.PutWords(ln.Data[arctic.PacketHeaderSize:], s[funi.PayloadWord:funi.PayloadWord+n])
	o.launch(x, l, ln, arctic.KindMessage, n)
}

// launch writes the header of a packet of n payload words, which are in the line, and
// queues the line to its flow.
func (o *retrieval) launch(x *Context, l arctic.Level, ln *line, kind arctic.Kind, n int) {
	route := o.routes.of(x.group, ln.Node)
	if t := ln.transfer; t != nil && t.needsHome(ln) {
		route = t.route
	}
	o.compose(x, l, ln, kind, n, route)
	if x.trail != nil {
		x.trail.launched(ln, l, o.clock.now)
	}
	o.send(x, l, ln, route)
}

// send queues a packet to the flow of its route.
func (o *retrieval) send(x *Context, l arctic.Level, ln *line, route uint32) {
	switch {
	case route == NoRoute:
		o.noRoute(x, ln)
	case uint16(route) == o.cfg.Card:
		q := &x.loop[l][loopOf(ln)]
		if q.Head() == nil {
			x.loopHold = 0 // what waits is not before it
		}
		q.Push(&ln.Line)
		x.looping = true
	default:
		o.link.Queue(uint16(route), l, &ln.Line)
	}
}

// compose writes the header of a packet of n payload words, which are in the line.
func (o *retrieval) compose(x *Context, l arctic.Level, ln *line, kind arctic.Kind, n int, route uint32) {
	ln.Size = uint16(arctic.PacketHeaderSize + n*arctic.WordSize)
	ln.Owner = x.owner
	// Field by field, because a composite would be built elsewhere and copied.
	var wire arctic.PacketHeader
	wire.Level, wire.Kind, wire.Route, wire.GID = l, kind, route&arctic.MaxRoute, x.gid
	wire.Length, wire.Type, wire.Destination, wire.Source = uint8(n), ln.typ, ln.Node, x.node
	wire.Encode(ln.Data[:])
	x.traffic.Sent++
	x.traffic.SentBytes += uint64(n*arctic.WordSize + len(ln.Block))
}

// The lists of a context's packets for this card. Parts of long transfers, which need no room in a
// queue, do not wait behind packets that do.
const (
	loopPackets = iota
	loopParts
	loopChains // each packet passes those that wait for room (chain.go)
	loopPaths
	loopQueues
)

func loopOf(ln *line) int {
	switch {
	case ln.Chain > 0:
		return loopChains
	case ln.Path:
		return loopPaths
	case ln.Part || ln.Answer:
		return loopParts
	}
	return loopPackets
}

// holdLoop decides when packets for this card that found no room are tried again. That is after a
// back-off like a stream's, or as soon as a context of the account has room again.
func (x *Context) holdLoop(freed bool) {
	c := x.card
	x.loopRoom = x.account.room
	switch {
	case !x.looping || x.forBus:
		x.loopHold, x.loopBackoff = 0, 0
	case freed || x.account.local <= 0:
		x.loopHold, x.loopBackoff = 0, 0
		if x.account.local > 0 {
			x.loopHold = c.clock.now + int64(c.cfg.MinHold)
		}
	default:
		x.loopBackoff = min(max(2*x.loopBackoff, int64(c.cfg.MinHold)), int64(c.cfg.MaxHold))
		x.loopHold = c.clock.now + x.loopBackoff
	}
}

// roomMade has packets tried again for which the context had no room and now has some.
func (o *retrieval) roomMade(x *Context) {
	for l := range arctic.Levels {
		if x.noRoom[l] && x.iface.Vacant(arctic.Level(l)) != nil {
			x.noRoom[l] = false
			x.account.room++
			o.clock.more = true
		}
	}
}

// loopback delivers packets between contexts of this card, which never see a port. A packet for
// which the receive queue has no room waits in its line. loopback reports whether a line was freed.
func (o *retrieval) loopback(x *Context) (freed bool) {
	x.looping, x.forBus = false, false
	for _, l := range arctic.ByPriority {
		for i := range x.loop[l] {
			if q := &x.loop[l][i]; q.Head() != nil {
				freed = o.loopQueue(x, l, q) || freed
				x.looping = x.looping || q.Head() != nil
			}
		}
	}
	return freed
}

// packetCost returns the cost of judging a packet, apart from its bytes.
func packetCost(k arctic.Kind) int {
	if k == arctic.KindMessage || k == arctic.KindTransfer {
		return packetBytes
	}
	return operationBytes
}

// loopQueue delivers the packets of one list, up to the first that finds no room. A copy of a
// multicast that finds none lets later copies pass, which may be of other chains. loopQueue stays
// within the bytes that the account has left in this step, because a block is copied.
func (o *retrieval) loopQueue(x *Context, l arctic.Level, q *link.Lines) (freed bool) {
	var again link.Lines
	for a := x.account; q.Head() != nil; {
		if a.local <= 0 {
			o.clock.more = true
			break
		}
		ln := o.table.lineOf(q.Head())
		to, reason := o.routes.lookup(x.gid, ln.Node, x.tag)
		p := arctic.Packet(ln.Data[:ln.Size])
		h := p.Header()
		waits := o.model != nil && !o.model.timeLocal(x, to, ln, p, &h)
		if !waits {
			o.table.serving = to
			if reason == arctic.ReasonNone {
				reason = o.in.accept(to, nil, l, p, &h, ln.Block)
			}
			o.table.serving = x
			if reason == arctic.ReasonMoved && o.routes.of(x.group, ln.Node) != uint32(o.cfg.Card) {
				x.reroute(o.table.lineOf(q.Pop()))
				continue
			}
			if waits = reason != arctic.ReasonNone && !reason.Permanent(); waits {
				a.local -= triedBytes
				o.link.Uses(&a.Account, triedBytes)
				// others wait until its process reads
				if to != nil && to.account != nil && (h.Kind == arctic.KindMessage || h.Kind == arctic.KindTransfer ||
					h.Kind == arctic.KindMulticast && reason == arctic.ReasonQueueFull) {
					to.noRoom[l], to.calm = true, false
				}
			}
		}
		switch {
		case waits && ln.Chain == 0:
			return freed
		case waits:
			again.Push(q.Pop())
			continue
		}
		q.Pop()
		freed = true
		cost := int(ln.Size) + len(ln.Block) + packetCost(h.Kind)
		a.local -= cost
		o.link.Uses(&a.Account, cost)
		o.counters.LoopedToOwnCard++
		if reason == arctic.ReasonNone {
			x.delivered(ln)
		} else {
			x.returned(ln, reason)
		}
	}
	for again.Head() != nil {
		q.Push(again.Pop())
	}
	return freed
}

// giveUp takes the packets that are not in flight out of the undelivered packet cache.
func (o *retrieval) giveUp(x *Context, to func(*line)) {
	o.link.GiveUp(x.owner, nil, func(ln *link.Line) { to(o.table.lineOf(ln)) })
	for l := range x.loop {
		for i := range x.loop[l] {
			for q := &x.loop[l][i]; q.Head() != nil; {
				to(o.table.lineOf(q.Pop()))
			}
		}
	}
	for x.unrouted.Head() != nil {
		o.unrouted--
		to(o.table.lineOf(x.unrouted.Pop()))
	}
}
