package engine

// This file is the origin's knowledge of the members that have a multicast. It comes from the
// reports on its copies (chain.go, arctic/multicast.go).
//
// A report covers the members at an interval of places. Mostly the intervals of all reports are
// disjoint. They overlap where a card was lost while it had a copy. The member that sent that copy
// reports it as in doubt. The lost member, and those behind it, may report, too, earlier or later.
// So the ledger has two bits for each member: known, if its outcome is known, and told, if it was
// reported on at all. A member is counted once, when its known bit becomes set; knowledge takes
// precedence over doubt. The multicast is complete when all members have the told bit. A member
// without the known bit is doubtful then.
//
// A record has room for the bits of shortChain members, allocated once. A context can have
// longLedgers multicasts under way to more members than that. Further ones come back with
// arctic.ReasonNoBuffer, as do those that find no record.

import (
	"encoding/binary"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
)

const (
	shortChain  = 256
	longLedgers = 4
)

// ledger records what is known of the members of a multicast. Bit i of a set is the member at place
// i.
type ledger struct {
	proof     uint16
	members   int
	delivered int
	failed    int
	covered   int      // bits set in told
	known     []uint64 // the member has the multicast, or is known not to
	told      []uint64 // the member is known, or in doubt
	named     int
	broken    [funi.MaxNamed]brokenAt
	first     arctic.Reason // reason of the first member that a report named
	short     [2][shortChain / 64]uint64
	long      *longLedger // nil: short
}

type brokenAt struct {
	place uint16
	funi.Broken
}

// longLedger has the bits of more than shortChain members.
type longLedger struct {
	taken bool
	bits  [2][(arctic.MaxMembers + 63) / 64]uint64
}

// freeLong returns a free longLedger, allocated at its first use, or nil.
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

// opensLedger makes an empty ledger for a record's multicast. The caller has checked that one is
// free.
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

// reported takes a report on a multicast of the context's, or returns why it does not.
func (x *Context) reported(q *request, a *arctic.Response) arctic.Reason {
	var r arctic.Report
	if reason := q.readReport(a, &r); reason != arctic.ReasonNone {
		return reason
	}
	if q.ledger.takes(&r) {
		x.complete(q, arctic.ReasonNone)
	} else if q.pending.waits {
		x.card.remote.awaitAnswer(q)
	}
	return arctic.ReasonNone
}

// readReport reads a report on a record's multicast, or returns why the report is invalid.
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

// endsWith reports whether a report would be the one after which all members have been reported on.
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

// know sets the known and told bits of the members at an interval of places, and returns how many
// became known.
func (g *ledger) know(from, end int) int {
	g.covered += set(g.told, from, end)
	return set(g.known, from, end)
}

// set sets bits, and returns how many were clear.
func set(b []uint64, from, end int) (n int) {
	for ; from < end; from = from/64*64 + 64 {
		i, mask := from/64, maskOf(from, end)
		n += bits.OnesCount64(mask &^ b[i])
		b[i] |= mask
	}
	return n
}

// unset returns how many bits are clear.
func unset(b []uint64, from, end int) (n int) {
	for ; from < end; from = from/64*64 + 64 {
		n += bits.OnesCount64(maskOf(from, end) &^ b[from/64])
	}
	return n
}

// maskOf returns the bits from one on, up to the end, that are in the same word.
func maskOf(from, end int) uint64 {
	n := min(end, from/64*64+64) - from
	return ^uint64(0) >> (64 - n) << (from % 64)
}

// names records the node that a report names. If there is no room, the names of nodes that were in
// doubt and are known by now make room.
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

// clears removes the names of nodes that were in doubt and are known by now to have the multicast.
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

// close ends the multicast. It returns the reason with which the multicast is complete, and the
// delivery that its process hears of. With a reason other than ReasonNone the multicast is given
// up.
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

// seedProofs seeds the generator of proofs. A process sees proofs, and cannot derive those of
// others from them.
func (u *remoteUnit) seedProofs() {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], u.cfg.Seed)
	binary.LittleEndian.PutUint32(seed[8:], u.cfg.Incarnation)
	for i := 0; u.cfg.Nonces != nil && i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], u.cfg.Nonces.Uint64())
	}
	u.proofs.Seed(seed)
}
