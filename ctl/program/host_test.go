package program

// This file tests what programs say about hosts that had to be as slow as a profile.

import (
	"strings"
	"testing"
)

// Rule: a host that was late too often, or behind for too long, did not keep the profile,
// and two hosts only if both did; the figures say how far from it they were.
func TestHostVerdict(t *testing.T) {
	for _, c := range []struct {
		hosts []host
		kept  bool
		says  string
	}{
		{[]host{{Charges: 1000, Late: 10, Time: 1e6, Still: 1e4, Limit: 5, P99: 4.9, Largest: 900}}, true,
			"the host kept p: 1.0 % of charges ended more than 5.0 us late (p99 lateness 4.9 us; largest 900.0 us), and the model stood still for 1.0 % of the time"},
		{[]host{{Charges: 1000, Late: 31, Time: 1e6, Limit: 5, P99: 7.5, Largest: 12}}, false,
			"the host could not keep p: 3.1 % of charges ended more than 5.0 us late (p99 lateness 7.5 us; largest 12.0 us), and the model stood still for 0.0 % of the time"},
		{[]host{{Charges: 1000, Time: 1e6, Still: 2e4}}, false, "stood still for 2.0 % of the time"},
		{[]host{{Charges: 1000, Time: 1e6}, {Charges: 10, Late: 5, Time: 1e6, P99: 8}}, false,
			"0.5 % of charges ended more than 0.0 us late (p99 lateness 8.0 us"},
		{[]host{{Charges: 1000, Time: 1e6}, {Charges: 1000, Time: 1e6, Wire: 9, Excess: 7}}, true,
			"a frame takes 9.0 us from host to host; 7.0 us of that are longer"},
		{[]host{{}}, true, "kept"},
	} {
		for i := range c.hosts {
			c.hosts[i].judge()
		}
		first := &c.hosts[0]
		for i := range c.hosts[1:] {
			first.add(&c.hosts[1+i])
		}
		var out strings.Builder
		if err := (Place{Profile: "p", Host: first}).writeHost(&out); err != nil || first.Kept != c.kept ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("%+v: %v\nsays %q, want %v and %q", c.hosts, err, out.String(), c.kept, c.says)
		}
	}
}

// Rule: programs on the host as it is say nothing about it.
func TestHostNative(t *testing.T) {
	var none *host
	none.add(&host{Charges: 1})
	(&host{}).add(nil)
	var out strings.Builder
	if err := (Place{Profile: "native"}).writeHost(&out); err != nil || out.Len() > 0 {
		t.Errorf("%v, says %q", err, out.String())
	}
}
