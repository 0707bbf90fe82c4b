package chaos

// This file tests that scenarios of direct cards try what they are for, and repeat themselves.

import (
	"errors"
	"testing"

	"github.com/funet/funet/uspace/sim"
)

// Rule (gates.go): frames go within hosts, between them, and to places that are none any more; what
// the two tables say of each is tried, and no card ever sends what its port does not let pass.
func TestPortsComeAndGo(t *testing.T) {
	var sum sim.Switch
	for seed := range uint64(40) {
		r := runOf(Scenario{Seed: 5000 + seed, Nodes: 6, Messages: 600,
			Faults: Ports | Jobs | Crash | Loss | Dup | Corrupt | Forge | Replay, Direct: true}, nil)
		if r.result.Failed() {
			t.Errorf("funet sim chaos %v: %v", r.scenario, r.result.Failures)
		}
		s := r.gates.between
		sum.Guard.Refused += s.Guard.Refused
		sum.Guard.Closed += s.Guard.Closed
		sum.Guard.NoNode += s.Guard.NoNode
		sum.Guard.Sent += s.Guard.Sent
		sum.Guard.Local += s.Guard.Local
		sum.NIC.Refused += s.NIC.Refused
		sum.NIC.Stranger += s.NIC.Stranger
		sum.NIC.NoPort += s.NIC.NoPort
		sum.NIC.Direct += s.NIC.Direct
	}
	g, n := sum.Guard, sum.NIC
	if g.Refused != 0 || g.NoNode == 0 || g.Sent == 0 || g.Local == 0 || n.Refused == 0 || n.Stranger == 0 ||
		n.NoPort == 0 || n.Direct == 0 {
		t.Errorf("guards %+v, NICs %+v", g, n)
	}
}

// Without faults nothing is lost between direct cards, and nothing comes back but what is for
// nobody.
func TestNothingFailsBetweenPorts(t *testing.T) {
	for _, f := range []Faults{0, Transfer | Resize | Switch | Dup | Reorder} {
		for seed := range uint64(20) {
			if r := mustHold(t, Scenario{Seed: seed, Nodes: 8, Messages: 1000, Faults: f,
				Direct: true}); r.ReportedFailed != r.strays || r.Delivered != r.Messages-r.strays {
				t.Errorf("seed %d, faults %v: %d of %d messages delivered and %d reported failed; %d were for nobody",
					seed, f, r.Delivered, r.Messages, r.ReportedFailed, r.strays)
			}
		}
	}
}

// The same scenario of direct cards is the same run.
func TestSameDirectScenarioSameRun(t *testing.T) {
	twice(t, Scenario{Seed: 5, Nodes: 8, Messages: 1000, Faults: All, Direct: true})
}

// Direct cards on Arctic are refused, unless a swarm drew one of the two, which then has cards of
// hosts.
func TestDirectOnArctic(t *testing.T) {
	s := Scenario{Seed: 1, Nodes: 4, Messages: 50, Network: Arctic, Direct: true}
	if err := s.Check(); !errors.Is(err, ErrScenario) {
		t.Errorf("%v, want ErrScenario", err)
	}
	s.Shape = Swarm
	if r := runOf(s, nil); r.result.Failed() || r.gates != nil {
		t.Errorf("%v", r.result.Failures)
	}
}
