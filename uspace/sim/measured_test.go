package sim

// This file tests clusters of machines with measured costs against their table.

import (
	"errors"
	"testing"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/am"
)

// A round trip of cmam_4 takes what Table 6.1 measured, but for the polls of the node that waits:
// at most one of them more.
func TestMeasuredRoundTrip(t *testing.T) {
	p := profile(t, "cm5")
	cycle := p.CPU.Clock.Duration(hwprofiles.Cycle)
	const poll = 80 // cycles, at most
	k, err := NewMeasuredCluster(p, 2, 64, func(p *Process) error {
		e, err := p.Endpoint(2)
		if err != nil {
			return err
		}
		answers := 0
		err = errors.Join(
			e.Handle(0, func(m *am.Message) { _ = m.Reply4(1, 0, 0, 0, 0) }),
			e.Handle(1, func(*am.Message) { answers++ }),
			e.Barrier())
		if err != nil {
			return err
		}
		for round := 1; e.Node() == 0 && round <= 4; round++ {
			begin := p.Now()
			if err := e.Request4(1, 0, 0, 0, 0, 0); err != nil {
				return err
			}
			if err := e.Wait(func() bool { return answers == round }); err != nil {
				return err
			}
			took := time.Duration(p.Now() - begin)
			// the first meets the barrier
			if round > 1 && (took < 413*cycle || took > (414+2*poll)*cycle) {
				t.Errorf("a round trip took %v, %v cycles; Table 6.1 has 413.9", took, took/cycle)
			}
		}
		return e.Barrier()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Second); err != nil {
		t.Fatal(err)
	}
}

// A profile without the table is refused, and the error says which cost is missing.
func TestMeasuredRefuses(t *testing.T) {
	if _, err := NewMeasuredCluster(profile(t, "sbus-arctic"), 2, 64, nil); !errors.Is(err, ErrCosts) {
		t.Errorf("no costs: %v", err)
	}
	p := *profile(t, "cm5")
	p.CPU.Clock = 0
	if _, err := NewMeasuredCluster(&p, 2, 64, nil); !errors.Is(err, ErrCosts) {
		t.Errorf("no clock: %v", err)
	}
}
