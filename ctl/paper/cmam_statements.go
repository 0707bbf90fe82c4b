package paper

// This file has the statements of thesis and conference paper about Table 6.1. It judges them by
// the model's cycles, and shows the table's own figures. Statements without a limit, such as
// "approximately" and "nearly", are shown and not judged.

import (
	"fmt"

	"github.com/funet/funet/ctl/paper/virtual"
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

// cycles has the cycles of rows by name and measure, and those of the CM-5 by call and measure.
type cycles struct{ of, cm5 map[string]float64 }

// ratio returns the cycles of a measure of cmam_4, divided by those of the call on the CM-5.
func ratio(measure, cost string) func(c cycles) float64 {
	return func(c cycles) float64 { return c.of["cmam_4 "+measure] / c.cm5["CMAM_4 "+cost] }
}

// latency returns the hardware's part of one way, as the thesis computes it: half of a round trip
// without the overheads of sending and receiving.
func latency(c cycles) float64 {
	return (c.of["cmam_4 round_trip"] - 2*(c.of["cmam_4 send_ovhd"]+c.of["cmam_4 recv_ovhd"])) / 2
}

func twoToFour(v float64) bool { return v >= 2 && v <= 4 }

// said lists the statements of the papers, in their order.
var said = []struct {
	source, text string
	value        func(c cycles) float64
	holds        func(v float64) bool // nil: the words give no limit
}{
	{"thesis 6.2.1", "sending cmam_4 takes approximately 4 times the cycles of the CM-5",
		ratio("send_tp", "send"), nil},
	{"thesis 6.2.1", "and approximately twice of the processor", ratio("send_ovhd", "send"), nil},
	{"thesis 6.2.1", "receiving it takes over 7 times the cycles of the CM-5", ratio("recv_tp", "recv"),
		func(v float64) bool { return v > 7 }},
	{"thesis 6.2.1", "and at least 4 times of the processor", ratio("recv_ovhd", "recv"),
		func(v float64) bool { return v >= 4 }},
	{"thesis 6.2.1", "the hardware's latency of a message is nearly 250 cycles", latency, nil},
	{"conference paper 6.1", "the overhead of a send is within a factor of 2 to 4 of the CM-5's",
		ratio("send_ovhd", "send"), twoToFour},
	{"conference paper 6.1", "and so is that of a receive", ratio("recv_ovhd", "recv"), twoToFour},
	{"thesis 6.2.1", "a barrier of 32 nodes takes nearly 4000 cycles, 100 us",
		func(c cycles) float64 { return c.of["barrier time"] }, nil},
}

// statements judges the statements of the papers by rows.
func statements(rows []virtual.Row) (all []statement, err error) {
	p, err := hwprofiles.Load("cm5")
	if err != nil {
		return nil, fmt.Errorf("comparing with the CM-5: %w", err)
	}
	cm5, model, table := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, c := range p.Costs {
		cm5[c.Call+" "+c.Measure] = float64(c.Cycles) / float64(hwprofiles.Cycle)
	}
	for _, r := range rows {
		model[r.Name+" "+r.Measure], table[r.Name+" "+r.Measure] = r.Cycles, r.PaperCycles
	}
	for _, s := range said {
		x := statement{Source: s.source, Text: s.text, Model: s.value(cycles{model, cm5}),
			Table: s.value(cycles{table, cm5})}
		if s.holds != nil {
			holds := s.holds(x.Model)
			x.Holds = &holds
		}
		all = append(all, x)
	}
	return all, nil
}
