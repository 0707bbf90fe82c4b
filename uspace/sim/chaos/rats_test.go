package chaos

// This file checks that sessions of package rats are there at all.

import "testing"

// Rule (HPL-95-86, section 3.2): all protocols are used, sessions of each are completed, and keys
// that were closed are tried.
func TestSessionsOfEveryProtocol(t *testing.T) {
	var complete [sessionKinds]int
	tried := 0
	for seed := range uint64(6) {
		s := Scenario{Seed: 5000 + seed, Nodes: 6, Messages: 1500, Faults: Rats | Loss | Reorder | Dup}
		r := runOf(s, nil)
		if r.result.Failed() {
			t.Errorf("funet sim chaos %v: %q", s, r.result.Failures)
		}
		for _, x := range r.sessions {
			if x.got == x.total && x.done {
				complete[x.kind]++
			}
		}
		tried += r.closedKeys
	}
	for kind, n := range complete {
		if n == 0 {
			t.Errorf("no session of %s was completed", sessionNames[kind])
		}
	}
	if tried == 0 {
		t.Error("no write was tried with a key that was closed")
	}
	t.Logf("%d of each kind, %d writes with closed keys", complete, tried)
}
