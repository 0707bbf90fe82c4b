package figure

// This file draws the inside of the axes of Figures 6.2 to 6.5: a curve for each machine, the line
// of perfect scaling, and marks at the thesis's claims.

import (
	"errors"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours of Okabe and Ito's palette, which colour-blind readers can tell apart, and greys.
var (
	inkCM5        = color.RGBA{0x5b, 0x5b, 0x5b, 0xff}
	inkPlain      = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	inkExtensions = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	inkClaim      = color.RGBA{0x00, 0x6b, 0x4d, 0xff}
	inkBroken     = color.RGBA{0xb0, 0x00, 0x20, 0xff} // for a claim that does not hold
	inkGrid       = color.RGBA{0xde, 0xde, 0xde, 0xff}
)

// Dashes of the line of perfect scaling, and of marks.
var (
	dots   = []vg.Length{1, 3}
	dashes = []vg.Length{6, 3}
)

// curveStyles are the styles of machines. The thesis uses diamonds and triangles too.
var curveStyles = []struct {
	ink   color.RGBA
	shape draw.GlyphDrawer
	name  string
}{
	{inkCM5, draw.BoxGlyph{}, "CM-5, plain CMAM"},
	{inkPlain, draw.PyramidGlyph{}, "FUNet, plain CMAM (xfer_4)"},
	{inkExtensions, diamondGlyph{}, "FUNet, extensions (mfer_n)"},
}

// glyphRadius is the radius of the glyphs at points.
const glyphRadius = 4.5

// diamondGlyph is a filled square on its corner.
type diamondGlyph struct{}

// DrawGlyph draws the diamond around a place.
func (diamondGlyph) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	r := s.Radius * 1.2 // looks as large as the others
	var p vg.Path
	p.Move(vg.Point{X: at.X, Y: at.Y + r})
	p.Line(vg.Point{X: at.X + r, Y: at.Y})
	p.Line(vg.Point{X: at.X, Y: at.Y - r})
	p.Line(vg.Point{X: at.X - r, Y: at.Y})
	p.Close()
	c.Fill(p)
}

// Sans returns the typeface of all text in pictures.
func Sans(size vg.Length) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

// plotBuilder collects the parts of a plot, and the errors of parts that could not be made.
type plotBuilder struct {
	plot   *plot.Plot
	legend []plot.Legend // one for each curve
	labels labels
	err    error
}

// made reports whether err is nil, and adds the parts to the plot if so.
func (b *plotBuilder) made(err error, parts ...plot.Plotter) bool {
	if err != nil {
		b.err = errors.Join(b.err, err)
		return false
	}
	b.plot.Add(parts...)
	return true
}

// note adds a label.
func (b *plotBuilder) note(n note) { b.labels.notes = append(b.labels.notes, n) }

// newPlot makes the axes of the figure, everything between them, and a legend for each curve.
func (r *result) newPlot() (*plot.Plot, []plot.Legend, error) {
	p := plot.New()
	b := &plotBuilder{plot: p}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = inkGrid, inkGrid
	p.Add(grid)
	if r.utilisation() {
		b.markUtilisation()
	} else {
		b.markSpeedUp(r.Figure)
	}
	for i, c := range r.Curves {
		b.curve(i, c.Points)
	}
	p.Add(&b.labels)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = Sans(12), Sans(11)
		a.Label.Padding, a.Padding, a.Tick.Length = 6, 0, 5
	}
	// Adding curves has stretched the axes to what was measured.
	p.Y.Min = 0
	if r.utilisation() {
		p.X.Label.Text = "M/p: columns of the product on each of p = 32 processors; R = 2048p/M (log scale)"
		p.Y.Label.Text = "utilisation (% of peak)"
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max, p.Y.Max = 0.93, 34.5, 105
		p.X.Tick.Marker = ticks(1, 2, 4, 8, 16, 32)
		p.Y.Tick.Marker = ticks(0, 20, 40, 60, 80, 100)
	} else {
		p.X.Label.Text = "number of nodes"
		p.Y.Label.Text = "speed-up (1 = peak of one processor)"
		p.X.Min, p.X.Max, p.Y.Max = 0, 66, 66
		p.X.Tick.Marker = append(ticks(1, 8, 16, 24, 32, 40, 48, 56, 64), plot.Tick{Value: 2}, plot.Tick{Value: 4})
		p.Y.Tick.Marker = ticks(0, 8, 16, 24, 32, 40, 48, 56, 64)
	}
	if b.err != nil {
		return nil, nil, fmt.Errorf("drawing figure %s: %w", r.Figure, b.err)
	}
	return p, b.legend, nil
}

// ticks returns numbered marks at some places of an axis.
func ticks(at ...float64) plot.ConstantTicks {
	var t plot.ConstantTicks
	for _, v := range at {
		t = append(t, plot.Tick{Value: v, Label: fmt.Sprint(v)})
	}
	return t
}

// markUtilisation draws the claims of Figure 6.2.
func (b *plotBuilder) markUtilisation() {
	b.line(color.Black, dots, 1, 100, 32, 100)
	b.note(note{color.Black, 1, 100, draw.XLeft, 4, false, "perfect scaling"})
	b.line(inkClaim, dashes, 1, wellUsed, 32, wellUsed)
	b.note(note{inkClaim, 1, wellUsed, draw.XLeft, 4, false, fmt.Sprintf("claim: over %d %% of peak ...", wellUsed)})
	b.line(inkExtensions, dashes, 4, 0, 4, wellUsed)
	b.note(note{inkExtensions, 4.1, 0, draw.XLeft, 8, false, "... extensions: from M = 4p on"})
	b.line(inkPlain, dashes, 16, 0, 16, wellUsed)
	b.note(note{inkPlain, 15.6, 0, draw.XRight, 28, false, "... plain CMAM: from M = 16p on"})
}

// markSpeedUp draws perfect scaling and the claim of Figure 6.3.
func (b *plotBuilder) markSpeedUp(figure string) {
	b.line(color.Black, dots, 0, 0, 64, 64)
	b.note(note{color.Black, 52, 52, draw.XCenter, 4, true, "perfect scaling"})
	if figure == "6.3" {
		b.line(inkClaim, dashes, 16, 0, 16, 66)
		b.note(note{inkClaim, 16.6, 61, draw.XLeft, 0, false, "claim: above 16 nodes all curves leave the line"})
	}
}

// line draws a line from one pair of values to another.
func (b *plotBuilder) line(ink color.Color, dashes []vg.Length, x0, y0, x1, y1 float64) {
	ends := plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y1}}
	l, err := plotter.NewLine(ends)
	if b.made(err, l) {
		b.labels.lines = append(b.labels.lines, ends)
		l.Color, l.Width, l.Dashes = ink, 1, dashes
	}
}

// curve draws points and the lines between them.
func (b *plotBuilder) curve(i int, points []point) {
	at := make(plotter.XYs, len(points))
	for k, p := range points {
		at[k] = plotter.XY(p)
	}
	l, s, err := plotter.NewLinePoints(at)
	if b.made(err, l, s) {
		b.labels.lines, b.labels.curves = append(b.labels.lines, at), append(b.labels.curves, at)
		l.Color, l.Width = curveStyles[i].ink, 1.8
		s.GlyphStyle = draw.GlyphStyle{Color: curveStyles[i].ink, Radius: glyphRadius, Shape: curveStyles[i].shape}
		legend := plot.NewLegend()
		legend.Top, legend.Left = true, true
		legend.ThumbnailWidth, legend.YPosition, legend.TextStyle.Font = 28, -0.6, Sans(11)
		legend.Add(curveStyles[i].name, l, s)
		b.legend = append(b.legend, legend)
	}
}
