package paper

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"pgregory.net/rapid"
)

// covered returns what is wrong with the places of a picture's labels: it looks for points of
// curves, marks and other labels within them, one after the other, and does not calculate
// intersections.
func covered(r *figure) (wrong []string, err error) {
	p := r.panel()
	if p.err != nil {
		return nil, p.err
	}
	c := p.DataCanvas(draw.New(vgimg.New(figureWidth-2*margin,
		figureHeight-2*margin-figureHead-figureLegend-nameHeight-2*claimHeight)))
	places := p.labels.places(c, p.Plot)
	x, y := p.Transforms(&c)
	within := func(at placed, q vg.Point) bool {
		sin, cos := math.Sincos(-at.angle)
		dx, dy := float64(q.X-at.at.X), float64(q.Y-at.at.Y)
		u, v := vg.Length(dx*cos-dy*sin), vg.Length(dx*sin+dy*cos)
		return u >= at.left && u <= at.right && v >= at.bottom && v <= at.over
	}
	for i, at := range places {
		text := p.labels.notes[i].text
		for l, line := range p.labels.lines {
			for k := range line[1:] {
				from, to := vg.Point{X: x(line[k].X), Y: y(line[k].Y)}, vg.Point{X: x(line[k+1].X), Y: y(line[k+1].Y)}
				for step := range 2001 {
					part := vg.Length(step) / 2000
					if within(at, vg.Point{X: from.X + part*(to.X-from.X), Y: from.Y + part*(to.Y-from.Y)}) {
						wrong = append(wrong, fmt.Sprintf("line %d passes through %q", l, text))
						break
					}
				}
			}
		}
		for j, other := range places {
			for u := range 41 {
				for v := range 9 {
					q := other.moved(other.at, other.left+(other.right-other.left)*vg.Length(u)/40,
						other.bottom+(other.over-other.bottom)*vg.Length(v)/8).at
					if i != j && within(at, q) {
						wrong = append(wrong, fmt.Sprintf("%q is over %q", text, p.labels.notes[j].text))
					}
				}
			}
		}
		for _, q := range at.corners() {
			if q.X < c.Min.X || q.X > c.Max.X || q.Y < c.Min.Y || q.Y > c.Max.Y {
				wrong = append(wrong, fmt.Sprintf("%q is not all in the picture", text))
			}
		}
	}
	return wrong, nil
}

// Rule: in none of the four figures, as they were simulated, does a label lie on a curve, a mark or
// another label.
func TestLabelsOfTheFigures(t *testing.T) {
	b, err := os.ReadFile("testdata/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []*figure
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(figures) {
		t.Errorf("%d figures", len(all))
	}
	for _, r := range all {
		wrong, err := covered(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wrong {
			t.Errorf("figure %s: %s", r.Figure, w)
		}
	}
}

// Rule: the same wherever curves are that rise or fall without leaving the axes.
func TestLabelsOfAnyCurves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"6.2", "6.3", "6.4", "6.5"}).Draw(t, "figure")
		f := figures[name]
		r := &figure{Figure: name}
		for _, m := range machines {
			c := curve{Name: m.name}
			best := rapid.Float64Range(0.01, 1).Draw(t, "efficiency")
			for i, run := range f.runs {
				y := run.x * math.Pow(best, float64(i))
				if f.utilisation {
					y = 100 * (1 - math.Pow(1-best, float64(i+1)))
				}
				c.Points = append(c.Points, point{run.x, y})
			}
			r.Curves = append(r.Curves, c)
		}
		wrong, err := covered(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wrong {
			t.Error(w)
		}
	})
}
