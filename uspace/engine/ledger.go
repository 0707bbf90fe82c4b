package engine

// This file is what the origin of a multicast knows of the members of the chain, from the reports
// on its copies (chain.go, arctic/multicast.go).
//
// A report speaks of the members at an interval of places. Mostly the intervals of all reports are
// disjoint. Where a card was lost while it had a copy, whoever sent that copy reports that nobody
// knows of it, and the member may report, too, earlier or later, and so may those behind it. So the
// ledger has two bits for each member: something is known of it, and something was reported. A
// member is counted when the first becomes set, once; what is known comes before doubt. The
// multicast is complete when all members have the second, and who has not the first then is
// doubtful.
//
// A record has room for the bits of shortChain members, allocated once. A context can have
// longLedgers multicasts under way to more members than that; further ones come back with
// arctic.ReasonNoBuffer, as those that find no record.

import (
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	shortChain  = 256
	longLedgers = 4
)

// ledger is what is known of the members of a multicast. Bit i of a set: the member at place i.
type ledger struct {
	proof     uint16
	members   int
	delivered int
	failed    int
	covered   int      // bits of told
	known     []uint64 // has it, or does not
	told      []uint64 // is known, or in doubt
	named     int
	broken    [funi.MaxNamed]brokenAt
	first     arctic.Reason // of the first that was named, or would have been if there were room
	short     [2][shortChain / 64]uint64
	long      *longLedger // nil: short
}

type brokenAt struct {
	place uint16
	funi.Broken
}

// longLedger is the bits of more than shortChain members.
type longLedger struct {
	taken bool
	bits  [2][(arctic.MaxMembers + 63) / 64]uint64
}

// freeLong returns one that is free, allocated with its first use, or nil.
func (n *requests) freeLong() *longLedger {
	for i := range n.long {
		if n.long[i] == nil {
			n.long[i] = new(longLedger)
		}
		if !n.long[i].taken {
			return n.long[i]
		}
	}
	return nil
}

// hasLedger reports whether there is a ledger for a multicast to that many members.
func (n *requests) hasLedger(members int) bool { return members <= shortChain || n.freeLong() != nil }

// opensLedger makes an empty ledger of a record's multicast; there is one.
func (q *request) opensLedger(members int, proof uint16) {
	if q.ledger == nil {
		q.ledger = new(ledger) // once for each record
	}
	g := q.ledger
	*g = ledger{proof: proof, members: members}
	g.known, g.told = g.short[0][:], g.short[1][:]
	if members > shortChain {
		g.long = q.of.remote.requests.freeLong()
		g.long.taken = true
		words := (members + 63) / 64
		g.known, g.told = g.long.bits[0][:words], g.long.bits[1][:words]
		clear(g.known)
		clear(g.told)
	}
}

// reported takes a report on a multicast of the context's, or says why not.
func (x *Context) reported(q *request, a *arctic.Response) arctic.Reason {
	var r arctic.Report
	if reason := q.readReport(a, &r); reason != arctic.ReasonNone {
		return reason
	}
	if q.ledger.takes(&r) {
		x.complete(q, arctic.ReasonNone)
	} else if q.waits {
		x.card.awaitAnswer(q)
	}
	return arctic.ReasonNone
}

// readReport reads a report on a record's multicast, or says why it is none.
func (q *request) readReport(a *arctic.Response, r *arctic.Report) arctic.Reason {
	switch g := q.ledger; {
	case !arctic.ReadReport(a.Data, r) || a.Offset != 0:
		return arctic.ReasonRemoteForm
	case r.Proof != g.proof: // it has had no copy
		return arctic.ReasonPath
	case int(r.Place)+int(r.Left) > g.members:
		return arctic.ReasonPosted
	}
	return arctic.ReasonNone
}

// endsWith reports whether all members will have been reported on with a report.
func (g *ledger) endsWith(r *arctic.Report) bool {
	return g.covered+unset(g.told, int(r.Place)-int(r.Done), int(r.Place)+int(r.Left)) == g.members
}

// takes enters a report, and reports whether all members have been reported on.
func (g *ledger) takes(r *arctic.Report) bool {
	place, end := int(r.Place), int(r.Place)+int(r.Left)
	has := place
	if r.Reason == arctic.ReasonNone {
		has = end
	}
	g.delivered += g.know(place-int(r.Done), has)
	if r.Reason != arctic.ReasonNone {
		if r.Reason.Doubtful() {
			g.covered += set(g.told, place, end)
		} else {
			g.failed += g.know(place, end)
		}
		g.names(r)
	}
	return g.covered == g.members
}

// know notes that something is known of the members at an interval of places, and returns of how
// many that was not so before.
func (g *ledger) know(from, end int) int {
	g.covered += set(g.told, from, end)
	return set(g.known, from, end)
}

// set sets bits, and returns how many were not.
func set(b []uint64, from, end int) (n int) {
	for ; from < end; from = from/64*64 + 64 {
		i, mask := from/64, maskOf(from, end)
		n += bits.OnesCount64(mask &^ b[i])
		b[i] |= mask
	}
	return n
}

// unset returns how many bits are not set.
func unset(b []uint64, from, end int) (n int) {
	for ; from < end; from = from/64*64 + 64 {
		n += bits.OnesCount64(maskOf(from, end) &^ b[from/64])
	}
	return n
}

// maskOf returns those bits from one on, up to the end, that are in the same word.
func maskOf(from, end int) uint64 {
	n := min(end, from/64*64+64) - from
	return ^uint64(0) >> (64 - n) << (from % 64)
}

// names notes the node that a report names. One that was reported on in doubt and turned out to
// have it makes room.
func (g *ledger) names(r *arctic.Report) {
	if g.first == arctic.ReasonNone {
		g.first = r.Reason
	}
	if g.named == len(g.broken) {
		g.clears()
	}
	if g.named < len(g.broken) {
		g.broken[g.named] = brokenAt{r.Place, funi.Broken{Node: r.Node, Reason: r.Reason}}
		g.named++
	}
}

// clears takes the names away of those that were in doubt and are known now to have it.
func (g *ledger) clears() {
	n := 0
	for _, b := range g.broken[:g.named] {
		if !b.Reason.Doubtful() || g.known[b.place/64]>>(b.place%64)&1 == 0 {
			g.broken[n] = b
			n++
		}
	}
	g.named = n
}

// close ends the multicast, and returns the reason with which it is complete and what its process
// will hear. With a reason it is given up.
func (g *ledger) close(reason arctic.Reason) (why arctic.Reason, d funi.Delivery) {
	g.clears()
	if g.long != nil {
		g.long.taken, g.long = false, nil
	}
	d = funi.Delivery{Delivered: g.delivered, Failed: g.failed, Doubtful: g.members - g.delivered - g.failed,
		Named: g.named}
	for i := range g.broken[:g.named] {
		d.Broken[i] = g.broken[i].Broken
	}
	switch {
	case g.delivered == g.members:
		reason = arctic.ReasonNone
	case reason != arctic.ReasonNone:
	case g.named > 0:
		reason = d.Broken[0].Reason
	default:
		reason = g.first
	}
	return reason, d
}
