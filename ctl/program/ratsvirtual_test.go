package program

import (
	"errors"
	"testing"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/rats"
	"github.com/funet/funet/uspace/timing"
)

// Rule (HPL-95-86, tables 1 and 3): a round trip of tagged writes on two modelled machines takes
// twice the sum of the steps. The steps are Rats of sender and receiver, the card that sends, the
// switch, the card that receives, and the notification. In the time for a byte of sending and of
// arriving, the card, unlike the paper, counts the 8 bytes that name the tag. A look that is just
// too early takes 4 instructions.
func TestRoundTripFollowsFromSteps(t *testing.T) {
	long.Test(t)
	p, err := hwprofiles.Load("hamlyn")
	if err != nil {
		t.Fatal(err)
	}
	const instruction, cycle = 1.27 * 1000 / 120, 25.0 // ns
	const tag, look = 8, 4 * instruction
	for _, bytes := range []float64{4, 16, 32, 48} {
		words := 4.0
		if bytes >= 32 {
			words = 8
		}
		bus := (10 + words) * bytes / (4 * words)
		switch bytes {
		case 4:
			bus = 11 // one word
		case 48:
			bus = 18 + 14 // a burst of eight and one of four
		}
		software := (141 + 0.75*bytes) * instruction
		cards := (81 + (bytes+tag)/2 + 20 + 71 + (bytes+tag)/4 + bus + 89) * cycle
		steps := 2 * (software + cards) / 1000
		r, err := RatsInVirtualTime(p, RatsOptions{Bytes: int(bytes), Count: 500, WarmUp: 50})
		if err != nil {
			t.Fatal(err)
		}
		if r.Min < steps-0.01 || r.P50 > steps+2*look/1000+0.01 {
			t.Errorf("%v bytes: p50 %v us, shortest %v; the steps add up to %v", bytes, r.P50, r.Min, steps)
		}
		if again, err := RatsInVirtualTime(p, RatsOptions{Bytes: int(bytes), Count: 500, WarmUp: 50}); err != nil ||
			*again != *r {
			t.Errorf("%v bytes: %+v, and then %+v: %v", bytes, r, again, err)
		}
	}
}

// Rule: no total is an input: a step that takes longer makes the round trip longer by twice that,
// if somebody waits for it, and not at all if nobody does.
func TestStepsOnAndOffThePath(t *testing.T) {
	base := roundTrip(t, func(hwprofiles.Step) hwprofiles.Share { return 0 })
	for _, x := range []struct {
		of, side, name, path string
		ns                   float64 // that one more of its unit takes
	}{
		{"direct", "sender", "send packet", "on", 25}, {"direct", "switch", "switch", "on", 25},
		{"direct", "receiver", "link to interface", "on", 25},
		// which somebody waits for where a notification is asked for
		{"direct", "receiver", "notify host", "off", 25},
		{"tagged-direct", "sender", "sendmsg", "on", 1.27 * 1000 / 120},
		{"tagged", "receiver", "get_tag", "on", 1.27 * 1000 / 120},
		{"direct", "sender", "notify host", "off", 0}, {"tagged-direct", "sender", "sendmsg", "off", 0},
		{"tagged", "receiver", "get_tag", "off", 0},
	} {
		const more = 20
		got := roundTrip(t, func(s hwprofiles.Step) hwprofiles.Share {
			if s.Of == x.of && s.Side == x.side && s.Name == x.name && s.Path == x.path {
				return more * hwprofiles.One
			}
			return 0
		})
		// a look at each end
		if diff := got - base - 2*more*x.ns/1000; diff < -0.09 || diff > 0.09 {
			t.Errorf("%s of %s, %s: the round trip takes %v us instead of %v, want %v more", x.name, x.of, x.side, got,
				base, 2*more*x.ns/1000)
		}
	}
}

// roundTrip returns the time of a round trip with profile hamlyn when each step takes so much more.
func roundTrip(t *testing.T, more func(hwprofiles.Step) hwprofiles.Share) float64 {
	t.Helper()
	p, err := hwprofiles.Load("hamlyn")
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Steps {
		p.Steps[i].Base += more(p.Steps[i])
	}
	r, err := RatsInVirtualTime(p, RatsOptions{Bytes: 16, Count: 200, WarmUp: 20})
	if err != nil {
		t.Fatal(err)
	}
	return r.P50
}

// Rule: a profile without the steps of a card and its library, and a write that no packet holds,
// are refused.
func TestVirtualTimeRefuses(t *testing.T) {
	for _, name := range []string{"native", "cm5", "hamlyn-statemachine"} {
		p, err := hwprofiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RatsInVirtualTime(p, RatsOptions{Bytes: 16, Count: 1}); !errors.Is(err, machine.ErrParts) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"sbus-arctic", "tokyo"} {
		p, err := hwprofiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RatsInVirtualTime(p, RatsOptions{Bytes: 16, Count: 1}); !errors.Is(err, timing.ErrRats) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := hwprofiles.Load("hamlyn")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RatsInVirtualTime(p, RatsOptions{Bytes: rats.MaxTagged + 1, Count: 1}); !errors.Is(err,
		rats.ErrTooLong) {
		t.Errorf("a tagged write that is too long: %v", err)
	}
	p.Steps = p.Steps[:len(p.Steps)-10]
	if _, err := RatsInVirtualTime(p, RatsOptions{Bytes: 16, Count: 1}); !errors.Is(err, machine.ErrParts) {
		t.Errorf("some steps are missing: %v", err)
	}
}
