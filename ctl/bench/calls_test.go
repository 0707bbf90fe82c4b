package bench

// Calls: gRPC on a real lab, and the report. FUNet itself is the test's.

import (
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/tests/long"
)

// gRPC is measured on a real lab in each round, and the ratios are those of the rounds. A failure
// of FUNet ends the measurement, and so do a figure that cannot be and a program that plays no
// role.
func TestCalls(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	o := &calls{exchanges: 200, messages: 1000}
	nodes := map[string]node{program.RemoteCalls: {sample: sample{P50: 5}, Rate: 2e5}, "pingpong": {sample: sample{P50: 4}},
		program.RemoteSends: {Rate: 8e6}, program.RemoteRequests: {Rate: 1e7}, "transfer": {Goodput: 5}}
	r := contest{benchmark: o, rounds: 2, nodes: same(nodes)}.must(t, l)
	for i, us := range r["rounds_grpc_p50_us"].([]any) {
		if got := r["rounds_ratio_to_grpc"].([]any)[i]; !(us.(float64) > 0) || got != nanos(5/us.(float64)) {
			t.Errorf("gRPC takes %v us, by which the ratio is %v", us, got)
		}
	}
	gbit := nanos(8e6 * mebibyte * 8 / 1e9)
	says(t, r, map[string]any{"call_p50_us": 5.0, "pingpong_p50_us": 4.0, "ratio_to_pingpong": 1.25,
		"rounds_ratio_to_pingpong": []any{1.25, 1.25}, "send16_ratio": 1.25, "send16_msgs_per_s": 8e6,
		"request16_msgs_per_s": 1e7, "send1m_gbit_per_s": gbit, "xfer_gbit_per_s": 5.0, "send1m_ratio": nanos(gbit / 5),
		"call_bytes": 64.0, "xdp_mode": "generic", "bind_mode": "copy"})
	for i, n := range []float64{1, 2, 8} {
		says(t, r["goroutines"].([]any)[i].(map[string]any), map[string]any{"n": n, "msgs_per_s": 2e5,
			"rounds_msgs_per_s": []any{2e5, 2e5}})
	}
	boom := errors.New("boom")
	if _, err := (contest{benchmark: o, rounds: 1, nodes: fails(boom)}).play(t, l); !errors.Is(err, boom) ||
		!errors.Is(err, errFunet) {
		t.Error(err)
	}
	if _, err := (contest{benchmark: o, rounds: 1, nodes: same(nodes), exe: []string{"/bin/true"}}).play(t,
		l); err == nil {
		t.Error("a program that plays no role is taken for gRPC")
	}
	nodes["pingpong"] = node{}
	if _, err := (contest{benchmark: o, rounds: 1, nodes: same(nodes)}).play(t, l); err == nil {
		t.Error("a round trip of no time is taken")
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestCallsReport(t *testing.T) {
	r, err := (&calls{exchanges: 30_000, messages: 1_000_000}).report(played(map[string][]float64{"call": {4.5, 5},
		"pingpong": {4, 4.5}, "grpc": {50, 70}, "send16": {9e6, 1e7}, "request16": {9.5e6, 1.05e7}, "send1m": {5.6, 5.8},
		"xfer": {6, 6}, "1 goroutines": {3.9e5, 4.1e5}, "2 goroutines": {3e5, 3e5}, "8 goroutines": {2e5, 3e5}}, 2))
	goldens(t, "calls", r, err)
}

// Figures of programs in C stand beside those in Go, with the ratios of each round. Without direct
// ports C is refused.
func TestCallsInC(t *testing.T) {
	m := played(map[string][]float64{"call": {4, 5}, "c_call": {4.4, 5}, "send16": {1e6, 2e6}, "c_send16": {3e6, 2e6},
		"c_empty_poll": {7, 9}}, 2)
	var r report
	(&calls{inC: true}).reportC(m, &r)
	says(t, named(t, r), map[string]any{"c_call_p50_us": 4.7, "c_call_ratio": 1.05, "c_send16_msgs_per_s": 2.5e6,
		"c_send16_ratio": 2.0, "rounds_c_call_ratio": []any{1.1, 1.0}, "rounds_c_send16_ratio": []any{3.0, 1.0},
		"c_empty_poll_ns": 8.0})
	if err := (&calls{inC: true}).enterC(t.Context(), m); err == nil || !strings.Contains(err.Error(), "--card direct") {
		t.Errorf("on cards of one's own it gave %v", err)
	}
}
