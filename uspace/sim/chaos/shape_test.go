package chaos

// This file tests swarms: what seeds draw, that they hold, and that nothing else changes what they
// mean.

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

// swarmSeed is the scenario of a swarm's seed.
func swarmSeed(seed uint64) Scenario { return Scenario{Seed: seed}.Drawn() }

// Rule: a swarm's seed draws everything that the package's doc.go and Drawn say, and each kind of
// fault with a chance of one half.
func TestSwarmDraws(t *testing.T) {
	const seeds = 2000
	nodes, profiles, networks, queues, mtus, crowded := map[int]int{}, map[string]int{}, map[Network]int{},
		map[int]int{}, map[int]int{}, 0
	faults, direct := make([]int, len(faultNames)), 0
	for seed := range uint64(seeds) {
		s := swarmSeed(seed)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if s.Messages < 16 || s.Messages > 16_383 {
			t.Errorf("seed %d has %d messages", seed, s.Messages)
		}
		nodes[s.Nodes]++
		profiles[s.Profile]++
		networks[s.Network]++
		if s.Direct {
			direct++
		}
		for k := range faults {
			faults[k] += int(s.Faults >> k & 1)
		}
		p, err := s.ready()
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.members {
			queues[p.queue(i)]++
		}
		mtus[p.mtu]++
		if p.cards <= s.Nodes/2 {
			crowded++
		}
	}
	for n := 2; n <= 32; n++ {
		if nodes[n] == 0 {
			t.Errorf("no seed of %d has %d nodes", seeds, n)
		}
	}
	if nodes[0]+nodes[1]+nodes[33] != 0 || len(nodes) != 31 {
		t.Errorf("numbers of nodes: %v", nodes)
	}
	for k, n := range faults {
		if n < seeds*45/100 || n > seeds*55/100 {
			t.Errorf("%s happens with %d of %d seeds", faultNames[k], n, seeds)
		}
	}
	if len(profiles) != 1+len(swarmProfiles) || len(networks) != 2 || len(queues) != 9 || len(mtus) < 100 ||
		crowded < seeds/10 || direct < seeds/5 || direct > seeds*3/10 {
		t.Errorf("profiles %v, networks %v, queues %v, %d MTUs, %d seeds of crowded cards, %d of direct ones", profiles,
			networks, queues, len(mtus), crowded, direct)
	}
}

// Rule: a scenario says with which arguments it runs again, whatever of them its shape drew.
func TestSwarmIsRepeated(t *testing.T) {
	s := Scenario{Seed: 7, Nodes: 3, Messages: 188, Faults: Loss | Restart, Shape: Swarm, Profile: Native}
	if got, want := s.String(),
		"--shape swarm --seed 7 --nodes 3 --messages 188 --faults loss,restart --network ethernet --profile native --direct=false"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	given := s
	if given.Direct = true; given.String() !=
		"--shape swarm --seed 7 --nodes 3 --messages 188 --faults loss,restart --network ethernet --profile native --direct=true" {
		t.Errorf("%v", given)
	}
	given.Direct = false
	if given.Shape = Given; given.String() != "--seed 7 --nodes 3 --messages 188 --faults loss,restart" {
		t.Errorf("%v", given)
	}
	if Run(given).Hash == Run(s).Hash {
		t.Error("a swarm draws nothing but its faults")
	}
	for _, h := range []Shape{Given, Swarm} {
		if got, err := ParseShape(h.String()); err != nil || got != h {
			t.Errorf("%v: %v, %v", h, got, err)
		}
	}
	if _, err := ParseShape("bees"); !errors.Is(err, ErrShape) {
		t.Errorf("%v, want ErrShape", err)
	}
}

// Some hundred seeds of a swarm hold, and each runs as it does alone, whatever runs beside it.
func TestSwarm(t *testing.T) {
	first, last := uint64(1), seeds(250)
	r := Many(context.Background(), swarmSeed, first, last, runtime.NumCPU(), nil)
	for _, f := range r.Failed {
		t.Errorf("funet sim chaos %s\n%v", f.Command, f.Reasons)
	}
	if r.Messages == 0 || r.Transfers == 0 || uint64(r.Seeds) != last {
		t.Errorf("%+v", r.Result)
	}
	again := Many(context.Background(), swarmSeed, first, 12, 1, nil)
	if beside := Many(context.Background(), swarmSeed, first, 12, 4, nil); again.Trace != beside.Trace {
		t.Errorf("alone %s, beside others %s", again.Trace, beside.Trace)
	}
}

// Rule: the context ends runs, not only what comes after them: a run of 2^30 messages would take
// hours.
func TestRunsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	s := Scenario{Nodes: 16, Messages: 1 << 30, Faults: All}
	if r := Many(ctx, func(seed uint64) Scenario { s.Seed = seed; return s }, 1, 1, 1, nil); r.Seeds != 0 ||
		r.Failed != nil {
		t.Errorf("%d seeds were run; failed: %v", r.Seeds, r.Failed)
	}
	if _, r := Shrink(ctx, s, 10); r.Messages == 1<<30 {
		t.Error("a run went on to its end")
	}
}

// Rule: in half of the swarms a third of the processes issue by triggers, and every promise holds
// for what they send.
func TestSwarmsIssueByTriggers(t *testing.T) {
	with, answered := 0, uint64(0)
	for seed := uint64(5000); with < 6; seed++ {
		s := swarmSeed(seed)
		p, err := s.ready()
		if err != nil {
			t.Fatal(err)
		}
		if p.triggers == nil || s.Messages > 4000 {
			continue
		}
		with++
		r := Run(s)
		if answered += r.triggers; r.Failed() {
			t.Errorf("seed %d: %v", seed, r.Failures)
		}
	}
	if answered < 100 {
		t.Errorf("%d triggers were answered in %d swarms", answered, with)
	}
}
