package engine

// This file handles remote writes of many packets that are late: their peer is silent, or the area
// that they write to has no credit. The slots of a send queue are retired in order, and a card that
// sends blocks needs a write's source until it is answered. So one dead peer, or one reader that
// stalls, would stop all that the process sends, to any node, as soon as its queue is full.
//
// Therefore the card copies the blocks of a write that was retrieved or set aside lateAfter ago.
// Then it needs the write's source no more: the write's slot is finished, and so are those behind
// it. The account of the process pays: mostLate bounds the bytes that the card holds for an account
// at a time. A write that has no room there waits, as it would otherwise, and is looked at again
// after another lateAfter. A step copies as much as a call of SwitchOut, or the rest of one write.
// Only such a step allocates. A write that was copied gives its place among the records of its
// level to another.

import "bytes"

const (
	// lateAfter is the time in nanoseconds after which a write is late, from when it was retrieved.
	// It is longer than a responsive peer takes to answer, also after a loss.
	lateAfter = 25e6
	// mostLate is the most bytes of late writes that the card holds for an account.
	mostLate = 1 << 20
	// leastLate is the least that a late write counts there: its record, and the lines that it
	// keeps, cost as well.
	leastLate = 8 << 10
	// latesInStep is how many writes a step looks at.
	latesInStep = 16
)

// lateness is the part of a remote write's record for this file.
type lateness struct {
	item[transfer]          // on retrieval.late
	copied         bool     // the card needs the source no more
	replaced       bool     // another record has its place
	kept           int      // bytes counted on the account
	by             *account // the account; nil: nothing is copied
}

// keepLate copies blocks of the write that is late for the longest time.
func (o *retrieval) keepLate() {
	for range latesInStep {
		t := o.late.overdue()
		if t == nil {
			return
		}
		x := t.of.ctx
		o.table.serving = x
		if x.away { // its memory is not the card's
			o.late.remove(&t.late.item)
			if !x.detached {
				o.late.push(&t.late.item, t, o.clock.now+lateAfter)
			}
			continue
		}
		l := &t.late
		if l.by == nil {
			kept := max(t.put.bytes, leastLate)
			if x.account.late+kept > mostLate {
				o.late.push(&t.late.item, t, o.clock.now+lateAfter)
				continue
			}
			l.by, l.kept = x.account, kept
			l.by.late += l.kept
			o.counters.LateWrites++
		}
		o.clock.more = true
		if x.keepBlocksOf(func(ln *line) bool { return ln.transfer == t }) {
			o.late.remove(&t.late.item)
			if t.state == transferRetrieving {
				if x.current[t.level] == t { // it goes on
					return
				}
				t.source, t.lastSource = bytes.Clone(t.source), bytes.Clone(t.lastSource)
			}
			l.copied, l.replaced, x.calm = true, true, false
			x.long.addRecord(t.level)
			x.finishSlots(t.level)
		}
		return
	}
	o.clock.more = true
}

// forgetLate gives back a write's share of its account's mostLate when the write is over.
func (t *transfer) forgetLate() {
	if t.late.by != nil {
		t.late.by.late -= t.late.kept
		t.late.by = nil
	}
}

// mayBeLate notes that a write that was just retrieved or set aside may become late.
func (x *Context) mayBeLate(t *transfer) {
	if t.put != nil && x.needsSource(t) && !t.late.waits {
		x.card.out.late.push(&t.late.item, t, x.card.clock.now+lateAfter)
	}
}
