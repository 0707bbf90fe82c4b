package chaos

// This file tests that notices are tried in all the ways that they may come in, and that the judge
// knows their rules.

import (
	"strings"
	"testing"

	"github.com/funet/funet/uspace/sim"
)

// Rule (notices.go): news end what would have been waited for, come late and of other lives; silent
// cards are asked for and vouched for; and all that was promised holds.
func TestNoticesAreTried(t *testing.T) {
	var sum notices
	for seed := range uint64(60) {
		r := runOf(Scenario{Seed: 7000 + seed, Nodes: 6, Messages: 600,
			Faults: Notices | Ports | Restart | Crash | Pause | Loss, Direct: true}, nil)
		if r.result.Failed() {
			t.Errorf("funet sim chaos %v: %v", r.scenario, r.result.Failures)
		}
		n := r.notices
		sum.ended += n.ended
		sum.strange += n.strange
		sum.late += n.late
		sum.doubts += n.doubts
		sum.vouched += n.vouched
	}
	if sum.ended == 0 || sum.strange == 0 || sum.late == 0 || sum.doubts == 0 || sum.vouched == 0 {
		t.Errorf("%d ended, %d strange, %d late; %d doubts, %d vouched", sum.ended, sum.strange, sum.late,
			sum.doubts, sum.vouched)
	}
}

// The judge notices each rule that is broken: notices that no funid would send stand for a card
// that does not keep them.
func TestRulesOfNotices(t *testing.T) {
	const early = 5_000_000 // ns: programs are in the middle of their messages, and cards have met
	s := Scenario{Seed: 3, Nodes: 2, Messages: 3000, Faults: Notices, Direct: true}
	for _, c := range []struct {
		what, words string
		do          func(r *run)
	}{
		{what: "nothing", do: func(*run) {}},
		{what: "the end of one who lives", words: "which never ended, has departed", do: func(r *run) {
			r.world.Cards()[0].Engine().Ended(1, r.notices.lives[1])
		}},
		{what: "the same of one of whose life the card was told last", words: "was told that it is there",
			do: func(r *run) {
				r.members[1].deaths++
				r.notices.last[0][1] = told{news: news{life: r.notices.lives[1], lives: true}}
				r.world.Cards()[0].Engine().Ended(1, r.notices.lives[1])
			}},
		{what: "a silence that was vouched for", words: "and vouched for, was given up", do: func(r *run) {
			for host := range r.gates.stopped { // nobody does, in truth
				r.gates.stopped[host] = early + 2*r.notices.silence
			}
			r.ethernet.Sever(sim.Cut{From: sim.SetOf(1), To: sim.SetOf(0)}, early+r.notices.silence*5/4)
			r.world.At(early+r.notices.silence/2, func() {
				is, _ := r.world.Cards()[0].Engine().PeerState(1)
				r.notices.vouches[0][1] = &vouch{life: is.Life, since: is.SilentSince}
			})
		}},
	} {
		p, err := s.ready()
		if err != nil {
			t.Fatal(err)
		}
		r := &run{plan: p, scenario: s, jobs: map[half]uint32{}, newest: map[uint16]uint32{}}
		r.build()
		r.world.At(early, func() { c.do(r) })
		r.happen()
		r.finish()
		if said := strings.Join(r.result.Failures, "\n"); r.result.Failed() != (c.words != "") ||
			!strings.Contains(said, c.words) {
			t.Errorf("%s: judged %+v", c.what, r.result)
		}
	}
}
