package paper

// This file is `funet sim rats --table`: it compares each total of a table with the paper's.

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/usage"
	modelled "github.com/funet/funet/uspace/machine"
)

// printed has the totals that the paper printed, and the mistakes in some.
//
//go:embed hamlyn.csv
var printed string

const tables = 5

// total is one total of a table.
type total struct {
	cell
	// Traffic is the time of the table's message, sent in virtual time. It is nil in tables 1 and
	// 2, which are not about a message, and if the profile lacks the steps of a card and its
	// library.
	Traffic     *float64 `json:"traffic"`
	TrafficDiff *float64 `json:"traffic_to_model_percent"`
	text        string
}

// step is a line of --explain.
type step struct {
	Of   string `json:"of"`
	Side string `json:"side"`
	Step string `json:"step"`
	Path string `json:"path"`
	Is   string `json:"is"`
}

// hamlynTable is the JSON document.
type hamlynTable struct {
	Table   int     `json:"table"`
	Profile string  `json:"profile"`
	Cells   []total `json:"cells"`
	// worst difference of the cells in instructions or cycles that have no slip
	Worst   float64 `json:"worst_percent"`
	WorstUs float64 `json:"worst_us_percent"`
	// WorstTraffic is the worst difference of traffic from the model.
	WorstTraffic float64 `json:"worst_traffic_to_model_percent"`
	Steps        []step  `json:"steps,omitempty"`
}

// ratsCommand is `funet sim rats`.
func ratsCommand() *cobra.Command {
	var f flags
	var table int
	var all bool
	c := &cobra.Command{
		Long: `Make a table of the Hamlyn paper (HPL-95-86) out of the steps that profile hamlyn has: instructions of the
library Rats (tables 1 and 2), and cycles of the interface card, the bus and the link (tables 3 to 5). Each total
stands beside the paper's; where the paper's is a slip, it says which.

The paper itself made its tables so, and measured none end to end. Beside tables 3 to 5 stands what their messages take that are sent in virtual
time, between two cards whose units have the steps (traffic). --claims shows what the
text concludes, and whether the steps say the same. --plot draws the curves behind that: bandwidth against size, direct I/O
against DMA, and where the paper prints a figure on one of them; and prints their points.`,
		Example: `  funet sim rats --table 5 --explain
  funet sim rats --claims
  funet sim rats --plot curves.svg --plot curves.png
  funet sim rats --profile hamlyn-statemachine --claims --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := load(c, &f, newHamlyn)
			if err != nil {
				return err
			}
			switch {
			case all && (table != 0 || f.explain || len(f.plots) > 0):
				err = errors.New("--claims stands alone; leave --table, --explain and --plot out")
			case len(f.plots) > 0 && (table != 0 || f.explain):
				err = errors.New("--plot draws curves, not a table; leave --table and --explain out")
			case len(f.plots) > 0:
				return f.draw(c, func() (drawn, error) { return m.curves() })
			case all:
				return f.show(m.claims())
			case table < 1 || table > tables:
				err = fmt.Errorf("--table %d: use 1 to %d, or --claims or --plot", table, tables)
			default:
				return f.show(m.table(table, f.explain))
			}
			return usage.Explain(c, err)
		},
	}
	f.register(c, "hamlyn", " with the steps", "curves of bandwidth, time and instructions by size",
		"print the steps, too")
	c.Flags().IntVar(&table, "table", 0, "table of the paper, 1 to 5")
	c.Flags().BoolVar(&all, "claims", false, "what the text concludes, beside what the steps say")
	return c
}

// row is a line of hamlyn.csv.
type row struct{ mode, side, what, path, unit, count, us, slip string }

// rows returns the rows of a table.
func rows(table int) (all []row) {
	lines, err := csv.NewReader(strings.NewReader(printed)).ReadAll()
	if err != nil {
		panic(err) // a test reads all
	}
	for _, l := range lines[1:] {
		if l[0] == strconv.Itoa(table) {
			all = append(all, row{l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8]})
		}
	}
	return all
}

// table makes a table: two totals for each row, a count and a time.
func (m *hamlyn) table(number int, explain bool) (*hamlynTable, error) {
	r := &hamlynTable{Table: number, Profile: m.p.Name}
	messages := map[message]map[string]float64{}
	for _, w := range rows(number) {
		count := m.total(number, &w)
		if m.wrong != nil {
			return nil, m.wrong
		}
		x := messageOf(number, &w)
		if number >= 3 && messages[x] == nil {
			var err error
			if messages[x], err = m.send(x); err != nil && !errors.Is(err, modelled.ErrParts) {
				return nil, err
			}
		}
		took := messages[x][w.side] // 0: no message was sent
		slip := w.slip
		if w.mode != "dma" || number != 5 {
			slip = "" // only the time is wrong
		}
		unit := m.instruction
		if w.unit == "cycles" {
			unit = m.cycle
		}
		r.add(&w, w.unit, w.count, slip, count, count, took, &r.Worst)
		r.add(&w, "us", w.us, w.slip, count*unit/1000, count, took, &r.WorstUs)
	}
	if explain {
		r.Steps = m.steps(number)
	}
	return r, nil
}

// add adds a total of a row, which a message took if it is not 0. The worst difference is of
// totals without a slip.
func (r *hamlynTable) add(w *row, unit, text, slip string, model, count float64, took float64, worst *float64) {
	name := fmt.Sprintf("%s, %s, %s", w.mode, w.side, w.what)
	if w.path == "off" {
		name += ", off the path"
	}
	p, _ := strconv.ParseFloat(text, 64) // a test reads all
	diff, last := percent(model, p), toLastDigit(model, text)
	c := total{cell: cell{Case: name, Unit: unit, Printed: &p, Model: model, Diff: &diff, LastDigit: &last, Slip: slip},
		text: text}
	if took > 0 {
		v := took * model / count
		traffic := percent(v, model)
		c.Traffic, c.TrafficDiff = &v, &traffic
		r.WorstTraffic = max(r.WorstTraffic, math.Abs(traffic))
	}
	if slip == "" {
		*worst = max(*worst, math.Abs(diff))
	}
	r.Cells = append(r.Cells, c)
}

// steps returns the steps that a table is made of.
func (m *hamlyn) steps(table int) (all []step) {
	of := map[int][]string{1: {"host", "tagged", "tagged-direct", "tagged-dma"},
		2: {"host", "datagram", "datagram-direct", "datagram-dma"}, 3: {"direct"}, 4: {"dma"}, 5: {"dma"}}[table]
	for _, s := range m.p.Steps {
		if !slices.Contains(of, s.Of) {
			continue
		}
		is := fmt.Sprintf("%v", s.Base)
		if s.DataByte != 0 {
			is += fmt.Sprintf(" + %v d", s.DataByte)
		}
		if s.MetadataByte != 0 {
			is += fmt.Sprintf(" + %v m", s.MetadataByte)
		}
		all = append(all, step{s.Of, s.Side, s.Name, s.Path, is + " " + strings.ReplaceAll(s.Unit, "_", " ")})
	}
	if table >= 3 {
		all = append(all, step{"bus", "both", "over GSC+", "on",
			fmt.Sprintf("%.4f d cycles below 32 bytes, %.4f d from there", m.bus(16)/16, m.bus(512)/512)})
	}
	return all
}

// toLastDigit reports whether a model agrees with a printed number to within one of its last digit.
func toLastDigit(model float64, text string) bool {
	printed, _ := strconv.ParseFloat(text, 64)
	digit := math.Pow10(len(text) - len(strings.TrimRight(text, "0")))
	if _, part, dot := strings.Cut(text, "."); dot {
		digit = math.Pow10(-len(part))
	}
	return math.Abs(model-printed) <= 1.0001*digit
}

// total returns one total of a table, in instructions or cycles.
func (m *hamlyn) total(table int, w *row) (sum float64) {
	of, packets := "tagged", 1.0
	var c card
	switch table {
	case 1, 2:
		metadata := 0.0
		if table == 2 {
			of = "datagram"
			// The receiver's total has none.
			metadata, _ = strconv.ParseFloat(strings.TrimSuffix(w.what, "+16"), 64)
		}
		for _, side := range []string{"sender", "receiver"} {
			if w.side == side || w.side == "both" {
				sum += m.library(of, w.mode, side, w.path, 16, metadata)
			}
		}
		return sum
	case 3:
		if c = m.direct(16); !strings.HasSuffix(w.what, "with notify") {
			c.notify = 0
		}
	case 4, 5:
		if table == 5 {
			packets = 1 << 20 / 512
		}
		c = m.dma(512, packets)
	}
	switch w.side {
	case "sender":
		return c.sender
	case "receiver": // that of the first packet, and the bus time of each further one
		return c.receiver + c.notify + (packets-1)*m.bus(512)
	}
	return c.all()
}

// print writes the table for people.
func (r *hamlynTable) print(s *sheet) {
	s.line("Table %d of HPL-95-86 out of the steps of profile %s\n", r.Table, r.Profile)
	lines := [][]string{{"case", "unit", "printed", "steps", "diff %", "traffic", "to steps %", "slip"}}
	for _, c := range r.Cells {
		format := "%.0f"
		if c.Unit == "us" {
			format = "%.3f"
		}
		traffic, diff := "", ""
		if c.Traffic != nil {
			traffic, diff = fmt.Sprintf(format, *c.Traffic), fmt.Sprintf("%+.2f", *c.TrafficDiff)
		}
		lines = append(lines, []string{c.Case, c.Unit, c.text, fmt.Sprintf(format, c.Model),
			fmt.Sprintf("%+.2f", *c.Diff), traffic, diff, c.Slip})
	}
	s.table(lines...)
	s.line("\nworst, slips left out: %.2f %% of a count, %.2f %% of a time; traffic %.2f %% from the steps", r.Worst,
		r.WorstUs, r.WorstTraffic)
	if len(r.Steps) == 0 {
		return
	}
	lines = [][]string{{"of", "side", "step", "on the path", "takes"}}
	for _, x := range r.Steps {
		lines = append(lines, []string{x.Of, x.Side, x.Step, x.Path, x.Is})
	}
	s.line("")
	s.table(lines...)
}
