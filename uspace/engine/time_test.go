package engine

// This file holds the rules of times at the ends of their range.

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/port"
)

// Rule: a card that has nothing to do may be stepped at the time that Step returned for
// that, Never, and at any time before (Step).
func TestStepAtNever(t *testing.T) {
	c := unplugged(t)
	for _, at := range []int64{0, 1, latest} {
		for range 5 {
			c.Step(at)
		}
	}
	empty, err := New(Config{Incarnation: 1, Lines: 2, ReplyLines: 1, Train: 1, FIFO: 1, FirstWindow: 1, AckEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	if at := empty.Step(Never); at != Never {
		t.Errorf("wants to run at %d", at)
	}
}

// Rule: no duration is so long that it could pass the end of time (config.go).
func TestDurationsAreBounded(t *testing.T) {
	for _, d := range []time.Duration{longest + 1, math.MaxInt64} {
		for i := range 8 {
			cfg := Native()
			cfg.Incarnation = 1
			durations := []*time.Duration{&cfg.AckDelay, &cfg.FirstRTO, &cfg.MinRTO, &cfg.MaxRTO, &cfg.MinHold,
				&cfg.MaxHold, &cfg.PeerTimeout, &cfg.ConnectTimeout}
			*durations[i] = d
			cfg.MaxRTO, cfg.MaxHold = max(cfg.MaxRTO, cfg.MinRTO), max(cfg.MaxHold, cfg.MinHold)
			if err := cfg.check(); !errors.Is(err, ErrConfig) {
				t.Errorf("duration %d of %v: %v, want ErrConfig", i, d, err)
			}
		}
	}
}

// unplugged is a card with one peer, whose port leads nowhere.
func unplugged(t *testing.T) *Card {
	t.Helper()
	cfg := Native()
	cfg.Incarnation, cfg.Ports, cfg.Peers = 1, []port.Port{wire.New(wire.Config{}).Plug([6]byte{2})}, []Peer{{Card: 1}}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.clock.now = 1e9
	return c
}
