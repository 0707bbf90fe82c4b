package paper

// This file has the thesis's claims about Figures 6.2 to 6.5 (6.2.2), and judges them. A claim for
// which the text gives no figure is shown and not judged.

import (
	"fmt"
	"strings"
)

// wellUsed is the utilisation that the thesis calls good, in per cent.
const wellUsed = 80

// claim is a statement of the thesis about a figure.
type claim struct {
	Text  string `json:"text"`
	Holds *bool  `json:"holds"` // null: the text gives no figure to judge by
	Shows string `json:"shows"` // what the model reaches
}

// claim judges the claims by the curves.
func (r *figure) claim() {
	cm5, plain, extensions := &r.Curves[0], &r.Curves[1], &r.Curves[2]
	judge := func(holds bool, text, shows string) { r.Claims = append(r.Claims, claim{text, &holds, shows}) }
	show := func(text, shows string) { r.Claims = append(r.Claims, claim{text, nil, shows}) }
	percent := func(x float64) string {
		var of []string
		for _, c := range []*curve{cm5, plain, extensions} {
			of = append(of, fmt.Sprintf("%s %.0f %%", c.Name, c.linear(x)))
		}
		return fmt.Sprintf("%s of linear on %v nodes", strings.Join(of, ", "), x)
	}
	switch r.Figure {
	case "6.2":
		well := func(p point) bool { return p.Y > wellUsed }
		judge(plain.all(16, well) && cm5.all(16, well),
			"over 80 % of peak for M >= 16p with the original CMAM, on FUNet and on the CM-5",
			fmt.Sprintf("plain %.1f %%, cm5 %.1f %% at 16p", plain.at(16), cm5.at(16)))
		judge(plain.measured(8) && plain.at(8) <= wellUsed, "and not already at half of that",
			fmt.Sprintf("plain %.1f %% at 8p", plain.at(8)))
		judge(extensions.all(4, well), "better than 80 % for M as little as 4p with the extensions",
			fmt.Sprintf("extensions %.1f %% at 4p", extensions.at(4)))
		judge(extensions.measured(2) && extensions.at(2) <= wellUsed, "and not already at half of that",
			fmt.Sprintf("extensions %.1f %% at 2p", extensions.at(2)))
		judge(extensions.above(plain, 0), "higher utilisation overall with the extensions",
			fmt.Sprintf("up to %.1f points more", extensions.ahead(plain)))
		show("similar normalised behaviour of FUNet and the CM-5 with the original CMAM",
			fmt.Sprintf("at most %.1f points apart", plain.apart(cm5)))
	case "6.3":
		breaks := true
		for _, c := range []*curve{cm5, plain, extensions} {
			breaks = breaks && c.measured(32) && c.linear(16)-c.linear(32) >
				max(c.linear(8)-c.linear(16), c.linear(4)-c.linear(8))
		}
		judge(breaks, "all curves break from linear above 16 nodes, more by the doubling to 32 than by any before",
			fmt.Sprintf("%.0f, %.0f, %.0f %% of it on 16, %.0f, %.0f, %.0f %% on 32", cm5.linear(16), plain.linear(16),
				extensions.linear(16),
				cm5.linear(32), plain.linear(32), extensions.linear(32)))
	case "6.4":
		show("improvement in the linearity of speed-up from the increased problem size", percent(64))
	case "6.5":
		judge(cm5.rises() && plain.rises() && extensions.rises(),
			"it scales up to 64 nodes in all three cases", percent(64))
		show("the curve of the extensions closely follows the ideal",
			fmt.Sprintf("%.0f %% of linear on 64 nodes", extensions.linear(64)))
	}
	if r.Figure != "6.2" {
		judge(extensions.above(plain, 2),
			"better normalised behaviour with the extensions, wherever there is communication",
			fmt.Sprintf("%.1f and %.1f on 64 nodes", extensions.at(64), plain.at(64)))
	}
}

// all reports whether the curve has points from x on, and right holds for all of them.
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

// at returns a curve's value at x; 0 if x was not measured.
func (c *curve) at(x float64) float64 {
	for _, p := range c.Points {
		if p.X == x {
			return p.Y
		}
	}
	return 0
}

// measured reports whether there is a point at x.
func (c *curve) measured(x float64) bool { return c.at(x) != 0 }

// linear returns the value of a curve of speed-up at x, in per cent of linear; 0 if x was not
// measured.
func (c *curve) linear(x float64) float64 { return 100 * c.at(x) / x }

// above reports whether the curve has points from x on, all of them above those of another curve.
func (c *curve) above(other *curve, from float64) bool {
	return c.all(from, func(p point) bool { return p.Y > other.at(p.X) })
}

// ahead returns the largest amount by which a curve is above another one.
func (c *curve) ahead(other *curve) (most float64) {
	for _, p := range c.Points {
		most = max(most, p.Y-other.at(p.X))
	}
	return most
}

// apart returns the largest difference between two curves.
func (c *curve) apart(other *curve) float64 { return max(c.ahead(other), other.ahead(c)) }

// rises reports whether each point of a curve is above the one before, up to 64 nodes.
func (c *curve) rises() bool {
	last := 0.0
	return c.measured(64) && c.all(0, func(p point) bool {
		rises := p.Y > last
		last = p.Y
		return rises
	})
}
