package paper

// This file tests `funet sim matmul`.

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/uspace/apps"
)

// product is a setup.
func product(nodes, n, r, m int, x float64) setup {
	return setup{virtual.Product{Nodes: nodes, N: n, R: r, M: m}, x}
}

// A small product comes out right on all three kinds of machines, and nobody is faster
// than one processor for each node at its peak (thesis 6.2.2). A run is the same again.
func TestFigureRuns(t *testing.T) {
	run := func() *figure {
		r, err := simulateFigure(context.Background(), "6.2", []setup{product(4, 16, 16, 16, 4),
			product(1, 16, 16, 16, 16)}, apps.MultiplyAddCycles)
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
	if len(f) != 6 || f[0].R != 2048 || f[0].x != 1 || f[5].R != 64 || f[5].x != 32 {
		t.Errorf("Figure 6.2 is of %+v", f)
	}
	for _, run := range f {
		if run.Nodes != 32 || run.N != 128 || 2*run.N*run.M*run.R != 1<<24 {
			t.Errorf("Figure 6.2 has %+v", run)
		}
	}
	for figure, size := range map[string]int{"6.3": 64, "6.4": 128, "6.5": 256} {
		for i, run := range figures[figure].runs {
			if run != product(1<<i, size, size, size, float64(int(1)<<i)) || i > 6 {
				t.Errorf("Figure %s has %+v", figure, run)
			}
		}
	}
}

// curves makes a result in which each curve has the same value at every x.
func curves(name string, x []float64, y ...float64) *figure {
	r := &figure{Figure: name}
	for i, c := range machines {
		f := curve{Name: c.name}
		for _, v := range x {
			f.Points = append(f.Points, point{v, y[i]})
		}
		r.Curves = append(r.Curves, f)
	}
	r.claim()
	return r
}

// A claim holds above its limit and not at it; where it is not about a point, that point does not
// matter; what was not measured does not hold; what has no figure in the text is not judged.
func TestFigureClaims(t *testing.T) {
	const holds, fails, shown = "holds", "DOES NOT HOLD", "shown"
	wide, nodes := []float64{2, 4, 8, 16, 32}, []float64{4, 8, 16, 32, 64}
	flat := func(n int, y float64) (all []float64) {
		for range n {
			all = append(all, y)
		}
		return all
	}
	for _, c := range []struct {
		figure                 string
		x                      []float64
		cm5, plain, extensions []float64
		want                   []string
	}{
		{"6.2", wide, flat(5, 90), []float64{20, 40, 80, 80.1, 85}, []float64{80, 80.1, 81, 82, 86},
			[]string{holds, holds, holds, holds, holds, shown}},
		{"6.2", wide, flat(5, 90), []float64{20, 40, 80.1, 80, 85}, []float64{80.1, 80, 81, 82, 86},
			[]string{fails, fails, fails, fails, holds, shown}},
		{"6.2", wide, []float64{90, 90, 90, 80, 90}, []float64{20, 40, 50, 90, 95}, []float64{70, 85, 85, 89, 96},
			[]string{fails, holds, holds, holds, fails, shown}},
		{"6.2", []float64{1}, flat(1, 99), flat(1, 99), flat(1, 99),
			[]string{fails, fails, fails, fails, fails, shown}},
		{"6.3", nodes, []float64{4, 8, 15, 20, 25}, []float64{4, 7, 13, 20, 25}, []float64{4.1, 7.7, 14, 21, 26},
			[]string{holds, holds}},
		{"6.3", nodes, []float64{4, 8, 15, 20, 25}, []float64{4, 4, 7, 13, 25}, []float64{4, 7.5, 14, 21, 25},
			[]string{fails, fails}},
		{"6.4", nodes, flat(5, 3), flat(5, 2), flat(5, 3), []string{shown, holds}},
		{"6.5", nodes, []float64{1, 2, 3, 4, 5}, []float64{1, 2, 3, 4, 5}, []float64{2, 3, 4, 5, 6},
			[]string{holds, shown, holds}},
		{"6.5", nodes, []float64{1, 2, 3, 4, 5}, []float64{1, 2, 3, 4, 4}, []float64{2, 3, 4, 5, 6},
			[]string{fails, shown, holds}},
		{"6.5", nodes[:4], []float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}, []float64{2, 3, 4, 5},
			[]string{fails, shown, holds}},
	} {
		r := &figure{Figure: c.figure}
		for i, y := range [][]float64{c.cm5, c.plain, c.extensions} {
			f := curve{Name: machines[i].name}
			for k, x := range c.x {
				f.Points = append(f.Points, point{x, y[k]})
			}
			r.Curves = append(r.Curves, f)
		}
		r.claim()
		var got []string
		for _, claim := range r.Claims {
			got = append(got, verdict(claim.Holds))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Figure %s, %v, %v, %v: %v, want %v", c.figure, c.cm5, c.plain, c.extensions, got, c.want)
		}
	}
}

// What a claim shows is per cent of linear.
func TestFigureClaimShows(t *testing.T) {
	r := curves("6.5", []float64{32, 64}, 12, 8, 56)
	if got := r.Claims[1]; got.Shows != "88 % of linear on 64 nodes" || got.Holds != nil {
		t.Errorf("%+v", got)
	}
}

// The names of the JSON document stay.
func TestFigureJSON(t *testing.T) {
	got, err := json.Marshal(curves("6.4", []float64{1}, 0.5, 0.25, 0.75))
	const want = `{"figure":"6.4","multiply_add_cycles":0,"curves":[{"name":"cm5","points":[{"x":1,"y":0.5}]},{"name":"plain","points":[{"x":1,"y":0.25}]},` +
		`{"name":"extensions","points":[{"x":1,"y":0.75}]}],"claims":[` +
		`{"text":"improvement in the linearity of speed-up from the increased problem size","holds":null,"shows":"cm5 0 %, plain 0 %, extensions 0 % of linear on 64 nodes"},` +
		`{"text":"better normalised behaviour with the extensions, wherever there is communication","holds":false,"shows":"0.0 and 0.0 on 64 nodes"}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
}

// pictureText is all text of an SVG, a line each; what is no XML fails.
func pictureText(t *testing.T, svg []byte) string {
	t.Helper()
	var text strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		switch token, err := d.Token(); token := token.(type) {
		case xml.CharData:
			fmt.Fprintf(&text, "%s\n", token)
		default:
			if err == io.EOF {
				return text.String()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A picture is XML with all curves and their names, both axes' names and units, ticks at the
// measured values, and perfect scaling. It also has the mark of the thesis's claim (6.2.2), and
// every claim. A claim that does not hold says so, in the table too.
func TestFigurePicture(t *testing.T) {
	utilisation := []string{"M/p: columns of the product", "utilisation (% of peak)", "\n2\n", "\n4\n", "\n8\n",
		"\n16\n", "\n32\n"}
	speedUp := []string{"number of nodes", "speed-up (1 = peak of one processor)", "\n1\n", "\n8\n", "\n16\n",
		"\n32\n", "\n64\n"}
	for figure, words := range map[string][]string{
		"6.2": append(utilisation, "claim: over 80 % of peak", "extensions: from M = 4p on",
			"plain CMAM: from M = 16p on"),
		"6.3": append(speedUp, "claim: above 16 nodes all curves leave the line", "64 × 64"),
		"6.4": append(speedUp, "128 × 128"),
		"6.5": append(speedUp, "256 × 256"),
	} {
		r := curves(figure, []float64{1, 4, 16, 32, 64}, 1, 2, 1.5)
		var out bytes.Buffer
		if err := r.picture().write(".svg", &out); err != nil {
			t.Fatal(err)
		}
		var table sheet
		r.print(&table)
		picture := out.String()
		if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
			t.Errorf("Figure %s has places that are none", figure)
		}
		for _, s := range curveStyles { // solid lines: the curve, and one in the legend
			ink := fmt.Sprintf("stroke:#%02X%02X%02X;stroke-width:1.8\"", s.ink.R, s.ink.G, s.ink.B)
			if n := strings.Count(picture, ink); n != 2 {
				t.Errorf("Figure %s has %d lines of %s, want 2", figure, n, s.name)
			}
			words = append(words, s.name)
		}
		for _, c := range r.Claims {
			words = append(words, "Thesis: "+c.Text)
		}
		words = append(words, "Figure "+figure, "perfect scaling", "DOES NOT HOLD")
		text := pictureText(t, out.Bytes())
		flat := strings.Join(strings.Fields(text), " ") // a claim may take two lines
		for _, word := range words {
			if !strings.Contains(text, word) && !strings.Contains(flat, word) {
				t.Errorf("Figure %s does not say %q", figure, word)
			}
		}
		if !strings.Contains(table.String(), "DOES NOT HOLD: ") {
			t.Errorf("Figure %s as a table:\n%s", figure, table.String())
		}
	}
}

// Both kinds of pictures are written, each to the file with its ending; the one of pixels
// has two a point, white corners, and the colours of all curves.
func TestFigureFiles(t *testing.T) {
	svg, pixels := filepath.Join(t.TempDir(), "f.svg"), filepath.Join(t.TempDir(), "f.png")
	r := curves("6.2", []float64{1, 4, 16, 32}, 10, 50, 90)
	p, err := openPictures([]string{svg, pixels})
	if err == nil {
		err = p.write(r.picture())
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(svg)
	if err != nil || !strings.Contains(pictureText(t, text), "Figure 6.2") {
		t.Errorf("%s: %v, %.80s", svg, err, text)
	}
	f, err := os.Open(pixels)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	size := picture.Bounds().Size()
	if size != image.Pt(2*figureWidth, 2*figureHeight) {
		t.Errorf("a picture of %v", size)
	}
	seen := map[color.Color]int{}
	for y := range size.Y {
		for x := range size.X {
			seen[color.RGBAModel.Convert(picture.At(x, y))]++
		}
	}
	white := color.RGBA{0xff, 0xff, 0xff, 0xff}
	if picture.At(0, 0) != white || picture.At(size.X-1, size.Y-1) != white {
		t.Errorf("the corners are %v and %v", picture.At(0, 0), picture.At(size.X-1, size.Y-1))
	}
	for _, s := range curveStyles { // a line of 2 points' width across the picture, and more
		if seen[s.ink] < 1000 {
			t.Errorf("%d pixels of %s", seen[s.ink], s.name)
		}
	}
}

// The legend has a place of its own: it begins below the title and ends above the axes.
func TestFigureLegendCoversNothing(t *testing.T) {
	for _, figure := range []string{"6.2", "6.5"} {
		p := curves(figure, []float64{1, 32}, 1, 2, 3).panel()
		if p.err != nil {
			t.Fatal(p.err)
		}
		c := draw.New(vgimg.New(figureWidth, figureHeight))
		width := vg.Length(0)
		for _, l := range p.legends {
			size := l.Rectangle(c).Size()
			width += size.X + legendGap
			if size.Y > figureLegend {
				t.Errorf("Figure %s: a legend of height %v", figure, size.Y)
			}
		}
		if len(p.legends) != 3 || width-legendGap > figureWidth-2*margin {
			t.Errorf("Figure %s: %d entries of width %v", figure, len(p.legends), width)
		}
		if p.Legend.Rectangle(c).Size().X != 0 {
			t.Errorf("Figure %s has a legend between its axes too", figure)
		}
	}
}

// A place that is none cannot be drawn, and a file that is none cannot be written: both are
// errors that say which.
func TestFigureNotDrawn(t *testing.T) {
	r := curves("6.5", []float64{1, math.NaN()}, 1, 2, 3)
	err := r.picture().write(".svg", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "drawing Figure 6.5") {
		t.Errorf("NaN: %v", err)
	}
	if err := r.picture().write(".png", io.Discard); err == nil {
		t.Error("NaN as pixels is no error")
	}
	folder := filepath.Join(t.TempDir(), "f.svg")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openPictures([]string{folder}); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("a folder: %v", err)
	}
	p, err := openPictures([]string{folder + ".svg"})
	if err == nil {
		err = p.write(r.picture())
	}
	if err == nil || !strings.Contains(err.Error(), "drawing Figure 6.5") {
		t.Errorf("NaN: %v", err)
	}
	p.Discard()
	if left, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(left) != 1 {
		t.Errorf("what could not be drawn has left %v, %v", left, err)
	}
}

// Who interrupts the command gets no figure.
func TestFigureInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := simulateFigure(ctx, "6.5", figures["6.5"].runs, apps.MultiplyAddCycles); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
	if _, err := simulateRun(ctx, 0, figures["6.5"].runs[0].Product, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is written below a picture ends within it, in no fewer words: no line is longer than the
// picture is wide.
func TestFigureClaimLines(t *testing.T) {
	for name := range figures {
		r := curves(name, []float64{1, 4, 16, 32, 64}, 1, 2, 1.5)
		const width = 300
		var words []string
		for _, l := range r.claimLines(width) {
			if w := l.style.Width(l.text); w > width {
				t.Errorf("figure %s: %q is %v wide, in %v", name, l.text, w, width)
			}
			words = append(words, strings.Fields(l.text)...)
		}
		var want []string
		for _, c := range r.Claims {
			said := fmt.Sprintf("Thesis: %s: %s (%s)", c.Text, verdict(c.Holds), c.Shows)
			want = append(want, strings.Fields(said)...)
		}
		if len(want) == 0 || !slices.Equal(words, want) {
			t.Errorf("figure %s: %q is written for %q", name, words, want)
		}
	}
}

// How far it has come is told while a run goes on, and never more than all of it.
func TestFigureProgress(t *testing.T) {
	var parts []float64
	if _, err := simulateRun(t.Context(), 0, product(4, 64, 64, 64, 4).Product, func(part float64) {
		parts = append(parts, part)
	}); err != nil {
		t.Fatal(err)
	}
	if len(parts) == 0 || parts[0] <= 0 || parts[len(parts)-1] > 1 || !slices.IsSorted(parts) {
		t.Errorf("it told %v", parts)
	}
}
