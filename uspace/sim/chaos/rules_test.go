package chaos

// This file breaks the promises that hold for cards and network as a whole, in a world
// in which nothing else is wrong, and wants the oracle to notice each.

import (
	"strings"
	"testing"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

func TestRulesOfTheWhole(t *testing.T) {
	const early = 100_000 // ns: programs are in the middle of their messages
	for _, c := range []struct {
		what, words string
		before      func(r *run) // the world runs
		after       func(r *run) // it is silent
	}{
		{what: "nothing"},
		{what: "an index outside its queue", words: "with queues of", before: func(r *run) {
			r.world.At(early, func() { r.members[0].process.Memory().Page.Store(funi.RPSQTail, uint32(r.slots)) })
		}},
		{what: "a packet that was never retrieved", words: "has work left", after: func(r *run) {
			r.members[0].process.Interface().Reserve(funi.Request).SetHeader(funi.NewHeader(r.members[1].node, 1, 0))
			r.members[0].process.Interface().Commit(funi.Request)
		}},
		{what: "a cache line that stays taken", words: "has work left, TICKET", after: func(r *run) {
			m := r.members[0]
			r.world.Cards()[r.members[1].card].Pause(sim.Never) // it never answers
			m.process.Interface().Reserve(funi.Request).SetHeader(funi.NewHeader(r.members[1].node, 1, 0))
			m.process.Interface().Commit(funi.Request)
			m.process.Wake()
			for m.process.Interface().Unsent(funi.Request) > 0 && r.world.Step() {
			}
		}},
		{what: "a frame that stays in the network", words: "frames wait", after: func(r *run) {
			p := r.ethernet.Plug()
			p.Reserve()
			p.Commit(60)
		}},
		{what: "a process that is switched out for good", words: "no silence", before: func(r *run) {
			r.world.At(early, func() { r.world.Cards()[r.members[0].card].SwitchOut(r.members[0].process, nil) })
		}},
		{what: "a process that stops for good", words: "silent after", before: func(r *run) {
			r.world.At(1, func() {
				for _, m := range r.members {
					m.process.Kill()
				}
			})
		}},
		{what: "a byte that nobody sent", words: "was changed", before: func(r *run) {
			r.world.At(early, func() { r.members[1].memory.target[len(r.members[1].memory.target)-1]++ })
		}},
	} {
		s := Scenario{Seed: 3, Nodes: 2, Messages: 3000, Faults: Transfer}
		r := &run{plan: s.plan(nil), scenario: s}
		r.build()
		if c.before != nil {
			c.before(r)
		}
		r.happen()
		if c.after != nil {
			if r.result.Failed() {
				t.Fatalf("%s: failed too early: %q", c.what, r.result.Failures)
			}
			c.after(r)
			r.clean()
		}
		r.finish()
		if said := strings.Join(r.result.Failures, "\n"); r.result.Failed() != (c.words != "") ||
			!strings.Contains(said, c.words) {
			t.Errorf("%s: judged %+v", c.what, r.result)
		}
	}
}

// Hosts that answer for absent groups lose and double nothing, and make nothing come back. Cards
// with a key, and direct ones, let no host answer.
func TestDeferred(t *testing.T) {
	deferred := uint64(0)
	for seed := range uint64(20) {
		r := runOf(Scenario{Seed: seed, Nodes: 4, Messages: 200, Faults: Defer | Dup | Reorder}, nil)
		if r.result.Failed() {
			t.Errorf("funet sim chaos %v: %v", r.scenario, r.result.Failures)
		}
		if n := r.ethernet.Deferred; r.key != nil && n > 0 {
			t.Errorf("seed %d: %d frames of cards with a key were answered", seed, n)
		}
		deferred += r.ethernet.Deferred
	}
	if deferred < 100 {
		t.Errorf("hosts answered only %d frames", deferred)
	}
}

// Small frames that share one lose and double nothing, and make nothing come back.
func TestBundled(t *testing.T) {
	for name, s := range map[string]Scenario{"Ethernet": {Nodes: 5}, "Arctic": {Nodes: 8, Network: Arctic}} {
		bundles := uint64(0)
		for seed := range uint64(20) {
			s.Seed, s.Messages, s.Faults = seed, 200, Bundles|Chains|Dup|Reorder
			r := runOf(s, nil)
			if r.result.Failed() {
				t.Errorf("funet sim chaos %v: %v", r.scenario, r.result.Failures)
			}
			switch net := r.net.(type) {
			case *sim.Ethernet:
				bundles += net.Bundles
			case *sim.Arctic:
				bundles += net.Bundles
			}
		}
		if bundles < 100 {
			t.Errorf("%s: cards sent only %d bundles", name, bundles)
		}
	}
}
