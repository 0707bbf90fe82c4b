// Block transfers: iperf3 on a real lab, what is refused, and the report. FUNet itself is the
// caller's.

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/xdp"
	"github.com/google/go-cmp/cmp"
)

func xferOptions(mtus ...int) XferOptions {
	return XferOptions{MTUs: mtus, Rounds: 1, Block: 1_000_000 / XferBlockUnit * XferBlockUnit,
		RoleCommand: []string{roleArg},
		Up: func(_ context.Context, mtu int) (*lab.Lab, XferWay, error) {
			l, err := lab.Up(lab.Options{Hosts: 2, MTU: mtu})
			return l, XferWay{Jumbo: mtu > 3000, Frame: mtu + rawxdp.EtherHeader, Attach: xdp.AttachGeneric}, err
		},
		Funet: func(context.Context, *lab.Lab, int) (GoodputSample, error) {
			return GoodputSample{Gbit: 0.25, XDPMode: "native", BindMode: "copy"}, nil
		}}
}

// Raw AF_XDP and iperf3 measure on a real lab, or iperf3 is said to be absent.
func TestXfer(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	r, err := Xfer(t.Context(), xferOptions(1500))
	if err != nil {
		t.Fatal(err)
	}
	run := r.Runs[0]
	if !(run.Raw > 0) || run.Raw != run.RoundsRaw[0] || run.RatioRaw != nanos(0.25/run.Raw) {
		t.Errorf("%+v", run)
	}
	if run.MTU != 1500 || run.Gbit != 0.25 || run.XDPMode != "native" || run.BindMode != "copy" {
		t.Errorf("%+v", run)
	}
	if !r.Iperf3 {
		t.Log(r.Iperf3Note)
		if run.Iperf3 != nil || run.Ratio != nil || !strings.HasSuffix(r.Iperf3Note, "install iperf3") {
			t.Errorf("%+v, %+v", r, run)
		}
		return
	}
	if *run.Iperf3 <= 0 || *run.Iperf3 != run.RoundsIperf3[0] || *run.Ratio != nanos(0.25 / *run.Iperf3) ||
		r.TCP == "" || len(run.Iperf3Retransmitted) != 1 {
		t.Errorf("%+v", run)
	}
}

// Each MTU has a lab of its own. A first transfer says how many whole blocks take the time that is
// asked for; it does not count. Without iperf3 there are no ratios, and the table says why.
func TestXferWithoutIperf3(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	type call struct{ MTU, Bytes int }
	var calls []call
	o := xferOptions(9000, 1500)
	o.Rounds, o.Seconds = 3, 2
	o.Funet = func(ctx context.Context, l *lab.Lab, bytes int) (GoodputSample, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("no deadline")
		}
		calls = append(calls, call{l.Options().MTU, bytes})
		n := len(calls)
		return GoodputSample{Gbit: float64(n) / 8, Congestion: Congestion{Retransmitted: uint64(n)}, XDPMode: "generic",
			BindMode: "copy"}, nil
	}
	r, err := Xfer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if len(run.RoundsRaw) != 3 || len(run.RoundsRatioRaw) != 3 || !(run.Raw > 0) || !(run.RatioRaw > 0) {
			t.Errorf("%+v", run)
		}
		run.Raw, run.RatioRaw, run.RoundsRaw, run.RoundsRatioRaw = 0, 0, nil, nil // measured
	}
	first := (probeBytes + o.Block - 1) / o.Block * o.Block
	one, five := 32_000_000, 157_000_000 // 2 s at 1/8 and 5/8 Gbit/s, in whole blocks
	if diff := cmp.Diff([]call{{9000, first}, {9000, one}, {9000, one}, {9000, one}, {1500, first}, {1500, five},
		{1500, five}, {1500, five}}, calls); diff != "" {
		t.Error(diff)
	}
	congestion := func(from uint64) []Congestion {
		return []Congestion{{Retransmitted: from}, {Retransmitted: from + 1}, {Retransmitted: from + 2}}
	}
	want := &XferReport{Rounds: 3, Seconds: 2, Block: o.Block, Depth: XferDepth.Usual, Iperf3Block: iperf3Block,
		Iperf3Note: "not found: iperf3, taskset; install iperf3 util-linux",
		Runs: []XferRun{
			{MTU: 9000, Gbit: 0.375, RoundsGbit: []float64{0.25, 0.375, 0.5}, Congestion: congestion(2), Bytes: one,
				XDPMode: "generic", BindMode: "copy",
				XferWay: XferWay{Jumbo: true, Frame: 9014, Attach: xdp.AttachGeneric}},
			{MTU: 1500, Gbit: 0.875, RoundsGbit: []float64{0.75, 0.875, 1}, Congestion: congestion(6), Bytes: five,
				XDPMode: "generic", BindMode: "copy",
				XferWay: XferWay{Frame: 1514, Attach: xdp.AttachGeneric}},
		}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "iperf3: absent; not found: iperf3") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Options are checked before a lab is made.
func TestXferRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*XferOptions)
		says   string
	}{
		{func(o *XferOptions) { o.MTUs = nil }, "no MTU"},
		{func(o *XferOptions) { o.MTUs = []int{MinXferMTU - 1} }, fmt.Sprintf("use %d to 65535", MinXferMTU)},
		{func(o *XferOptions) { o.MTUs = []int{1500, MaxXferMTU + 1} }, "MTU 65536"},
		{func(o *XferOptions) { o.MTUs = []int{-1} }, "MTU -1"},
		{func(o *XferOptions) { o.MTUs = []int{1500, 9000, 1500} }, "MTU 1500 twice"},
		{func(o *XferOptions) { o.Rounds = -1 }, "-1 rounds"},
		{func(o *XferOptions) { o.Rounds = Rounds.Most + 1 }, "1001 rounds"},
		{func(o *XferOptions) { o.Seconds = -1 }, "-1 seconds"},
		{func(o *XferOptions) { o.Seconds = XferSeconds.Most + 1 }, "61 seconds"},
		{func(o *XferOptions) { o.Block = XferBlockUnit + 1 }, "multiple of 16"},
		{func(o *XferOptions) { o.Block = -XferBlockUnit }, "-16 bytes"},
		{func(o *XferOptions) { o.Block = XferBlock.Most + XferBlockUnit }, "use 16 to 67108864"},
		{func(o *XferOptions) { o.Depth = -1 }, "-1 blocks"},
		{func(o *XferOptions) { o.Depth = XferDepth.Most + 1 }, "257 blocks"},
		{func(o *XferOptions) { o.Block, o.Depth = XferBlock.Most, 17 }, "17 blocks of 67108864 bytes"},
		{func(o *XferOptions) { o.Funet = nil }, "Funet"},
		{func(o *XferOptions) { o.Up = nil }, "Up"},
		{func(o *XferOptions) { o.RoleCommand = nil }, "RoleCommand"},
	} {
		o := xferOptions(1500)
		o.Up = func(context.Context, int) (*lab.Lab, XferWay, error) {
			t.Error("a lab was asked for")
			return nil, XferWay{}, errors.New("no lab")
		}
		c.change(&o)
		_, err := Xfer(t.Context(), o)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v with %q", err, ErrOptions, c.says)
		}
	}
}

// A failure of the lab, of FUNet or of iperf3 ends the measurement, says at which MTU, and leaves
// neither lab nor process.
func TestXferFails(t *testing.T) {
	leavesNothing(t)
	boom := errors.New("boom")
	o := xferOptions(1500)
	o.Up = func(context.Context, int) (*lab.Lab, XferWay, error) { return nil, XferWay{}, boom }
	if _, err := Xfer(t.Context(), o); !errors.Is(err, boom) || !strings.Contains(err.Error(), "at MTU 1500: boom") {
		t.Error(err)
	}
	o = xferOptions(3500)
	o.Funet = func(context.Context, *lab.Lab, int) (GoodputSample, error) { return GoodputSample{}, boom }
	if _, err := Xfer(t.Context(), o); !errors.Is(err, ErrFunet) || !errors.Is(err, boom) ||
		!strings.Contains(err.Error(), "at MTU 3500: first transfer") {
		t.Error(err)
	}
	fake(t, "echo no memory; exit 3", "iperf3")
	if _, err := Xfer(t.Context(), xferOptions(1500)); err == nil ||
		!strings.Contains(err.Error(), "round 1, iperf3: ") ||
		!strings.HasSuffix(err.Error(), "exit status 3: no memory") {
		t.Error(err)
	}
}

// The ratio is the median of the rounds' ratios, not that of the medians: runs of one round meet
// the same machine.
func TestXferRatio(t *testing.T) {
	var r XferRun
	r.sum([][]float64{{1, 4, 9}, {4, 4, 3}, {10, 2, 3}})
	if r.Gbit != 4 || *r.Iperf3 != 3 || *r.Ratio != 2 || r.Raw != 4 || r.RatioRaw != 1 {
		t.Errorf("%v by %v: %v; by %v: %v", r.Gbit, *r.Iperf3, *r.Ratio, r.Raw, r.RatioRaw)
	}
	if diff := cmp.Diff([][]float64{{0.1, 2, 3}, {0.25, 1, 3}},
		[][]float64{r.RoundsRatio, r.RoundsRatioRaw}); diff != "" {
		t.Error(diff)
	}
}

// The names and numbers of the JSON form are stable, and so is the table.
func TestXferReport(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	r := &XferReport{Rounds: 2, Seconds: 1, Block: XferBlock.Usual, Depth: XferDepth.Usual, Iperf3: true,
		Iperf3Block: iperf3Block, TCP: "cubic",
		Runs: []XferRun{
			{MTU: 1500, Gbit: 5, Iperf3: number(20), Ratio: number(0.25), Raw: 6, RatioRaw: 0.85,
				RoundsRaw: []float64{5, 7}, RoundsRatioRaw: []float64{0.8, 0.9}, RoundsGbit: []float64{4, 6},
				RoundsIperf3: []float64{20, 20}, RoundsRatio: []float64{0.2, 0.3},
				Congestion: []Congestion{{Rejected: 1, Retransmitted: 2, Timeouts: 3, Duplicates: 4},
					{Retransmitted: 5}},
				Iperf3Retransmitted: []uint64{6, 7}, Bytes: 625_082_368, XDPMode: "generic", BindMode: "copy",
				XferWay: XferWay{Frame: 1514}},
			{MTU: 9000, Gbit: 30, Iperf3: number(20), Ratio: number(1.5), Raw: 30, RatioRaw: 1,
				RoundsRaw: []float64{30, 30}, RoundsRatioRaw: []float64{1, 1}, RoundsGbit: []float64{30, 30},
				RoundsIperf3: []float64{20, 20}, RoundsRatio: []float64{1.5, 1.5},
				Congestion: []Congestion{{}, {}}, Iperf3Retransmitted: []uint64{0, 0}, Bytes: 3_750_100_992,
				XDPMode: "native", BindMode: "copy", XferWay: XferWay{Steered: true, Jumbo: true, Frame: 9014}},
		}}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "xfer.json", append(got, '\n'))
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "xfer.txt", b.Bytes())
}
