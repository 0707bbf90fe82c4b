package chaos

// This file has tests of chaos with messages into rings and posted buffers, and of its oracle.

import (
	"testing"
)

// Rule: messages arrive once with their bytes, or their senders are told, and no room overlaps or
// is left over, on cards of all kinds (letters.go). The runs check enough of them.
func TestLetters(t *testing.T) {
	for _, profile := range []string{"", "sbus-arctic", "hamlyn", "tokyo"} {
		received := 0
		for seed := range uint64(6) {
			s := Scenario{Seed: 9000 + seed, Nodes: 5, Messages: 1200, Profile: profile,
				Faults: Sends | Reorder | Dup | Resize}
			if seed%2 == 1 {
				s.Faults |= Loss | Pause | Narrow
			}
			r := runOf(s, nil)
			if r.result.Failed() {
				t.Errorf("%v: %v", s, r.result.Failures)
			}
			received += r.received
		}
		if received < 300 {
			t.Errorf("%q: %d messages were checked: nothing was tested", profile, received)
		}
	}
}

// Rule: the oracle finds a message that comes twice, with other bytes, to another, or not at all.
func TestLettersAreJudged(t *testing.T) {
	for name, bend := range map[string]func(r *run, l *letter){
		"lost":     func(r *run, l *letter) { l.arrived = false },
		"again":    func(r *run, l *letter) { l.from.m.posted(l.number, 0) },
		"cut":      func(r *run, l *letter) { l.cut = true; l.ended = false },
		"not told": func(r *run, l *letter) { l.ended = false },
	} {
		r := runOf(Scenario{Seed: 1, Nodes: 3, Messages: 300, Faults: Sends}, nil)
		if r.result.Failed() {
			t.Fatal(r.result.Failures)
		}
		found := false
		for _, l := range r.letters {
			if l.asked && !l.silent && l.ended && l.reason == 0 && l.to.m.inbox == l.to {
				bend(r, l)
				found = true
				break
			}
		}
		if !found {
			t.Fatal("no message to bend")
		}
		if r.settleLetters(); !r.result.Failed() {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}
