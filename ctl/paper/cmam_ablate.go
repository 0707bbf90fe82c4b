package paper

// This file measures the worth of each rule of the model. It runs the benchmark without one rule
// after the other. It also chooses rules by some rows of the table only, and tests them on the
// other rows.

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/hwprofiles"
)

// fit is the difference of rows from the table.
type fit struct {
	Mean  float64 `json:"mean_abs_diff_percent"`
	Worst float64 `json:"worst_abs_diff_percent"`
	Close int     `json:"rows_within_4_percent"`
	Rows  int     `json:"rows"`
}

// fitOf returns the fit of the rows for which which returns true.
func fitOf(r *cmamTable, which func(virtual.Row) bool) (f fit) {
	for _, row := range r.Rows {
		if which(row) {
			d := math.Abs(row.Diff)
			f.Mean += d
			f.Worst = max(f.Worst, d)
			f.Rows++
			if d <= 4 {
				f.Close++
			}
		}
	}
	f.Mean /= float64(max(f.Rows, 1))
	return f
}

func every(virtual.Row) bool { return true }

// ruleFit is a rule, and the fit of the table without it.
type ruleFit struct {
	Rule       string `json:"rule"`
	Section    string `json:"section"`
	Hypothesis bool   `json:"hypothesis"`
	fit
}

// ablation is the JSON document of --ablate.
type ablation struct {
	Profile string `json:"profile"`
	fit
	Without []ruleFit `json:"without"`
}

// ablate runs the benchmark with all rules of a profile, and without each one.
func ablate(ctx context.Context, p *hwprofiles.Profile) (*ablation, error) {
	mine := rulesOf(p)
	sets := [][]rule{nil}
	for _, r := range mine {
		sets = append(sets, []rule{r})
	}
	told := output.Begin("simulating without each rule", int64(len(sets)))
	defer told.End()
	results, err := simulateAll(ctx, p, sets, told)
	if err != nil {
		return nil, err
	}
	a := &ablation{Profile: p.Name, fit: fitOf(results[0], every)}
	for i, r := range mine {
		a.Without = append(a.Without, ruleFit{r.Name, r.Section, r.Hypothesis, fitOf(results[i+1], every)})
	}
	return a, nil
}

// print writes the ablation for people.
func (a *ablation) print(s *sheet) {
	s.line("Table 6.1 by profile %s, and without each of its rules", a.Profile)
	cells := [][]string{{"  without", "thesis", "", "mean", "worst", "rows within 4 %"},
		append([]string{"  (all rules)", "", ""}, a.cells()...)}
	for _, r := range a.Without {
		kind := ""
		if r.Hypothesis {
			kind = "hypothesis"
		}
		cells = append(cells, append([]string{"  " + r.Rule, r.Section, kind}, r.cells()...))
	}
	s.table(cells...)
}

func (f *fit) cells() []string {
	return []string{fmt.Sprintf("%.2f %%", f.Mean), fmt.Sprintf("%.1f %%", f.Worst),
		fmt.Sprintf("%d of %d", f.Close, f.Rows)}
}

// holdOut is the JSON document of --hold-out.
type holdOut struct {
	Profile     string   `json:"profile"`
	Group       string   `json:"group"`
	Chosen      []string `json:"chosen_rules"`
	Dropped     []string `json:"dropped_rules"`
	Others      fit      `json:"other_rows"`
	Held        fit      `json:"held_out_rows"`
	None        fit      `json:"held_out_rows_without_rules"`
	Simulations int      `json:"simulations"`
}

// chooseWithout chooses from the rules of a profile by all rows except a group's. It begins with
// all rules. It repeatedly drops the rule without which the mean difference of these rows is least.
// It stops when dropping any rule would raise this mean. Then it evaluates the rows of the group.
func chooseWithout(ctx context.Context, p *hwprofiles.Profile, group string) (*holdOut, error) {
	held := func(r virtual.Row) bool { return slices.Contains(groups[group], r.Name) }
	others := func(r virtual.Row) bool { return !held(r) }
	left, dropped := rulesOf(p), []rule(nil)
	// It ends when nothing is left to be dropped, at the latest when all rules are.
	told := output.Begin("choosing rules, at most", int64(2+len(left)*(len(left)+1)/2))
	defer told.End()
	results, err := simulateAll(ctx, p, [][]rule{nil, left}, told)
	if err != nil {
		return nil, err
	}
	best, none := results[0], results[1]
	h := &holdOut{Profile: p.Name, Group: group, None: fitOf(none, held), Simulations: 2}
	for len(left) > 0 {
		var sets [][]rule
		for _, r := range left {
			sets = append(sets, append(slices.Clone(dropped), r))
		}
		if results, err = simulateAll(ctx, p, sets, told); err != nil {
			return nil, err
		}
		h.Simulations += len(sets)
		least := 0
		for i := range results {
			if fitOf(results[i], others).Mean < fitOf(results[least], others).Mean {
				least = i
			}
		}
		if fitOf(results[least], others).Mean > fitOf(best, others).Mean {
			break
		}
		best, dropped, left = results[least], sets[least], slices.Delete(left, least, least+1)
	}
	h.Others, h.Held = fitOf(best, others), fitOf(best, held)
	h.Chosen, h.Dropped = namesOf(left), namesOf(dropped)
	return h, nil
}

func namesOf(rules []rule) []string {
	names := []string{}
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

// print writes the result for people.
func (h *holdOut) print(s *sheet) {
	s.line("Rules of profile %s, chosen without the rows of %s (%d simulations)", h.Profile, h.Group, h.Simulations)
	for _, r := range h.Chosen {
		s.line("  kept     %s", r)
	}
	for _, r := range h.Dropped {
		s.line("  dropped  %s", r)
	}
	s.table([]string{"  rows", "mean", "worst", "within 4 %"},
		append([]string{"  the others, which chose"}, h.Others.cells()...),
		append([]string{"  " + h.Group + ", held out"}, h.Held.cells()...),
		append([]string{"  " + h.Group + ", without any rule"}, h.None.cells()...))
}

// simulateAll runs the benchmark without each of some sets of rules.
func simulateAll(ctx context.Context, p *hwprofiles.Profile, sets [][]rule,
	told *output.Progress) ([]*cmamTable, error) {
	results := make([]*cmamTable, len(sets))
	return results, each(ctx, len(sets), func(i int) (err error) {
		results[i], err = simulateCMAM(without(p, sets[i]))
		told.Add(1)
		return err
	})
}
