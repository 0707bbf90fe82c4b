package engine

// This file opens the card to tests outside of the package.

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine/link"
	"github.com/funet/funet/uspace/funi"
)

// Link returns the card's end of its links.
func (c *Card) Link() *link.End { return c.link }

// free returns how many lines are free.
func (t *ticket) free() int {
	n := 0
	for _, w := range t.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Stored returns how many entries of the conditional store buffer are in use.
func (c *Card) Stored() int { return c.sched.stored }

// Owe has the context's account owe the work of that many steps.
func (c *Card) Owe(x *Context, steps int) { x.account.retrieval -= steps * c.link.Quantum }

// Budget has the context's account begin the next step with that many bytes of its budget.
func (c *Card) Budget(x *Context, bytes int) { x.account.retrieval = bytes - c.link.Quantum }

// Page returns the register page of the context's process.
func (x *Context) Page() *funi.Page { return x.iface.Memory().Page }

// checkStored returns an error if the books of the conditional store buffer do not balance.
func (c *Card) checkStored() error {
	in := 0
	for _, x := range c.table.all {
		if e := &x.entry; e.in {
			in++
		} else if *e != (entry{}) {
			return fmt.Errorf("context %d has no entry in the store buffer, but %+v", x.node, *e)
		}
	}
	listed := 0
	for _, a := range c.sched.accounts {
		listed += a.stored.n
	}
	if listed += c.sched.nobody.stored.n; in != listed || in != c.sched.stored {
		return fmt.Errorf("%d contexts have entries in the store buffer, accounts %d, counted %d", in, listed,
			c.sched.stored)
	}
	return nil
}

// Check returns an error if the card's books do not balance: every line is free, in
// the cache on a list, or in a frame; and those of its links.
func (c *Card) Check() error {
	used := map[uint32]int{}
	if err := c.link.Check(used); err != nil {
		return err
	}
	if err := c.checkOpened(); err != nil {
		return err
	}
	for _, x := range c.move.signs {
		if err := x.forward.check(x); err != nil {
			return fmt.Errorf("sign of node %d: %w", x.node, err)
		}
	}
	if err := c.checkStored(); err != nil {
		return err
	}
	if err := c.checkPaths(); err != nil {
		return err
	}
	for _, x := range c.table.all {
		n := used[x.owner.Number]
		for l := range x.loop {
			for i := range x.loop[l] {
				n += length(&x.loop[l][i])
			}
		}
		if err := x.checkRemote(); err != nil {
			return fmt.Errorf("context %d: %w", x.node, err)
		}
		if err := x.checkTransfers(); err != nil {
			return fmt.Errorf("context %d: %w", x.node, err)
		}
		for l := range arctic.Levels {
			if x.long != nil && x.long.inUse[l] {
				n--
			}
		}
		if x.answers != nil {
			n -= answerLines - bits.OnesCount64(x.answers.free)
		}
		if x.chains != nil {
			for _, ch := range x.chains {
				if ch != nil {
					n -= chainLines - bits.OnesCount16(ch.free)
				}
			}
		}
		if x.paths != nil {
			n -= x.paths.flying
		}
		if free := x.ticket.free(); free+n != c.cfg.Lines || x.ticket.used != c.cfg.Lines-free {
			return fmt.Errorf("context %d: %d lines free and %d in use of %d", x.node, free, n, c.cfg.Lines)
		}
		for l, q := range x.fifo {
			if q.n < 0 || q.n > q.size {
				return fmt.Errorf("context %d, level %d: %d packets in the receive FIFO", x.node, l, q.n)
			}
		}
	}
	return nil
}

// PathEnds returns how many ends of paths of a direction the card has.
func (c *Card) PathEnds(receives bool) int {
	if receives {
		return c.ultra.directions[1].used
	}
	return c.ultra.directions[0].used
}

// checkPaths returns an error if the books of the card's paths do not balance: each end has a
// number, a context and an account that pays, and its lines are free or under way.
func (c *Card) checkPaths() error {
	var paid [2]int
	for _, a := range c.sched.accounts {
		paid[sends], paid[receives] = paid[sends]+a.paths[sends], paid[receives]+a.paths[receives]
	}
	for i, t := range c.ultra.directions {
		n := 0
		for number, e := range t.ends {
			if e == nil {
				continue
			}
			n++
			if int(e.number) != number || e.direction != i || e.of.paths.places[e.place] != e || !slices.Contains(e.of.paths.ends, e) {
				return fmt.Errorf("end %d of direction %d is not in its context's tables", number, i)
			}
			if waits := e.state != pathEnded; e.pending.waits != waits {
				return fmt.Errorf("end %d in state %d is on the agenda: %v", number, e.state, e.pending.waits)
			}
		}
		if n != t.used || n != paid[i]+c.sched.nobody.paths[i] {
			return fmt.Errorf("%d ends of direction %d, counted %d, paid %d", n, i, t.used, paid[i]+c.sched.nobody.paths[i])
		}
	}
	for _, x := range c.table.all {
		if p := x.paths; p != nil {
			n := 0
			for _, e := range p.ends {
				if e.busy {
					n++
				}
				if e.direction == sends {
					n += pathLines - bits.OnesCount16(e.free)
				}
			}
			if n != p.flying || len(p.asked) > askedPaths {
				return fmt.Errorf("node %d: %d lines of paths in use, counted %d; %d requests", x.node, n, p.flying, len(p.asked))
			}
		}
	}
	return nil
}

// promised returns how many entries of the ring the lines of the context's paths have yet to fill.
func (p *paths) promised() (n uint32) {
	if p == nil {
		return 0
	}
	for _, e := range p.ends {
		n += uint32(len(e.ended))
		for i := range e.lines {
			if e.free&(1<<i) == 0 && e.flags[i]&funi.PathAck != 0 {
				n++
			}
		}
	}
	return n
}

// checkOpened: every open transfer, also of a context that is gone and not forgotten, is on the
// list of its route, and nothing else is.
func (c *Card) checkOpened() error {
	open := map[*transfer]bool{}
	for _, x := range c.table.owners {
		if x == nil || x.long == nil {
			continue
		}
		if x.long.ctx != x {
			return fmt.Errorf("owner %d: its transfers belong to another context", x.owner.Number)
		}
		for l := range x.long.records {
			for _, t := range x.long.records[l] {
				if t.isOpen() {
					open[t] = true
				}
			}
		}
	}
	for at := range c.out.opened {
		for before, t := (*transfer)(nil), c.out.opened[at]; t != nil; before, t = t, t.after {
			if !open[t] || t.before != before || c.out.opened.to(t.route) != &c.out.opened[at] {
				return fmt.Errorf("a transfer in state %d to card %d is on list %d, behind %p, or twice", t.state,
					t.route, at, before)
			}
			delete(open, t)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d open transfers are on no list", len(open))
	}
	return nil
}

// checkTransfers: every record is in exactly the places that its state says, and is not due for
// another state.
func (x *Context) checkTransfers() error {
	n := x.long
	if n == nil {
		return nil
	}
	lines := map[*transfer]int{}
	sets := [][]line{n.own[:]}
	for _, s := range x.shelves {
		if s != nil {
			sets = append(sets, s[:])
		}
	}
	for _, set := range sets {
		for i := range set {
			if t := set[i].transfer; t != nil {
				lines[t]++
			}
		}
	}
	open := 0
	for l := range n.records {
		free, due, aside := n.free[l].all(), n.due[l].all(), n.aside[l].all()
		slots, taken := map[*transfer]bool{}, x.finished[l]
		for t := n.slots[l].head; t != nil; t = t.nextSlot {
			slots[t] = true
			taken += 1 + t.behind
		}
		if taken != x.taken[l] {
			return fmt.Errorf("%d slots of level %d taken, counted %d", x.taken[l], l, taken)
		}
		if t := n.slots[l].head; t != nil && !x.needsSource(t) {
			return fmt.Errorf("level %d: the first slot is a transfer's in state %d, which does not need its source",
				l, t.state)
		}
		replaced, held := 0, [256]uint16{}
		for i, t := range n.records[l] {
			if t.late.replaced {
				replaced++
			}
			if t.put != nil {
				held[t.route%256] += uint16(t.lines)
			}
			if t.isOpen() {
				open++
			}
			failed := t.failed != arctic.ReasonNone
			var ok bool
			switch t.state {
			case transferFree:
				ok = t.lines == 0 && !slots[t] && !t.late.replaced
			case transferRetrieving:
				ok = t.source != nil && (slots[t] || t.late.copied) && (x.current[l] == t) != aside[t]
			case transferRetrieved:
				ok = t.source == nil && t.lines > 0
			case transferDue:
				ok = t.source == nil && t.lines == 0 && !failed
			case transferEnding:
				ok = t.source == nil && t.lines == 1
			case transferOver:
				ok = t.source == nil && t.lines == 0 && slots[t]
			}
			ok = ok && t.lines == lines[t] && slots[t] == n.slots[l].holds(t) && t.following(!slots[t]) == t.state &&
				free[t] == (t.state == transferFree) && due[t] == (t.state == transferDue) &&
				(x.current[l] == t || aside[t]) == (t.state == transferRetrieving)
			if !ok {
				return fmt.Errorf("transfer %d of level %d in state %d: %d bytes to retrieve, %d lines of %d, failed with %v; free %v, due %v, current %v, slot %v",
					i, l, t.state, len(t.source), t.lines, lines[t], t.failed, free[t], due[t],
					x.current[l] == t, slots[t])
			}
		}
		if len(n.records[l])-replaced != openTransfers {
			return fmt.Errorf("level %d has %d records, %d of which another has the place of", l,
				len(n.records[l]), replaced)
		}
		if held != n.held[l] {
			return fmt.Errorf("level %d: writes hold %d lines, counted %d", l, held, n.held[l])
		}
	}
	if open != n.open {
		return fmt.Errorf("%d transfers open, counted %d", n.open, open)
	}
	return nil
}

// all returns the transfers on a list.
func (q *transfers) all() map[*transfer]bool {
	all := map[*transfer]bool{}
	for t := q.head; t != nil; t = t.next {
		all[t] = true
	}
	return all
}

func length(q *link.Lines) (n int) {
	for ln := q.Head(); ln != nil; ln = ln.Next() {
		n++
	}
	return n
}

// RequestID returns what names the record of an operation now.
func (x *Context) RequestID(record int) uint32 { return x.remote.requests.table[record].id() }

// ProofOf returns the proof of the multicast of a record.
func (x *Context) ProofOf(record int) uint16 { return x.remote.requests.table[record].ledger.proof }

// Born returns of how many cards the context knows how far they had come when its life began.
func (x *Context) Born() int { return len(x.born) }

// Generation returns the latest generation of records that the card has decided on.
func (c *Card) Generation() uint16 { return c.remote.generation }

// Shown prints what a refused image must not change: all that the context has, and the card's
// numbers.
func (c *Card) Shown(x *Context) string {
	remote := "none"
	if r := x.remote; r != nil {
		remote = fmt.Sprint(r.keySlots, r.areas, r.ring, r.head, r.tail, r.promised, r.use, r.requests.table,
			r.requests.completed, r.receiver != nil)
	}
	return fmt.Sprint(x.lineage, x.life, x.born, x.arriving, x.away, x.modes, x.traffic, x.owner.Retried,
		x.answers != nil, x.chains != nil, x.fifo, x.ticket,
		*x.iface, remote, *x.group, c.remote.generation, c.table.lives, c.counters)
}

// Fault returns the reason of the context's last memory error.
func (x *Context) Fault() arctic.Reason { return x.iface.Memory().Page.Fault() }

// SetDrain sets DRAIN mode.
func (x *Context) SetDrain(on bool) { x.drain = on }

// Streams returns how many streams of the context the card's flows have.
func (c *Card) Streams(x *Context) (n int) { return c.link.Streams(x.owner) }

// Awake returns how many contexts a step looks at.
func (c *Card) Awake() int { return len(c.sched.awake) }

// Epoch returns the epoch with a peer, 0 for who is none.
func (c *Card) Epoch(card uint16) uint64 {
	if !c.link.IsPeer(card) {
		return 0
	}
	return c.link.Epoch(card)
}

// checkRemote: the promised credits are those of open areas and windows and the unread
// notifications of others, each of which the ring has, and operations that are not completed or
// whose completion is unread; and they fit it. Each record is open, free, or on the list of those
// that ask.
func (x *Context) checkRemote() error {
	r := x.remote
	if r == nil {
		return nil
	}
	unread, ofWindow, promised := make([]uint32, len(r.areas)), make([]uint32, len(r.keySlots)), uint32(0)
	messages := uint32(0)
	for i := r.tail; i != r.head; i++ {
		switch of := r.ring[i&uint32(len(r.ring)-1)]; {
		case of == noteOfMessage:
			messages++
		case of >= noteOfRequest:
			promised++
		case of >= noteOfWindow:
			ofWindow[of-noteOfWindow]++
		default:
			unread[of]++
		}
	}
	open, listed := 0, 0
	for i := range r.requests.table {
		q := &r.requests.table[i]
		if q.open {
			open++
		}
		if q.listed && !q.open {
			listed++
		}
	}
	if open+listed+len(r.requests.free) != len(r.requests.table) || open != r.use.RequestsOpen {
		return fmt.Errorf("%d records: %d open (%d counted), %d to be taken off a list, %d free", len(r.requests.table),
			open, r.use.RequestsOpen, listed, len(r.requests.free))
	}
	promised += uint32(open)
	for i, k := range r.keySlots {
		if k.unread != ofWindow[i] || k.credit > 0 && k.unread > k.credit {
			return fmt.Errorf("window %d with a credit of %d: %d notifications unread, %d in the ring", i, k.credit,
				k.unread, ofWindow[i])
		}
		promised += max(k.credit, k.unread)
	}
	for i, a := range r.areas {
		if a.unread != unread[i] || a.credit > 0 && a.unread > a.credit {
			return fmt.Errorf("area %d with a credit of %d: %d notifications unread, %d in the ring", i, a.credit,
				a.unread, unread[i])
		}
		promised += max(a.credit, a.unread)
	}
	promised += x.paths.promised()
	if err := r.receiver.check(messages); err != nil {
		return err
	}
	if v := r.receiver; v != nil {
		promised += max(v.credit, v.unread)
	}
	if promised != r.promised || int(promised) > len(r.ring) {
		return fmt.Errorf("credits of %d are promised, %d should be, the ring has %d", r.promised,
			promised, len(r.ring))
	}
	for i, k := range r.keySlots {
		if k.memory != nil && int(uint16(k.key)) != i {
			return fmt.Errorf("key slot %d has key %#x", i, k.key)
		}
	}
	return nil
}

// SayForward sends a word about a node's home in the name of a context's.
func (c *Card) SayForward(x *Context, card, node uint16, f arctic.Forward) {
	c.Say(x, card, node, arctic.Request, arctic.KindForward, 0, func(b []byte) int { return arctic.PutForward(b, &f) })
}

// Say sends a packet of any kind in the name of a context's node, which put writes, and returns how
// many words that is.
func (c *Card) Say(x *Context, card, node uint16, l arctic.Level, k arctic.Kind, typ uint16, put func([]byte) int) {
	ln := x.take(l)
	ln.Node, ln.typ, ln.Part = node, typ, true
	c.out.compose(x, l, ln, k, put(ln.Data[arctic.PacketHeaderSize:]), uint32(card))
	c.link.Queue(card, l, &ln.Line)
}

// check returns an error unless a sign's counts and indices are those of its targets.
func (f *forward) check(x *Context) error {
	left, before := 0, 0
	for i := range f.targets {
		t := &f.targets[i]
		if t.about != x.node && (t.card != f.to || f.others[t.about] != int32(i+1)) ||
			t.about == x.node && f.at(t.card) != i {
			return fmt.Errorf("target %d, %+v, is not found", i, *t)
		}
		if !t.told {
			left++
			if t.about != x.node {
				before++
			}
		}
	}
	if left != f.left || before != f.before {
		return fmt.Errorf("%d targets are left, %d of them of other nodes; counted are %d and %d", left, before,
			f.left, f.before)
	}
	return nil
}

// RemoteHeld returns how many bytes the card has allocated for the context's remote memory.
func (x *Context) RemoteHeld() (n int64) {
	r := x.remote
	for _, of := range []struct {
		count int
		size  uintptr
	}{{len(r.keySlots), unsafe.Sizeof(r.keySlots[0])}, {len(r.areas), unsafe.Sizeof(r.areas[0])},
		{len(r.ring), unsafe.Sizeof(r.ring[0])},
		{len(r.requests.table), unsafe.Sizeof(request{})}, {cap(r.requests.free), 2},
		{len(r.requests.owed), unsafe.Sizeof(completion{})}} {
		n += int64(of.count) * int64(of.size)
	}
	if x.answers != nil {
		n += int64(unsafe.Sizeof(*x.answers))
	}
	if x.chains != nil {
		n += int64(unsafe.Sizeof(*x.chains))
		for _, ch := range x.chains {
			if ch != nil {
				n += int64(unsafe.Sizeof(*ch))
			}
		}
	}
	if p := x.paths; p != nil {
		n += int64(unsafe.Sizeof(*p)) + askedPaths*int64(unsafe.Sizeof(pathAsked{}))
		for _, e := range p.ends {
			n += int64(unsafe.Sizeof(*e)) + int64(len(e.lines))*int64(unsafe.Sizeof(line{})+unsafe.Sizeof(pathAck{}))
		}
	}
	return n
}

// check returns an error unless the room of messages that are under way lies in what the ring has
// given out, each by itself, and the credit covers them and the entries that are unread.
func (v *receiver) check(unread uint32) error {
	if v == nil {
		return nil
	}
	reserved := uint32(bits.OnesCount64(v.open))
	if v.unread != unread || v.reserved != reserved || v.credit > 0 && v.unread+v.reserved > v.credit {
		return fmt.Errorf("credit of %d for messages: %d unread, %d in the ring, %d reserved, %d open", v.credit,
			v.unread, unread, v.reserved, reserved)
	}
	if v.write-v.read > v.units() {
		return fmt.Errorf("%d of %d units or buffers are in use", v.write-v.read, v.units())
	}
	for i := range v.table {
		if v.table == nil {
			break
		}
		e := &v.table[i]
		if open := v.open&(1<<i) != 0; open != e.silence.waits || open && len(e.room.memory) == 0 {
			return fmt.Errorf("reservation %d: open %v, timed %v, %d bytes", i, open, e.silence.waits,
				len(e.room.memory))
		}
		if v.open&(1<<i) == 0 || v.mode != funi.ReceiveRing {
			continue
		}
		if e.room.first-v.read > v.write-v.read || e.room.next-v.read > v.write-v.read {
			return fmt.Errorf("units %d to %d are reserved, %d to %d in use", e.room.first, e.room.next, v.read,
				v.write)
		}
		for j := range i {
			o := &v.table[j]
			if v.open&(1<<j) != 0 && e.room.first-v.read < o.room.next-v.read &&
				o.room.first-v.read < e.room.next-v.read {
				return fmt.Errorf("units %d to %d and %d to %d are reserved", e.room.first, e.room.next, o.room.first,
					o.room.next)
			}
		}
	}
	return nil
}

// Reservations returns how many messages of many packets the context is receiving.
func (x *Context) Reservations() int {
	if x.remote == nil || x.remote.receiver == nil {
		return 0
	}
	return bits.OnesCount64(x.remote.receiver.open)
}
