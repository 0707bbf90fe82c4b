package engine

// This file is chained multicast (Tokyo, sections 2.2.1 and 3.3.1.3; arctic/multicast.go,
// funi/multicast.go): how a multicast leaves, what a member does with a copy, and how the copies
// that it sends on end.
//
// A member checks a copy, takes the lines for the packets that it will send, delivers, and only
// then sends on. A copy is accepted once, so a member delivers once. No member further on has a
// copy that a member before it refused. A member with no member behind it answers the origin. A
// member whose copy is not taken by the next one answers, too, in the line that the copy was in. So
// a copy that is sent on always ends in one report, and needs no further room for it. A broken
// member is reported and not passed by: it might have sent on already.
//
// There are no loops. A member takes copies only from the one node that it names. They must be
// meant for exactly as many members as it knows of, and that number is smaller at each member
// behind it. The first member takes copies from any node of the group, in that node's own name.
//
// Full queues. A chain has the lines of chainDepth multicasts, and takes no more meanwhile
// (arctic.ReasonBusy, for now). No other chain waits with it, neither here nor in the link, where
// it has streams of its own. So chains that cross each other cannot stop each other. A message
// waits for room in the member's receive FIFO as any message does. The lines are the member's, and
// its account pays for the copies that it sends on.
//
// On a modelled machine (units.go) the origin's block is retrieved as the words of a slot are. A
// card whose kinds of packets have times of their own fetches the block's data as that of a write
// (writetime.go). A member's message takes the Delivery Unit the time of any message. A put has the
// bus before it is accepted, as any operation on a window (operateunit.go). Copies that the member
// sends on leave when its own copy is accepted (Tokyo, 2.2.1: the interface stores the message and
// forwards it). They go by way of the Dispatch Unit and the Transmit Scheduler, and so does the
// report of the last member.

import (
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	// chainDepth is how many unanswered multicasts of a chain a member may have sent on, to MaxNext
	// others each. A member with fewer others behind it may have more.
	chainDepth = 4
	// chainLines is how many lines a chain has.
	chainLines = chainDepth * funi.MaxNext
	// longestWay is how many members on a way may be full, each behind the next, before the origin
	// gives up a multicast that waits there.
	longestWay = 16
	// firstChained is the Index of the first line of the first chain.
	firstChained = firstAnswer + answerLines
)

// chain holds the context's knowledge of a chain, and the lines that it sends on with. Bit i of
// free is set while line i is free.
type chain struct {
	member  bool
	first   bool
	parent  uint16
	members uint16 // members from here on, this one included
	next    []funi.Next
	room    [funi.MaxNext]funi.Next // memory for next
	lines   [chainLines]line
	free    uint16
}

// chains holds the chains of a context by number; nil: the context was never a member of one.
type chains [funi.MaxChains]*chain

// setChain carries out a block of SetChain, and reports whether the block was valid.
func (x *Context) setChain(w *funi.Slot) bool {
	var next [funi.MaxNext]funi.Next
	var set funi.Chain
	leaves, ok := funi.ReadChain(w, &next, &set)
	if !ok {
		return false
	}
	if x.chains == nil {
		x.chains = new(chains)
	}
	ch := x.chains[set.Number]
	if leaves {
		if ok = ch != nil && ch.member; ok {
			ch.member = false
			x.remote.use.Chains--
		}
		return ok
	}
	if ch == nil {
		ch = &chain{free: 1<<chainLines - 1}
		for i := range ch.lines {
			ch.lines[i].ctx, ch.lines[i].Index = x, firstChained+set.Number*chainLines+uint16(i)
		}
		x.chains[set.Number] = ch
	}
	if !ch.member {
		x.remote.use.Chains++
	}
	ch.member, ch.first, ch.parent, ch.members = true, set.First, set.Parent, 1
	ch.next = ch.room[:copy(ch.room[:], set.Next)]
	for _, n := range ch.next {
		ch.members += n.Members
	}
	return true
}

// chainedLine returns the line with an Index of firstChained or more.
func (x *Context) chainedLine(index uint16) *line {
	i := index - firstChained
	return &x.chains[i/chainLines].lines[i%chainLines]
}

// freeChained frees such a line.
func (x *Context) freeChained(ln *line) {
	i := ln.Index - firstChained
	x.chains[i/chainLines].free |= 1 << (i % chainLines)
}

// allSentOn reports whether the context has nothing under way for chains.
func (x *Context) allSentOn() bool {
	if x.chains == nil {
		return true
	}
	for _, ch := range x.chains {
		if ch != nil && ch.free != 1<<chainLines-1 {
			return false
		}
	}
	return true
}

// inheritChains moves the lines of another context's chains to this context, which takes over the
// packets that the other has in flight.
func (x *Context) inheritChains(of *chains) {
	x.chains = of
	for i := range of {
		if of[i] == nil {
			continue
		}
		for j := range of[i].lines {
			of[i].lines[j].ctx = x
		}
	}
}

// takeMulticast takes a block of Multicast; see takeRemote.
func (u *remoteUnit) takeMulticast(x *Context, l arctic.Level, h funi.Header, s,
	w *funi.Slot) (bytes int, why arctic.Reason, ok bool) {
	var m funi.MulticastRequest
	size, ok := funi.ReadMulticast(w, &m)
	if !ok || x.remote == nil || l != arctic.Request {
		return 0, arctic.ReasonRemoteRequest, true
	}
	if m.Put && size > u.inPage(m.Address) {
		return 0, arctic.ReasonOperand, true
	}
	if !x.remote.requests.hasLedger(int(m.Members)) {
		return 0, arctic.ReasonNoBuffer, true
	}
	ln := x.take(l)
	if ln == nil {
		u.counters.SendQueueNoTicket++
		return 0, arctic.ReasonNone, false
	}
	q := x.takeRequest()
	if q == nil {
		x.free(ln)
		return 0, arctic.ReasonNoBuffer, true
	}
	q.opensLedger(int(m.Members), uint16(u.proofs.Uint64()))
	q.asks, q.node, q.level, q.operation, q.cookie = true, h.Node(), l, arctic.RemoteMulticast, m.Cookie
	q.total = int(m.Members)
	ln.Node, ln.request, ln.argument, ln.Chain = h.Node(), h, m.Cookie, chainLane(m.Chain)
	var data [arctic.MaxMulticastWords * arctic.WordSize]byte
	words := wordsOf(size)
	arctic.PutWords(data[:words*arctic.WordSize], s[funi.RemoteDataWord:funi.RemoteDataWord+words])
	p := arctic.Multicast{Chain: m.Chain, Left: m.Members, Origin: x.node, ID: q.id(), Proof: q.ledger.proof,
		Put: m.Put, Message: m.Message, Key: m.Key, Address: m.Address, Data: data[:size]}
	ln.typ = p.Type()
	ln.asksFor(u, q, int(m.Members))
	u.model.timeWrite(ln, false, size, 0, true)
	u.out.launch(x, l, ln, arctic.KindMulticast, arctic.PutMulticast(ln.Data[arctic.PacketHeaderSize:], &p))
	return int(ln.Size), arctic.ReasonNone, true
}

// chainLane returns link.Line.Chain for packets along the chain with that number.
func chainLane(number uint16) uint8 { return 1 + uint8(number) }

// acceptMulticast takes a copy for the context, or returns the reason of a reject.
func (u *remoteUnit) acceptMulticast(x *Context, p arctic.Packet, h *arctic.PacketHeader) arctic.Reason {
	var m arctic.Multicast
	reason := arctic.ReasonNone
	switch {
	case !p.Multicast(h, &m) || h.Level != arctic.Request:
		reason = arctic.ReasonRemoteForm
	case x.drain: // the owner takes the context off the card
		return arctic.ReasonSwitching
	default:
		reason = u.chained(x, h, &m)
	}
	if reason.Permanent() {
		u.refused(x, m.Origin, m.Key, reason)
	}
	return reason
}

// chained checks a copy, delivers it and sends it on.
func (u *remoteUnit) chained(x *Context, h *arctic.PacketHeader, m *arctic.Multicast) arctic.Reason {
	var e examined
	ch, reason := u.examineCopy(x, h, m, &e)
	if reason != arctic.ReasonNone {
		return u.unfit(x, x.remote, m.Origin, &e, reason)
	}
	if reason := u.deliverMulticast(x, h, m, e.memory); reason != arctic.ReasonNone {
		return reason
	}
	u.sendOn(x, ch, h, m)
	return arctic.ReasonNone
}

// examineCopy finds the chain of a copy and the memory of a put, or returns why the copy is
// refused. It changes nothing, as examine does.
func (u *remoteUnit) examineCopy(x *Context, h *arctic.PacketHeader, m *arctic.Multicast,
	e *examined) (ch *chain, why arctic.Reason) {
	if x.chains == nil || m.Chain >= funi.MaxChains || x.chains[m.Chain] == nil || x.remote == nil {
		return nil, arctic.ReasonChain
	}
	ch = x.chains[m.Chain]
	switch {
	case !ch.member || m.Left != ch.members:
		return nil, arctic.ReasonChain
	case ch.first && (m.Origin != h.Source || m.Place != 0):
		return nil, arctic.ReasonChain
	case !ch.first && h.Source != ch.parent:
		return nil, arctic.ReasonChain
	case bits.OnesCount16(ch.free) < max(len(ch.next), 1):
		return nil, arctic.ReasonBusy
	case !m.Put:
		return ch, arctic.ReasonNone
	}
	w, n, reason := u.find(x.remote, m.Origin, m.Key)
	if reason != arctic.ReasonNone {
		return nil, reason
	}
	e.window, e.number = w, n
	if w.suspended {
		e.missed, e.missedNumber, e.missedAt = w, n, m.Address
		return nil, arctic.ReasonAbsent
	}
	if reason := w.permits(m.Origin, funi.RightWrite); reason != arctic.ReasonNone {
		return nil, reason
	}
	if e.memory = w.at(m.Address, len(m.Data)); e.memory == nil {
		return nil, arctic.ReasonRange
	}
	return ch, arctic.ReasonNone
}

// timeMulticast notes the words that a copy moves before it is accepted (operateunit.go): for a
// put, its data. A message moves none then; the Delivery Unit takes its time for it later.
func (u *model) timeMulticast(x *Context, p arctic.Packet, h *arctic.PacketHeader) {
	var m arctic.Multicast
	var e examined
	if !p.Multicast(h, &m) || h.Level != arctic.Request || !m.Put {
		return
	}
	if _, reason := u.remote.examineCopy(x, h, &m, &e); reason == arctic.ReasonNone {
		u.fetchEntry(x, m.Key, m.Address)
		u.operate.move(wordsOf(len(m.Data)))
	}
}

// deliverMulticast gives a copy to the context's process. memory is where the data of a put goes.
// If it returns a reason, nothing has changed.
func (u *remoteUnit) deliverMulticast(x *Context, h *arctic.PacketHeader, m *arctic.Multicast,
	memory []byte) arctic.Reason {
	if m.Put {
		copy(memory, m.Data)
		x.iface.Wrote()
		x.took(len(m.Data))
		return arctic.ReasonNone
	}
	var message [arctic.MaxPacketSize]byte // it is as if the origin had sent it
	as := arctic.PacketHeader{Level: arctic.Request, Kind: arctic.KindMessage, GID: h.GID,
		Length: uint8(len(m.Data) / arctic.WordSize), Type: m.Message,
		Destination: x.node, Source: m.Origin}
	as.Encode(message[:])
	size := arctic.PacketHeaderSize + copy(message[arctic.PacketHeaderSize:], m.Data)
	if q := &x.fifo[arctic.Request]; q.n == 0 && q.bypass {
		if s := x.iface.Vacant(arctic.Request); s != nil {
			u.in.deliver(x, arctic.Request, s, message[:size], &as)
			return arctic.ReasonNone
		}
	}
	return x.hold(arctic.Request, message[:size], false)
}

// sendOn sends a delivered copy to the members behind this one, or answers the origin if there are
// none. The first copy counts the members so far, whose places come before its receiver's.
func (u *remoteUnit) sendOn(x *Context, ch *chain, h *arctic.PacketHeader, m *arctic.Multicast) {
	u.counters.Multicasts++
	u.clock.more, x.calm = true, false // the next member may be on this card
	if len(ch.next) == 0 {
		u.report(x, ch.take(), m, 0, arctic.ReasonNone)
		return
	}
	on := *m
	on.Done++
	on.Place++
	for _, n := range ch.next {
		ln := ch.take()
		on.Left = n.Members
		ln.Node, ln.typ, ln.Answer, ln.Chain = n.Node, h.Type, true, chainLane(m.Chain)
		words := arctic.PutMulticast(ln.Data[arctic.PacketHeaderSize:], &on)
		x.spends(arctic.PacketHeaderSize + words*arctic.WordSize + operationBytes)
		u.model.timeWrite(ln, false, len(m.Data), 0, false)
		u.out.launch(x, arctic.Request, ln, arctic.KindMulticast, words)
		u.counters.SentOn++
		on.Done = 0
		on.Place += n.Members
	}
}

// take returns a free line of the chain. The caller has checked that there is one.
func (ch *chain) take() *line {
	i := bits.TrailingZeros16(ch.free)
	ch.free &^= 1 << i
	return &ch.lines[i]
}

// report tells the origin of a multicast that a copy was taken and goes no further, or that a node
// did not take it and why. It uses a line of the chain.
func (u *remoteUnit) report(x *Context, ln *line, m *arctic.Multicast, node uint16, reason arctic.Reason) {
	var data [arctic.ReportBytes]byte
	arctic.PutReport(data[:], &arctic.Report{Place: m.Place, Done: m.Done, Left: m.Left, Proof: m.Proof, Node: node,
		Reason: reason})
	a := arctic.Response{ID: m.ID, Data: data[:]}
	ln.Node, ln.typ, ln.Answer, ln.Chain = m.Origin, a.Type(), true, 0
	words := arctic.PutResponse(ln.Data[arctic.PacketHeaderSize:], &a)
	x.spends(arctic.PacketHeaderSize + words*arctic.WordSize + operationBytes)
	u.model.timeWrite(ln, false, arctic.ReportBytes, 0, false)
	u.out.launch(x, arctic.Reply, ln, arctic.KindResponse, words)
}

// notSentOn takes back a copy or a report that was not accepted. It reports a copy to the origin; a
// report that comes back is only counted. A context that has ended, or that gives up its waiting
// packets, reports nothing.
func (x *Context) notSentOn(ln *line, reason arctic.Reason) {
	c := x.card
	p := arctic.Packet(ln.Data[:ln.Size])
	h := p.Header()
	var m arctic.Multicast
	if x.detached || reason == arctic.ReasonGivenUp || h.Kind != arctic.KindMulticast || !p.Multicast(&h, &m) {
		c.counters.AnswersReturned++
		x.free(ln)
		return
	}
	ln.Clear()
	c.remote.report(x, ln, &m, h.Destination, reason)
	c.clock.more, x.calm = true, false
}

// timeReport notes the words that a report moves: if it is the last, the record of the completion.
func (u *model) timeReport(q *request, a *arctic.Response) {
	var r arctic.Report
	if q.readReport(a, &r) == arctic.ReasonNone && q.ledger.endsWith(&r) {
		u.timeRecord()
	}
}

// patience returns how long the operation waits for its next answer. A member of a chain may take
// ConnectTimeout to find that the next member's card is not there. Members that are full, one after
// the other, may take MaxHold each until they try again. The time is the same for all multicasts,
// so that remoteUnit.unanswered stays in order.
func (q *request) patience() int64 {
	c := q.of.card
	if q.kind() == 1 {
		return c.remote.answerTimeout() + int64(c.cfg.ConnectTimeout) + longestWay*int64(c.cfg.MaxHold)
	}
	return c.remote.answerTimeout()
}
