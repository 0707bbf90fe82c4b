package cmam

// This file explains why rows of `funet sim cmam` differ from Table 6.1, and the grounds for the
// rules of the model.

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/funet/funet/hwprofiles"
)

// cause is a reason why rows differ. It applies to all measures of the named rows, or only to those
// given.
type cause struct {
	names, measures []string
	text            string
	// cured switches on the hypothesis that would account for the difference; nil: there is none.
	cured func(*hwprofiles.Profile)
}

var causes = []cause{
	{[]string{"cmam_n=1", "cmam_reply_n=1"}, []string{"send_tp", "recv_tp"},
		`A message of one argument is three words, which one burst of four moves (thesis 5.2.2). The table's figures are
those of two bursts, 36.8 cycles more at either end, as if arguments travelled in groups of four: options.group_words.`,
		func(p *hwprofiles.Profile) { p.Options.GroupWords = 4 }},
	{[]string{"cmam_n=20", "cmam_reply_n=20"}, []string{"recv_tp"},
		`Twenty-two words go in six bursts, and the processor looks at the head once more than there are packets. In the table
each further burst costs one more transaction of a word, as if the look after it missed the cache: options.look_misses.`,
		func(p *hwprofiles.Profile) { p.Options.LookMisses = true }},
	{[]string{"get"}, []string{"16_ovhd"},
		`The source of these calls is not in the thesis. Eight gets are under way, and the processor looks for their answers while it
opens segments for the others; in the table these looks seem to miss the cache as often as the card writes into the queue:
options.look_misses.`,
		func(p *hwprofiles.Profile) { p.Options.LookMisses = true }},
	{[]string{"get"}, []string{"1_ovhd"},
		`The source of these calls is not in the thesis, and what a get takes of the processor depends on how many are under way:
here 8; with 12 to 16 it is within 3.5 %.`, nil},
	{[]string{"barrier"}, nil,
		`The source of the barrier is not in the thesis. This one has log2(32) = 5 rounds, each of a message that is sent,
travels and is received; what its own instructions take is counted as the least that does it.`, nil},
}

// causeOf returns the reason why a row differs.
func causeOf(row *tableRow) *cause {
	for i := range causes {
		c := &causes[i]
		if slices.Contains(c.names, row.Name) && (c.measures == nil || slices.Contains(c.measures, row.Measure)) {
			return c
		}
	}
	return nil
}

// explainMisses adds the reasons for rows that differ by more than miss per cent, and the rules of
// the profile.
func (r *simResult) explainMisses(p *hwprofiles.Profile) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if math.Abs(row.Diff) <= miss {
			continue
		}
		if c := causeOf(row); c != nil {
			row.Why = c.text
		} else {
			row.Why = fmt.Sprintf("no cause is known for profile %s", r.Profile)
		}
	}
	for _, x := range rulesOf(p) {
		r.Rules = append(r.Rules, ruleTold{x.name, x.section, x.hypothesis, x.ground, x.against})
	}
}

// ruleTold is a rule in the JSON document.
type ruleTold struct {
	Rule       string `json:"rule"`
	Section    string `json:"section"`
	Hypothesis bool   `json:"hypothesis"`
	For        string `json:"for"`
	Against    string `json:"against,omitempty"`
}

// writeRules prints the grounds for the rules.
func (r *simResult) writeRules(w io.Writer) error {
	for i, x := range r.Rules {
		if i == 0 {
			fmt.Fprintln(w, "\nRules of the model:")
		}
		kind := "thesis " + x.Section
		if x.Hypothesis {
			kind = "hypothesis, thesis " + x.Section
		}
		fmt.Fprintf(w, "\n%s (%s)\n%s\n", x.Rule, kind, x.For)
		if x.Against != "" {
			fmt.Fprintf(w, "Against it: %s\n", x.Against)
		}
	}
	return nil
}
