package turns_test

// This file tests turns of several hosts in virtual time, with the engine that ships, by the same
// code as `funet sim gang` (package sim/gang).

import (
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/sim/gang"
)

// Rule (thesis 4.3): two jobs of four nodes that exchange all the time, on cards with room for one
// of them, each have at least 0.9 of half of what one has alone, although the hosts' clocks
// differ, after one of the cards has died, and while another tells each of them another time. So
// have a job on all hosts and jobs on two hosts each beside it. Where each host takes its turns
// alone, they do not.
func TestGangs(t *testing.T) {
	r, err := gang.Run(t.Context(), gang.Options{Hosts: 4, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 5 {
		t.Errorf("%d cases", len(r.Cases))
	}
	for _, c := range r.Cases {
		t.Logf("%s: %.2f of half", c.Does, c.Share)
		if (slices.Min(c.Share) >= 0.9) != (c.Name != "alone") {
			t.Errorf("%s: jobs have %.2f of half of what one has alone", c.Does, c.Share)
		}
	}
}

func pass(t *testing.T, g *gang.Gang, d time.Duration) {
	t.Helper()
	if err := g.Pass(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// Rule: hosts have the time of all, and say that it is that of the first card which has it. They
// keep it when a card begins to lie, and after the first one has died.
func TestHostsShareTime(t *testing.T) {
	g, err := gang.New(gang.Config{Hosts: 4, Seed: 5, Together: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	pass(t, g, 5*time.Second)
	leads := func(first int) {
		t.Helper()
		for i := first; i < 4; i++ {
			if s := g.Clock(i); s.Leader != gang.CardOf(first) || !s.Together {
				t.Errorf("host %d: %+v, want the time of card %d", i, s, gang.CardOf(first))
			}
		}
	}
	leads(0)
	g.Lie()
	pass(t, g, 2*time.Second)
	leads(0)
	g.Die(0)
	pass(t, g, 4*time.Second)
	leads(1)
}

// Rule: the clocks of as many hosts as tell their time meet, wherever they begin.
func TestSixteenHostsMeet(t *testing.T) {
	for seed := range uint64(5) {
		g, err := gang.New(gang.Config{Hosts: gang.MaxHosts, Seed: seed, Together: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		pass(t, g, 5*time.Second)
		for i := range gang.MaxHosts {
			if s := g.Clock(i); !s.Together || s.Leader != gang.CardOf(0) {
				t.Errorf("seed %d, host %d: %+v", seed, i, s)
			}
		}
	}
}
