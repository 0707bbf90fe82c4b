package link

// This file checks the books of an End, for tests of this package and of those above it. Nothing
// here is called while frames flow.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/uspace/arctic"
)

// Check returns an error if the books do not balance. Frames in flight and lost must be as many as
// each flow and its streams say, and each stream that could send must be on a list. Check adds to
// lines how many lines the link has of each owner, by Owner.Number.
func (e *End) Check(lines map[uint32]int) error {
	for _, p := range e.peers {
		for _, f := range p.flows {
			if f == nil {
				continue
			}
			if err := f.check(lines); err != nil {
				return fmt.Errorf("peer %d, level %v: %w", p.Card, f.level, err)
			}
		}
	}
	return nil
}

func (f *flow) check(used map[uint32]int) error {
	if n := f.sndNext - f.sndUna; n > Window {
		return fmt.Errorf("%d frames between sndUna and sndNext", n)
	}
	count := map[state]int{}
	open := map[*stream]int{}
	for s := f.sndUna; s != f.sndNext; s++ {
		fr := f.frame(s)
		count[fr.state]++
		q := Lines{head: fr.train}
		if n := q.length(); n > 0 {
			used[fr.train.Owner.Number] += n
			s := f.find(fr.train.Owner, fr.train.Node, fr.train.sort())
			if open[s]++; s != fr.train.stream {
				return fmt.Errorf("a line in flight to node %d has another stream than it says", fr.train.Node)
			}
		}
		if (fr.state == flying || fr.state == lost || fr.state == held) != (fr.train != nil) {
			return fmt.Errorf("frame %d in state %d has a train: %v", s, fr.state, fr.train != nil)
		}
	}
	if f.flying != count[flying] || f.lost != count[lost] || int(f.held) != count[held] ||
		count[idle] != 0 || f.window < 1 {
		return fmt.Errorf("flying %d, lost %d, window %d; counted flying, lost, idle %v", f.flying, f.lost,
			f.window, count)
	}
	if f.flying+f.lost > 0 && f.deadline == 0 {
		return fmt.Errorf("%d frames in flight and no timer", f.flying+f.lost)
	}
	refused, ahead := 0, 0
	for i, w := range f.refused {
		refused += bits.OnesCount64(w)
		ahead += bits.OnesCount64(f.accepted[i])
	}
	if ahead != int(f.ahead) {
		return fmt.Errorf("%d frames have overtaken others, counted %d", f.ahead, ahead)
	}
	asked := 0
	for r := f.rejects.head; r != nil; r = r.next {
		if !f.refused.has(r.sequence) || r.next == nil && r != f.rejects.tail {
			return fmt.Errorf("rejects of frame %d are remembered: %v, or the list ends wrong", r.sequence,
				f.refused.has(r.sequence))
		}
		if r.asked {
			asked++
		}
		refused--
	}
	if refused != 0 || asked != int(f.answers) {
		return fmt.Errorf("%d rejects too few, %d to be sent, counted %d", refused, f.answers, asked)
	}
	for _, s := range f.streams {
		if n := s.waiting.length(); n > 0 {
			used[s.owner.Number] += n
		}
		if int(s.flying) != open[s] {
			return fmt.Errorf("stream to node %d: flying %d, counted %d", s.node, s.flying, open[s])
		}
		if s.held && (s.list != onHold || f.frame(s.heldSeq).state != held || s.flying != 1) {
			return fmt.Errorf("stream to node %d: its deferred frame %d is in state %d, on list %d", s.node, s.heldSeq,
				f.frame(s.heldSeq).state, s.list)
		}
		if s.waiting.head != nil && s.list == nowhere && s.sends() && s.flying < s.limit {
			return fmt.Errorf("stream to node %d waits for nothing", s.node)
		}
	}
	return nil
}

// StartSequencesAt makes both directions of both flows to a peer start at seq
// instead of where they are. Both cards must do it while nothing is in flight.
func (e *End) StartSequencesAt(card uint16, seq uint32) {
	for l := range e.peer(card).flows {
		f := e.flow(e.peer(card), arctic.Level(l))
		f.sndNext, f.sndUna, f.rcvNext, f.reached = seq, seq, seq, int64(seq)
	}
}

// Streams returns how many streams of an owner the flows have, or of all owners if o is nil. It
// adds 1000 for each flow whose map disagrees with its streams.
func (e *End) Streams(o *Owner) (n int) {
	e.eachFlow(func(f *flow) {
		for _, s := range f.streams {
			if o == nil || s.owner == o {
				n++
			}
		}
		if len(f.streams) > searched && len(f.byKey) != len(f.streams) {
			n += 1000
		}
	})
	return n
}

func (e *End) eachFlow(see func(*flow)) {
	for _, p := range e.peers {
		for _, f := range p.flows {
			if f != nil {
				see(f)
			}
		}
	}
}
