package main

// This file draws Figures 6.2 to 6.5 as SVG: axes with units, a curve for each machine, the
// line of perfect scaling, and what the thesis claims.

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
)

// The picture, in pixels.
const (
	plotWidth, plotHeight = 760, 560
	plotLeft, plotRight   = 80, 30
	plotTop, plotBottom   = 60, 150 // below are the axis and the claims
)

// plotStyles are colour and marker of the curves: the colours can be told apart by anybody,
// the markers in print.
var plotStyles = []struct{ colour, marker, label string }{
	{"#666666", "square", "CM-5, CMAM (measured costs)"},
	{"#d55e00", "triangle", "FUNet, plain CMAM (xfer_4)"},
	{"#0072b2", "diamond", "FUNet, extensions (mfer_n)"},
}

// checkPlot refuses what is no SVG.
func checkPlot(name string) error {
	if name != "" && !strings.HasSuffix(name, ".svg") {
		return fmt.Errorf("--plot %s: pictures are SVG; use a name that ends in .svg", name)
	}
	return nil
}

// plot is a picture under way.
type plot struct {
	w          io.Writer
	xmax, ymax float64
	log        bool // x is logarithmic to base 2, from 1 on
}

// px and py are where a value is.
func (p *plot) px(x float64) float64 {
	at := x / p.xmax
	if p.log {
		at = math.Log2(x) / math.Log2(p.xmax)
	}
	return plotLeft + at*(plotWidth-plotLeft-plotRight)
}

func (p *plot) py(y float64) float64 {
	return plotHeight - plotBottom - y/p.ymax*(plotHeight-plotTop-plotBottom)
}

// writeSVG draws the figure.
func (r *figureResult) writeSVG(to io.Writer) error {
	w := bufio.NewWriter(to)
	p := &plot{w: w, xmax: 64, ymax: 64}
	title, xname, yname := "", "nodes", "speed-up (1 = one processor's peak)"
	xticks, yticks := []float64{1, 8, 16, 24, 32, 40, 48, 56, 64}, []float64{0, 8, 16, 24, 32, 40, 48, 56, 64}
	if r.utilisation() {
		p.xmax, p.ymax, p.log = 32, 100, true
		title, xname, yname = "Utilisation of 32 processors, N = 128", "M/p, columns of the product on each processor", "utilisation (% of peak)"
		xticks, yticks = []float64{1, 2, 4, 8, 16, 32}, []float64{0, 20, 40, 60, 80, 100}
	} else {
		n := map[string]int{"6.3": 64, "6.4": 128, "6.5": 256}[r.Figure]
		title = fmt.Sprintf("Multiplying %d x %d matrices", n, n)
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">
<rect width="%[1]d" height="%[2]d" fill="white"/>
`, plotWidth, plotHeight)
	p.text(plotWidth/2, 32, "middle", "font-size=\"17\"", fmt.Sprintf("Figure %s: %s", r.Figure, title))
	p.axes(xticks, yticks, xname, yname)
	p.marks(r)
	for i, c := range r.Curves {
		p.curve(i, c.Points)
	}
	p.legend(r)
	for i, c := range r.Claims {
		verdict, colour := "holds", "#00664a"
		if !c.Holds {
			verdict, colour = "does not hold", "#b00020"
		}
		p.text(plotLeft, plotHeight-70+float64(i)*20, "start", fmt.Sprintf("fill=%q font-size=\"11\"", colour), "Thesis: "+c.Text+": "+verdict)
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

// text writes a line; anchor is where of it the place is.
func (p *plot) text(x, y float64, anchor, style, s string) {
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	fmt.Fprintf(p.w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=%q %s>%s</text>\n", x, y, anchor, style, s)
}

// line draws from one pair of values to another.
func (p *plot) line(x0, y0, x1, y1 float64, style string) {
	fmt.Fprintf(p.w, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", p.px(x0), p.py(y0), p.px(x1), p.py(y1), style)
}

// axes draws the grid with its numbers and names.
func (p *plot) axes(xticks, yticks []float64, xname, yname string) {
	left := 0.0
	if p.log {
		left = 1
	}
	for _, x := range xticks {
		p.line(x, 0, x, p.ymax, `stroke="#e4e4e4"`)
		p.text(p.px(x), p.py(0)+18, "middle", "", fmt.Sprint(x))
	}
	for _, y := range yticks {
		p.line(left, y, p.xmax, y, `stroke="#e4e4e4"`)
		p.text(p.px(left)-8, p.py(y)+4, "end", "", fmt.Sprint(y))
	}
	p.line(left, 0, p.xmax, 0, `stroke="black"`)
	p.line(left, 0, left, p.ymax, `stroke="black"`)
	middle := p.py(p.ymax / 2)
	p.text((p.px(left)+p.px(p.xmax))/2, p.py(0)+42, "middle", "", xname)
	p.text(26, middle, "middle", fmt.Sprintf(`transform="rotate(-90 26 %.1f)"`, middle), yname)
}

// marks draws perfect scaling, and where the thesis's claims are.
func (p *plot) marks(r *figureResult) {
	const dots, dashes = `stroke="black" stroke-dasharray="2 4"`, `stroke="#00664a" stroke-dasharray="7 4"`
	const green = `fill="#00664a" font-size="12"`
	if p.log {
		p.line(1, 100, 32, 100, dots)
		p.text(p.px(1)+6, p.py(100)-5, "start", "font-size=\"12\"", "perfect scaling")
		p.line(1, wellUsed, 32, wellUsed, dashes)
		p.text(p.px(1)+6, p.py(wellUsed)-5, "start", green, fmt.Sprintf("%d %%", wellUsed))
		p.line(4, 0, 4, wellUsed, dashes)
		p.text(p.px(4)+5, p.py(3), "start", green, "extensions: from here on")
		p.line(16, 0, 16, wellUsed, dashes)
		p.text(p.px(16)+5, p.py(3), "start", green, "plain: from here on")
		return
	}
	p.line(0, 0, 64, 64, dots)
	p.text(p.px(50)-8, p.py(50)-6, "end", "font-size=\"12\"", "perfect scaling")
	switch r.Figure {
	case "6.3":
		p.line(16, 0, 16, p.ymax, dashes)
		p.text(p.px(16)+5, p.py(46), "start", green, "above 16 nodes all leave the line")
	case "6.5":
		p.line(0, 0, 64, onLine*64, dashes)
		p.text(p.px(52)+10, p.py(onLine*52)+14, "start", green, fmt.Sprintf("%.0f %% of linear", 100*onLine))
	}
}

// curve draws points, and lines between them.
func (p *plot) curve(i int, points []figurePoint) {
	at := make([]string, len(points))
	for k, v := range points {
		at[k] = fmt.Sprintf("%.1f,%.1f", p.px(v.X), p.py(v.Y))
	}
	fmt.Fprintf(p.w, "<polyline points=%q fill=\"none\" stroke=%q stroke-width=\"2\"/>\n", strings.Join(at, " "), plotStyles[i].colour)
	for _, v := range points {
		p.marker(i, p.px(v.X), p.py(v.Y))
	}
}

// marker draws the sign of a curve.
func (p *plot) marker(i int, x, y float64) {
	corners := map[string][][2]float64{
		"square":   {{-4, -4}, {4, -4}, {4, 4}, {-4, 4}},
		"triangle": {{0, -5.5}, {5, 4}, {-5, 4}},
		"diamond":  {{0, -6}, {6, 0}, {0, 6}, {-6, 0}},
	}[plotStyles[i].marker]
	var at []string
	for _, c := range corners {
		at = append(at, fmt.Sprintf("%.1f,%.1f", x+c[0], y+c[1]))
	}
	fmt.Fprintf(p.w, "<polygon points=%q fill=%q/>\n", strings.Join(at, " "), plotStyles[i].colour)
}

// legend says which curve is which, where none of them is.
func (p *plot) legend(r *figureResult) {
	x, y := p.px(0)+30, float64(plotTop+20)
	if p.log {
		x, y = p.px(16)-280, p.py(40)
	}
	fmt.Fprintf(p.w, "<rect x=\"%.1f\" y=\"%.1f\" width=\"235\" height=\"64\" fill=\"white\"/>\n", x-6, y-12)
	for i := range r.Curves {
		at := y + float64(i)*20
		fmt.Fprintf(p.w, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=%q stroke-width=\"2\"/>\n", x, at, x+30, at, plotStyles[i].colour)
		p.marker(i, x+15, at)
		p.text(x+38, at+4, "start", "", plotStyles[i].label)
	}
}
