package paper

// This file tests `funet sim cmam`.

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
)

func profile(t *testing.T, name string) *hwprofiles.Profile {
	t.Helper()
	p, err := hwprofiles.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// simulate runs the benchmark, with fewer messages if tests are to be short.
func simulate(t *testing.T, p *hwprofiles.Profile) *cmamTable {
	t.Helper()
	messages := virtual.Messages
	if testing.Short() {
		messages /= 5
	}
	r, err := simulateCMAM(p, apps.CMAMOptions{Messages: messages})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every FUNet row of Table 6.1 is there, in its order, its cycles and figures agree at 40
// MHz as the thesis printed them, and every row that misses says why.
func TestCMAMTable(t *testing.T) {
	p := profile(t, "sbus-arctic")
	r := simulate(t, p)
	r.explainMisses(p)
	if len(r.Rows) != 53 {
		t.Fatalf("%d rows, the table has 53", len(r.Rows))
	}
	worst, sum, close := 0.0, 0.0, 0
	for _, row := range r.Rows {
		value := row.PaperCycles / 40
		if row.Unit == "MB/s" {
			value = 16 / row.PaperCycles * 40
		}
		if math.Abs(value/row.Paper-1) > 0.03 {
			t.Errorf("%s %s: %v cycles are %.2f %s, not %v", row.Name, row.Measure, row.PaperCycles, value,
				row.Unit, row.Paper)
		}
		if got := row.Model * row.Cycles; row.Unit == "MB/s" && math.Abs(got-640) > 1e-6 ||
			row.Unit == "us" && math.Abs(row.Model*40-row.Cycles) > 1e-6 {
			t.Errorf("%s %s: %v %s are not %v cycles", row.Name, row.Measure, row.Model, row.Unit, row.Cycles)
		}
		if row.Calibrated != (row.Name == "cmam_4") {
			t.Errorf("%s: calibrated is %v", row.Name, row.Calibrated)
		}
		if miss := math.Abs(row.Diff) > miss; miss != (row.Why != "") || strings.HasPrefix(row.Why, "no cause") {
			t.Errorf("%s %s, %.1f %%: explained with %q", row.Name, row.Measure, row.Diff, row.Why)
		}
		worst, sum = max(worst, math.Abs(row.Diff)), sum+math.Abs(row.Diff)
		if math.Abs(row.Diff) <= 4 {
			close++
		}
	}
	if r.Worst != worst || math.Abs(r.Mean-sum/53) > 1e-9 || r.Close != close {
		t.Errorf("mean %v, worst %v and %d rows within 4 %%, want %v, %v and %d", r.Mean, r.Worst, r.Close,
			sum/53, worst, close)
	}
	var out sheet
	r.print(&out)
	for _, text := range []string{"options.group_words.", "bursts of four for slots (thesis 3.2.4)"} {
		if got := strings.Count(out.String(), text); got != 1 {
			t.Errorf("%q is there %d times", text, got)
		}
	}
}

// The model judges statements of the papers whose words have a limit, and the table's own figures
// stand beside. By these figures receiving takes 6.7 times the cycles of the CM-5, and not over
// seven (348.2 of 52.2).
func TestStatements(t *testing.T) {
	rows := virtual.Table61()
	for i := range rows {
		rows[i].Cycles = rows[i].PaperCycles
		if rows[i].Name == "cmam_4" && rows[i].Measure == "recv_tp" {
			rows[i].Cycles = 366
		}
	}
	all, err := statements(rows)
	if err != nil || len(all) != len(said) {
		t.Fatalf("%d statements, %v", len(all), err)
	}
	for i, want := range []struct {
		model, table float64
		verdict      string
	}{{4.327, 4.327, "shown"}, {2.233, 2.233, "shown"}, {7.011, 6.670, "holds"}, {4.239, 4.239, "holds"},
		{245.9, 245.9, "shown"},
		{2.233, 2.233, "holds"}, {4.239, 4.239, "fails"}, {3825.2, 3825.2, "shown"}} {
		s := all[i]
		verdict := "shown"
		if s.Holds != nil {
			verdict = map[bool]string{true: "holds", false: "fails"}[*s.Holds]
		}
		if math.Abs(s.Model/want.model-1) > 1e-3 || math.Abs(s.Table/want.table-1) > 1e-3 || verdict != want.verdict {
			t.Errorf("%s: %+v, %s, want %+v", s.Text, s, verdict, want)
		}
	}
}

// A hypothesis that is named as the cause of a miss does away with it.
func TestCauses(t *testing.T) {
	options := map[string]func(*hwprofiles.Options){
		"options.group_words": func(o *hwprofiles.Options) { o.GroupWords = 4 },
		"options.look_misses": func(o *hwprofiles.Options) { o.LookMisses = true },
	}
	before := simulate(t, profile(t, "sbus-arctic"))
	cured := map[string]*cmamTable{}
	for i := range before.Rows {
		row := &before.Rows[i]
		if math.Abs(row.Diff) <= miss {
			continue
		}
		cause := causeOf(row)
		for option, set := range options {
			if strings.Contains(cause, option) && cured[cause] == nil {
				p := *profile(t, "sbus-arctic")
				set(&p.Options)
				cured[cause] = simulate(t, &p)
			}
		}
		if cured[cause] == nil {
			t.Errorf("%s %s, %.1f %%: no hypothesis accounts for it", row.Name, row.Measure, row.Diff)
		} else if d := cured[cause].Rows[i].Diff; math.Abs(d) > miss {
			t.Errorf("%s %s: %.1f %%, and %.1f %% with what should account for it", row.Name, row.Measure, row.Diff, d)
		}
	}
}

// A profile has the rules that it says it has: the text's those of the text, 1994 all, and one
// whose figures are none of theirs only the benchmark's. Switching a rule off changes the table,
// and nothing of the profile itself.
func TestRules(t *testing.T) {
	text := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return r.Hypothesis })
	bare, _ := without(profile(t, "sbus-arctic-1994"), rules)
	for _, c := range []struct {
		p    *hwprofiles.Profile
		want int
	}{{profile(t, "sbus-arctic"), len(text)}, {profile(t, "sbus-arctic-1994"), len(rules)}, {bare, 1}} {
		if got := rulesOf(c.p); len(got) != c.want {
			t.Errorf("%s has %d rules, want %d", c.p.Name, len(got), c.want)
		}
	}
	for _, r := range rules {
		if r.Hypothesis != (r.Against != "") || r.For == "" || r.Section == "" {
			t.Errorf("rule %q: what speaks for a rule is said, and against a hypothesis", r.Name)
		}
	}
	p := profile(t, "sbus-arctic-1994")
	of := func(name string) rule {
		return rules[slices.IndexFunc(rules, func(r rule) bool { return r.Name == name })]
	}
	results, err := simulateAll(context.Background(), p,
		[][]rule{nil, {of("packets of 20 words")}, {of("groups of four arguments")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !(results[0].Mean < results[1].Mean && results[0].Mean < results[2].Mean) || len(rulesOf(p)) != len(rules) {
		t.Errorf("means %v, %v and %v", results[0].Mean, results[1].Mean, results[2].Mean)
	}
	held := fitOf(results[1], func(r virtual.Row) bool { return slices.Contains(groups["cmam_mfer_n"], r.Name) })
	if held.Rows != 8 || held.Mean < 5 {
		t.Errorf("without packets of 20 words the rows of mfer are %+v", held)
	}
}

// Every row of the table is in exactly one group.
func TestGroups(t *testing.T) {
	rows := virtual.Table61()
	for _, row := range rows {
		n := 0
		for _, names := range groups {
			if slices.Contains(names, row.Name) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is in %d groups", row.Name, n)
		}
	}
}

// Simulations end with their context.
func TestAblationIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ablate(ctx, profile(t, "sbus-arctic-1994")); err == nil {
		t.Error("it did not say that its context has ended")
	}
}
