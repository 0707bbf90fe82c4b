// What operations stand beside: what the tools print is read, whatever it is, and a rival that is
// absent or fails is named and stops nothing.

package bench

import (
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/google/go-cmp/cmp"
)

// What mpi/rma.c, ucx_perftest 1.13 and fi_rma_bw print; the last as fabtests' source says
// (shared.c, show_perf).
const (
	printedRMA = "put us: p50 10.145\nget us: p50 17.166\nadd us: p50 17.336\nswap us: p50 17.396\nputs Gbit/s: 47.048\ngets Gbit/s: 34.957\n"
	printedUCX = "batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\nputs, 200,0.160,1417.310,1417.310,705.56,705.56,706,706\n"
	printedBW  = "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n1m      200     200m        0.15s   1398.10     750.00       0.00\n"
)

func TestParseRivals(t *testing.T) {
	found, err := parseRMAMPI("a warning\n" + printedRMA)
	want := map[string]float64{"put": 10.145, "get": 17.166, "add": 17.336, "swap": 17.396, rivalPuts: 47.048,
		rivalGets: 34.957}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	// 705.56 x 2^20 x 8 / 10^9, to the nearest thousandth
	if found, err := parseUCXBlocks("[warning] \"x\n" + printedUCX); err != nil || found[rivalPuts] != 5.919 {
		t.Errorf("%v, %v", found, err)
	}
	if got, err := parseFabtests(printedBW); err != nil || got != 11.185 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "put us: p50 1\n", strings.Replace(printedRMA, "17.166", "0", 1),
		strings.Replace(printedRMA, "17.166", "1.2.3", 1), strings.Repeat("x", 1000)} {
		if found, err := parseRMAMPI(text); err == nil {
			t.Errorf("%q is %v", text, found)
		}
		if found, err := parseUCXBlocks(text); err == nil {
			t.Errorf("%q is %v", text, found)
		}
		if got, err := parseFabtests(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// Rule: what rivals find stands in the report, with ratios to FUNet's times; those that are absent
// or fail are named.
func TestRMARivals(t *testing.T) {
	long.Test(t)
	leavesNothing(t)
	rivalsOf := func() map[string]rivalResult {
		t.Helper()
		r, err := rmaContest().play(t, newLab(t, lab.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]rivalResult{}
		for _, f := range r.figures {
			if f.name == "rivals" {
				for _, v := range f.value.([]rivalResult) {
					found[v.Name] = v
				}
			}
		}
		return found
	}
	t.Setenv("PATH", t.TempDir())
	for name, v := range rivalsOf() {
		if v.Puts != nil || v.P50 != nil || !strings.Contains(v.Note, "install") {
			t.Errorf("%s: %+v", name, v)
		}
	}
	fake(t, "exit 0", "mpicc", "gcc", "nsenter")
	fake(t, `shift 2; exec "$@"`, "taskset") // -c CPU
	fake(t, `printf '`+strings.ReplaceAll(printedRMA, "\n", `\n`)+`'`, "mpirun")
	v := rivalsOf()["openmpi"]
	if v.Note != "" || v.P50["put"] != 10.145 || v.Ratio["put"] != 0.394 || v.Puts == nil || *v.Puts != 47.048 ||
		v.Gets == nil || *v.Gets != 34.957 {
		t.Errorf("%+v", v)
	}
	fake(t, "echo no window >&2; exit 3", "mpirun")
	if v := rivalsOf()["openmpi"]; v.P50 != nil || !strings.Contains(v.Note, "no window") {
		t.Errorf("%+v", v)
	}
}
