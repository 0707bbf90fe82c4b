package engine

// This file is the packet half of the Network Packet Preprocessor (thesis 5.6.2). Package link has
// checked a frame and passes on the packets that are new. Here each of them is accepted or
// rejected.

import (
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
)

// handled ends the handling of a frame from port i.
func (d *delivery) handled(i int, b []byte) {
	if d.link.Settles {
		d.settleLines()
	}
	if d.link.See != nil {
		d.link.See(i, b, d.link.Fate)
	}
}

// judge accepts or rejects the packets of a frame and answers it.
func (d *delivery) judge(t *link.Train) {
	x, why := d.recipient(t)
	d.table.serving = x
	var trail *Trail
	if x != nil {
		trail = x.trail
	}
	cost := link.FrameTime + len(t.Packets) + len(t.Block)
	// The account of the packets' context pays. For a node of the job without a context here it is
	// the account of the job's contexts. nil: no account on this card has caused the packets.
	t.Payer = nil
	if x != nil && x.account != nil {
		t.Payer = &x.account.Account
	} else if why == arctic.ReasonNoContext || why == arctic.ReasonSwitching {
		if g := d.routes.groups[t.Header.GID&arctic.MaxGID]; g != nil && g.payer != nil && g.tag == t.Header.Tag {
			t.Payer = &g.payer.Account
		}
	}
	if t.Payer == nil {
		d.link.SpendsForNobody(cost)
	} else {
		d.link.Uses(t.Payer, cost)
	}
	packet, rest := arctic.Next(t.Packets)
	// also where the memory of a process failed meanwhile (Abandon)
	d.atOnce, d.single, d.due = false, len(rest) == 0 && trail == nil, nil
	var v link.Verdict
	var next arctic.PacketHeader
	h := &t.First
	cost = 0
	for i := 0; ; i++ {
		reason := why
		switch {
		case why != arctic.ReasonNone:
		case trail == nil:
			reason = d.accept(x, t, t.Header.Level, packet, h, t.Block)
		default:
			reason = trail.accept(x, t, packet, i)
		}
		if reason != arctic.ReasonNone {
			d.rejected(x, reason)
			v.Note(i, reason)
		}
		if !d.single {
			cost += packetCost(h.Kind)
		}
		if len(rest) == 0 {
			break
		}
		packet, rest = arctic.Next(rest)
		next = packet.Header()
		h = &next
	}
	switch {
	case d.single:
		d.single = false
	case t.Payer != nil:
		d.link.Spends(t.Payer, cost)
	default:
		d.link.SpendsForNobody(cost)
	}
	if d.link.Answer(&v, d.atOnce); d.due != nil {
		d.sendDue()
	}
}

// recipient returns the context that packets of a frame are for, or why all of them are rejected.
// News of a node's place for a node that is not here is for the card itself: then there is neither.
func (d *delivery) recipient(t *link.Train) (*Context, arctic.Reason) {
	h := t.Header
	x, why := d.routes.lookup(h.GID, t.First.Destination, h.Tag)
	if why == arctic.ReasonJob {
		return nil, why // the group that is here is another job's, whoever sent the frame
	}
	// For a group that is not here nothing is delivered, and no table says where the group's
	// nodes are.
	if d.routes.fromElsewhere(t) {
		if x != nil && x.arriving && h.GID != SystemGroup && x.node == t.First.Source && t.First.Kind ==
			arctic.KindForward {
			return x, why // it comes from a card that this one has not heard of as its home
		}
		d.counters.ForgedSource++
		return nil, arctic.ReasonSourceNode // it is answered: the peer's flow would wait
	}
	if why == arctic.ReasonNoContext && t.First.Kind == arctic.KindForward {
		if d.routes.moving(h) != nil {
			why = arctic.ReasonNone
		}
		return nil, why
	}
	if h.GID != SystemGroup || d.cfg.SystemEvent == nil {
		return x, why
	}
	if !d.routes.isResident(SystemGroup) {
		x, why = nil, arctic.ReasonSwitching // until the system is here (thesis 3.3.2)
	}
	if why == arctic.ReasonSwitching || x != nil && x.rejection != arctic.ReasonNone {
		d.cfg.SystemEvent()
	}
	return x, why
}

// fromElsewhere reports whether the route table has the source of a frame's packets on another
// card.
func (r *routes) fromElsewhere(t *link.Train) bool {
	g := r.groups[t.Header.GID]
	return g != nil && len(g.nodes) > 0 && r.of(g, t.First.Source) != uint32(t.Header.SourceCard)
}

// moving returns the group of a frame with news of a node's place, when the node that the frame is
// for is not here. It returns nil if the group has no route table of its own here, or its last
// context was of another job. The route table says which card may give the news (forward.go).
func (r *routes) moving(h *arctic.Header) *group {
	g := r.groups[h.GID&arctic.MaxGID]
	if g == nil || g.routes == nil || g.tag != h.Tag {
		return nil
	}
	return g
}

// settleLines takes settled lines back from the link: they are free, or their packets return to the
// process.
func (d *delivery) settleLines() {
	for d.link.Settles {
		settled := d.link.NextSettled()
		if settled == nil {
			d.table.serving = nil
			d.out.failTransfers(d.link.NextAnew())
			continue
		}
		ln := d.table.lineOf(settled)
		d.table.serving = ln.ctx
		switch ln.Settled {
		case link.Returned:
			ln.ctx.returned(ln, ln.Reason)
		case link.Discarded:
			d.counters.Discarded++
			ln.asked = false
			ln.ctx.free(ln)
		case link.Moved:
			ln.ctx.reroute(ln)
		default:
			ln.ctx.delivered(ln)
		}
	}
	d.table.serving = nil
}
