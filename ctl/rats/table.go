package rats

// This file is `funet sim rats --table`: it compares each total of a table with the paper's.

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/figure"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	modelled "github.com/funet/funet/uspace/machine"
)

// printed has the totals that the paper printed, and the mistakes in some.
//
//go:embed printed.csv
var printed string

const tables = 5

// cell is one total of a table.
type cell struct {
	Case    string  `json:"case"`
	Unit    string  `json:"unit"`
	Printed float64 `json:"printed"`
	Model   float64 `json:"model"`
	Diff    float64 `json:"diff_percent"`
	// LastDigit reports that the model's time agrees to within one of the last printed digit. The
	// paper cut some times off and rounded others.
	LastDigit bool   `json:"to_last_digit"`
	Slip      string `json:"slip"`
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

// report is the JSON document.
type report struct {
	Table   int    `json:"table"`
	Profile string `json:"profile"`
	Cells   []cell `json:"cells"`
	// worst difference of the cells in instructions or cycles that have no slip
	Worst   float64 `json:"worst_percent"`
	WorstUs float64 `json:"worst_us_percent"`
	// WorstTraffic is the worst difference of traffic from the model.
	WorstTraffic float64 `json:"worst_traffic_to_model_percent"`
	Steps        []step  `json:"steps,omitempty"`
}

// Command is `funet sim rats`.
func Command() *cobra.Command {
	var profile string
	var table int
	var plots []string
	var asJSON, explain, all bool
	c := &cobra.Command{
		Use:   "rats",
		Short: "Make the tables of the Hamlyn paper out of its steps, beside what it printed",
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
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := hwprofiles.Load(profile)
			if err != nil {
				return usage.Explain(c, err)
			}
			m, err := newModel(p)
			if err != nil {
				return usage.Explain(c, err)
			}
			switch {
			case all && (table != 0 || explain || len(plots) > 0):
				return usage.Explain(c, errors.New("--claims stands alone; leave --table, --explain and --plot out"))
			case len(plots) > 0 && (table != 0 || explain):
				return usage.Explain(c, errors.New("--plot draws curves, not a table; leave --table and --explain out"))
			case len(plots) > 0:
				drawn, err := figure.OpenPictures(plots)
				if err != nil {
					return usage.Explain(c, err)
				}
				defer drawn.Discard()
				r, err := m.curves()
				if err != nil {
					return err
				}
				return errors.Join(drawn.Write(r.drawing()), output.Show(asJSON, r))
			case all:
				r, err := m.claims()
				if err != nil {
					return err
				}
				return output.Show(asJSON, r)
			case table < 1 || table > tables:
				return usage.Explain(c, fmt.Errorf("--table %d: use 1 to %d, or --claims or --plot", table, tables))
			}
			r, err := m.table(table, explain)
			if err != nil {
				return err
			}
			return output.Show(asJSON, r)
		},
	}
	f := c.Flags()
	f.StringVar(&profile, "profile", "hamlyn",
		"hardware profile with the steps: a name, or a file with a / or .yaml in its name")
	f.IntVar(&table, "table", 0, "table of the paper, 1 to 5")
	f.BoolVar(&all, "claims", false, "what the text concludes, beside what the steps say")
	f.StringArrayVar(&plots, "plot", nil,
		"draw curves of bandwidth, time and instructions by size into `FILE`.svg or .png; may be repeated")
	f.BoolVar(&explain, "explain", false, "print the steps, too")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// row is a line of printed.csv.
type row struct{ table, mode, side, what, path, unit, count, us, slip string }

// rows returns the rows of a table.
func rows(table int) ([]row, error) {
	lines, err := csv.NewReader(strings.NewReader(printed)).ReadAll()
	if err != nil {
		return nil, err
	}
	var all []row
	for _, l := range lines[1:] {
		if l[0] == strconv.Itoa(table) {
			all = append(all, row{l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8]})
		}
	}
	return all, nil
}

// table makes a table.
func (m *model) table(number int, explain bool) (*report, error) {
	r := &report{Table: number, Profile: m.p.Name}
	all, err := rows(number)
	if err != nil {
		return nil, err
	}
	messages := map[message]*sent{}
	for _, w := range all {
		count, err := m.total(number, &w)
		if err != nil {
			return nil, err
		}
		var took *sent
		if number >= 3 {
			x := messageOf(number, &w)
			if took = messages[x]; took == nil {
				if took, err = m.send(x); err != nil && !errors.Is(err, modelled.ErrParts) {
					return nil, err
				}
				messages[x] = took
			}
		}
		unit := m.instruction
		if w.unit == "cycles" {
			unit = m.cycle
		}
		name := fmt.Sprintf("%s, %s, %s", w.mode, w.side, w.what)
		if w.path == "off" {
			name += ", off the path"
		}
		for _, x := range []struct {
			unit, text string
			model      float64
		}{{w.unit, w.count, count}, {"us", w.us, count * unit / 1000}} {
			c := cell{Case: name, Unit: x.unit, Model: x.model, Slip: w.slip, text: x.text}
			if c.Printed, err = strconv.ParseFloat(x.text, 64); err != nil {
				return nil, err
			}
			if c.Unit != "us" && w.mode != "dma" || number != 5 && c.Unit != "us" {
				c.Slip = "" // only the time is wrong
			}
			c.Diff = percent(c.Model, c.Printed)
			if took != nil {
				v := took.of(w.side) * x.model / count
				diff := percent(v, x.model)
				c.Traffic, c.TrafficDiff = &v, &diff
				r.WorstTraffic = max(r.WorstTraffic, math.Abs(diff))
			}
			c.LastDigit = math.Abs(c.Model-c.Printed) <= 1.0001*lastDigit(x.text)
			worst := &r.Worst
			if c.Unit == "us" {
				worst = &r.WorstUs
			}
			if c.Slip == "" {
				*worst = max(*worst, math.Abs(c.Diff))
			}
			r.Cells = append(r.Cells, c)
		}
	}
	if explain {
		of := map[int][]string{1: {"host", "tagged", "tagged-direct", "tagged-dma"},
			2: {"host", "datagram", "datagram-direct", "datagram-dma"}, 3: {"direct"}, 4: {"dma"}, 5: {"dma"}}[number]
		for _, s := range m.p.Steps {
			if slices.Contains(of, s.Of) {
				is := fmt.Sprintf("%v", s.Base)
				for _, per := range []struct {
					v    hwprofiles.Share
					what string
				}{{s.DataByte, "d"}, {s.MetadataByte, "m"}} {
					if per.v != 0 {
						is += fmt.Sprintf(" + %v %s", per.v, per.what)
					}
				}
				r.Steps = append(r.Steps, step{s.Of, s.Side, s.Name, s.Path,
					is + " " + strings.ReplaceAll(s.Unit, "_", " ")})
			}
		}
		if number >= 3 {
			r.Steps = append(r.Steps, step{"bus", "both", "over GSC+", "on",
				fmt.Sprintf("%.4f d cycles below 32 bytes, %.4f d from there", m.bus(16)/16, m.bus(512)/512)})
		}
	}
	return r, nil
}

// lastDigit returns one unit of the last digit of a printed number.
func lastDigit(text string) float64 {
	if _, part, dot := strings.Cut(text, "."); dot {
		return math.Pow10(-len(part))
	}
	return math.Pow10(len(text) - len(strings.TrimRight(text, "0")))
}

// total returns one total of a table, in instructions or cycles.
func (m *model) total(table int, w *row) (float64, error) {
	switch table {
	case 1, 2:
		of, d, metadata := "tagged", 16.0, 0.0
		if table == 2 {
			of = "datagram"
			switch w.what {
			case "12+16":
				metadata = 12
			case "44+16":
				metadata = 44
			}
		}
		sum := 0.0
		for _, side := range []string{"sender", "receiver"} {
			if w.side == side || w.side == "both" {
				v, err := m.software(of, w.mode, side, w.path, d, metadata)
				if err != nil {
					return 0, err
				}
				sum += v
			}
		}
		return sum, nil
	case 3:
		c, err := m.direct(16)
		if !strings.HasSuffix(w.what, "with notify") {
			c.notify = 0
		}
		switch w.side {
		case "sender":
			return c.sender, err
		case "receiver":
			return c.receiver + c.notify, err
		}
		return c.all(), err
	}
	packets := 1.0
	if table == 5 {
		packets = 1 << 20 / 512
	}
	sender, c, err := m.dma(512, packets)
	switch w.side {
	case "sender":
		return sender, err
	case "receiver":
		return m.receiver(512, packets)
	}
	return c.all(), err
}

func (r *report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "Table %d of HPL-95-86 out of the steps of profile %s\n\n", r.Table, r.Profile)
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
			fmt.Sprintf("%+.2f", c.Diff), traffic, diff, c.Slip})
	}
	if err := output.Table(w, lines...); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nworst, slips left out: %.2f %% of a count, %.2f %% of a time; traffic %.2f %% from the steps\n",
		r.Worst, r.WorstUs, r.WorstTraffic)
	if len(r.Steps) == 0 {
		return nil
	}
	lines = [][]string{{"of", "side", "step", "on the path", "takes"}}
	for _, s := range r.Steps {
		lines = append(lines, []string{s.Of, s.Side, s.Step, s.Path, s.Is})
	}
	fmt.Fprintln(w)
	return output.Table(w, lines...)
}
