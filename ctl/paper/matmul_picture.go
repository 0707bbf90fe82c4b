package paper

// This file draws Figures 6.2 to 6.5: a curve for each machine, the line of perfect scaling, marks
// at the thesis's claims, and below the axes every claim with whether it holds.

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	figureWidth, figureHeight = 640, 520
	figureHead, figureLegend  = 30, 24
	nameHeight                = 29 // of the name of x, and the space around it
	claimHeight               = 16 // of a line of claims
	glyphRadius               = 4.5
)

// Colours of a claim that holds, and of one that does not.
var inkClaim, inkBroken = color.RGBA{0x00, 0x6b, 0x4d, 0xff}, color.RGBA{0xb0, 0x00, 0x20, 0xff}

// dashes are those of marks.
var dashes = []vg.Length{6, 3}

// curveStyles are the styles of machines. The thesis uses diamonds and triangles too.
var curveStyles = []struct {
	ink   color.RGBA
	shape draw.GlyphDrawer
	name  string
}{
	{inkDark, draw.BoxGlyph{}, "CM-5, plain CMAM"},
	{inkOrange, draw.PyramidGlyph{}, "FUNet, plain CMAM (xfer_4)"},
	{inkBlue, diamondGlyph{}, "FUNet, extensions (mfer_n)"},
}

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

// picture draws the figure.
func (r *figure) picture() *picture {
	first := figures[r.Figure].runs[0]
	title := fmt.Sprintf("Speed-up of multiplying %d × %[1]d matrices", first.N)
	if r.utilisation() {
		title = fmt.Sprintf("Utilisation of %d processors multiplying matrices, N = %d", first.Nodes, first.N)
	}
	return &picture{fmt.Sprintf("Figure %s: %s", r.Figure, title), figureWidth, figureHeight, figureHead,
		[]*panel{r.panel()}}
}

// panel makes the axes of the figure, everything between them, and a legend for each curve.
func (r *figure) panel() *panel {
	p := newPanel(inkGrid)
	p.legendAt, p.legendHeight = -1, figureLegend
	if r.utilisation() {
		p.markUtilisation()
	} else {
		p.markSpeedUp(r.Figure)
	}
	for i, c := range r.Curves {
		at := make(plotter.XYs, len(c.Points))
		for k, q := range c.Points {
			at[k] = plotter.XY(q)
		}
		s := curveStyles[i]
		legend := newLegend(11, 28)
		legend.YPosition = -0.6
		legend.Add(s.name, p.line(s.ink, 1.8, nil, at...), p.marks(s.ink, glyphRadius, s.shape, at...))
		p.legends = append(p.legends, legend)
	}
	p.Add(&p.labels)
	p.fonts(11, 12)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.Padding, a.Tick.Length = 6, 5
	}
	// Adding curves has stretched the axes to what was measured.
	p.Y.Min = 0
	name := "number of nodes"
	if r.utilisation() {
		name = "M/p: columns of the product on each of p = 32 processors; R = 2048p/M (log scale)"
		p.Y.Label.Text = "utilisation (% of peak)"
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max, p.Y.Max = 0.93, 34.5, 105
		p.X.Tick.Marker = ticks(1, 2, 4, 8, 16, 32)
		p.Y.Tick.Marker = ticks(0, 20, 40, 60, 80, 100)
	} else {
		p.Y.Label.Text = "speed-up (1 = peak of one processor)"
		p.X.Min, p.X.Max, p.Y.Max = 0, 66, 66
		p.X.Tick.Marker = append(ticks(1, 8, 16, 24, 32, 40, 48, 56, 64), plot.Tick{Value: 2}, plot.Tick{Value: 4})
		p.Y.Tick.Marker = ticks(0, 8, 16, 24, 32, 40, 48, 56, 64)
	}
	lines := r.claimLines(figureWidth - 2*margin)
	claims := vg.Length(len(lines)) * claimHeight
	p.below = claims + nameHeight
	p.after = func(c, area draw.Canvas) {
		// The plot itself would keep room for the name of x about the middle of a linear axis.
		style := p.X.Label.TextStyle
		style.YAlign = draw.YTop
		axes := p.DataCanvas(area)
		c.FillText(style, vg.Point{X: axes.Center().X, Y: area.Min.Y - 3}, name)
		for i, l := range lines {
			c.FillText(l.style, vg.Point{X: c.Min.X, Y: c.Min.Y + claims - vg.Length(i)*claimHeight}, l.text)
		}
	}
	return p
}

// markUtilisation draws the claims of Figure 6.2.
func (p *panel) markUtilisation() {
	p.mark(color.Black, dots, 1, 100, 32, 100)
	p.note(note{color.Black, 1, 100, draw.XLeft, 4, false, "perfect scaling"})
	p.mark(inkClaim, dashes, 1, wellUsed, 32, wellUsed)
	p.note(note{inkClaim, 1, wellUsed, draw.XLeft, 4, false, fmt.Sprintf("claim: over %d %% of peak ...", wellUsed)})
	p.mark(inkBlue, dashes, 4, 0, 4, wellUsed)
	p.note(note{inkBlue, 4.1, 0, draw.XLeft, 8, false, "... extensions: from M = 4p on"})
	p.mark(inkOrange, dashes, 16, 0, 16, wellUsed)
	p.note(note{inkOrange, 15.6, 0, draw.XRight, 28, false, "... plain CMAM: from M = 16p on"})
}

// markSpeedUp draws perfect scaling and the claim of Figure 6.3.
func (p *panel) markSpeedUp(figure string) {
	p.mark(color.Black, dots, 0, 0, 64, 64)
	p.note(note{color.Black, 52, 52, draw.XCenter, 4, true, "perfect scaling"})
	if figure == "6.3" {
		p.mark(inkClaim, dashes, 16, 0, 16, 66)
		p.note(note{inkClaim, 16.6, 61, draw.XLeft, 0, false, "claim: above 16 nodes all curves leave the line"})
	}
}

// mark draws a line from one pair of values to another.
func (p *panel) mark(ink color.Color, dashes []vg.Length, x0, y0, x1, y1 float64) {
	p.line(ink, 1, dashes, plotter.XY{X: x0, Y: y0}, plotter.XY{X: x1, Y: y1})
}

// note adds a label.
func (p *panel) note(n note) { p.labels.notes = append(p.labels.notes, n) }

// claimLine is a line of text below the picture.
type claimLine struct {
	text  string
	style text.Style
}

// claimLines returns the claims in lines of a width. A claim's continuation lines are indented.
func (r *figure) claimLines(width vg.Length) (lines []claimLine) {
	for _, claim := range r.Claims {
		style := words(10.5, draw.XLeft, inkBroken)
		switch {
		case claim.Holds == nil:
			style.Color = color.Black
		case *claim.Holds:
			style.Color = inkClaim
		}
		line := "Thesis:"
		for _, word := range strings.Fields(claim.Text + ": " + verdict(claim.Holds) + " (" + claim.Shows + ")") {
			if style.Width(line+" "+word) > width {
				lines = append(lines, claimLine{line, style})
				line = "       "
			}
			line += " " + word
		}
		lines = append(lines, claimLine{line, style})
	}
	return lines
}
