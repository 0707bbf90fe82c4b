package engine

// This file is the packet half of the Network Packet Preprocessor (thesis 5.6.2). Package link has
// checked a frame and passes on the packets that are new. Here each of them is accepted or
// rejected.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// preprocess takes a frame from port i.
func (c *Card) preprocess(i int, b []byte) {
	if t := c.link.Arrive(i, b); t != nil {
		c.judge(t)
		c.table.serving = nil
	} else {
		c.link.SpendsForAnswer()
	}
	c.handled(i, b)
}

// handled ends the handling of a frame from port i.
func (c *Card) handled(i int, b []byte) {
	if c.link.Settles() {
		c.settleLines()
	}
	c.link.Observed(i, b)
}

// judge accepts or rejects the packets of a frame and answers it.
func (c *Card) judge(t *link.Train) {
	x := c.recipient(t)
	c.table.serving = x
	var trail *Trail
	if x != nil {
		trail = x.trail
	}
	cost := link.FrameTime + len(t.Packets) + len(t.Block)
	if t.Payer = c.payerOf(t, x); t.Payer == nil {
		c.link.SpendsForNobody(cost)
	} else {
		c.link.Uses(t.Payer, cost)
	}
	// also where the memory of a process failed meanwhile (Abandon)
	c.atOnce, c.single, c.due = false, false, nil
	packet, rest := arctic.Next(t.Packets)
	if len(rest) == 0 && trail == nil { // the only one
		c.single = true
		reason := c.accept(x, t, t.Level(), packet, &t.First, t.Block)
		c.single = false
		if reason == arctic.ReasonNone {
			c.link.Accept(c.atOnce)
			if c.due != nil {
				c.sendDue()
			}
			return
		}
		var v link.Verdict
		c.rejected(x, reason)
		v.Note(0, reason)
		c.link.Answer(&v, c.atOnce)
		return
	}
	c.judgeAll(t, x, trail)
}

// judgeAll judges and answers a frame of several packets, or one of a context that is traced.
func (c *Card) judgeAll(t *link.Train, x *Context, trail *Trail) {
	var v link.Verdict
	l, packets, cost := t.Level(), t.Packets, 0
	for i := 0; len(packets) > 0; i++ {
		var packet arctic.Packet
		packet, packets = arctic.Next(packets)
		var reason arctic.Reason
		h := packet.Header()
		cost += packetCost(h.Kind)
		if trail == nil {
			reason = c.accept(x, t, l, packet, &h, t.Block)
		} else {
			reason = trail.accept(x, t, packet, i)
		}
		if reason != arctic.ReasonNone {
			c.rejected(x, reason)
			v.Note(i, reason)
		}
	}
	if t.Payer != nil {
		c.link.Spends(t.Payer, cost)
	} else {
		c.link.SpendsForNobody(cost)
	}
	c.link.Answer(&v, c.atOnce)
}

// payerOf returns the account that pays for the packets of a frame: that of their context. For a
// node of the job without a context here it is the account of the job's contexts. nil: no account
// on this card has caused the packets.
func (c *Card) payerOf(t *link.Train, x *Context) *link.Account {
	switch {
	case x != nil && x.account != nil:
		return &x.account.Account
	case x == nil || x == c.absent:
		if g := c.groups[t.Header.GID&arctic.MaxGID]; g != nil && g.payer != nil && g.tag == t.Header.Tag {
			return &g.payer.Account
		}
	}
	return nil
}

// recipient returns the context that takes or rejects the packets of a frame, nil for a node that
// is not here.
func (c *Card) recipient(t *link.Train) *Context {
	h := t.Header
	x := c.lookup(h.GID, t.First.Destination, h.Tag)
	if x == c.foreign {
		return x // the group that is here is another job's, whoever sent the frame
	}
	// For a group that is not here nothing is delivered, and no table says where the group's
	// nodes are.
	if c.fromElsewhere(t) {
		if x != nil && x.arriving && h.GID != SystemGroup && x.node == t.First.Source && t.First.Kind ==
			arctic.KindForward {
			return x // it comes from a card that this one has not heard of as its home
		}
		c.counters.ForgedSource++
		return c.stranger // it answers: the card is a peer, and its flow would wait
	}
	if x == nil && t.First.Kind == arctic.KindForward {
		return c.clerkOf(h.GID, h.Tag)
	}
	if h.GID != SystemGroup || c.cfg.SystemEvent == nil {
		return x
	}
	if !c.isResident(SystemGroup) {
		x = c.absent // its senders try again until the system is here (thesis 3.3.2)
	}
	if x != nil && x.rejection != arctic.ReasonNone {
		c.cfg.SystemEvent()
	}
	return x
}

// fromElsewhere reports whether the route table has the source of a frame's packets on another
// card.
func (c *Card) fromElsewhere(t *link.Train) bool {
	g := c.groups[t.Header.GID]
	return g != nil && len(g.nodes) > 0 && c.route(g, t.First.Source) != uint32(t.Header.SourceCard)
}

// clerkOf returns the context that takes the news of a node's place when the node that it was sent
// to is not here. It returns nil if the group has no route table of its own here, or its last
// context was of another job. The route table says which card may give the news (forward.go).
func (c *Card) clerkOf(gid uint16, tag uint64) *Context {
	g := c.groups[gid&arctic.MaxGID]
	if g == nil || g.routes == nil || g.tag != tag {
		return nil
	}
	c.clerk.group, c.clerk.gid = g, gid
	return c.clerk
}

// settleLines takes settled lines back from the link: they are free, or their packets return to the
// process.
func (c *Card) settleLines() {
	for settled := c.link.NextSettled(); settled != nil; settled = c.link.NextSettled() {
		ln := c.table.lineOf(settled)
		c.table.serving = ln.ctx
		switch ln.Settled {
		case link.Returned:
			ln.ctx.returned(ln, ln.Reason)
		case link.Discarded:
			c.counters.Discarded++
			ln.ctx.free(ln)
		case link.Moved:
			ln.ctx.reroute(ln)
		default:
			ln.ctx.delivered(ln)
		}
	}
	c.table.serving = nil
	for card, why, ok := c.link.NextAnew(); ok; card, why, ok = c.link.NextAnew() {
		c.failTransfers(card, why)
	}
}
