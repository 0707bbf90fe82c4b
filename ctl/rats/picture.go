package rats

// This file draws the curves: panels side by side, one for each unit, each with its legend above
// it.

import (
	"fmt"
	"image/color"
	"math"

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
	panelWidth, pictureHeight = 380, 420
	pictureMargin             = 14
	titleHeight, panelTitle   = 30, 20
	legendLine                = 15
	panelGap                  = 18
)

// Colours and dashes that colour-blind readers can tell apart (Okabe and Ito), also in grey.
var (
	inks = []color.Color{color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
		color.RGBA{0x00, 0x9e, 0x73, 0xff}}
	dashes = [][]vg.Length{nil, {7, 3}, {2, 2}}
	grid   = color.RGBA{0xde, 0xde, 0xde, 0xff}
)

// drawing returns the curves as a picture.
func (r *curvesReport) drawing() figure.Drawing {
	width := vg.Length(2*pictureMargin + len(r.Panels)*panelWidth + (len(r.Panels)-1)*panelGap)
	return figure.Drawing{Width: width, Height: pictureHeight, Draw: r.draw}
}

func (r *curvesReport) draw(c draw.Canvas) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, pictureMargin, -pictureMargin, pictureMargin, -pictureMargin)
	c.FillText(heading(15), vg.Point{X: c.Center().X, Y: c.Max.Y},
		fmt.Sprintf("What the paper on Hamlyn concludes, out of the steps of profile %s", r.Profile))
	c.Max.Y -= titleHeight
	most := 0
	for _, p := range r.Panels {
		most = max(most, len(p.Curves))
	}
	for i := range r.Panels {
		cell := c
		cell.Min.X += vg.Length(i * (panelWidth + panelGap))
		cell.Max.X = cell.Min.X + panelWidth
		if err := r.Panels[i].draw(cell, most); err != nil {
			return fmt.Errorf("drawing %q: %w", r.Panels[i].Title, err)
		}
	}
	return nil
}

func heading(size vg.Length) text.Style {
	s := text.Style{Font: figure.Sans(size), XAlign: draw.XCenter, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
	s.Font.Weight = font.WeightBold
	return s
}

// draw draws a panel. It leaves room above for the legend of that many curves and of the marks.
func (p *panel) draw(c draw.Canvas, curves int) error {
	c.FillText(heading(11), vg.Point{X: c.Center().X, Y: c.Max.Y}, p.Title)
	c.Max.Y -= panelTitle
	w := plot.New()
	lines := plotter.NewGrid()
	lines.Vertical.Color, lines.Horizontal.Color = grid, grid
	w.Add(lines)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.ThumbnailWidth, legend.Padding, legend.TextStyle.Font = true, true, 24,
		3, figure.Sans(9)
	for i, v := range p.Curves {
		xy := plotter.XYs{}
		for _, q := range v.Points {
			xy = append(xy, plotter.XY{X: p.place(q.Bytes), Y: q.Value})
		}
		l, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		l.Width, l.Color, l.Dashes = 1.6, inks[i%len(inks)], dashes[i%len(dashes)]
		w.Add(l)
		legend.Add(v.Name, l)
	}
	w.Y.Min = 0
	w.Y.Max *= 1.05
	printed := plotter.XYs{}
	for _, m := range p.Marks {
		if !m.inBytes {
			printed = append(printed, plotter.XY{X: p.place(m.Bytes), Y: m.Printed})
			continue
		}
		l, err := plotter.NewLine(plotter.XYs{{X: p.place(m.Printed), Y: 0}, {X: p.place(m.Printed), Y: w.Y.Max}})
		if err != nil {
			return err
		}
		l.Width, l.Dashes = 1, []vg.Length{1, 3}
		w.Add(l)
		legend.Add(fmt.Sprintf("the paper: %s from %.0f bytes", m.Says, m.Printed), l)
	}
	if len(printed) > 0 {
		s, err := plotter.NewScatter(printed)
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: color.Black, Radius: 3.5, Shape: draw.RingGlyph{}}
		w.Add(s)
		legend.Add("printed by the paper", s)
	}
	legend.Draw(draw.Crop(c, 40, 0, 0, 0))
	c.Max.Y -= vg.Length((curves + 1) * legendLine)

	w.X.Label.Text, w.Y.Label.Text = "bytes", p.Unit
	w.X.Padding, w.Y.Padding = 0, 0
	if p.doubles {
		w.X.Tick.Marker = powers(w.X.Min, w.X.Max)
	}
	for _, a := range []*plot.Axis{&w.X, &w.Y} {
		a.Tick.Label.Font, a.Label.TextStyle.Font = figure.Sans(9), figure.Sans(10)
	}
	w.Draw(c)
	return nil
}

// place returns the place of a size on the axis. An axis of factors of 2 is logarithmic.
func (p *panel) place(bytes float64) float64 {
	if p.doubles {
		return math.Log2(bytes)
	}
	return bytes
}

// powers returns marks at powers of 2, or at every fourth power if there are many.
func powers(least, most float64) (t plot.ConstantTicks) {
	step := 1.0
	if most-least > 8 {
		step = 4
	}
	for x := step * math.Ceil(least/step); x <= most; x += step {
		label := fmt.Sprint(math.Exp2(x))
		switch {
		case x >= 20:
			label = fmt.Sprintf("%.0f Mi", math.Exp2(x-20))
		case x >= 10:
			label = fmt.Sprintf("%.0f Ki", math.Exp2(x-10))
		}
		t = append(t, plot.Tick{Value: x, Label: label})
	}
	return t
}
