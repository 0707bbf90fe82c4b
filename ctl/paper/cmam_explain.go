package paper

// This file has the reasons why rows of `funet sim cmam` differ from Table 6.1.

import (
	"slices"

	"github.com/funet/funet/ctl/paper/virtual"
)

// causes are reasons why rows differ. Each applies to all measures of the named rows, or only to
// those given. A hypothesis that would account for the difference is named by its option.
var causes = []struct {
	names, measures []string
	text            string
}{
	{[]string{"cmam_n=1", "cmam_reply_n=1"}, []string{"send_tp", "recv_tp"},
		`A message of one argument is three words, which one burst of four moves (thesis 5.2.2). The table's figures are
those of two bursts, 36.8 cycles more at either end, as if arguments travelled in groups of four: options.group_words.`},
	{[]string{"cmam_n=20", "cmam_reply_n=20"}, []string{"recv_tp"},
		`Twenty-two words go in six bursts, and the processor looks at the head once more than there are packets. In the table
each further burst costs one more transaction of a word, as if the look after it missed the cache: options.look_misses.`},
	{[]string{"get"}, []string{"16_ovhd"},
		`The source of these calls is not in the thesis. Eight gets are under way, and the processor looks for their answers while it
opens segments for the others; in the table these looks seem to miss the cache as often as the card writes into the queue:
options.look_misses.`},
	{[]string{"get"}, []string{"1_ovhd"},
		`The source of these calls is not in the thesis, and what a get takes of the processor depends on how many are under way:
here 8; with 12 to 16 it is within 3.5 %.`},
	{[]string{"barrier"}, nil,
		`The source of the barrier is not in the thesis. This one has log2(32) = 5 rounds, each of a message that is sent,
travels and is received; what its own instructions take is counted as the least that does it.`},
}

// causeOf returns the reason why a row differs, or "".
func causeOf(row *virtual.Row) string {
	for _, c := range causes {
		if slices.Contains(c.names, row.Name) && (c.measures == nil || slices.Contains(c.measures, row.Measure)) {
			return c.text
		}
	}
	return ""
}
