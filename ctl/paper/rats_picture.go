package paper

// This file draws Hamlyn's curves: panels side by side, one for each unit, each with its legend
// above it.

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	chartWidth, chartsHeight = 380, 420
	chartsHead, legendLine   = 30, 15
)

// chartStyles are the styles of a panel's curves, which can be told apart in grey, too.
var chartStyles = []struct {
	ink    color.Color
	dashes []vg.Length
}{{inkBlue, nil}, {inkOrange, []vg.Length{7, 3}}, {inkGreen, []vg.Length{2, 2}}}

// picture draws the curves.
func (r *charts) picture() *picture {
	n := vg.Length(len(r.Panels))
	p := &picture{title: "What the paper on Hamlyn concludes, out of the steps of profile " + r.Profile,
		width: 2*margin + n*chartWidth + (n-1)*panelGap, height: chartsHeight, head: chartsHead}
	most := 0
	for _, c := range r.Panels {
		most = max(most, len(c.Curves))
	}
	for _, c := range r.Panels {
		p.panels = append(p.panels, c.panel(most))
	}
	return p
}

// panel draws a panel. It leaves room above for the legend of that many curves and of the marks.
func (c *chart) panel(curves int) *panel {
	p := newPanel(inkGrid)
	p.title, p.legendAt, p.legendHeight = c.Title, 40, vg.Length((curves+1)*legendLine)
	legend := newLegend(9, 24)
	legend.Padding = 3
	for i, v := range c.Curves {
		var at plotter.XYs
		for _, q := range v.Points {
			at = append(at, plotter.XY{X: c.place(q.Bytes), Y: q.Value})
		}
		legend.Add(v.Name, p.line(chartStyles[i].ink, 1.6, chartStyles[i].dashes, at...))
	}
	p.Y.Min = 0
	p.Y.Max *= 1.05
	var printed plotter.XYs
	for _, m := range c.Marks {
		if !m.inBytes {
			printed = append(printed, plotter.XY{X: c.place(m.Bytes), Y: m.Printed})
			continue
		}
		x := c.place(m.Printed)
		legend.Add(fmt.Sprintf("the paper: %s from %.0f bytes", m.Says, m.Printed),
			p.line(color.Black, 1, dots, plotter.XY{X: x, Y: 0}, plotter.XY{X: x, Y: p.Y.Max}))
	}
	if len(printed) > 0 {
		legend.Add("printed by the paper", p.marks(color.Black, 3.5, draw.RingGlyph{}, printed...))
	}
	p.legends = []plot.Legend{legend}
	p.X.Label.Text, p.Y.Label.Text = "bytes", c.Unit
	if c.doubles {
		p.X.Tick.Marker = powers(p.X.Min, p.X.Max)
	}
	p.fonts(9, 10)
	return p
}

// place returns the place of a size on the axis. An axis of factors of 2 is logarithmic.
func (c *chart) place(bytes float64) float64 {
	if c.doubles {
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
