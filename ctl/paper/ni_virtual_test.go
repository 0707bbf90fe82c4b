package paper

// This file tests the virtualised interface and ULTRA in `funet sim ni`.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/hwprofiles"
)

// virtualMachine returns the machine of a profile.
func virtualMachine(t testing.TB, name string) *virtualised {
	t.Helper()
	p, err := hwprofiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newVirtualised(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// virtualOf returns the report of a profile.
func virtualOf(t testing.TB, name string) *virtualReport {
	t.Helper()
	r, err := virtualMachine(t, name).report(context.Background(), true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rule (Froening's thesis, 1.4.2, 3.2.6, 4.4.1 to 4.4.3): the model is within 1 % of each figure
// that is a target, and each statement holds. Totals from which a part was derived say so.
func TestVirtualFigures(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"virt-ni": {"trigger_1_thread": kindTarget, "hop": kindTarget},
		"ultra": {"ultra_end_to_end": kindDerived, "ultra_inject": kindTarget, "ultra_store": kindTarget,
			"ultra_units": kindTarget},
		"ultra-asic": {"ultra_end_to_end": kindDerived, "ultra_units": kindTarget},
		"ultra-htx":  {"ultra_end_to_end": kindDerived, "register_read_4_bytes": kindTarget},
	} {
		r := virtualOf(t, name)
		for _, v := range r.Rows {
			switch kind := want[v.Row]; {
			case kind == "" && v.Kind == kindReported:
				continue
			case v.Kind != kind || v.Target == nil || math.Abs(*v.Diff) > 1:
				t.Errorf("%s: %+v, want it %s within 1 %%", name, v, kind)
			case (kind == kindDerived) != strings.Contains(v.How, "is what this total leaves"):
				t.Errorf("%s: %s is derived and does not say so: %s", name, v.Row, v.How)
			}
			delete(want, v.Row)
		}
		if len(want) > 0 || r.Worst > 1 {
			t.Errorf("%s: missing %v, worst %.2f %%", name, want, r.Worst)
		}
		for _, c := range r.Claims {
			if c.Holds == nil || !*c.Holds {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

// Rule (4.4.3): 13 and 21 cycles are 340 ns at 100 MHz and 68 ns at 500 MHz, not the printed 250
// and 50, and the slip is named.
func TestVirtualSlips(t *testing.T) {
	for name, want := range map[string][2]float64{"ultra": {250, 340}, "ultra-asic": {50, 68}} {
		v := virtualOf(t, name).row("ultra_units")
		if *v.Printed != want[0] || *v.Model != want[1] || !strings.Contains(v.Slip, "13 + 21 cycles") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// Rule: figures come out of the path. Each part of it that takes longer makes the whole longer.
func TestVirtualParts(t *testing.T) {
	times := func(change func(*hwprofiles.Profile)) (u ultraTimes) {
		p := *virtualMachine(t, "ultra").p
		change(&p)
		u, err := ultra(&p)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	plain := times(func(*hwprofiles.Profile) {})
	for what, c := range map[string]struct {
		change func(*hwprofiles.Profile)
		want   ultraTimes
	}{
		"burst": {func(p *hwprofiles.Profile) { p.IO.BurstWrite += 100 }, ultraTimes{571, 340, 260, 1298, 571}},
		"requester": {func(p *hwprofiles.Profile) { p.Ultra.RequesterCycles += 10 * hwprofiles.Cycle },
			ultraTimes{471, 440, 260, 1298, 471}},
		"path": {func(p *hwprofiles.Profile) { p.Ultra.Path += 1000 }, ultraTimes{471, 340, 260, 2198, 471}},
		"completer": {func(p *hwprofiles.Profile) { p.Ultra.CompleterCycles += 100 * hwprofiles.Cycle },
			ultraTimes{471, 1340, 260, 2198, 1210}},
		"store": {func(p *hwprofiles.Profile) { p.IO.MemoryWrite += 740 }, ultraTimes{471, 340, 1000, 1938, 1000}},
	} {
		if got := times(c.change); got != c.want || got == plain {
			t.Errorf("a longer %s: %+v, want %+v; without that %+v", what, got, c.want, plain)
		}
	}
	p := *virtualMachine(t, "virt-ni").p
	p.Network.Wire = 10
	if got := hop(&p); math.Abs(got-100.909) > .001 {
		t.Errorf("a hop with a wire of 10 ns takes %v", got)
	}
	p.IO.TriggerDevice = 70
	if got, err := triggers(context.Background(), &p, 1, 10); got != 700 || err != nil {
		t.Errorf("a trigger that takes the device 70 ns takes %v, %v", got, err)
	}
}

// Rule (3.4.4): a trigger that finds the conditional store buffer full is answered so, and is made
// again: the threads end with a buffer of one entry, and no sooner than with a large one.
func TestTriggersOfASmallBuffer(t *testing.T) {
	p := *virtualMachine(t, "virt-ni").p
	p.Units.Requesters, p.Units.WaitQueue, p.Units.IssueWidth = 1, 0, 1
	large, err := triggers(context.Background(), &p, 64, 8)
	if err != nil {
		t.Fatal(err)
	}
	p.Card.CSBEntries, p.IO.Access = 1, 2000
	small, err := triggers(context.Background(), &p, 64, 8)
	if err != nil || small <= large {
		t.Errorf("%v ns with one entry, %v with many: %v", small, large, err)
	}
}

// Rule (3.2.6, figure 3.21): with each of single issue, look-ahead, multi-issue and multi-issue
// with wait queues independent work is blocked less than with the one before. At no time without an
// answer is it blocked more. A longer time never costs less, and none costs nothing.
func TestIssueOrder(t *testing.T) {
	r := virtualOf(t, "virt-ni").Issue
	if !r.Order || len(r.Policies) != 4 {
		t.Errorf("%+v", r)
	}
	for i, v := range r.Policies {
		if len(v.Curve) != len(issueBlocked) || v.Curve[0] != (lostPoint{}) || v.BlockedNS <= 0 {
			t.Errorf("%s: %+v", v.Policy, v)
		}
		for k, q := range v.Curve {
			if k > 0 && q.BlockedNS < v.Curve[k-1].BlockedNS {
				t.Errorf("%s: %v us cost less than %v us", v.Policy, q, v.Curve[k-1])
			}
			if i > 0 && q.BlockedNS > r.Policies[i-1].Curve[k].BlockedNS {
				t.Errorf("%s costs %v, %s costs %v", v.Policy, q, r.Policies[i-1].Policy, r.Policies[i-1].Curve[k])
			}
		}
	}
}

// Rule: a report is the same again, whatever the number of processors, and its picture is drawn.
func TestVirtualAgain(t *testing.T) {
	var texts [2][]byte
	for i := range texts {
		r := virtualOf(t, "ultra")
		var err error
		if texts[i], err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{".svg", ".png"} {
			var b bytes.Buffer
			if err := r.picture().write(kind, &b); err != nil || b.Len() < 1000 {
				t.Errorf("%d bytes of %s, %v", b.Len(), kind, err)
			}
			if kind == ".svg" {
				for _, s := range policyStyles {
					if !strings.Contains(b.String(), s.name) {
						t.Errorf("the picture has no %q", s.name)
					}
				}
			}
		}
		var s sheet
		r.print(&s)
		if text := s.String(); !strings.Contains(text, "slip: 13 + 21") || !strings.Contains(text, "compare_atoll") {
			t.Error(text)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("%s, then %s", texts[0], texts[1])
	}
}

// Rule: the command ends with its context.
func TestVirtualEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := virtualMachine(t, "ultra").report(ctx, false); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("%v, %v", r, err)
	}
}

// Rule: a profile that lacks parts, or whose network is too slow for the workload, is refused with
// what to give.
func TestVirtualRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*hwprofiles.Profile)
		want   error
	}{
		{func(p *hwprofiles.Profile) { p.Units = hwprofiles.Units{} }, errVirtual},
		{func(p *hwprofiles.Profile) { p.Network = hwprofiles.Network{} }, errVirtual},
		{func(p *hwprofiles.Profile) { p.IO.Access = 0 }, errVirtual},
		{func(p *hwprofiles.Profile) { p.IO.RegisterRead = 0 }, errVirtual},
		{func(p *hwprofiles.Profile) { p.Network.Wire = time.Second }, errHop},
	} {
		p := *virtualMachine(t, "ultra").p
		c.change(&p)
		if _, err := newVirtualised(&p); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

// Rule: whatever figures a profile has, as far as they are in range, the report is made or the
// profile is refused: no panic, and no run without an end.
func TestHostileProfiles(t *testing.T) {
	for seed := range uint64(10) {
		p, random := *virtualMachine(t, "ultra").p, rand.New(rand.NewPCG(seed, 1))
		upTo := func(most int) int { return 1 + random.IntN(most) }
		for _, ns := range []*time.Duration{&p.IO.RegisterRead, &p.IO.TriggerDevice, &p.IO.BurstWrite,
			&p.IO.MemoryWrite, &p.IO.Access, &p.Network.Wire} {
			*ns = []time.Duration{1, 500, time.Second}[random.IntN(3)]
		}
		for _, c := range []*hwprofiles.Clock{&p.Units.Clock, &p.Ultra.Clock, &p.Network.Clock} {
			*c = []hwprofiles.Clock{1, 100_000, 100_000_000}[random.IntN(3)]
		}
		for _, c := range []*hwprofiles.Cycles{&p.Ultra.RequesterCycles, &p.Network.RouterCycles} {
			*c = []hwprofiles.Cycles{30, 1_000_000 * hwprofiles.Cycle}[random.IntN(2)]
		}
		u := &p.Units
		for _, n := range []*int{&u.Requesters, &u.Responders, &u.Completers, &u.Stages, &u.IssueWidth} {
			*n = upTo(16)
		}
		u.WaitQueue, p.Card.CSBEntries = random.IntN(65), []int{0, 1, 1 << 16}[random.IntN(3)]
		if p.Network.CrossbarCycles = 0; seed%2 == 0 {
			p.Network.Wire = 0 // so that not all of them are refused
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		m, err := newVirtualised(&p)
		if errors.Is(err, errHop) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.report(context.Background(), false)
		if err != nil {
			t.Fatalf("%v of %+v", err, p)
		}
		for _, v := range r.Rows {
			if v.Model != nil && (math.IsNaN(*v.Model) || *v.Model < 0) {
				t.Errorf("%s takes %v", v.Row, *v.Model)
			}
		}
	}
}
