package paper

// This file draws Table 6.1, group by group, in per cent of the thesis's cycles. It shows each row
// of the model, and of a measurement in real time if there is one.

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/funet/funet/ctl/paper/virtual"
)

const (
	tableWidth, tableHeight = 900, 540
	tableHead, tableLegend  = 28, 58
	nameLine                = 18 // of the groups' names
	// groupGap is the additional space between two groups, compared with that between rows.
	groupGap = 1
)

// errNotMeasured reports a file without rows of `funet cmam --json`.
var errNotMeasured = errors.New("it has no rows of Table 6.1; " +
	"write it with `funet cmam --lab 2 --profile sbus-arctic --json`")

// readReal reads the rows that `funet cmam` measured on a modelled machine.
func readReal(name string) ([]virtual.Row, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading --real: %w", err)
	}
	var r virtual.Comparison
	if err = json.Unmarshal(b, &r); err == nil {
		r.Rows = slices.DeleteFunc(r.Rows, func(row virtual.Row) bool {
			return !(row.PaperCycles > 0 && row.Cycles > 0) || math.IsInf(row.Cycles, 0)
		})
		if len(r.Rows) > 0 {
			return r.Rows, nil
		}
		err = errNotMeasured
	}
	return nil, fmt.Errorf("reading --real %s: %w", name, err)
}

// picture draws the table. Each row has a place in the order of the table, and the neighbouring
// rows of one primitive are a group with its name below.
func (r *cmamTable) picture() *picture {
	type group struct {
		name     string
		from, to float64
	}
	var groups []group
	var labels plot.ConstantTicks
	places, end := map[string]float64{}, 0.0 // by name and measure
	for i, row := range r.Rows {
		if i > 0 {
			end++
		}
		if i == 0 || row.Name != r.Rows[i-1].Name {
			if i > 0 {
				end += groupGap
			}
			groups = append(groups, group{row.Name, end, end})
		}
		groups[len(groups)-1].to = end
		places[row.Name+" "+row.Measure] = end
		labels = append(labels, plot.Tick{Value: end, Label: row.Measure})
	}
	p := newPanel(nil)
	legend := newLegend(11, 24)
	legend.Add("paper", p.line(color.Black, 1, dots, plotter.XY{X: -1, Y: 100}, plotter.XY{X: end + 1, Y: 100}))
	for _, series := range []struct {
		name  string
		rows  []virtual.Row
		ink   color.Color
		shape draw.GlyphDrawer
	}{
		{"real time, 2 nodes", r.real, inkOrange, draw.PyramidGlyph{}},
		{fmt.Sprintf("model, %d nodes in virtual time", virtual.CMAMNodes), r.Rows, inkBlue, draw.CircleGlyph{}},
	} {
		var at plotter.XYs
		for _, row := range series.rows {
			if x, ok := places[row.Name+" "+row.Measure]; ok {
				at = append(at, plotter.XY{X: x, Y: 100 * row.Cycles / row.PaperCycles})
			}
		}
		if len(series.rows) > 0 {
			legend.Add(series.name, p.marks(series.ink, 3.5, series.shape, at...))
		}
	}
	p.legends, p.legendAt, p.legendHeight = []plot.Legend{legend}, 50, tableLegend
	p.fonts(10, 11)
	p.Y.Label.Text = "cycles (% of the paper's; above 100 is slower)"
	p.X.Min, p.X.Max = -1, end+1
	p.Y.Min, p.Y.Max = min(p.Y.Min, 70), max(p.Y.Max, 130)
	var twenties []float64
	for y := 20 * math.Ceil(p.Y.Min/20); y <= p.Y.Max; y += 20 {
		twenties = append(twenties, y)
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = labels, ticks(twenties...)
	name := &p.X.Tick.Label
	name.Font, name.Rotation, name.XAlign, name.YAlign = sans(8), math.Pi/2, draw.XRight, draw.YCenter
	p.below = 2 * nameLine
	p.after = func(c, area draw.Canvas) {
		axes := p.DataCanvas(area)
		for i, g := range groups {
			x := (axes.X(p.X.Norm(g.from)) + axes.X(p.X.Norm(g.to))) / 2
			c.FillText(words(8.5, draw.XCenter, nil),
				vg.Point{X: x, Y: area.Min.Y - 3 - vg.Length(i%2)*nameLine*0.7}, g.name)
			if i > 0 {
				edge := axes.X(p.X.Norm(g.from - 0.5 - groupGap/2.0))
				c.StrokeLine2(draw.LineStyle{Color: inkGrid, Width: 0.8}, edge, axes.Min.Y, edge, axes.Max.Y)
			}
		}
	}
	title := fmt.Sprintf("Table 6.1 of the thesis and profile %s: mean %.1f %%, worst %.1f %%", r.Profile, r.Mean, r.Worst)
	return &picture{title, tableWidth, tableHeight, tableHead, []*panel{p}}
}
