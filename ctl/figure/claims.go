package figure

// This file checks the thesis's claims about Figures 6.2 to 6.5.

import "fmt"

const (
	// wellUsed is the utilisation that the thesis speaks of, in per cent.
	wellUsed = 80
	// onLine is how much of linear speed-up a curve has that follows the line.
	onLine = 0.9
)

// claim looks at the curves.
func (r *result) claim() {
	cm5, plain, extensions := &r.Curves[0], &r.Curves[1], &r.Curves[2]
	add := func(holds bool, format string, args ...any) {
		r.Claims = append(r.Claims, claim{fmt.Sprintf(format, args...), holds})
	}
	switch r.Figure {
	case "6.2":
		add(plain.all(16, func(p point) bool { return p.Y >= wellUsed }),
			"plain CMAM has at least %d %% of peak from M = 16p on", wellUsed)
		add(extensions.all(4, func(p point) bool { return p.Y >= wellUsed }),
			"the extensions have at least %d %% of peak from M = 4p on", wellUsed)
	case "6.3":
		left := func(p point) bool { return p.Y < onLine*p.X }
		// Where they leave it the thesis does not give in figures, so the text does.
		add(cm5.all(32, left) && plain.all(32, left) && extensions.all(32, left),
			"all curves leave the line above 16 nodes: under %.0f %% of linear on 32 and 64 (on 16: %.0f, %.0f, %.0f %%)",
			100*onLine, cm5.linear(16), plain.linear(16), extensions.linear(16))
	case "6.5":
		add(extensions.all(64, func(p point) bool { return p.Y >= onLine*p.X }),
			"the extensions have at least %.0f %% of linear speed-up on 64 nodes", 100*onLine)
	}
	above := true
	for i, p := range plain.Points {
		above = above && extensions.Points[i].Y >= p.Y
	}
	add(above, "the curve of the extensions is nowhere below that of plain CMAM")
}

// all reports whether there are points from x on, and all of them are right.
func (c *curve) all(from float64, right func(point) bool) bool {
	some := false
	for _, p := range c.Points {
		if p.X >= from {
			some = true
			if !right(p) {
				return false
			}
		}
	}
	return some
}

// linear returns what a curve of speed-up has at x, in per cent of linear; 0 if x was not
// measured.
func (c *curve) linear(x float64) float64 {
	for _, p := range c.Points {
		if p.X == x {
			return 100 * p.Y / p.X
		}
	}
	return 0
}
