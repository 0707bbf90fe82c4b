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
// differ, after one of the cards has died, and while another tells each of them another time.
// Where each host takes its turns alone, they do not.
func TestGangs(t *testing.T) {
	r, err := gang.Run(t.Context(), gang.Options{Hosts: 4, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 4 {
		t.Errorf("%d cases", len(r.Cases))
	}
	for _, c := range r.Cases {
		t.Logf("%s: %.2f of half", c.Does, c.Share)
		if (slices.Min(c.Share) >= 0.9) != (c.Name != "alone") {
			t.Errorf("%s: jobs have %.2f of half of what one has alone", c.Does, c.Share)
		}
	}
}

// hosts makes four hosts whose clocks have met, if they take turns together.
func hosts(t *testing.T, together bool) *gang.Gang {
	t.Helper()
	g, err := gang.New(gang.Config{Hosts: 4, Seed: 5, Together: together})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if together {
		pass(t, g, 5*time.Second)
	}
	return g
}

func pass(t *testing.T, g *gang.Gang, d time.Duration) {
	t.Helper()
	if err := g.Pass(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, g *gang.Gang, on ...int) {
	t.Helper()
	if err := g.Start(on...); err != nil {
		t.Fatal(err)
	}
}

func rates(t *testing.T, g *gang.Gang, d time.Duration) []float64 {
	t.Helper()
	all, err := g.Rates(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Rule: hosts have the time of all, and say that it is that of the first card which has it. They
// keep it when a card begins to lie, and after the first one has died.
func TestHostsShareTime(t *testing.T) {
	g := hosts(t, true)
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

// Rule (thesis 4.3): where jobs are on different hosts, one has its turn everywhere at the same
// time if it is the first among all. Of a job on all hosts and two on half of them each, the latter
// have 0.9 of half. The former is not always the first or the last of all three, and has less.
func TestGangsOnSomeHosts(t *testing.T) {
	g := hosts(t, true)
	least := [...]float64{0.3, 0.9, 0.9}
	for i, on := range [][]int{{0, 1, 2, 3}, {0, 1}, {2, 3}} {
		alone := hosts(t, false)
		start(t, alone, on...)
		pass(t, alone, 60*time.Millisecond)
		half := rates(t, alone, 40*time.Millisecond)[0] / 2
		start(t, g, on...)
		least[i] *= half
	}
	pass(t, g, 100*time.Millisecond)
	for i, r := range rates(t, g, 600*time.Millisecond) {
		if t.Logf("job %d has %.0f rounds a second", i, r); r < least[i] {
			t.Errorf("job %d has %.0f rounds a second, less than %.0f", i, r, least[i])
		}
	}
}
