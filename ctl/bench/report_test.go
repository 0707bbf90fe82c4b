package bench

// The arithmetic of reports, and the golden files.

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1}, 5},
		{[]float64{5, 100, 1}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); *got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, *got, c.want)
		}
	}
	if got := median(nil); got != nil {
		t.Errorf("median of nothing is %v", *got)
	}
}

// Half of the values are not above the median and half are not below; their order does not matter.
func TestMedianDivides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.IntRange(1, 1_000_000), 1, 50).Draw(t, "ns")
		values := make([]float64, len(ns))
		for i, v := range ns {
			values[i] = float64(v) / 1000
		}
		before := slices.Clone(values)
		m := *median(values)
		if !slices.Equal(before, values) {
			t.Fatal("the rounds were reordered")
		}
		below, above := 0, 0
		for _, v := range values {
			// The median is rounded to a nanosecond.
			if v <= m+0.0006 {
				below++
			}
			if v >= m-0.0006 {
				above++
			}
		}
		if 2*below < len(values) || 2*above < len(values) {
			t.Fatalf("median of %v is %v", values, m)
		}
		slices.Reverse(values)
		if again := *median(values); again != m {
			t.Fatalf("median %v became %v", m, again)
		}
	})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", name, diff)
	}
}
