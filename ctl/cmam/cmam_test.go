package cmam

// This file tests `funet sim cmam`.

import (
	"math"
	"strings"
	"testing"

	"github.com/funet/funet/hwprofiles"
)

// Every FUNet row of Table 6.1 is there, in its order, its cycles and figures agree at 40
// MHz as the thesis printed them, and every row that misses says why.
func TestCMAMTable(t *testing.T) {
	p, err := hwprofiles.Load("sbus-arctic")
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulateCMAM(p)
	if err != nil {
		t.Fatal(err)
	}
	r.explainMisses()
	if len(r.Rows) != 53 {
		t.Fatalf("%d rows, the table has 53", len(r.Rows))
	}
	worst, sum := 0.0, 0.0
	for _, row := range r.Rows {
		value := row.PaperCycles / 40
		if row.Unit == "MB/s" {
			value = 16 / row.PaperCycles * 40
		}
		if math.Abs(value/row.Paper-1) > 0.03 {
			t.Errorf("%s %s: %v cycles are %.2f %s, not %v", row.Name, row.Measure, row.PaperCycles, value, row.Unit, row.Paper)
		}
		if got := row.Model * row.Cycles; row.Unit == "MB/s" && math.Abs(got-640) > 1e-6 || row.Unit == "us" && math.Abs(row.Model*40-row.Cycles) > 1e-6 {
			t.Errorf("%s %s: %v %s are not %v cycles", row.Name, row.Measure, row.Model, row.Unit, row.Cycles)
		}
		if row.Calibrated != (row.Name == "cmam_4") {
			t.Errorf("%s: calibrated is %v", row.Name, row.Calibrated)
		}
		if miss := math.Abs(row.Diff) > miss; miss != (row.Why != "") || strings.HasPrefix(row.Why, "not explained") {
			t.Errorf("%s %s, %.1f %%: explained with %q", row.Name, row.Measure, row.Diff, row.Why)
		}
		worst, sum = max(worst, math.Abs(row.Diff)), sum+math.Abs(row.Diff)
	}
	if r.Worst != worst || math.Abs(r.Mean-sum/53) > 1e-9 {
		t.Errorf("mean %v and worst %v, want %v and %v", r.Mean, r.Worst, sum/53, worst)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "the limit of the conference paper"); got != 1 {
		t.Errorf("blocks are explained %d times", got)
	}
}
