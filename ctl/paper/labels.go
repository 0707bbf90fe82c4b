package paper

// This file places the labels of a plot so that they cover no curve, mark or other label. Each
// label has a preferred place, and gets the nearest free place to it. Places are searched on the
// canvas, in points, because labels have a fixed size there.

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	// labelStep is the distance between two places that are tried. labelGap is the least distance
	// between a label and anything that it may not touch.
	labelStep = 4
	labelGap  = 1.5
	// besideLine is the distance of a label from the line that it runs along, above or below.
	besideLine = 4
)

// note is a label beside a place, or along the line from the origin to that place.
type note struct {
	ink   color.Color
	x, y  float64
	align text.XAlignment // the part of the text at the place
	above vg.Length       // distance above the place, seen along the text
	along bool
	text  string
}

// labels are the labels of a plot, and the things that they may not touch: lines, and glyphs at the
// points of curves. They are the plot's last part, so nothing is drawn over them.
type labels struct {
	notes  []note
	lines  []plotter.XYs // of curves and marks
	curves []plotter.XYs // whose points have glyphs
}

// Plot draws the labels.
func (l *labels) Plot(c draw.Canvas, p *plot.Plot) {
	for i, at := range l.places(c, p) {
		n := &l.notes[i]
		style := n.style()
		style.Rotation = at.angle
		c.FillText(style, at.at, n.text)
	}
}

// style returns the style of the text, which begins at its place.
func (n *note) style() text.Style {
	return text.Style{Color: n.ink, Font: sans(11), Handler: plot.DefaultTextHandler}
}

// placed is the place of a label. at is where the text begins, near one corner of the label's
// rectangle, which is turned by angle around at.
type placed struct {
	at                        vg.Point
	angle                     float64
	left, right, bottom, over vg.Length // of the rectangle, from at, along the text and across
}

// segment is a straight piece of a line.
type segment struct{ from, to vg.Point }

// places chooses a place for each label, in their order.
func (l *labels) places(c draw.Canvas, p *plot.Plot) []placed {
	taken := l.taken(c, p)
	var all []placed
	for i := range l.notes {
		at := l.notes[i].place(c, p, taken)
		all = append(all, at)
		taken = append(taken, at.edges()...)
	}
	return all
}

// taken returns the lines that no label may touch.
func (l *labels) taken(c draw.Canvas, p *plot.Plot) (all []segment) {
	x, y := p.Transforms(&c)
	for _, line := range l.lines {
		for i := range line[1:] {
			all = append(all, segment{vg.Point{X: x(line[i].X), Y: y(line[i].Y)},
				vg.Point{X: x(line[i+1].X), Y: y(line[i+1].Y)}})
		}
	}
	for _, curve := range l.curves {
		for _, at := range curve { // a square is a diagonal's and its own width
			from, to := vg.Point{X: x(at.X) - glyphRadius, Y: y(at.Y) - glyphRadius},
				vg.Point{X: x(at.X) + glyphRadius, Y: y(at.Y) + glyphRadius}
			all = append(all, segment{from, to}, segment{vg.Point{X: from.X, Y: to.Y}, vg.Point{X: to.X, Y: from.Y}})
		}
	}
	return all
}

// place returns the free place nearest to the label's preferred one, or the preferred one if none
// is free.
func (n *note) place(c draw.Canvas, p *plot.Plot, taken []segment) placed {
	x, y := p.Transforms(&c)
	style := n.style()
	box := placed{right: style.Width(n.text), bottom: -style.FontExtents().Descent, over: style.FontExtents().Ascent}
	if n.along {
		box.angle = math.Atan2(float64(y(n.y)-y(0)), float64(x(n.x)-x(0)))
	}
	shift := vg.Length(n.align) * box.right // XLeft is 0, XCenter -0.5, XRight -1
	wish := box.moved(vg.Point{X: x(n.x), Y: y(n.y)}, shift, n.above)
	inside := func(b placed) bool {
		for _, q := range b.corners() {
			if q.X < c.Min.X || q.X > c.Max.X || q.Y < c.Min.Y || q.Y > c.Max.Y {
				return false
			}
		}
		return true
	}
	var tries []placed
	if n.along {
		length := vg.Length(math.Hypot(float64(y(n.y)-y(0)), float64(x(n.x)-x(0)))) * 1.3
		for d := -length; d < length; d += labelStep {
			tries = append(tries, wish.moved(wish.at, d, 0), wish.moved(wish.at, d, -n.above-besideLine-box.over))
		}
	} else {
		for dx := c.Min.X - wish.at.X; dx < c.Max.X-wish.at.X; dx += labelStep {
			for dy := c.Min.Y - wish.at.Y; dy < c.Max.Y-wish.at.Y; dy += labelStep {
				tries = append(tries, wish.moved(wish.at, dx, dy))
			}
		}
	}
	far := func(b placed) float64 { return math.Hypot(float64(b.at.X-wish.at.X), 2*float64(b.at.Y-wish.at.Y)) }
	slices.SortStableFunc(tries, func(a, b placed) int { return cmp.Compare(far(a), far(b)) })
	for _, b := range append([]placed{wish}, tries...) {
		if inside(b) && !slices.ContainsFunc(taken, b.touches) {
			return b
		}
	}
	return wish
}

// moved returns the rectangle moved to a point, then along its text and across.
func (b placed) moved(from vg.Point, along, across vg.Length) placed {
	sin, cos := math.Sincos(b.angle)
	b.at = vg.Point{X: from.X + along*vg.Length(cos) - across*vg.Length(sin),
		Y: from.Y + along*vg.Length(sin) + across*vg.Length(cos)}
	return b
}

// corners returns the rectangle's corners in order.
func (b placed) corners() [4]vg.Point {
	return [4]vg.Point{b.moved(b.at, b.left, b.bottom).at, b.moved(b.at, b.right, b.bottom).at,
		b.moved(b.at, b.right, b.over).at, b.moved(b.at, b.left, b.over).at}
}

// edges returns the lines that another label may not touch: the rectangle's sides and diagonals.
func (b placed) edges() (all []segment) {
	q := b.corners()
	for i := range q {
		for j := range i {
			all = append(all, segment{q[j], q[i]})
		}
	}
	return all
}

// touches reports whether a segment enters the rectangle or comes nearer than the gap. It turns the
// segment to the text's axes and clips it at the four sides (Liang and Barsky).
func (b placed) touches(s segment) bool {
	sin, cos := math.Sincos(-b.angle)
	seen := func(p vg.Point) (float64, float64) {
		x, y := float64(p.X-b.at.X), float64(p.Y-b.at.Y)
		return x*cos - y*sin, x*sin + y*cos
	}
	x0, y0 := seen(s.from)
	x1, y1 := seen(s.to)
	enters, leaves := 0.0, 1.0
	for _, side := range [4][2]float64{
		{x0 - x1, x0 - float64(b.left-labelGap)}, {x1 - x0, float64(b.right+labelGap) - x0},
		{y0 - y1, y0 - float64(b.bottom-labelGap)}, {y1 - y0, float64(b.over+labelGap) - y0},
	} {
		switch goes, room := side[0], side[1]; {
		case goes == 0 && room < 0:
			return false
		case goes < 0:
			enters = max(enters, room/goes)
		case goes > 0:
			leaves = min(leaves, room/goes)
		}
	}
	return enters <= leaves
}
