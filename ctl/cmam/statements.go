package cmam

// This file has the statements of thesis and conference paper about Table 6.1. It judges them by
// the model's cycles, and shows the table's own figures. Statements without a limit, such as
// "approximately" and "nearly", are shown and not judged.

import (
	"fmt"
	"io"

	"github.com/funet/funet/hwprofiles"
)

// statement is one statement of the papers.
type statement struct {
	Source string  `json:"source"`
	Text   string  `json:"text"`
	Model  float64 `json:"model"`
	Table  float64 `json:"table"` // the value by the table's own figures
	Holds  *bool   `json:"holds"` // for the model; null: the words give no limit
}

// figuresOf reads the cycles and microseconds of rows.
type figuresOf struct {
	rows  []tableRow
	cm5   *hwprofiles.Profile
	table bool // read the thesis's printed figures
}

// cycles returns the cycles of a row; 0 if there is no such row.
func (f figuresOf) cycles(name, measure string) float64 {
	for i := range f.rows {
		if r := &f.rows[i]; r.Name == name && r.Measure == measure {
			if f.table {
				return r.PaperCycles
			}
			return r.Cycles
		}
	}
	return 0
}

// of returns the cycles of a row divided by those of a call on the CM-5.
func (f figuresOf) of(name, measure, call, cost string) float64 {
	for _, c := range f.cm5.Costs {
		if c.Call == call && c.Measure == cost {
			return f.cycles(name, measure) / (float64(c.Cycles) / float64(hwprofiles.Cycle))
		}
	}
	return 0
}

// latency returns the hardware's part of one way, as the thesis computes it: half of a round trip
// without the overheads of sending and receiving.
func (f figuresOf) latency() float64 {
	return (f.cycles("cmam_4", "round_trip") - 2*(f.cycles("cmam_4", "send_ovhd")+f.cycles("cmam_4", "recv_ovhd"))) / 2
}

// said lists the statements of the papers, in their order.
var said = []struct {
	source, text string
	value        func(f figuresOf) float64
	holds        func(v float64) bool // nil: the words give no limit
}{
	{"thesis 6.2.1", "sending cmam_4 takes approximately 4 times the cycles of the CM-5",
		func(f figuresOf) float64 { return f.of("cmam_4", "send_tp", "CMAM_4", "send") }, nil},
	{"thesis 6.2.1", "and approximately twice of the processor",
		func(f figuresOf) float64 { return f.of("cmam_4", "send_ovhd", "CMAM_4", "send") }, nil},
	{"thesis 6.2.1", "receiving it takes over 7 times the cycles of the CM-5",
		func(f figuresOf) float64 { return f.of("cmam_4", "recv_tp", "CMAM_4", "recv") }, func(v float64) bool {
			return v > 7
		}},
	{"thesis 6.2.1", "and at least 4 times of the processor",
		func(f figuresOf) float64 { return f.of("cmam_4", "recv_ovhd", "CMAM_4", "recv") }, func(v float64) bool {
			return v >= 4
		}},
	{"thesis 6.2.1", "the hardware's latency of a message is nearly 250 cycles", figuresOf.latency, nil},
	{"conference paper 6.1", "the overhead of a send is within a factor of 2 to 4 of the CM-5's",
		func(f figuresOf) float64 { return f.of("cmam_4", "send_ovhd", "CMAM_4", "send") }, func(v float64) bool {
			return v >= 2 && v <= 4
		}},
	{"conference paper 6.1", "and so is that of a receive",
		func(f figuresOf) float64 { return f.of("cmam_4", "recv_ovhd", "CMAM_4", "recv") }, func(v float64) bool {
			return v >= 2 && v <= 4
		}},
	{"thesis 6.2.1", "a barrier of 32 nodes takes nearly 4000 cycles, 100 us", func(f figuresOf) float64 {
		return f.cycles("barrier", "time")
	}, nil},
}

// statements judges the statements of the papers by rows.
func statements(rows []tableRow) ([]statement, error) {
	cm5, err := hwprofiles.Load("cm5")
	if err != nil {
		return nil, fmt.Errorf("comparing with the CM-5: %w", err)
	}
	var all []statement
	for _, s := range said {
		x := statement{Source: s.source, Text: s.text, Model: s.value(figuresOf{rows, cm5, false}),
			Table: s.value(figuresOf{rows, cm5, true})}
		if s.holds != nil {
			holds := s.holds(x.Model)
			x.Holds = &holds
		}
		all = append(all, x)
	}
	return all, nil
}

// writeStatements prints the statements for people.
func (r *simResult) writeStatements(w io.Writer) error {
	for _, s := range r.Statements {
		verdict := "shown"
		switch {
		case s.Holds != nil && *s.Holds:
			verdict = "holds"
		case s.Holds != nil:
			verdict = "DOES NOT HOLD"
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %.4g; %.4g by the table's own figures (%s)\n", verdict, s.Text, s.Model,
			s.Table, s.Source); err != nil {
			return err
		}
	}
	return nil
}
