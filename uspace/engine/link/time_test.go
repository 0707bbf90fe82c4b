package link

// This file holds the rules of times at the ends of their range, and what the tests of this package
// are made with.

import (
	"math"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
)

const (
	latest  = 1 << 62        // see engine.Step
	longest = 24 * time.Hour // see engine.Config
)

// native is as engine.Native.
func native() Config {
	return Config{
		Incarnation: 1, Lines: 1024, Train: arctic.MaxTrain, FirstWindow: 32,
		AckDelay: 50 * time.Microsecond, AckEvery: 16,
		FirstRTO: 10 * time.Millisecond, MinRTO: 5 * time.Millisecond, MaxRTO: 100 * time.Millisecond,
		MinHold: 10 * time.Microsecond, MaxHold: 100 * time.Millisecond,
		PeerTimeout: 5 * time.Second, ConnectTimeout: 30 * time.Second, RaiseAfter: 10 * time.Second,
	}
}

// Rule: a retransmission time is between MinRTO and MaxRTO, also of a path whose round-trip time
// was days, because a machine was suspended, and after any number of timeouts (RFC 6298 section 2).
func TestRetransmissionTimeIsBounded(t *testing.T) {
	e, _, f, _ := lonely(t)
	for _, rtt := range []int64{0, 1, 1e6, 1e9, int64(24 * time.Hour), int64(1000 * time.Hour), latest} {
		f.srtt, f.rttvar = 0, 0
		f.measured(rtt)
		for timeouts := range 256 {
			f.timeouts = uint8(timeouts)
			if n := f.rto(&e.cfg); n < int64(e.cfg.MinRTO) || n > int64(e.cfg.MaxRTO) {
				t.Fatalf("%d after a round-trip time of %d and %d timeouts", n, rtt, timeouts)
			}
		}
	}
}

// Rule: no sum of a time and a duration passes the end of time (engine/config.go bounds both).
func TestTimesAreBounded(t *testing.T) {
	e, p, f, o := lonely(t)
	e.cfg.MaxHold, e.cfg.MaxRTO, e.cfg.AckDelay = longest, longest, longest
	e.now = latest
	s := e.stream(f, o, 1, packets)
	s.backoff = int64(longest)
	s.holdOff(e.now, &e.cfg, e.tryGap(), math.MaxUint64)
	f.timeouts = 255
	e.train = Train{Header: &arctic.Header{Sequence: f.rcvNext}, flow: f, peer: p}
	e.Answer(&Verdict{}, false)
	if s.hold < e.now || e.now+f.rto(&e.cfg) < e.now || p.ackAt < e.now {
		t.Errorf("hold until %d, acknowledge at %d", s.hold, p.ackAt)
	}
}
