package bench

// Block transfers: iperf3 on a real lab, what is refused, and the report. FUNet itself is the
// test's.

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/xdp"
)

// xferOf has a FUNet of the test's.
func xferOf(nodes func(context.Context, *program.Flags, string, []string) ([]node, error), mtus ...int) *xfer {
	o := &xfer{flags: &flags{rounds: 1}, mtus: mtus, seconds: 1, block: 1_000_000 / xferBlockUnit * xferBlockUnit,
		depth: xferDepth.usual, iperf3Note: absent(iperf3Needs)}
	o.up = func(_ context.Context, f *flags) (*match, way, error) {
		l, err := lab.Up(lab.Options{Hosts: 2, MTU: f.MTU})
		if err != nil {
			return nil, way{}, err
		}
		m, err := newMatch(f, l)
		if err == nil {
			m.nodes, m.modes.Attach = nodes, xdp.AttachGeneric
		}
		return m, way{Jumbo: f.MTU > 3000, Frame: f.MTU + rawxdp.EtherHeader}, err
	}
	return o
}

// Raw AF_XDP and iperf3 measure on a real lab, or iperf3 is said to be absent.
func TestXfer(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	o := xferOf(same(map[string]node{"transfer": {Goodput: 0.25}}), 1500)
	if err := o.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := o.runs[0]
	if !(run.Raw > 0) || run.Raw != run.RoundsRaw[0] || run.RatioRaw != nanos(0.25/run.Raw) || run.MTU != 1500 ||
		run.Gbit != 0.25 || run.XDPMode != "generic" || run.BindMode != "copy" {
		t.Errorf("%+v", run)
	}
	if o.iperf3Note != "" {
		t.Log(o.iperf3Note)
		if run.Iperf3 != nil || run.Ratio != nil || !strings.HasSuffix(o.iperf3Note, "install iperf3") {
			t.Errorf("%+v, %+v", o, run)
		}
		return
	}
	if *run.Iperf3 <= 0 || *run.Iperf3 != run.RoundsIperf3[0] || *run.Ratio != nanos(0.25 / *run.Iperf3) ||
		o.control == "" || len(run.Iperf3Retransmitted) != 1 {
		t.Errorf("%+v", run)
	}
}

// Each MTU has a lab of its own. A first transfer says how many whole blocks take the time that is
// asked for; it does not count. Without iperf3 there are no ratios, and the table says why.
func TestXferWithoutIperf3(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	type call struct {
		MTU  int
		Args string
	}
	var calls []call
	o := xferOf(func(ctx context.Context, f *program.Flags, _ string, args []string) ([]node, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("no deadline")
		}
		calls = append(calls, call{f.MTU, strings.Join(args, " ")})
		n := len(calls)
		return []node{{Goodput: float64(n) / 8, Card: congestion{Retransmitted: uint64(n)}, XDPMode: "generic",
			BindMode: "copy"}}, nil
	}, 9000, 1500)
	o.rounds, o.seconds = 3, 2
	if err := o.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	// 2 s at 1/8 and 5/8 Gbit/s, in whole blocks
	first, one, five := o.blocks(probeBytes), 32_000_000, 157_000_000
	var want []call
	for _, c := range []struct{ mtu, bytes int }{{9000, first}, {9000, one}, {9000, one}, {9000, one}, {1500, first},
		{1500, five}, {1500, five}, {1500, five}} {
		want = append(want, call{c.mtu, strings.Join(transfer(c.bytes, o.block, o.depth).Arguments(), " ")})
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	for i, w := range []xferRun{
		{MTU: 9000, Gbit: 0.375, RoundsGbit: []float64{0.25, 0.375, 0.5}, Bytes: one, way: way{Jumbo: true, Frame: 9014},
			Congestion: []congestion{{Retransmitted: 2}, {Retransmitted: 3}, {Retransmitted: 4}}},
		{MTU: 1500, Gbit: 0.875, RoundsGbit: []float64{0.75, 0.875, 1}, Bytes: five, way: way{Frame: 1514},
			Congestion: []congestion{{Retransmitted: 6}, {Retransmitted: 7}, {Retransmitted: 8}}},
	} {
		run := o.runs[i]
		if len(run.RoundsRaw) != 3 || len(run.RoundsRatioRaw) != 3 || !(run.Raw > 0) || !(run.RatioRaw > 0) {
			t.Errorf("%+v", run)
		}
		run.Raw, run.RatioRaw, run.RoundsRaw, run.RoundsRatioRaw = 0, 0, nil, nil // measured
		w.XDPMode, w.BindMode = "generic", "copy"
		if diff := cmp.Diff(w, run, cmp.AllowUnexported(xferRun{})); diff != "" {
			t.Error(diff)
		}
	}
	r := o.report()
	says(t, named(t, r), map[string]any{"iperf3_present": false,
		"iperf3_note": "not found: iperf3, taskset; install iperf3 util-linux"})
	if !strings.Contains(r.table, "iperf3: absent; not found: iperf3") {
		t.Error(r.table)
	}
}

// What cannot be is refused before a lab is made.
func TestXferRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*xfer)
		says   string
	}{
		{func(o *xfer) { o.mtus = nil }, "no MTU"},
		{func(o *xfer) { o.block, o.depth = xferBlock.most, 17 }, "17 blocks of 67108864 bytes"},
		{func(o *xfer) { o.block++ }, "multiple of 16"},
	} {
		o := xferOf(nil, 1500)
		o.up = func(context.Context, *flags) (*match, way, error) {
			t.Error("a lab was asked for")
			return nil, way{}, errors.New("no lab")
		}
		c.change(o)
		if err := o.measure(t.Context()); !errors.Is(err, errOptions) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v with %q", err, errOptions, c.says)
		}
	}
}

// A failure of the lab, of FUNet or of iperf3 ends the measurement, says at which MTU, and leaves
// neither lab nor process.
func TestXferFails(t *testing.T) {
	leavesNothing(t)
	boom := errors.New("boom")
	o := xferOf(nil, 1500)
	o.up = func(context.Context, *flags) (*match, way, error) { return nil, way{}, boom }
	if err := o.measure(t.Context()); !errors.Is(err, boom) || !strings.Contains(err.Error(), "at MTU 1500: boom") {
		t.Error(err)
	}
	if err := xferOf(fails(boom), 3500).measure(t.Context()); !errors.Is(err, errFunet) || !errors.Is(err, boom) ||
		!strings.Contains(err.Error(), "at MTU 3500: first transfer") {
		t.Error(err)
	}
	fake(t, "echo no memory; exit 3", "iperf3")
	if err := xferOf(same(map[string]node{"transfer": {Goodput: 0.25}}), 1500).measure(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "round 1, iperf3: ") ||
		!strings.HasSuffix(err.Error(), "exit status 3: no memory") {
		t.Error(err)
	}
}

// The ratio is the median of the rounds' ratios, not that of the medians: runs of one round meet
// the same machine.
func TestXferRatio(t *testing.T) {
	var r xferRun
	r.sum(played(map[string][]float64{"funet": {1, 4, 9}, rawAFXDP: {4, 4, 3}, "iperf3": {10, 2, 3}}, 2))
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
	o := &xfer{flags: &flags{rounds: 2}, seconds: 1, block: xferBlock.usual, depth: xferDepth.usual, control: "cubic",
		runs: []xferRun{
			{MTU: 1500, Gbit: 5, Iperf3: number(20), Ratio: number(0.25), Raw: 6, RatioRaw: 0.85,
				RoundsRaw: []float64{5, 7}, RoundsRatioRaw: []float64{0.8, 0.9}, RoundsGbit: []float64{4, 6},
				RoundsIperf3: []float64{20, 20}, RoundsRatio: []float64{0.2, 0.3},
				Congestion: []congestion{{Rejected: 1, Retransmitted: 2, Timeouts: 3, Duplicates: 4},
					{Retransmitted: 5}},
				Iperf3Retransmitted: []uint64{6, 7}, Bytes: 625_082_368, XDPMode: "generic", BindMode: "copy",
				way: way{Frame: 1514}},
			{MTU: 9000, Gbit: 30, Iperf3: number(20), Ratio: number(1.5), Raw: 30, RatioRaw: 1,
				RoundsRaw: []float64{30, 30}, RoundsRatioRaw: []float64{1, 1}, RoundsGbit: []float64{30, 30},
				RoundsIperf3: []float64{20, 20}, RoundsRatio: []float64{1.5, 1.5},
				Congestion: []congestion{{}, {}}, Iperf3Retransmitted: []uint64{0, 0}, Bytes: 3_750_100_992,
				XDPMode: "native", BindMode: "copy", way: way{Steered: true, Jumbo: true, Frame: 9014}},
		}}
	goldens(t, "xfer", o.report(), nil)
}
