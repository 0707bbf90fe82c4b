package paper

// This file tests the curves and their picture.

import (
	"math"
	"os"
	"strings"
	"testing"
)

// Rule: where the paper prints a figure on a curve, the steps have it within 2 % (4.2); but where
// DMA breaks even, which no reading gives more exactly than to its one digit.
func TestCurvesMeetWhatIsPrinted(t *testing.T) {
	for profile, marks := range map[string]int{"hamlyn": 5, "hamlyn-statemachine": 3} {
		r, err := hamlynOf(t, profile).curves()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Panels {
			for _, m := range p.Marks {
				marks--
				if off := math.Abs(percent(m.Model, m.Printed)); off > 2 && !(m.inBytes && off < 20) {
					t.Errorf("%s, %s: %s: printed %v, the steps say %v", profile, p.Title, m.Says, m.Printed, m.Model)
				}
			}
		}
		if marks != 0 {
			t.Errorf("%s: %d marks too few", profile, marks)
		}
	}
}

// Rule: bandwidth grows with size up to the bus's, 71.1 of 10^6 byte/s. Direct I/O is faster for
// what one packet of it holds, and takes the library fewer instructions only below 30 bytes.
func TestCurvesAgree(t *testing.T) {
	r, err := hamlynOf(t, "hamlyn").curves()
	if err != nil || len(r.Panels) != 3 {
		t.Fatal(err, r)
	}
	for _, c := range r.Panels[0].Curves {
		for i, p := range c.Points {
			if p.Value <= 0 || p.Value > 71.2 || i > 0 && p.Value <= c.Points[i-1].Value {
				t.Errorf("%s: %.2f at %v bytes", c.Name, p.Value, p.Bytes)
			}
		}
	}
	for i, p := range r.Panels[1].Curves[0].Points {
		if dma := r.Panels[1].Curves[1].Points[i]; dma.Bytes != p.Bytes || dma.Value <= p.Value {
			t.Errorf("%v bytes take %.2f us by direct I/O, and %v bytes %.2f by DMA", p.Bytes, p.Value,
				dma.Bytes, dma.Value)
		}
	}
	for i, p := range r.Panels[2].Curves[0].Points {
		if dma := r.Panels[2].Curves[1].Points[i]; (p.Value < dma.Value) != (p.Bytes < 26) {
			t.Errorf("%v bytes take %v instructions, and %v by DMA", p.Bytes, p.Value, dma.Value)
		}
	}
}

// A picture names its panels, curves and profile, and has no place that is none.
func TestPicture(t *testing.T) {
	for _, profile := range []string{"hamlyn", "hamlyn-statemachine"} {
		r, err := hamlynOf(t, profile).curves()
		if err != nil {
			t.Fatal(err)
		}
		text := svg(t, r)
		words := []string{"profile " + profile + "<"}
		for _, p := range r.Panels {
			words = append(words, ">"+p.Title+"<", ">"+p.Unit+"<")
			for _, c := range p.Curves {
				words = append(words, ">"+c.Name+"<")
			}
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the picture does not say %q", profile, w)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Error("there are places that are none")
		}
	}
}

// Rule: --plot stands alone, and only makes pictures that it can.
func TestPlotRefused(t *testing.T) {
	for _, args := range [][]string{{"--plot", "f.svg", "--table", "1"}, {"--plot", "f.svg", "--claims"},
		{"--plot", "f.svg", "--explain"}, {"--plot", "f.jpg"}, {"--plot", "no-such-folder/f.svg"}} {
		c := ratsCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(args)
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--plot") {
			t.Errorf("%v: %v", args, err)
		}
		if _, err := os.Stat("f.svg"); err == nil {
			t.Errorf("%v: there is a picture", args)
		}
	}
}
