package paper

// This file draws what a blocked context costs the others under each policy of issue.

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// policyStyles are the policies in words, in their order, and the styles of their curves.
var policyStyles = []struct {
	name   string
	ink    color.Color
	dashes []vg.Length
}{{"single issue", inkBlue, nil}, {"look-ahead", inkOrange, []vg.Length{7, 3}},
	{"multi-issue", inkGreen, []vg.Length{2, 2}}, {"multi-issue, wait queues", inkDark, []vg.Length{9, 3, 2, 3}}}

// chartLegend is the height of their legend.
const chartLegend = 4 * legendLine

// picture draws the curves.
func (r *virtualReport) picture() *picture {
	c := newPanel(inkGrid)
	c.title, c.legendAt, c.legendHeight = "One of 16 contexts gets no answer", 40, chartLegend
	legend := newLegend(9, 24)
	legend.Padding = 3
	for i, v := range r.Issue.Policies {
		var at plotter.XYs
		for _, q := range v.Curve {
			at = append(at, plotter.XY{X: float64(q.UnansweredNS) / 1e3, Y: q.BlockedNS / 1e3})
		}
		legend.Add(policyStyles[i].name, c.line(policyStyles[i].ink, 1.6, policyStyles[i].dashes, at...))
	}
	c.Y.Min = 0
	c.legends = []plot.Legend{legend}
	c.X.Label.Text, c.Y.Label.Text = "us without an answer", "us that requests of the others end later, mean"
	c.fonts(9, 10)
	return &picture{title: "Issue policies on the units of profile " + r.Profile, width: 2*margin + chartWidth,
		height: chartsHeight, head: chartsHead, panels: []*panel{c}}
}
