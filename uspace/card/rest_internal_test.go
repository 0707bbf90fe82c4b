package card

// This file tests how a card tells a program that works from one that waits.

import "testing"

// Calls of Drive that are far apart are those of a program that works in between; a program
// waits again as soon as they are not, and a rest of the card itself is no work.
func TestWorking(t *testing.T) {
	var r rest
	for i, c := range []struct {
		now, rested int64
		polls       uint64
		working     bool
	}{
		{now: 16 * 100, polls: 16},
		{now: 16*100 + 16*atWork, polls: 32},
		{now: 16*100 + 32*atWork + 1, polls: 48, working: true},
		{now: 16*100 + 34*atWork, polls: 49, working: true}, // every call is a look now
		{now: 16*100 + 35*atWork, polls: 50},
		{now: 16*100 + 36*atWork, polls: 66},
		{now: 1e9 + 100, rested: 1e9, polls: 82},
	} {
		if c.rested != 0 {
			r.at = c.rested
		}
		if r.looked(c.now, c.polls); r.working != c.working {
			t.Errorf("look %d: working is %v", i, r.working)
		}
	}
}
