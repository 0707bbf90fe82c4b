package main

// This file is why rows of `funet sim cmam` differ from Table 6.1.

import (
	"fmt"
	"math"
	"slices"
)

// cmamWhy explains rows: all measures of the names, or those given.
var cmamWhy = []struct {
	names, measures []string
	text            string
}{
	{[]string{"cmam_n=1", "cmam_reply_n=1"}, []string{"send_tp", "recv_tp"},
		`A message of one argument is three words, which one burst of four moves (thesis 5.2.2).
The table's figures are those of two bursts: 36.8 cycles more, at either end.`},
	{[]string{"cmam_n=20", "cmam_reply_n=20"}, []string{"send_tp", "recv_tp"},
		`Twenty-two words go in bursts of 4, 8, 8 and 4, 200 cycles with the head register. The
table's receive throughput leaves about 380 cycles for the card, its send throughput one
burst more than the words need; the thesis does not say what the card does in them.`},
	{[]string{"cmam_n=20", "cmam_reply_n=20"}, []string{"send_ovhd"},
		`The loop of cmam_n that stores two double words is 23 cycles by the prices of its
operations. The table's difference between 1 and 20 words is 27.5 a time round.`},
	{[]string{"cmam_mfer_n", "cmam_reply_mfer_n"}, nil,
		`The overheads of one packet of 64 bytes are counted as those of a call for each packet,
with all of appendix A's polling. The table has less than that code takes: sending, a
message poll of 15 cycles a priority that every packet does costs it 9.6; receiving, 30
to 40 cycles less than a message of four words, about one load of a double word, though
appendix A loads three whatever the packet. The benchmark's loop must be another one.`},
	{[]string{"shared_memory", "get", "put"}, nil,
		`The source of these calls is not in the thesis, so what they do besides sending and
receiving is counted as the least that does it. Their messages of up to four words take
one burst; made with cmam_4 they would have six words and take two. A get of 16 words
is an XFER of one packet here, whose data the cards move while the processors go on.`},
	{[]string{"barrier"}, nil,
		`The barrier goes up and down a tree, up to 2*log2(32) = 10 hops of more than half a
round trip each. The table's time is that of about six. Another barrier, in which each
node tells one other in each of log2(32) = 5 rounds, takes 3,200 cycles in this model.`},
}

// explainMisses says why, for rows that differ by more than cmamMiss per cent.
func (r *cmamResult) explainMisses() {
	for i := range r.Rows {
		row := &r.Rows[i]
		if math.Abs(row.Diff) <= cmamMiss {
			continue
		}
		row.Why = fmt.Sprintf("not explained: profile %s is not the one that the explanations are for", r.Profile)
		for _, w := range cmamWhy {
			if r.Profile == "sbus-arctic" && slices.Contains(w.names, row.Name) && (w.measures == nil || slices.Contains(w.measures, row.Measure)) {
				row.Why = w.text
			}
		}
	}
}
