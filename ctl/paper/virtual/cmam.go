// Package virtual runs the two programs of the thesis's evaluation on modelled machines in virtual
// time: the benchmark of the CMAM primitives, whose results stand beside Table 6.1 (6.2.1), and the
// matrix multiply of Figures 6.2 to 6.5 (6.2.2).
//
// `funet sim` prints the results themselves (package ctl/paper). `funet cmam` and `funet matmul`
// print them beside what the same programs take in real time (package ctl/program).
package virtual

// This file runs the benchmark of the CMAM primitives, and compares rows with Table 6.1.

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/sim"
)

// table61 is Table 6.1 of the thesis, FUNet's rows: the name of a row, the measure, the unit, the
// figure, and the same in processor cycles. Block transfers are in cycles for 16 bytes.
//
//go:embed table61.csv
var table61 string

const (
	// CMAMNodes is the number of nodes of Table 6.1 (thesis 6.2.1).
	CMAMNodes = 32
	// Messages is the number of messages that the benchmark has in a queue.
	Messages = 200
	// slots is the number of slots in a queue. A column of 256 doubles takes fewer in packets of 16
	// bytes, so one fetch never fills a queue.
	slots = 256
	// mostCMAM is the most virtual time of the benchmark, far more than it takes.
	mostCMAM = 10 * time.Second
)

// Row is one measurement, and the thesis's figure for it.
type Row struct {
	Name        string  `json:"name"`
	Measure     string  `json:"measure"`
	Unit        string  `json:"unit"`
	Paper       float64 `json:"paper"`
	Model       float64 `json:"model"`
	Cycles      float64 `json:"cycles"`
	PaperCycles float64 `json:"paper_cycles"`
	// Diff is the difference in cycles, which the table gives more exactly. It is positive where
	// the model is slower.
	Diff       float64 `json:"diff_percent"`
	Calibrated bool    `json:"calibrated"` // choices were made with this row in view
	// VirtualCycles is the row's value in virtual time on as many nodes, for a row measured in real
	// time; 0: none.
	VirtualCycles float64 `json:"virtual_cycles,omitempty"`
	VirtualDiff   float64 `json:"diff_to_virtual_percent,omitempty"`
	Why           string  `json:"why,omitempty"`
}

// Comparison compares rows with the table's, by absolute differences.
type Comparison struct {
	Rows  []Row   `json:"rows"`
	Mean  float64 `json:"mean_abs_diff_percent"`
	Worst float64 `json:"worst_abs_diff_percent"`
}

// Table61 returns the rows of the table in their order.
func Table61() (rows []Row) {
	lines, err := csv.NewReader(strings.NewReader(table61)).ReadAll()
	if err != nil {
		panic(err) // a test reads all
	}
	for _, l := range lines[1:] {
		r := Row{Name: l[0], Measure: l[1], Unit: l[2], Calibrated: l[0] == "cmam_4"}
		r.Paper, _ = strconv.ParseFloat(l[3], 64)
		r.PaperCycles, _ = strconv.ParseFloat(l[4], 64)
		rows = append(rows, r)
	}
	return rows
}

// CMAM runs the benchmark on machines of a profile.
func CMAM(p *hwprofiles.Profile, nodes int, o apps.CMAMOptions) (rows []apps.CMAMRow, err error) {
	k, err := sim.NewPacedCluster(p, nodes, slots, func(process *sim.Process) error {
		e, err := process.Endpoint(nodes)
		if err != nil {
			return err
		}
		found, err := apps.CMAM(e, process.Segment, process.Now, o)
		if found != nil {
			rows = found
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	if err := k.Finish(mostCMAM); err != nil {
		return nil, fmt.Errorf("running the CMAM benchmark with profile %s: %w", p.Name, err)
	}
	return rows, nil
}

// Compare compares measurements with rows of the table. A row that was not measured is an error.
func Compare(p *hwprofiles.Profile, table []Row, found []apps.CMAMRow) (c Comparison, err error) {
	byName := map[string]apps.CMAMRow{}
	for _, f := range found {
		byName[f.Name+" "+f.Measure] = f
	}
	for _, row := range table {
		f, ok := byName[row.Name+" "+row.Measure]
		if !ok {
			return c, fmt.Errorf("comparing with Table 6.1: %s %s was not measured", row.Name, row.Measure)
		}
		row.Take(f, p.CPU.Clock.Duration(hwprofiles.Cycle))
		row.Diff = 100 * (row.Cycles - row.PaperCycles) / row.PaperCycles
		c.Mean += math.Abs(row.Diff) / float64(len(table))
		c.Worst = max(c.Worst, math.Abs(row.Diff))
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

// Take fills in a measurement, in cycles of the processor if it has any.
func (row *Row) Take(f apps.CMAMRow, cycle time.Duration) {
	row.Model = f.Nanoseconds / 1000
	if cycle > 0 {
		row.Cycles = f.Nanoseconds / float64(cycle)
	}
	if f.Bytes > 0 {
		row.Model = float64(f.Bytes) / f.Nanoseconds * 1000
		row.Cycles = row.Cycles * 16 / float64(f.Bytes)
	}
}

// Near returns the number of rows within 4 % of the table's.
func (c *Comparison) Near() (n int) {
	for i := range c.Rows {
		if math.Abs(c.Rows[i].Diff) <= 4 {
			n++
		}
	}
	return n
}

// Cells returns the rows and their differences as cells of a table.
func (c *Comparison) Cells() [][]string {
	cells := [][]string{{"  primitive", "measure", "unit", "paper", "model", "paper cycles", "cycles", "difference"}}
	for _, row := range c.Rows {
		mark := ""
		if row.Calibrated {
			mark = " *"
		}
		cells = append(cells, []string{"  " + row.Name + mark, row.Measure, row.Unit, fmt.Sprintf("%.1f", row.Paper),
			fmt.Sprintf("%.1f", row.Model), fmt.Sprintf("%.1f", row.PaperCycles), fmt.Sprintf("%.1f", row.Cycles),
			fmt.Sprintf("%+.1f %%", row.Diff)})
	}
	return cells
}

// Summary returns the line below the table.
func (c *Comparison) Summary() string {
	return fmt.Sprintf("absolute difference: mean %.1f %%, worst %.1f %%, %d of %d rows within 4 %%", c.Mean, c.Worst,
		c.Near(), len(c.Rows))
}
