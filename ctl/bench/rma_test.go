package bench

// Remote writes: the report, with and without UCX. FUNet itself is the test's.

import (
	"errors"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/tests/long"
)

// rmaContest has a FUNet that finds the same each time.
func rmaContest() contest {
	us := func(v float64) node { return node{sample: sample{P50: v}} }
	return contest{benchmark: &rma{exchanges: 200}, rounds: 2, nodes: same(map[string]node{program.RMAPut: us(4),
		program.RMANotify: us(6), "pingpong": us(5), program.RMAGet: us(4.5), program.RMAAdd: us(5.5),
		program.RMASwap: us(5), program.RMABulk: {Goodput: 9}, program.RMAGets: {Goodput: 9.5}, "transfer": {Goodput: 10},
		program.RMARate: {Rate: 7e6}, "stream": {Rate: 1e7}})}
}

// Rule: ratios are those of each round.
func TestRMA(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	t.Setenv("PATH", t.TempDir())
	report, err := rmaContest().play(t, newLab(t, lab.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	r := named(t, report)
	for i, want := range []struct {
		op         string
		p50, ratio float64
	}{{"put", 4, 0.8}, {"put_notify", 6, 1.2}, {"get", 4.5, 0.9}, {"add", 5.5, 1.1}, {"swap", 5, 1}} {
		says(t, r["ops"].([]any)[i].(map[string]any), map[string]any{"op": want.op, "p50_us": want.p50,
			"ratio_to_pingpong": want.ratio, "rounds_ratio_to_pingpong": []any{want.ratio, want.ratio},
			"ucx_p50_us": nil, "ratio_to_ucx": nil})
	}
	says(t, r, map[string]any{"get_1m_gbit_per_s": 9.5, "get_1m_ratio_to_xfer": 0.95, "pingpong_p50_us": 5.0,
		"put_1m_ratio_to_xfer": 0.9, "put_1m_gbit_per_s": 9.0, "xfer_1m_gbit_per_s": 10.0, "put8_ratio_to_rate": 0.7,
		"put8_per_s": 7e6, "msgs_per_s": 1e7, "xdp_mode": "generic", "bind_mode": "copy", "ucx_exchanges": 1000.0})
	if !strings.Contains(report.table, "ratio 0.900") {
		t.Error(report.table)
	}
}

// Rule: an absent tool is named and no error, nor is one that fails; FUNet's failure is one.
func TestRMAFails(t *testing.T) {
	leavesNothing(t)
	l := newLab(t, lab.Options{})
	note := func(want string) {
		t.Helper()
		report, err := rmaContest().play(t, l)
		if err != nil {
			t.Fatal(err)
		}
		r := named(t, report)
		said, _ := r["ucx_note"].(string)
		if !strings.Contains(said, want) || !strings.Contains(report.table, "ucx: "+said) ||
			r["ops"].([]any)[0].(map[string]any)["ratio_to_ucx"] != nil {
			t.Errorf("it says %q, want %q: %s", said, want, report.table)
		}
	}
	fake(t, "echo no such test >&2; exit 3", "ucx_perftest")
	note("no such test")
	t.Setenv("PATH", t.TempDir())
	note("install ucx-utils")
	c := rmaContest()
	c.nodes = fails(errors.New("boom"))
	if _, err := c.play(t, l); !errors.Is(err, errFunet) {
		t.Error(err)
	}
}
