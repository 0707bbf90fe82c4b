// The report's arithmetic and its two forms.

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/funet/funet/ctl/rawxdp"
	"github.com/funet/funet/xdp"
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

func sampleReport() *Report {
	o := Options{Rounds: 3, FrameSize: 104}
	r := newReport(o)
	for i := range peers {
		r.entry(&peers[i]).Present = true
	}
	for _, s := range []Sample{{4, 6}, {5, 9}, {4.2, 7.12345}} {
		r.Peers["funet"].add(s)
		r.Peers["raw_afxdp"].add(Sample{s.P50 / 2, s.P99 / 2})
		r.Peers["ucx"].add(Sample{s.P50 * 3, s.P99 * 3})
		r.Peers["libfabric_rxm"].add(Sample{P50: s.P50 * 4})
		r.Peers["funet_udp"].add(Sample{s.P50 * 1.1, s.P99 * 1.1})
		r.Peers["funet_daemons"].add(Sample{s.P50 * 10, s.P99 * 10})
		r.Peers["funet_direct"].add(Sample{s.P50 * 1.3, s.P99 * 1.3})
		r.Peers["funet_shared"].add(Sample{s.P50 * 0.3, s.P99 * 0.3})
		r.Peers["funet_local"].add(Sample{s.P50 / 10, s.P99 / 10})
	}
	r.Peers["udp_spin"].add(Sample{4.2, 5})
	r.Peers["udp_spin"].fail(errors.New("round 2: no\nluck"))
	r.Peers["openmpi"].fail(errors.New("mpicc: exit status 1"))
	*r.Peers["sockperf"] = Peer{Note: "not found: sockperf; install sockperf"}
	return r.finish(&session{got: rawxdp.Modes{Attach: xdp.AttachGeneric, Bind: xdp.BindCopy}})
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

// The names and numbers of the JSON form are stable: scripts read them.
func TestReportJSON(t *testing.T) {
	got, err := json.MarshalIndent(sampleReport(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", append(got, '\n'))
}

func TestReportTable(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.Bytes())
}

// Without funet there is no ratio.
func TestNoRatio(t *testing.T) {
	r := sampleReport()
	for _, e := range r.Peers {
		e.Ratio = nil
	}
	r.Peers["funet"] = &Peer{}
	r.finish(&session{})
	for key, e := range r.Peers {
		if e.Ratio != nil {
			t.Errorf("%s has the ratio %v", key, *e.Ratio)
		}
	}
}
