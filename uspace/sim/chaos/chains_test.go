package chaos

// This file checks that multicasts are there at all, and that their oracle notices.

import (
	"strings"
	"testing"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// Rule: on a network that does what it likes multicasts come to all members of chains that cross
// each other, once each. On one that loses nothing none fails but at who has left: what a card does
// wrong may look like loss elsewhere. The same on cards whose units take time.
func TestMulticasts(t *testing.T) {
	for _, profile := range []string{Native, "sbus-arctic", "../testdata/slow-units.yaml"} {
		carried, copies := 0, 0
		for seed := range uint64(6) {
			s := Scenario{Seed: 8000 + seed, Nodes: 6, Messages: 1500, Faults: Chains | Reorder | Dup, Profile: profile}
			if seed%2 == 0 {
				s.Faults |= Loss
			}
			r := runOf(s, nil)
			if r.result.Failed() {
				t.Errorf("funet sim chaos %v: %q", s, r.result.Failures)
			}
			carried, copies = carried+r.carried, copies+r.copies
		}
		if carried < 100 || copies < 200 {
			t.Errorf("%s: %d multicasts came to all, %d copies", profile, carried, copies)
		}
		t.Logf("%s: %d multicasts came to all, %d copies", profile, carried, copies)
	}
}

// Rule: a multicast that is told to have come to who has it not, that is told twice, that counts
// other members than there are or fails at who is none is noticed.
func TestWhatMulticastsHaveComeTo(t *testing.T) {
	none, silent := arctic.ReasonNone, arctic.ReasonSilent
	broken := func(node uint16) [funi.MaxNamed]funi.Broken {
		return [funi.MaxNamed]funi.Broken{{Node: node, Reason: silent}}
	}
	k,
		err :=
		sim.NewCluster(sim.ClusterOptions{Options: sim.Options{Remote: (&Scenario{Nodes: 2,
			Faults: Chains}).remoteSizes()}, Nodes: 2}, func(*sim.Process) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	const operationsLost = 0x6ac / 4 // funi/doc.go
	lost := &k.Processes[0].Memory().Page[operationsLost]
	for name, c := range map[string]struct {
		reason arctic.Reason
		told   funi.Delivery
		got    []int32
		times  int
		good   bool
	}{
		"came back untold":    {none, funi.Delivery{}, nil, 0, true},
		"told, and came back": {none, funi.Delivery{Delivered: 2}, []int32{0, 1}, 1, false},
		"all":                 {none, funi.Delivery{Delivered: 2}, []int32{0, 1}, 1, true},
		"never told":          {none, funi.Delivery{Delivered: 2}, []int32{0, 1}, 0, false},
		"told twice":          {none, funi.Delivery{Delivered: 2}, []int32{0, 1}, 2, false},
		"one has it not":      {none, funi.Delivery{Delivered: 2}, []int32{0}, 1, false},
		"one is not counted":  {none, funi.Delivery{Delivered: 1}, []int32{0, 1}, 1, false},
		"one too many":        {none, funi.Delivery{Delivered: 3}, []int32{0, 1}, 1, false},
		"one failed": {silent, funi.Delivery{Delivered: 1, Failed: 1, Named: 1, Broken: broken(11)},
			[]int32{0}, 1, true},
		"one failed, and has it": {silent, funi.Delivery{Delivered: 1, Failed: 1, Named: 1, Broken: broken(11)},
			[]int32{0, 1}, 1, false},
		"one is doubtful": {silent, funi.Delivery{Delivered: 1, Doubtful: 1, Named: 1, Broken: broken(11)},
			[]int32{0}, 1, true},
		"doubtful, and has it": {silent, funi.Delivery{Delivered: 1, Doubtful: 1, Named: 1, Broken: broken(11)},
			[]int32{0, 1}, 1, true},
		"the other has it not": {silent, funi.Delivery{Delivered: 1, Failed: 1, Named: 1, Broken: broken(11)},
			nil, 1, false},
		"one failed, and unnamed": {silent, funi.Delivery{Delivered: 1, Failed: 1}, []int32{0}, 1, false},
		"failed at who is none": {silent, funi.Delivery{Delivered: 1, Failed: 1, Named: 1, Broken: broken(12)},
			[]int32{0}, 1, false},
		"no answer":       {silent, funi.Delivery{Doubtful: 2}, []int32{0}, 1, true},
		"one in no count": {silent, funi.Delivery{Doubtful: 1}, []int32{0}, 1, false},
		"no such reason":  {arctic.ReasonRemoteForm, funi.Delivery{}, nil, 1, false},
	} {
		r := &run{scenario: Scenario{Faults: Loss}, world: sim.NewWorld(sim.Options{})}
		r.oracle = oracle{result: &r.result, now: func() int64 { return 0 }}
		for i := range 2 {
			r.members = append(r.members, &member{place: place{gid: 1, node: uint16(10 + i)}, number: i, run: r,
				process: k.Processes[i]})
		}
		o := &multicast{number: chainBit, from: r.members[0], tree: &tree{members: []int32{0, 1}},
			lives: map[int32]uint16{}, got: map[int32]bool{}}
		r.multicasts = append(r.multicasts, o)
		for _, k := range c.got {
			o.got[k] = true
		}
		for range c.times {
			r.members[0].told(o.number, c.reason, c.told)
		}
		*lost = 0
		if strings.Contains(name, "came back") {
			*lost = 1
		}
		r.settleLost()
		r.settleChains()
		if r.result.Failed() == c.good {
			t.Errorf("%s: failures %q", name, r.result.Failures)
		}
	}
}
