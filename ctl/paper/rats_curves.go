package paper

// This file is `funet sim rats --plot`: the curves behind the conclusions in the paper's text
// (HPL-95-86, 4.1 and 4.2). They are computed from the same steps as its tables, and have marks at
// the figures that it prints. The paper draws no such curves.

import (
	"fmt"
	"maps"
	"slices"
)

// sized is one point of a curve by size.
type sized struct {
	Bytes float64 `json:"bytes"`
	Value float64 `json:"value"`
}

// bySize is a curve.
type bySize struct {
	Name   string  `json:"name"`
	Points []sized `json:"points"`
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

// chart is curves in one unit.
type chart struct {
	Title   string   `json:"title"`
	Unit    string   `json:"unit"`
	Curves  []bySize `json:"curves"`
	Marks   []mark   `json:"marks"`
	doubles bool     // the axis of sizes has factors of 2
}

// charts is the JSON document.
type charts struct {
	Profile string  `json:"profile"`
	Panels  []chart `json:"panels"`
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
func over(name string, sizes []float64, value func(d float64) float64) bySize {
	c := bySize{Name: name}
	for _, d := range sizes {
		c.Points = append(c.Points, sized{d, value(d)})
	}
	return c
}

// curves makes the panels for which the profile has the steps.
func (m *hamlyn) curves() (*charts, error) {
	r := &charts{Profile: m.p.Name}
	if m.has("direct") && m.has("dma") {
		r.Panels = append(r.Panels, m.bandwidth(), m.latency())
	}
	if m.has("statemachine") {
		r.Panels = append(r.Panels, m.projection())
	}
	r.Panels = append(r.Panels, m.instructionsBySize())
	return r, m.wrong
}

// cardsDMA returns the cards' time for a message that they fetch, in nanoseconds. The message
// travels in packets of 512 bytes, or in a single shorter one.
func (m *hamlyn) cardsDMA(d float64) float64 {
	return m.dma(min(d, mostPacket), max(d/mostPacket, 1)).all() * m.cycle
}

// cardsDirect returns the cards' time for one packet that the host writes.
func (m *hamlyn) cardsDirect(d float64) float64 { return m.direct(d).all() * m.cycle }

// bandwidth shows bytes per microsecond, which is 10^6 byte/s, by the size of a message.
func (m *hamlyn) bandwidth() chart {
	answer := m.cardsDirect(16) + 1000*m.us("tagged", "direct", 16, 0)
	transfer := func(d float64) float64 { return 1000 * d / m.cardsDMA(d) }
	round := func(d float64) float64 { return 1000 * d / (m.cardsDMA(d) + 1000*m.us("tagged", "dma", d, 0) + answer) }
	p := chart{Title: "Bandwidth against size", Unit: "10^6 byte/s", doubles: true, Curves: []bySize{
		over("transfers by DMA, the cards alone", sizes(16, mostBytes, 0), transfer),
		over("a datagram by DMA and an answer of 16 bytes, with the library", sizes(16, mostPacket, 0), round),
		over("messages by direct I/O, the cards alone", sizes(4, mostDirect, 0), func(d float64) float64 {
			return 1000 * d / m.cardsDirect(d)
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
func (m *hamlyn) latency() chart {
	direct := func(d float64) float64 { return m.cardsDirect(d)/1000 + m.us("tagged", "direct", d, 0) }
	dma := func(d float64) float64 { return m.cardsDMA(d)/1000 + m.us("tagged", "dma", d, 0) }
	return chart{Title: "From application to application", Unit: "us", doubles: true, Curves: []bySize{
		over("direct I/O", sizes(4, mostDirect, 0), direct),
		over("DMA", sizes(4, mostPacket, 0), dma),
	}, Marks: []mark{{Says: "16 bytes with a tag", Bytes: 16, Printed: 8.8, Model: direct(16)}}}
}

// projection shows the bandwidth of state machines, by the size of packets that follow each other.
func (m *hamlyn) projection() chart {
	value := func(d float64) float64 { return 1000 * d / (m.best(d) * m.cycle) }
	return chart{Title: "Bandwidth of state machines against packet size", Unit: "10^6 byte/s", doubles: true,
		Curves: []bySize{
			over("packets behind each other", sizes(8, mostPacket, 0), value),
			over("the bus alone", []float64{8, mostPacket}, func(float64) float64 {
				return 1000 * mostPacket / (m.bus(mostPacket) * m.cycle)
			}),
		}, Marks: []mark{
			{Says: "packets of 64 bytes", Bytes: 64, Printed: 41.3, Model: value(64)},
			{Says: "packets of 512 bytes", Bytes: 512, Printed: 65.2, Model: value(512)},
		}}
}

// instructionsBySize shows the library's instructions on the path of both sides of a tagged write.
func (m *hamlyn) instructionsBySize() chart {
	by := func(mode string) func(float64) float64 {
		return func(d float64) float64 { return m.instructions("tagged", mode, d, 0) }
	}
	even := m.evenBytes()
	return chart{Title: "Instructions of a tagged write", Unit: "instructions", Curves: []bySize{
		over("direct I/O", sizes(0, mostDirect, 4), by("direct")),
		over("DMA", sizes(0, mostDirect, 4), by("dma")),
	}, Marks: []mark{{Says: "DMA breaks even", Bytes: even, Printed: 30, Model: even, inBytes: true}}}
}

// print writes the points for people.
func (r *charts) print(s *sheet) {
	for i, p := range r.Panels {
		if i > 0 {
			s.line("")
		}
		s.line("%s, %s, out of the steps of profile %s\n", p.Title, p.Unit, r.Profile)
		lines := [][]string{{"bytes"}}
		at := map[float64][]string{}
		for n, c := range p.Curves {
			lines[0] = append(lines[0], c.Name)
			for _, q := range c.Points {
				if at[q.Bytes] == nil {
					at[q.Bytes] = make([]string, len(p.Curves))
				}
				at[q.Bytes][n] = fmt.Sprintf("%.1f", q.Value)
			}
		}
		for _, d := range slices.Sorted(maps.Keys(at)) {
			lines = append(lines, append([]string{fmt.Sprintf("%.0f", d)}, at[d]...))
		}
		s.table(lines...)
		s.line("")
		for _, m := range p.Marks {
			unit, note := p.Unit, ""
			if m.inBytes {
				unit = "byte"
			}
			if m.Note != "" {
				note = " (" + m.Note + ")"
			}
			s.line("%s: printed %.1f %s, the steps say %.1f%s", m.Says, m.Printed, unit, m.Model, note)
		}
	}
}
