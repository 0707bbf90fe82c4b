package bench

// Incast: who sends how much, and the report. FUNet itself is the test's.

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
)

// Both runs carry as many messages in all; the sides take turns, and the ratio is that of the
// medians. FUNet's failure ends the measurement.
func TestIncast(t *testing.T) {
	var runs [][]string
	l := newLab(t, lab.Options{Hosts: 3})
	r := contest{benchmark: &incast{messages: 10_001}, rounds: 3, nodes: func(_ context.Context, _ *program.Flags,
		name string, args []string) ([]node, error) {
		runs = append(runs, args)
		c := congestion{Rejected: 1}
		return []node{{Goodput: float64(len(runs)), Card: c, XDPMode: "generic", BindMode: "copy"}, {Card: c}}, nil
	}}.must(t, l)
	one, all := stream(1, 10_000, incastWords).Arguments(), stream(2, 5_000, incastWords).Arguments()
	if diff := cmp.Diff([][]string{one, all, all, one, one, all}, runs); diff != "" {
		t.Error(diff)
	}
	rejected := map[string]any{"packets_rejected": 2.0, "frames_retransmitted": 0.0, "retransmission_timeouts": 0.0,
		"duplicate_frames": 0.0}
	says(t, r, map[string]any{"one_to_one_gbit_per_s": 4.0, "incast_gbit_per_s": 3.0, "ratio": 0.75, "senders": 2.0,
		"rounds_one_to_one_gbit_per_s": []any{1.0, 4.0, 5.0}, "rounds_incast_gbit_per_s": []any{2.0, 3.0, 6.0},
		"rounds_ratio": []any{2.0, 0.75, 1.2}, "rounds_incast_congestion": []any{rejected, rejected, rejected},
		"messages": 10_000.0, "words": 20.0, "xdp_mode": "generic", "bind_mode": "copy"})
	boom := errors.New("boom")
	if _, err := (contest{benchmark: &incast{messages: 10_000}, rounds: 1, nodes: fails(boom)}).play(t,
		l); !errors.Is(err, boom) || !errors.Is(err, errFunet) {
		t.Error(err)
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestIncastReport(t *testing.T) {
	o := &incast{messages: 2_100_000, senders: 7, congestion: map[string][]congestion{
		"one to one": {{Rejected: 1, Retransmitted: 2, Timeouts: 3, Duplicates: 4}, {Rejected: 5}},
		"7 to one":   {{}, {Rejected: 6, Retransmitted: 7, Timeouts: 8, Duplicates: 9}}}}
	m := played(nil, 8)
	m.playing = []*contender{{name: "one to one", figures: []float64{1.5, 2.5}},
		{name: "7 to one", figures: []float64{1.8, 2}}}
	r, err := o.report(m)
	goldens(t, "incast", r, err)
}
