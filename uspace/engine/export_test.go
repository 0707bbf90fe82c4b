package engine

// This file opens the card to tests outside of the package.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
)

// StartSequencesAt makes both directions of both flows to a peer start at seq
// instead of where they are. Both cards must do it while nothing is in flight.
func (c *Card) StartSequencesAt(card uint16, seq uint32) {
	for l := range c.peer(card).flows {
		f := c.flow(c.peer(card), arctic.Level(l))
		f.next, f.oldest, f.expect, f.reached = seq, seq, seq, int64(seq)
	}
}

// NextSequence returns the number of the next frame to a peer.
func (c *Card) NextSequence(card uint16, l arctic.Level) uint32 { return c.peer(card).sequence(l) }

// Check returns an error if the card's books do not balance: every line is free, in
// the cache on a list, or in a frame; frames in flight and lost are as many as the
// flow and its streams say.
func (c *Card) Check() error {
	used := map[*Context]int{}
	for _, p := range c.peers {
		for _, f := range p.flows {
			if f == nil {
				continue
			}
			if err := f.check(used); err != nil {
				return fmt.Errorf("peer %d, level %v: %w", p.Card, f.level, err)
			}
		}
	}
	for _, x := range c.contexts {
		for l := range x.loop {
			used[x] += x.loop[l][0].length() + x.loop[l][1].length()
		}
		if err := x.checkTransfers(); err != nil {
			return fmt.Errorf("context %d: %w", x.node, err)
		}
		for l := range arctic.Levels {
			if x.long != nil && x.long.inUse[l] {
				used[x]--
			}
		}
		if free := x.ticket.free(); free+used[x] != c.cfg.Lines {
			return fmt.Errorf("context %d: %d lines free and %d in use of %d", x.node, free, used[x], c.cfg.Lines)
		}
		for l, q := range x.fifo {
			if q.n < 0 || q.n > len(q.slots) {
				return fmt.Errorf("context %d, level %d: %d packets in the receive FIFO", x.node, l, q.n)
			}
		}
	}
	return nil
}

// checkTransfers: every record is free, current, due or has lines, and no other line
// points at one.
func (x *Context) checkTransfers() error {
	if x.long == nil {
		return nil
	}
	lines := map[*transfer]int{}
	for i := range x.lines {
		if t := x.lines[i].transfer; t != nil {
			lines[t]++
		}
	}
	for i := range x.long.own {
		if t := x.long.own[i].transfer; t != nil {
			lines[t]++
		}
	}
	open := 0
	for l := range x.long.records {
		places := map[*transfer]int{}
		for _, q := range []transfers{x.long.free[l], x.long.due[l], {head: x.current[l]}} {
			for t := q.head; t != nil; t = t.next {
				places[t]++
			}
		}
		for t := x.long.due[l].head; t != nil; t = t.next {
			open++
		}
		slots := x.finished[l]
		for t := x.long.slots[l].head; t != nil; t = t.nextSlot {
			if slots += 1 + t.behind; !t.queued || t.spent && t == x.long.slots[l].head {
				return fmt.Errorf("a transfer of level %d that waits for its slot: queued %v, spent %v", l, t.queued, t.spent)
			}
			if t.over {
				places[t]++
			}
		}
		if slots != x.taken[l] {
			return fmt.Errorf("%d slots of level %d taken, counted %d", x.taken[l], l, slots)
		}
		for i := range x.long.records[l] {
			t := &x.long.records[l][i]
			if t.lines != lines[t] {
				return fmt.Errorf("transfer %d of level %d has %d lines, counted %d", i, l, t.lines, lines[t])
			}
			if t.lines > 0 || t.current {
				open++
				places[t]++
			}
			if t.current != (x.current[l] == t) || places[t] != 1 && !t.current {
				return fmt.Errorf("transfer %d of level %d is in %d places, current %v", i, l, places[t], t.current)
			}
		}
	}
	if open != x.long.open {
		return fmt.Errorf("%d transfers open, counted %d", x.long.open, open)
	}
	return nil
}

func (q *lines) length() (n int) {
	for l := q.head; l != nil; l = l.next {
		n++
	}
	return n
}

func (f *flow) check(used map[*Context]int) error {
	if n := f.next - f.oldest; n > Window {
		return fmt.Errorf("%d frames between oldest and next", n)
	}
	count := map[state]int{}
	open := map[*stream]int{}
	for s := f.oldest; s != f.next; s++ {
		fr := f.frame(s)
		count[fr.state]++
		q := lines{head: fr.train}
		if n := q.length(); n > 0 {
			used[fr.train.ctx] += n
			open[f.find(fr.train.ctx, fr.train.node, fr.train.part)]++
		}
		if (fr.state == flying || fr.state == lost) != (fr.train != nil) {
			return fmt.Errorf("frame %d in state %d has a train: %v", s, fr.state, fr.train != nil)
		}
	}
	if f.flying != count[flying] || f.lost != count[lost] || count[idle] != 0 || f.window < 1 {
		return fmt.Errorf("flying %d, lost %d, window %d; counted flying, lost, idle %v", f.flying, f.lost, f.window, count)
	}
	if f.flying+f.lost > 0 && f.deadline == 0 {
		return fmt.Errorf("%d frames in flight and no timer", f.flying+f.lost)
	}
	refused := 0
	for _, w := range f.refused {
		refused += bits.OnesCount64(w)
	}
	asked := 0
	for r := f.rejects.head; r != nil; r = r.next {
		if !f.isRefused(r.sequence) || r.next == nil && r != f.rejects.tail {
			return fmt.Errorf("rejects of frame %d are remembered: %v, or the list ends wrong", r.sequence, f.isRefused(r.sequence))
		}
		if r.asked {
			asked++
		}
		refused--
	}
	if refused != 0 || asked != f.answers {
		return fmt.Errorf("%d rejects too few, %d to be sent, counted %d", refused, f.answers, asked)
	}
	for _, s := range f.streams {
		used[s.ctx] += s.waiting.length()
		if int(s.flying) != open[s] {
			return fmt.Errorf("stream to node %d: flying %d, counted %d", s.node, s.flying, open[s])
		}
		if s.waiting.head != nil && s.place == nowhere && !s.ctx.halted && s.flying < s.limit {
			return fmt.Errorf("stream to node %d waits for nothing", s.node)
		}
	}
	return nil
}

// Fault returns the reason of the context's last memory error.
func (x *Context) Fault() arctic.Reason { return x.iface.Memory().Page.Fault() }

// SetDrain sets DRAIN mode.
func (x *Context) SetDrain(on bool) { x.drain = on }

// Streams returns how many streams of the context the card's flows have.
func (c *Card) Streams(x *Context) (n int) {
	for _, p := range c.peers {
		for _, f := range p.flows {
			if f == nil {
				continue
			}
			for _, s := range f.streams {
				if s.ctx == x {
					n++
				}
			}
			if len(f.streams) > searched && len(f.byKey) != len(f.streams) {
				n += 1000
			}
		}
	}
	return n
}

// Awake returns how many contexts a step looks at.
func (c *Card) Awake() int { return len(c.awake) }

// Flows returns how many flows are in use.
func (c *Card) Flows() (n int) {
	for _, p := range c.peers {
		for _, f := range p.flows {
			if f != nil {
				n++
			}
		}
	}
	return n
}

// PutAwayQuiet puts every quiet flow away, also one that was just used, and returns how
// many that were.
func (c *Card) PutAwayQuiet() (n int) {
	for _, p := range c.peers {
		for _, f := range p.flows {
			if f != nil && !f.waits() && c.quiet(f) {
				c.putAway(f)
				n++
			}
		}
	}
	return n
}

// Room returns for how many frames in flight the flow has room, 0 if it is put away.
func (c *Card) Room(card uint16, l arctic.Level) int {
	if f := c.peer(card).flows[l]; f != nil {
		return len(f.frames)
	}
	return 0
}
