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
	s.first, s.asked = 2, true // it was the third, which has ended
	s.turn(l)
	if !s.groups[0].on || s.groups[1].on {
		t.Error("the one group that there was room for is not on the card")
	}
}
