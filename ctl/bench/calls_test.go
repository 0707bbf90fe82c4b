// Calls: gRPC on a real lab, what is refused, and the report. FUNet itself is the caller's.

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// took is a run of FUNet that took a time.
func took(us float64) func(context.Context, *lab.Lab) (CallsSample, error) {
	return func(context.Context, *lab.Lab) (CallsSample, error) {
		return CallsSample{Sample{P50: us, P99: 2 * us}, 1e6 / us, 1 / us, "generic", "copy"}, nil
	}
}

func callsOptions() CallsOptions {
	o := CallsOptions{Rounds: 2, Exchanges: 200, Call: took(5), PingPong: took(4), Send: took(0.125),
		Request: took(0.1), RoleCommand: []string{roleArg}}
	long := func(us float64) func(context.Context, *lab.Lab, int) (CallsSample, error) {
		return func(ctx context.Context, l *lab.Lab, bytes int) (CallsSample, error) {
			if bytes != LongMessages*Mebibyte {
				return CallsSample{}, errors.New("other bytes")
			}
			return took(us)(ctx, l)
		}
	}
	o.Send1M, o.Transfer = long(0.25), long(0.2)
	o.Goroutines = func(ctx context.Context, l *lab.Lab, n int) (CallsSample, error) {
		return took(5/float64(n))(ctx, l)
	}
	return o
}

// gRPC is measured on a real lab in each round, and the ratios are those of the rounds.
func TestCalls(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	r, err := Calls(t.Context(), newLab(t, lab.Options{}), callsOptions())
	if err != nil {
		t.Fatal(err)
	}
	if r.Call != 5 || r.PingPong != 4 || r.RatioToPingPong != 1.25 || !(r.GRPC > 0) || r.XDPMode != "generic" ||
		r.BindMode != "copy" {
		t.Errorf("%+v", r)
	}
	for i, us := range r.RoundsGRPC {
		if r.RoundsRatioToGRPC[i] != nanos(5/us) {
			t.Errorf("%+v", r)
		}
	}
	if r.Send16Ratio != 1.25 || r.Send16PerSecond != 8e6 || r.Request16PerSecond != 1e7 ||
		len(r.RoundsSend16Ratio) != 2 {
		t.Errorf("%+v", r)
	}
	if r.Send1MRatio != 0.8 || r.Send1MGbit != 4 || r.TransferGbit != 5 || len(r.RoundsSend1MRatio) != 2 {
		t.Errorf("%+v", r)
	}
	for i, n := range []int{1, 2, 8} {
		if g := r.Goroutines[i]; g.N != n || g.PerSecond != float64(n)*2e5 || len(g.RoundsPerSecond) != 2 {
			t.Errorf("%+v", g)
		}
	}
	if len(r.RoundsGRPC) != 2 || len(r.RoundsCall) != 2 || len(r.RoundsPingPong) != 2 ||
		r.RatioToGRPC != *median(r.RoundsRatioToGRPC) {
		t.Errorf("%+v", r)
	}
}

// Options are checked before anything runs, and a failure of FUNet ends the measurement.
func TestCallsRefuses(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	boom := errors.New("boom")
	for _, c := range []struct {
		change func(*CallsOptions)
		want   error
	}{
		{func(o *CallsOptions) { o.Rounds = -1 }, ErrOptions},
		{func(o *CallsOptions) { o.Rounds = Rounds.Most + 1 }, ErrOptions},
		{func(o *CallsOptions) { o.Exchanges = -1 }, ErrOptions},
		{func(o *CallsOptions) { o.Exchanges = Exchanges.Most + 1 }, ErrOptions},
		{func(o *CallsOptions) { o.Call = nil }, ErrOptions},
		{func(o *CallsOptions) { o.PingPong = nil }, ErrOptions},
		{func(o *CallsOptions) { o.Send = nil }, ErrOptions},
		{func(o *CallsOptions) { o.Request = nil }, ErrOptions},
		{func(o *CallsOptions) { o.Send1M = nil }, ErrOptions},
		{func(o *CallsOptions) { o.Transfer = nil }, ErrOptions},
		{func(o *CallsOptions) { o.Goroutines = nil }, ErrOptions},
		{func(o *CallsOptions) { o.Messages = 1 }, ErrOptions},
		{func(o *CallsOptions) { o.RoleCommand = nil }, ErrOptions},
		{func(o *CallsOptions) {
			o.Call = func(context.Context, *lab.Lab) (CallsSample, error) { return CallsSample{}, boom }
		}, boom},
		{func(o *CallsOptions) { o.PingPong = took(0) }, nil},
		{func(o *CallsOptions) { o.RoleCommand = []string{"-test.run=^$"} }, nil},
	} {
		o := callsOptions()
		c.change(&o)
		if _, err := Calls(t.Context(), l, o); err == nil || c.want != nil && !errors.Is(err, c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %v", o, err, c.want)
		}
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestCallsReport(t *testing.T) {
	long.Test(t)
	r := &CallsReport{Call: 4.75, PingPong: 4.25, RatioToPingPong: 1.125, GRPC: 60, RatioToGRPC: 0.08, Rounds: 2,
		RoundsCall:     []float64{4.5, 5},
		RoundsPingPong: []float64{4, 4.5}, RoundsRatioToPingPong: []float64{1.125, 1.111},
		RoundsGRPC: []float64{50, 70}, RoundsRatioToGRPC: []float64{0.09, 0.071},
		Send16Ratio: 1.05, Send16PerSecond: 9.5e6, Request16PerSecond: 1e7, RoundsSend16Ratio: []float64{1.04, 1.06},
		Send1MRatio: 0.95, Send1MGbit: 5.7, TransferGbit: 6, RoundsSend1MRatio: []float64{0.94, 0.96},
		Goroutines: []GoroutineRate{{1, 4e5, []float64{3.9e5, 4.1e5}}, {2, 3e5, []float64{3e5, 3e5}},
			{8, 2.5e5, []float64{2e5, 3e5}}},
		Bytes: PayloadBytes, Exchanges: 30_000, Messages: 1_000_000, XDPMode: "generic", BindMode: "copy"}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "calls.json", append(got, '\n'))
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "calls.txt", b.Bytes())
}
