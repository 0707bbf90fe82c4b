package main

// This file tests `funet sim matmul`.

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// A small product comes out right on all three kinds of machines, and nobody is faster
// than one processor for each node at its peak (thesis 6.2.2). A run is the same again.
func TestFigureRuns(t *testing.T) {
	run := func() *figureResult {
		r, err := simulateFigure(context.Background(), "6.2", []figureRun{{4, 16, 16, 16, 4}, {1, 16, 16, 16, 16}}, true)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run()
	for _, c := range r.Curves {
		for _, p := range c.Points {
			if p.Y <= 1 || p.Y >= 100 {
				t.Errorf("%s: %v %% of peak at %v", c.Name, p.Y, p.X)
			}
		}
	}
	again := run()
	for i := range r.Curves {
		if !slices.Equal(r.Curves[i].Points, again.Curves[i].Points) {
			t.Errorf("%s: %v, then %v", r.Curves[i].Name, r.Curves[i].Points, again.Curves[i].Points)
		}
	}
}

// The sweeps are those of thesis 6.2.2: 2NMR is the same in all runs of Figure 6.2.
func TestFigureSweeps(t *testing.T) {
	f := figures["6.2"].runs
	if len(f) != 6 || f[0].r != 2048 || f[0].x != 1 || f[5].r != 64 || f[5].x != 32 {
		t.Errorf("Figure 6.2 is of %+v", f)
	}
	for _, run := range f {
		if run.nodes != 32 || run.n != 128 || 2*run.n*run.m*run.r != 1<<24 {
			t.Errorf("Figure 6.2 has %+v", run)
		}
	}
	for figure, size := range map[string]int{"6.3": 64, "6.4": 128, "6.5": 256} {
		for i, run := range figures[figure].runs {
			if run != (figureRun{1 << i, size, size, size, float64(int(1) << i)}) || i > 6 {
				t.Errorf("Figure %s has %+v", figure, run)
			}
		}
	}
}

// curves makes a result in which each curve has the same value at every x.
func curves(figure string, x []float64, y ...float64) *figureResult {
	r := &figureResult{Figure: figure}
	for i, c := range figureCurves {
		f := figureCurve{Name: c.name}
		for _, v := range x {
			f.Points = append(f.Points, figurePoint{v, y[i]})
		}
		r.Curves = append(r.Curves, f)
	}
	r.claim()
	return r
}

// A claim holds at its limit and not just below; where it is not about a point, that point
// does not matter; what was not measured does not hold.
func TestFigureClaims(t *testing.T) {
	for _, c := range []struct {
		figure string
		x      []float64
		y      []float64
		want   []bool
	}{
		{"6.2", []float64{4, 8, 16, 32}, []float64{0, 80, 80}, []bool{true, true, true}},
		{"6.2", []float64{4, 8, 16, 32}, []float64{0, 79.9, 80}, []bool{false, true, true}},
		{"6.2", []float64{4, 8, 16, 32}, []float64{0, 80, 79.9}, []bool{true, false, false}},
		{"6.2", []float64{1, 2}, []float64{99, 99, 99}, []bool{false, false, true}},
		{"6.3", []float64{32, 64}, []float64{28.7, 28.7, 28.7}, []bool{true, true}},
		{"6.3", []float64{32, 64}, []float64{28.9, 28, 28.7}, []bool{false, true}},
		{"6.3", []float64{32, 64}, []float64{28, 28, 28.9}, []bool{false, true}},
		{"6.4", []float64{32, 64}, []float64{28, 28, 27}, []bool{false}},
		{"6.5", []float64{32, 64}, []float64{0, 0, 57.6}, []bool{true, true}},
		{"6.5", []float64{32, 64}, []float64{0, 0, 57.5}, []bool{false, true}},
	} {
		var got []bool
		for _, claim := range curves(c.figure, c.x, c.y...).Claims {
			got = append(got, claim.Holds)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Figure %s, %v at %v: %v, want %v", c.figure, c.y, c.x, got, c.want)
		}
	}
}

// The claim of Figure 6.3 says where the curves are before they leave the line.
func TestFigureClaimOfTheLine(t *testing.T) {
	r := curves("6.3", []float64{16, 32, 64}, 12, 8, 15.2)
	if got := r.Claims[0]; !strings.Contains(got.Text, "(on 16: 75, 50, 95 %)") || !got.Holds {
		t.Errorf("%+v", got)
	}
}

// The names of the JSON document stay.
func TestFigureJSON(t *testing.T) {
	got, err := json.Marshal(curves("6.4", []float64{1}, 0.5, 0.25, 0.75))
	const want = `{"figure":"6.4","curves":[{"name":"cm5","points":[{"x":1,"y":0.5}]},{"name":"plain","points":[{"x":1,"y":0.25}]},` +
		`{"name":"extensions","points":[{"x":1,"y":0.75}]}],"claims":[{"text":"the curve of the extensions is nowhere below that of plain CMAM","holds":true}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

// A picture is XML with all curves, both axes' names and every claim; a claim that does not
// hold says so, in the table too.
func TestFigurePicture(t *testing.T) {
	for _, figure := range []string{"6.2", "6.3", "6.4", "6.5"} {
		r := curves(figure, []float64{1, 4, 16, 32, 64}, 1, 2, 1.5)
		var out, table bytes.Buffer
		if err := errors.Join(r.writeSVG(&out), r.WriteTable(&table)); err != nil {
			t.Fatal(err)
		}
		picture := out.String()
		for d := xml.NewDecoder(&out); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("Figure %s: %v", figure, err)
			}
		}
		if n := strings.Count(picture, "<polyline"); n != 3 || strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
			t.Errorf("Figure %s has %d curves, or places that are none", figure, n)
		}
		for _, word := range []string{"Figure " + figure, "peak", "perfect scaling", "does not hold"} {
			if !strings.Contains(picture, word) {
				t.Errorf("Figure %s does not say %q", figure, word)
			}
		}
		if !strings.Contains(table.String(), "DOES NOT HOLD: the curve of the extensions") {
			t.Errorf("Figure %s as a table:\n%s", figure, table.String())
		}
	}
}

// Who interrupts the command gets no figure.
func TestFigureInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := simulateFigure(ctx, "6.5", figures["6.5"].runs, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := simulateRun(ctx, 0, figures["6.5"].runs[0]); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Figures that the thesis does not have, and pictures of other kinds, are refused at once.
func TestFigureRefused(t *testing.T) {
	for _, args := range [][]string{{"--figure", "6.1"}, {"--figure", ""}, {"--plot", "f.png"}, {"extra"}} {
		c := root()
		c.SetArgs(slices.Concat([]string{"sim", "matmul"}, args))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--help") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
