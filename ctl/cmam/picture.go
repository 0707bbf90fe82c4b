package cmam

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

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/funet/funet/ctl/figure"
)

// The dimensions of the picture, in points of 1/72 inch.
const (
	tableWidth, tableHeight = 900, 540
	tableMargin             = 14
	tableTitle, tableLegend = 28, 26
	groupNames              = 18
	// groupGap is the additional space between two groups, compared with that between rows.
	groupGap = 1
)

// Colours that colour-blind readers can tell apart (Okabe and Ito). In grey, the shapes differ.
var (
	inkModel = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	inkReal  = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	inkGrid  = color.RGBA{0xde, 0xde, 0xde, 0xff}
)

// ErrNotMeasured reports a file without rows of `funet cmam --json`.
var ErrNotMeasured = errors.New("it has no rows of Table 6.1; write it with `funet cmam --lab 2 --profile sbus-arctic --json`")

// readReal reads the rows that `funet cmam` measured on a modelled machine.
func readReal(name string) ([]tableRow, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading --real: %w", err)
	}
	var r hereResult
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("reading --real %s: %w", name, err)
	}
	rows := slices.DeleteFunc(r.Rows, func(row tableRow) bool {
		return !(row.PaperCycles > 0 && row.Cycles > 0) || math.IsInf(row.Cycles, 0)
	})
	if len(rows) == 0 {
		return nil, fmt.Errorf("reading --real %s: %w", name, ErrNotMeasured)
	}
	return rows, nil
}

// drawing returns the table as a picture.
func (r *simResult) drawing(real []tableRow) figure.Drawing {
	return figure.Drawing{Width: tableWidth, Height: tableHeight, Draw: func(c draw.Canvas) error {
		return r.draw(c, real)
	}}
}

// place says where the rows of the table are drawn.
type place struct {
	at     map[string]float64 // by name and measure
	labels plot.ConstantTicks
	groups []group
	end    float64
}

// group is the neighbouring rows of one primitive.
type group struct {
	name     string
	from, to float64
}

// places gives each row its place, in the order of the table.
func places(rows []tableRow) *place {
	p := &place{at: map[string]float64{}}
	for i := range rows {
		if i > 0 {
			p.end++
		}
		if i == 0 || rows[i].Name != rows[i-1].Name {
			if i > 0 {
				p.end += groupGap
			}
			p.groups = append(p.groups, group{rows[i].Name, p.end, p.end})
		}
		p.groups[len(p.groups)-1].to = p.end
		p.at[rows[i].Name+" "+rows[i].Measure] = p.end
		p.labels = append(p.labels, plot.Tick{Value: p.end, Label: rows[i].Measure})
	}
	return p
}

// points returns rows that have a place, in per cent of the thesis's cycles.
func (p *place) points(rows []tableRow) (xy plotter.XYs) {
	for _, row := range rows {
		if x, ok := p.at[row.Name+" "+row.Measure]; ok {
			xy = append(xy, plotter.XY{X: x, Y: 100 * row.Cycles / row.PaperCycles})
		}
	}
	return xy
}

// draw lays the picture out: title, legend, and the plot with the names of the groups below it.
func (r *simResult) draw(c draw.Canvas, real []tableRow) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, tableMargin, -tableMargin, tableMargin, -tableMargin)
	title := text.Style{Font: figure.Sans(15), XAlign: draw.XCenter, YAlign: draw.YTop,
		Handler: plot.DefaultTextHandler}
	title.Font.Weight = font.WeightBold
	c.FillText(title, vg.Point{X: c.Center().X, Y: c.Max.Y},
		fmt.Sprintf("Table 6.1 of the thesis and profile %s: mean %.1f %%, worst %.1f %%", r.Profile, r.Mean, r.Worst))
	c.Max.Y -= tableTitle

	at := places(r.Rows)
	p := plot.New()
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, inkGrid
	paper, err := plotter.NewLine(plotter.XYs{{X: -1, Y: 100}, {X: at.end + 1, Y: 100}})
	if err != nil {
		return fmt.Errorf("drawing Table 6.1: %w", err)
	}
	paper.Width, paper.Dashes = 1, []vg.Length{1, 3}
	p.Add(grid, paper)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.ThumbnailWidth, legend.TextStyle.Font = true, true, 24, figure.Sans(11)
	legend.Add("paper", paper)
	for _, series := range []struct {
		name  string
		rows  []tableRow
		ink   color.Color
		shape draw.GlyphDrawer
	}{
		{"real time, 2 nodes", real, inkReal, draw.PyramidGlyph{}},
		{fmt.Sprintf("model, %d nodes in virtual time", simNodes), r.Rows, inkModel, draw.CircleGlyph{}},
	} {
		if len(series.rows) == 0 {
			continue
		}
		s, err := plotter.NewScatter(at.points(series.rows))
		if err != nil {
			return fmt.Errorf("drawing Table 6.1: %w", err)
		}
		s.GlyphStyle = draw.GlyphStyle{Color: series.ink, Radius: 3.5, Shape: series.shape}
		p.Add(s)
		legend.Add(series.name, s)
	}
	cell := draw.Crop(c, 50, 0, 0, 0)
	legend.Draw(cell)
	c.Max.Y -= tableLegend + 2*16

	p.Y.Label.Text = "cycles (% of the paper's; above 100 is slower)"
	p.X.Min, p.X.Max = -1, at.end+1
	p.Y.Min, p.Y.Max = min(p.Y.Min, 70), max(p.Y.Max, 130)
	p.X.Tick.Marker, p.Y.Tick.Marker = at.labels, twenties(p.Y.Min, p.Y.Max)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font, p.Y.Label.TextStyle.Font = figure.Sans(8),
		figure.Sans(10), figure.Sans(11)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/2, draw.XRight, draw.YCenter
	p.X.Padding, p.Y.Padding = 0, 0
	area := draw.Crop(c, 0, 0, groupNames*2, 0)
	p.Draw(area)
	axes := p.DataCanvas(area)
	style := text.Style{Font: figure.Sans(8.5), XAlign: draw.XCenter, YAlign: draw.YTop,
		Handler: plot.DefaultTextHandler}
	for i, g := range at.groups {
		x := (axes.X(norm(p, g.from)) + axes.X(norm(p, g.to))) / 2
		c.FillText(style, vg.Point{X: x, Y: area.Min.Y - 3 - vg.Length(i%2)*groupNames*0.7}, g.name)
		if i > 0 {
			edge := axes.X(norm(p, g.from-0.5-groupGap/2.0))
			c.StrokeLine2(draw.LineStyle{Color: inkGrid, Width: 0.8}, edge, axes.Min.Y, edge, axes.Max.Y)
		}
	}
	return nil
}

// twenties returns marks at multiples of 20.
func twenties(least, most float64) (t plot.ConstantTicks) {
	for y := 20 * math.Ceil(least/20); y <= most; y += 20 {
		t = append(t, plot.Tick{Value: y, Label: fmt.Sprint(y)})
	}
	return t
}

// norm converts a value to a place on the x axis of a plot, from 0 to 1.
func norm(p *plot.Plot, x float64) float64 { return (x - p.X.Min) / (p.X.Max - p.X.Min) }
