package daemon

import (
	"math"
	"testing"
)

// Rule: a switch goes on when groups end in the middle of it, also the last one.
func TestGroupsEndWhileTheySwitch(t *testing.T) {
	s := &sharing{room: 1, out: true, first: 2}
	l := &loop{now: 5}
	for range 3 {
		s.turn(l)
	}
	if next := s.turn(l); next != math.MaxInt64 || s.out {
		t.Errorf("without a group: next turn at %d, switching %v", next, s.out)
	}
	s.groups = []*shared{{gid: 1, on: true}, {gid: 2}}
	s.first = 2 // it was the third, which has ended
	s.turn(l)
	if !s.groups[0].on || s.groups[1].on {
		t.Error("the one group that there was room for is not on the card")
	}
}

// Rule: that an administrator wants a group on the card ends with the group: no other takes
// its turn for it.
func TestAskedGroupEnds(t *testing.T) {
	a := &attachment{}
	s := &sharing{room: 1, groups: []*shared{{gid: 1, on: true}, {gid: 2, members: []*attachment{a}}, {gid: 3}}}
	l := &loop{now: 5}
	if err := s.next(2); err != nil {
		t.Fatal(err)
	}
	s.leave(a)
	s.turn(l)
	if !s.groups[0].on || s.groups[1].on {
		t.Error("a group that nobody asked for is on the card instead of one that has ended")
	}
	if err := s.next(3); err != nil {
		t.Fatal(err)
	}
	s.turn(l)
	s.turn(l)
	if s.groups[0].on || !s.groups[1].on || s.asked != nil {
		t.Errorf("the group that was asked for is not on the card, or is still asked for: %v", s.asked)
	}
}
