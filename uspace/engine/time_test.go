package engine

// This file holds the rules of times at the ends of their range.

import (
	"errors"
	"math"
	"testing"
	"time"
)

// Rule: a card that has nothing to do may be stepped at the time that Step returned for
// that, Never, and at any time before (Step).
func TestStepAtNever(t *testing.T) {
	c, _, _, _ := lonely(t)
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

// Rule: a retransmission time is between MinRTO and MaxRTO, also of a path whose
// round-trip time was days, because a machine was suspended, and after any number of
// timeouts (RFC 6298 section 2).
func TestRetransmissionTimeIsBounded(t *testing.T) {
	c, _, f, _ := lonely(t)
	for _, rtt := range []int64{0, 1, 1e6, 1e9, int64(24 * time.Hour), int64(1000 * time.Hour), latest} {
		f.srtt, f.rttvar = 0, 0
		f.measured(rtt)
		for timeouts := range 256 {
			f.timeouts = uint8(timeouts)
			if n := f.rto(&c.cfg); n < int64(c.cfg.MinRTO) || n > int64(c.cfg.MaxRTO) {
				t.Fatalf("%d after a round-trip time of %d and %d timeouts", n, rtt, timeouts)
			}
		}
	}
}

// Rule: no duration is so long that it could pass the end of time (config.go).
func TestDurationsAreBounded(t *testing.T) {
	for _, d := range []time.Duration{longest + 1, math.MaxInt64} {
		for i := range 8 {
			cfg := Native()
			cfg.Incarnation = 1
			durations := []*time.Duration{&cfg.AckDelay, &cfg.FirstRTO, &cfg.MinRTO, &cfg.MaxRTO, &cfg.MinHold, &cfg.MaxHold, &cfg.PeerTimeout, &cfg.ConnectTimeout}
			*durations[i] = d
			cfg.MaxRTO, cfg.MaxHold = max(cfg.MaxRTO, cfg.MinRTO), max(cfg.MaxHold, cfg.MinHold)
			if err := cfg.check(); !errors.Is(err, ErrConfig) {
				t.Errorf("duration %d of %v: %v, want ErrConfig", i, d, err)
			}
		}
	}
	c, p, f, x := lonely(t)
	c.cfg.MaxHold, c.cfg.MaxRTO, c.cfg.AckDelay = longest, longest, longest
	c.now = latest
	s := c.stream(f, x, 1, false)
	s.backoff = int64(longest)
	s.holdOff(c.now, &c.cfg, c.tryGap(), math.MaxUint64)
	f.timeouts = 255
	c.owe(p)
	if s.hold < c.now || c.now+f.rto(&c.cfg) < c.now || p.ackAt < c.now {
		t.Errorf("hold until %d, acknowledge at %d", s.hold, p.ackAt)
	}
}
