package cmam

// This file is `funet sim cmam`: the CMAM primitives benchmark of the thesis on modelled machines
// in virtual time, compared with the thesis's figures.

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/figure"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
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
	simNodes = 32 // thesis 6.2.1
	simSlots = 256
	messages = 200
	// simLimit is the most virtual time of the benchmark, far more than it takes.
	simLimit = 10 * time.Second
	// miss is the difference, in per cent, above which a row is explained.
	miss = 10
)

// tableRow is one measurement, and the thesis's figure for it.
type tableRow struct {
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

// simResult is the JSON document.
type simResult struct {
	Profile string `json:"profile"`
	comparison
	Close int `json:"rows_within_4_percent"`
	// Statements are the papers' statements about the table in words.
	Statements []statement `json:"statements"`
	Rules      []ruleTold  `json:"rules,omitempty"`
}

// comparison compares the rows measured in virtual or real time with the table.
type comparison struct {
	Rows  []tableRow `json:"rows"`
	Mean  float64    `json:"mean_abs_diff_percent"`
	Worst float64    `json:"worst_abs_diff_percent"`
}

// SimCommand is `funet sim cmam`.
func SimCommand() *cobra.Command {
	var profile, held, real string
	var plots []string
	var asJSON, explain, ablated bool
	c := &cobra.Command{
		Use:   "cmam",
		Short: "Measure the CMAM primitives on 32 modelled machines, beside Table 6.1 of the thesis",
		Long: `Run the benchmark of the CMAM primitives (thesis 6.2.1) on 32 machines as a hardware
profile describes them, in virtual time, and print every FUNet row of the thesis's
Table 6.1 beside its figure.

Microseconds are for one call, MB/s and cycles of block transfers for 16 bytes. The
difference is that of the cycles, positive where the model is slower. Rows marked *
were looked at when the prices of instructions were chosen.

Profile sbus-arctic follows the text of the thesis; sbus-arctic-1994 adds three
hypotheses about what its simulator did. --explain says what each rule stands on, and why
rows differ by more than 10 %. --ablate switches each rule off in turn. --hold-out chooses
the rules anew by all rows but those of a group, and says how far these are off then; it
takes minutes.`,
		Example: `  funet sim cmam --profile sbus-arctic --explain
  funet sim cmam --profile sbus-arctic-1994 --ablate
  funet sim cmam --profile sbus-arctic-1994 --hold-out calls
  funet sim cmam --profile sbus-arctic-1994 --plot t.svg --real measured.json
  funet sim cmam --profile my-bus.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := hwprofiles.Load(profile)
			if err != nil {
				return usage.Explain(c, err)
			}
			var measured []tableRow
			if real != "" {
				if measured, err = readReal(real); err != nil {
					return usage.Explain(c, err)
				}
			}
			switch {
			case real != "" && len(plots) == 0:
				return usage.Explain(c, errors.New("--real is drawn beside the model; give --plot, too"))
			case len(plots) > 0 && (ablated || held != ""):
				return usage.Explain(c, errors.New("--plot draws the table; leave --ablate and --hold-out out"))
			case ablated && held != "" || explain && (ablated || held != ""):
				return usage.Explain(c, errors.New("use one of --explain, --ablate and --hold-out"))
			case ablated:
				r, err := ablate(c.Context(), p)
				if err != nil {
					return err
				}
				return output.Show(asJSON, r)
			case held != "":
				if groups[held] == nil {
					return usage.Explain(c, fmt.Errorf("--hold-out %q: use one of %s", held,
						strings.Join(Groups(), ", ")))
				}
				r, err := chooseWithout(c.Context(), p, held)
				if err != nil {
					return err
				}
				return output.Show(asJSON, r)
			}
			drawn, err := figure.OpenPictures(plots)
			if err != nil {
				return usage.Explain(c, err)
			}
			defer drawn.Discard()
			r, err := simulateCMAM(p, apps.CMAMOptions{Messages: messages})
			if err != nil {
				return err
			}
			if explain {
				r.explainMisses(p)
			}
			return errors.Join(drawn.Write(r.drawing(measured)), output.Show(asJSON, r))
		},
	}
	c.Flags().StringVar(&profile, "profile", "sbus-arctic",
		"hardware profile: a name, or a file with a / or .yaml in its name")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&explain, "explain", false,
		fmt.Sprintf("say what the rules stand on, and why rows differ by more than %d %%", miss))
	c.Flags().StringArrayVar(&plots, "plot", nil, "draw the table into `FILE`.svg or .png; may be repeated")
	c.Flags().StringVar(&real, "real", "", "draw what funet cmam --json has written into a `FILE`, too")
	c.Flags().BoolVar(&ablated, "ablate", false, "switch each rule of the model off in turn")
	c.Flags().StringVar(&held, "hold-out", "", "choose the rules without the rows of a `GROUP`: "+
		strings.Join(Groups(), ", "))
	return c
}

// simulateCMAM runs the benchmark on as many nodes as in the thesis.
func simulateCMAM(p *hwprofiles.Profile, o apps.CMAMOptions) (*simResult, error) {
	rows, err := simulateOn(p, simNodes, o)
	if err != nil {
		return nil, err
	}
	return compareCMAM(p, rows)
}

// simulateOn runs the benchmark in virtual time.
func simulateOn(p *hwprofiles.Profile, nodes int, o apps.CMAMOptions) ([]apps.CMAMRow, error) {
	var rows []apps.CMAMRow
	k, err := sim.NewPacedCluster(p, nodes, simSlots, func(process *sim.Process) error {
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
	if err := k.Finish(simLimit); err != nil {
		return nil, fmt.Errorf("running the CMAM benchmark with profile %s: %w", p.Name, err)
	}
	return rows, nil
}

// compareCMAM compares the measurements of all nodes with the table, in the table's order.
func compareCMAM(p *hwprofiles.Profile, found []apps.CMAMRow) (*simResult, error) {
	table, err := readTable61()
	if err != nil {
		return nil, err
	}
	r, err := compareRows(p, table, found)
	if err != nil {
		return nil, err
	}
	r.Statements, err = statements(r.Rows)
	return r, err
}

// compareRows compares measurements with the rows of a table. A row that was not measured is an
// error.
func compareRows(p *hwprofiles.Profile, table []tableRow, found []apps.CMAMRow) (*simResult, error) {
	byName := map[string]apps.CMAMRow{}
	for _, f := range found {
		byName[f.Name+" "+f.Measure] = f
	}
	r := &simResult{Profile: p.Name}
	for _, row := range table {
		f, ok := byName[row.Name+" "+row.Measure]
		if !ok {
			return nil, fmt.Errorf("comparing with Table 6.1: %s %s was not measured", row.Name, row.Measure)
		}
		row.measured(f, p.CPU.Clock.Duration(hwprofiles.Cycle))
		row.Diff = 100 * (row.Cycles - row.PaperCycles) / row.PaperCycles
		row.Calibrated = row.Name == "cmam_4"
		r.Mean += math.Abs(row.Diff) / float64(len(table))
		r.Worst = max(r.Worst, math.Abs(row.Diff))
		r.Rows = append(r.Rows, row)
	}
	r.Close = fitOf(r.Rows, every).Close
	return r, nil
}

// measured fills in a measurement, in cycles of the processor if it has any.
func (row *tableRow) measured(f apps.CMAMRow, cycle time.Duration) {
	cycles := 0.0
	if cycle > 0 {
		cycles = f.Nanoseconds / float64(cycle)
	}
	row.Model, row.Cycles = f.Nanoseconds/1000, cycles
	if f.Bytes > 0 {
		row.Model = float64(f.Bytes) / f.Nanoseconds * 1000
		row.Cycles = cycles * 16 / float64(f.Bytes)
	}
}

// readTable61 reads the thesis's figures.
func readTable61() ([]tableRow, error) {
	lines, err := csv.NewReader(strings.NewReader(table61)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading Table 6.1: %w", err)
	}
	var rows []tableRow
	for _, l := range lines[1:] {
		paper, err1 := strconv.ParseFloat(l[3], 64)
		cycles, err2 := strconv.ParseFloat(l[4], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("reading Table 6.1: %w", err)
		}
		rows = append(rows, tableRow{Name: l[0], Measure: l[1], Unit: l[2], Paper: paper, PaperCycles: cycles})
	}
	return rows, nil
}

// WriteTable prints the result for people.
func (r *simResult) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "CMAM primitives on %d nodes, profile %s, beside Table 6.1 of the thesis\n", simNodes, r.Profile)
	if err := r.writeRows(w); err != nil {
		return err
	}
	if err := r.writeStatements(w); err != nil {
		return err
	}
	return r.writeReasons(w)
}

// writeRows prints the table and its difference from the thesis's.
func (r *comparison) writeRows(w io.Writer) error {
	cells := [][]string{{"  primitive", "measure", "unit", "paper", "model", "paper cycles", "cycles", "difference"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		mark := ""
		if row.Calibrated {
			mark = " *"
		}
		cells = append(cells, []string{"  " + row.Name + mark, row.Measure, row.Unit, fmt.Sprintf("%.1f", row.Paper),
			fmt.Sprintf("%.1f", row.Model),
			fmt.Sprintf("%.1f", row.PaperCycles), fmt.Sprintf("%.1f", row.Cycles), fmt.Sprintf("%+.1f %%", row.Diff)})
	}
	if err := output.Table(w, cells...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "absolute difference: mean %.1f %%, worst %.1f %%, %d of %d rows within 4 %%\n", r.Mean,
		r.Worst, fitOf(r.Rows, every).Close, len(r.Rows))
	return err
}

// writeReasons prints the reasons why rows miss, each reason once with its rows.
func (r *simResult) writeReasons(w io.Writer) error {
	said := map[string]bool{}
	for i := range r.Rows {
		why := r.Rows[i].Why
		if why == "" || said[why] {
			continue
		}
		said[why] = true
		fmt.Fprintln(w)
		for _, row := range r.Rows[i:] {
			if row.Why == why {
				fmt.Fprintf(w, "%s %s, %+.1f %%\n", row.Name, row.Measure, row.Diff)
			}
		}
		if _, err := fmt.Fprintln(w, why); err != nil {
			return err
		}
	}
	return r.writeRules(w)
}
