package paper

// This file is `funet sim cmam`: the CMAM primitives benchmark of the thesis on modelled machines
// in virtual time, compared with the thesis's figures.

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
)

// miss is the difference, in per cent, above which a row is explained.
const miss = 10

// cmamTable is the JSON document.
type cmamTable struct {
	Profile string `json:"profile"`
	virtual.Comparison
	Close int `json:"rows_within_4_percent"`
	// Statements are the papers' statements about the table in words.
	Statements []statement   `json:"statements"`
	Rules      []rule        `json:"rules,omitempty"`
	real       []virtual.Row // measured in real time
}

// cmamCommand is `funet sim cmam`.
func cmamCommand() *cobra.Command {
	var f flags
	var held, real string
	var ablated bool
	c := &cobra.Command{
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
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := load(c, &f, func(p *hwprofiles.Profile) (*hwprofiles.Profile, error) { return p, nil })
			if err != nil {
				return err
			}
			var measured []virtual.Row
			if real != "" {
				if measured, err = readReal(real); err != nil {
					return usage.Explain(c, err)
				}
			}
			switch {
			case real != "" && len(f.plots) == 0:
				err = errors.New("--real is drawn beside the model; give --plot, too")
			case len(f.plots) > 0 && (ablated || held != ""):
				err = errors.New("--plot draws the table; leave --ablate and --hold-out out")
			case ablated && held != "" || f.explain && (ablated || held != ""):
				err = errors.New("use one of --explain, --ablate and --hold-out")
			case ablated:
				return f.show(ablate(c.Context(), p))
			case held != "" && groups[held] == nil:
				err = fmt.Errorf("--hold-out %q: use one of %s", held, strings.Join(groupNames(), ", "))
			case held != "":
				return f.show(chooseWithout(c.Context(), p, held))
			default:
				return f.draw(c, func() (drawn, error) {
					r, err := simulateCMAM(p, apps.CMAMOptions{Messages: virtual.Messages})
					if err == nil && f.explain {
						r.explainMisses(p)
					}
					if err == nil {
						r.real = measured
					}
					return r, err
				})
			}
			return usage.Explain(c, err)
		},
	}
	f.register(c, "sbus-arctic", "", "the table",
		fmt.Sprintf("say what the rules stand on, and why rows differ by more than %d %%", miss))
	c.Flags().StringVar(&real, "real", "", "draw what funet cmam --json has written into a `FILE`, too")
	c.Flags().BoolVar(&ablated, "ablate", false, "switch each rule of the model off in turn")
	c.Flags().StringVar(&held, "hold-out", "",
		"choose the rules without the rows of a `GROUP`: "+strings.Join(groupNames(), ", "))
	return c
}

// simulateCMAM runs the benchmark on as many nodes as in the thesis.
func simulateCMAM(p *hwprofiles.Profile, o apps.CMAMOptions) (*cmamTable, error) {
	found, err := virtual.CMAM(p, virtual.CMAMNodes, o)
	if err != nil {
		return nil, err
	}
	r := &cmamTable{Profile: p.Name}
	if r.Comparison, err = virtual.Compare(p, virtual.Table61(), found); err != nil {
		return nil, err
	}
	r.Close = r.Near()
	r.Statements, err = statements(r.Rows)
	return r, err
}

// print writes the result for people: the table, the statements, the reasons why rows miss, each
// once with its rows, and the grounds for the rules.
func (r *cmamTable) print(s *sheet) {
	s.line("CMAM primitives on %d nodes, profile %s, beside Table 6.1 of the thesis", virtual.CMAMNodes, r.Profile)
	s.table(r.Cells()...)
	s.line("%s", r.Summary())
	for _, x := range r.Statements {
		s.line("%s: %s: %.4g; %.4g by the table's own figures (%s)", verdict(x.Holds), x.Text, x.Model, x.Table,
			x.Source)
	}
	said := map[string]bool{"": true}
	for i, row := range r.Rows {
		if said[row.Why] {
			continue
		}
		said[row.Why] = true
		s.line("")
		for _, other := range r.Rows[i:] {
			if other.Why == row.Why {
				s.line("%s %s, %+.1f %%", other.Name, other.Measure, other.Diff)
			}
		}
		s.line("%s", row.Why)
	}
	for i, x := range r.Rules {
		if i == 0 {
			s.line("\nRules of the model:")
		}
		kind := "thesis " + x.Section
		if x.Hypothesis {
			kind = "hypothesis, " + kind
		}
		s.line("\n%s (%s)\n%s", x.Name, kind, x.For)
		if x.Against != "" {
			s.line("Against it: %s", x.Against)
		}
	}
}

// explainMisses adds the reasons for rows that differ by more than miss per cent, and the rules of
// the profile.
func (r *cmamTable) explainMisses(p *hwprofiles.Profile) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if math.Abs(row.Diff) <= miss {
			continue
		}
		if row.Why = causeOf(row); row.Why == "" {
			row.Why = fmt.Sprintf("no cause is known for profile %s", r.Profile)
		}
	}
	r.Rules = rulesOf(p)
}
