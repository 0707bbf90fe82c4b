package paper

// This file holds how near the tables of the Hamlyn paper are (HPL-95-86).

import (
	"errors"
	"math"
	"testing"

	"github.com/funet/funet/hwprofiles"
	modelled "github.com/funet/funet/uspace/machine"
)

func hamlynOf(t *testing.T, name string) *hamlyn {
	t.Helper()
	p, err := hwprofiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newHamlyn(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Rule: counts are within 1 % of the paper's, and the times of tables 1 and 2 are theirs to one of
// the last digit; but for slips, which are these.
func TestTablesAreMet(t *testing.T) {
	m := hamlynOf(t, "hamlyn")
	slips := map[string]bool{}
	for table := 1; table <= tables; table++ {
		r, err := m.table(table, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Cells) == 0 || r.Worst > 1 {
			t.Errorf("table %d: %d cells, the worst count is %.2f %% off", table, len(r.Cells), r.Worst)
		}
		for _, c := range r.Cells {
			if c.Slip != "" {
				slips[c.Case] = true
			}
			if table <= 2 && c.Unit == "us" && c.Slip == "" && !*c.LastDigit {
				t.Errorf("table %d: %s takes %.4f us, printed %v", table, c.Case, c.Model, *c.Printed)
			}
			if table > 2 && c.Unit == "us" && c.Slip == "" && (math.Abs(*c.Diff) > 1) {
				t.Errorf("table %d: %s takes %.4f us, printed %v", table, c.Case, c.Model, *c.Printed)
			}
		}
	}
	if len(slips) != 5 {
		t.Errorf("slips of the paper: %v", slips)
	}
}

// Rule: the steps alone make the tables; another machine has other totals.
func TestStepsMakeTheTables(t *testing.T) {
	m := hamlynOf(t, "hamlyn")
	before, err := m.table(3, true)
	if err != nil || len(before.Steps) == 0 {
		t.Fatal(err, before)
	}
	for i := range m.p.Steps {
		if s := &m.p.Steps[i]; s.Of == "direct" && s.Name == "send packet" {
			s.Base += 10 * hwprofiles.One
		}
	}
	m.p.Bus.TransactionCycles += hwprofiles.Cycle
	after, err := m.table(3, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Cells[0].Model - before.Cells[0].Model; math.Abs(got-10) > 1e-9 {
		t.Errorf("a step of 10 cycles more has the sender take %v more", got)
	}
	if got := after.Cells[2].Model - before.Cells[2].Model; math.Abs(got-1) > 1e-9 {
		t.Errorf("a bus of 1 cycle more has the receiver take %v more", got)
	}
}

// Rule: what the messages of tables 3 to 5 take that are sent in virtual time is what the steps add
// up to, within 1 %; tables 1 and 2 are of no message.
func TestTrafficTakesWhatStepsAddUpTo(t *testing.T) {
	m := hamlynOf(t, "hamlyn")
	for table := 1; table <= tables; table++ {
		r, err := m.table(table, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Cells {
			if (c.Traffic != nil) != (table >= 3) {
				t.Errorf("table %d: %s has traffic %v", table, c.Case, c.Traffic)
			} else if c.Traffic != nil && math.Abs(*c.TrafficDiff) > 1 {
				t.Errorf("table %d: %s takes %v %s by steps, and %v when it is sent", table, c.Case, c.Model,
					c.Unit, *c.Traffic)
			}
		}
	}
}

// Rule: traffic is made of each unit's own time, not of the sums. Packets of 64 bytes are slower
// than blocks; the sums do not know this difference. A step that another unit waits for shows as
// often as there are packets that nothing hides.
func TestTrafficIsSent(t *testing.T) {
	long := message{bytes: 64 << 10, dma: true, notify: true}
	took := func(change func(*hwprofiles.Profile)) float64 {
		t.Helper()
		m := hamlynOf(t, "hamlyn")
		change(m.p)
		s, err := m.send(long)
		if err != nil {
			t.Fatal(err)
		}
		return s["all"]
	}
	base := took(func(*hwprofiles.Profile) {})
	if got := took(func(p *hwprofiles.Profile) { p.Card.Blocks, p.Card.BlockBytes = false, 0 }); got < 1.5*base {
		t.Errorf("in packets of 64 bytes %v cycles, in blocks %v", got, base)
	}
	if got := took(func(p *hwprofiles.Profile) { p.Card.BlockBytes = 1024 }); got < base || got > 1.1*base {
		t.Errorf("in blocks of 1 Kbyte %v cycles, of 512 bytes %v: the bus is the narrowest way, and the last block is longer", got, base)
	}
	step := func(name, side string, cycles int) float64 {
		return took(func(p *hwprofiles.Profile) {
			for i := range p.Steps {
				if s := &p.Steps[i]; s.Of == "dma" && s.Name == name && s.Side == side {
					s.Base += hwprofiles.Share(cycles) * hwprofiles.One
				}
			}
		}) - base
	}
	if got := step("start data to card", "sender", 50); math.Abs(got-50) > 0.1 {
		t.Errorf("starting takes 50 cycles more, the message %v", got)
	}
	// the link is the narrowest way now
	if got := step("send packet", "sender", 50); got < 50+127*(277+50-288) || got > 50+128*(277+50-288) {
		t.Errorf("sending takes 50 cycles more, the message %v", got)
	}
	if got := step("notify host", "sender", 50); math.Abs(got) > 0.1 {
		t.Errorf("telling the host takes 50 cycles more, the message %v", got)
	}
}

// Rule: of what the text concludes all holds but the round trips, which the paper rounds before it
// doubles them, the bandwidth of pipelined messages, which no reading of Table 4 gives, and that of
// 4 Kbyte.
func TestClaims(t *testing.T) {
	for profile, want := range map[string]int{"hamlyn": 4, "hamlyn-statemachine": 2} {
		r, err := hamlynOf(t, profile).claims()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Claims {
			if !c.Holds {
				want--
				t.Logf("%s: %s: printed %v, steps %v", profile, c.Says, c.Printed, c.Model)
			}
		}
		if want != 0 || len(r.Claims) < 14 {
			t.Errorf("%s: %d claims, %d hold", profile, len(r.Claims), r.Hold)
		}
	}
}

// Rule: a profile without the steps is refused.
func TestOtherProfilesAreRefused(t *testing.T) {
	for _, name := range []string{"native", "sbus-arctic", "cm5"} {
		p, err := hwprofiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newHamlyn(p); !errors.Is(err, errSteps) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := hamlynOf(t, "hamlyn-statemachine").table(3, false); !errors.Is(err, errSteps) {
		t.Errorf("table 3 of the state machines: %v", err)
	}
	if _, err := hamlynOf(t, "hamlyn-statemachine").send(message{bytes: 16}); !errors.Is(err, modelled.ErrParts) {
		t.Errorf("a message of the state machines: %v", err)
	}
}
