package rats

// This file is `funet sim rats --plot`: the curves behind the conclusions in the paper's text
// (HPL-95-86, 4.1 and 4.2). They are computed from the same steps as its tables, and have marks at
// the figures that it prints. The paper draws no such curves.

import (
	"fmt"
	"io"
	"slices"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/hwprofiles"
)

// point is one point of a curve.
type point struct {
	Bytes float64 `json:"bytes"`
	Value float64 `json:"value"`
}

// curve is values by size.
type curve struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`
}

// mark is a figure that the paper prints for a curve, or for the crossing of two curves.
type mark struct {
	Says    string  `json:"says"`
	Bytes   float64 `json:"bytes"`
	Printed float64 `json:"printed"`
	Model   float64 `json:"model"`
	Note    string  `json:"note"`
	inBytes bool    // the printed figure is the size
}

// panel is curves in one unit.
type panel struct {
	Title   string  `json:"title"`
	Unit    string  `json:"unit"`
	Curves  []curve `json:"curves"`
	Marks   []mark  `json:"marks"`
	doubles bool    // the axis of sizes has factors of 2
}

// curvesReport is the JSON document.
type curvesReport struct {
	Profile string  `json:"profile"`
	Panels  []panel `json:"panels"`
}

// Sizes in bytes. A packet that the host writes to the card has at most 64 bytes; one that the card
// fetches has at most 512.
const (
	mostDirect = 64
	mostPacket = 512
	mostBytes  = 1 << 20
)

// sizes returns sizes from one to another, by a factor of 2 or in steps.
func sizes(from, to, step float64) (all []float64) {
	for d := from; d <= to; {
		all = append(all, d)
		if d += step; step == 0 {
			d *= 2
		}
	}
	return all
}

// over makes a curve of a function of the size.
func (x *machine) over(name string, sizes []float64, value func(d float64) float64) curve {
	c := curve{Name: name}
	for _, d := range sizes {
		c.Points = append(c.Points, point{d, value(d)})
	}
	return c
}

// has reports whether the profile has steps of something.
func (m *model) has(of string) bool {
	return slices.ContainsFunc(m.p.Steps, func(s hwprofiles.Step) bool { return s.Of == of })
}

// curves makes the panels for which the profile has the steps.
func (m *model) curves() (*curvesReport, error) {
	r := &curvesReport{Profile: m.p.Name}
	x := &machine{m: m}
	if m.has("direct") && m.has("dma") {
		r.Panels = append(r.Panels, x.bandwidth(), x.latency())
	}
	if m.has("statemachine") {
		r.Panels = append(r.Panels, x.projection())
	}
	r.Panels = append(r.Panels, x.instructionsBySize())
	return r, x.wrong
}

// cardsDMA returns the cards' time for a message that they fetch, in nanoseconds. The message
// travels in packets of 512 bytes, or in a single shorter one.
func (x *machine) cardsDMA(d float64) float64 {
	_, c, err := x.m.dma(min(d, mostPacket), max(d/mostPacket, 1))
	return x.take(c.all(), err) * x.m.cycle
}

// cardsDirect returns the cards' time for one packet that the host writes.
func (x *machine) cardsDirect(d float64) float64 {
	c, err := x.m.direct(d)
	return x.take(c.all(), err) * x.m.cycle
}

// bandwidth shows bytes per microsecond, which is 10^6 byte/s, by the size of a message.
func (x *machine) bandwidth() panel {
	answer := x.cardsDirect(16) + 1000*x.us("tagged", "direct", 16, 0)
	transfer := func(d float64) float64 { return 1000 * d / x.cardsDMA(d) }
	round := func(d float64) float64 { return 1000 * d / (x.cardsDMA(d) + 1000*x.us("tagged", "dma", d, 0) + answer) }
	p := panel{Title: "Bandwidth against size", Unit: "10^6 byte/s", doubles: true, Curves: []curve{
		x.over("transfers by DMA, the cards alone", sizes(16, mostBytes, 0), transfer),
		x.over("a datagram by DMA and an answer of 16 bytes, with the library", sizes(16, mostPacket, 0), round),
		x.over("messages by direct I/O, the cards alone", sizes(4, mostDirect, 0), func(d float64) float64 {
			return 1000 * d / x.cardsDirect(d)
		}),
	}}
	p.Marks = []mark{
		{Says: "a datagram of 512 bytes and an answer", Bytes: 512, Printed: 12.1, Model: round(512)},
		{Says: "transfers of 4 Kbyte", Bytes: 4096, Printed: 49.2, Model: transfer(4096),
			Note: "the cards alone; 1.1 us of software would give the paper's figure"},
		{Says: "transfers of 1 Mbyte", Bytes: mostBytes, Printed: 67.8 * (1 << 20) / 1e6, Model: transfer(mostBytes),
			Note: "printed as 67.8, which is in units of 2^20"},
	}
	return p
}

// latency shows microseconds from application to application, by the size of a tagged write.
func (x *machine) latency() panel {
	direct := func(d float64) float64 { return x.cardsDirect(d)/1000 + x.us("tagged", "direct", d, 0) }
	dma := func(d float64) float64 { return x.cardsDMA(d)/1000 + x.us("tagged", "dma", d, 0) }
	return panel{Title: "From application to application", Unit: "us", doubles: true, Curves: []curve{
		x.over("direct I/O", sizes(4, mostDirect, 0), direct),
		x.over("DMA", sizes(4, mostPacket, 0), dma),
	}, Marks: []mark{{Says: "16 bytes with a tag", Bytes: 16, Printed: 8.8, Model: direct(16)}}}
}

// projection shows the bandwidth of state machines, by the size of packets that follow each other.
func (x *machine) projection() panel {
	value := func(d float64) float64 { return 1000 * d / (x.take(x.m.best(d, false)) * x.m.cycle) }
	return panel{Title: "Bandwidth of state machines against packet size", Unit: "10^6 byte/s", doubles: true,
		Curves: []curve{
			x.over("packets behind each other", sizes(8, mostPacket, 0), value),
			x.over("the bus alone", []float64{8, mostPacket}, func(float64) float64 {
				return 1000 * mostPacket / (x.m.bus(mostPacket) * x.m.cycle)
			}),
		}, Marks: []mark{
			{Says: "packets of 64 bytes", Bytes: 64, Printed: 41.3, Model: value(64)},
			{Says: "packets of 512 bytes", Bytes: 512, Printed: 65.2, Model: value(512)},
		}}
}

// instructionsBySize shows the library's instructions on the path of both sides of a tagged write.
func (x *machine) instructionsBySize() panel {
	by := func(mode string) func(float64) float64 {
		return func(d float64) float64 { return x.instructions("tagged", mode, d, 0) }
	}
	direct, dma := by("direct"), by("dma")
	even := (dma(0) - direct(0)) / (direct(1) - direct(0))
	return panel{Title: "Instructions of a tagged write", Unit: "instructions", Curves: []curve{
		x.over("direct I/O", sizes(0, mostDirect, 4), direct),
		x.over("DMA", sizes(0, mostDirect, 4), dma),
	}, Marks: []mark{{Says: "DMA breaks even", Bytes: even, Printed: 30, Model: even, inBytes: true}}}
}

func (r *curvesReport) WriteTable(w io.Writer) error {
	for i, p := range r.Panels {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s, %s, out of the steps of profile %s\n\n", p.Title, p.Unit, r.Profile)
		lines := [][]string{{"bytes"}}
		at := map[float64][]string{}
		var order []float64
		for n, c := range p.Curves {
			lines[0] = append(lines[0], c.Name)
			for _, q := range c.Points {
				if at[q.Bytes] == nil {
					at[q.Bytes] = make([]string, len(p.Curves))
					order = append(order, q.Bytes)
				}
				at[q.Bytes][n] = fmt.Sprintf("%.1f", q.Value)
			}
		}
		slices.Sort(order)
		for _, d := range order {
			lines = append(lines, append([]string{fmt.Sprintf("%.0f", d)}, at[d]...))
		}
		if err := output.Table(w, lines...); err != nil {
			return err
		}
		fmt.Fprintln(w)
		for _, m := range p.Marks {
			unit := p.Unit
			if m.inBytes {
				unit = "byte"
			}
			fmt.Fprintf(w, "%s: printed %.1f %s, the steps say %.1f", m.Says, m.Printed, unit, m.Model)
			if m.Note != "" {
				fmt.Fprintf(w, " (%s)", m.Note)
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}
