package paper

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/funet/funet/hwprofiles"
)

func report1(t *testing.T, profile string) *tokyoReport {
	t.Helper()
	p, err := hwprofiles.Load(profile)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newTokyo(p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.report(true)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rule: every term and total that was printed without a slip is the model's within 1 %. Those that
// were not printed follow from the text: bursts that follow each other (4.1.2), and a write that
// each interface first stores as a whole.
func TestFigures(t *testing.T) {
	r := report1(t, "tokyo")
	want := map[string]float64{
		"a write of 32 bytes": 2725.3, "a write of 64 bytes, bursts behind each other": 3705.3,
		"a write of 64 bytes, stored in each interface": 5287.6,
		"the bus, with the access of 4.3":               32.7,
	}
	slips := 0
	for _, c := range r.Cells {
		if c.Slip != "" {
			slips++
		} else if c.Diff != nil && math.Abs(*c.Diff) > 1 {
			t.Errorf("%s: %.2f instead of %.2f", c.Case, c.Model, *c.Printed)
		}
		if w := want[c.Case]; w != 0 {
			if delete(want, c.Case); math.Abs(c.Model-w) > w/500 {
				t.Errorf("%s: %.2f instead of %.2f", c.Case, c.Model, w)
			}
		}
		if c.How == "" {
			t.Errorf("%s: how it is made is not said", c.Case)
		}
	}
	if len(want) > 0 || slips != 2 || r.Worst > 1 {
		t.Errorf("missing %v; %d slips, worst %.2f %%", want, slips, r.Worst)
	}
	var b sheet
	if r.print(&b); !strings.Contains(b.String(), "slip: its terms add up to 2724.6") {
		t.Error(b.String())
	}
}

// Rule (4.2): with the decoder's 6 clocks the link's latency and the total are 112.9 ns longer, and
// that the sum leaves them out is named.
func TestTheTextsDecoder(t *testing.T) {
	plain, text := report1(t, "tokyo"), report1(t, "tokyo-text")
	for i, c := range text.Cells {
		longer := c.Model - plain.Cells[i].Model
		switch c.Case {
		case "latency of the link":
			if c.Slip == "" {
				t.Error("the slip is not named")
			}
			fallthrough
		case "a write of 32 bytes":
			if math.Abs(longer-6/53.125e-3) > .01 {
				t.Errorf("%s is %.2f ns longer", c.Case, longer)
			}
		}
	}
}

// Rule (2.2.1, 3.3.1.3): a chain to k members is k packets and an answer, one of them on the
// sender's link, where writes are 2k and k; it is there no later.
func TestMulticast(t *testing.T) {
	for _, c := range report1(t, "tokyo").Multicast {
		k := c.Members
		if c.ChainPackets != k+1 || c.WritesPackets != 2*k || c.ChainCopies != 1 || c.WritesCopies != k ||
			c.ChainNS > c.WritesNS+1e-6 {
			t.Errorf("%+v", c)
		}
	}
}

// Rule (2.2.1): in both profiles the engine's traffic takes the model's time, within 1 %, until the
// last member has the data. For chains the model has interfaces that store a message before they
// forward it. For writes the model has data that follow each other over the sender's bus.
func TestTimesOfMulticasts(t *testing.T) {
	for _, profile := range []string{"tokyo", "tokyo-text"} {
		for _, c := range report1(t, profile).Multicast {
			for what, v := range map[string][2]float64{"chain": {float64(c.Counted.ChainNS), c.StoredNS},
				"writes": {float64(c.Counted.WritesNS), c.WritesNS}} {
				if math.Abs(v[0]-v[1]) > v[1]/100 {
					t.Errorf("%s, %s to %d members: %.0f ns as traffic, the model has %.1f", profile, what,
						c.Members, v[0], v[1])
				}
			}
		}
	}
}

// Rule (2.2.1, 3.3.1.3): the engine's cards send as many packets for it as there are in the model:
// one copy on the sender's link, k hops and 1 answer, against 2k. What acknowledges frames is
// counted, and is no packet.
func TestCountedMulticast(t *testing.T) {
	for _, c := range report1(t, "tokyo").Multicast {
		n := c.Counted
		if n.ChainPackets != c.ChainPackets || n.WritesPackets != c.WritesPackets || n.ChainCopies != c.ChainCopies ||
			n.WritesCopies != c.WritesCopies {
			t.Errorf("to %d members: counted %+v, the model has %+v", c.Members, n, c)
		}
		if n.ChainAcknowledgments == 0 || n.WritesAcknowledgments == 0 {
			t.Errorf("to %d members: nothing was acknowledged: %+v", c.Members, n)
		}
	}
}

// Rule: another machine's profile is refused, with the name of one that is not.
func TestOtherProfiles(t *testing.T) {
	for _, name := range []string{"native", "cm5", "sbus-arctic", "hamlyn"} {
		p, err := hwprofiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newTokyo(p); !errors.Is(err, errParts) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
