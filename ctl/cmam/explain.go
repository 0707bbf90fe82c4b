package cmam

// This file is why rows of `funet sim cmam` differ from Table 6.1.

import (
	"fmt"
	"math"
	"slices"
)

// reasons explains rows: all measures of the names, or those given.
var reasons = []struct {
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
		`The packet has 64 bytes, the most of thesis 3.2.4, and the table's figures are for 16
bytes: four times them, sending and receiving such a packet takes the processor less than
a message of four words, for which appendix A does less. Five times them it is 221.5 and
201.5 cycles to receive one, and for four words the table has 221.3 and 201.3: the packets
that were measured seem to have had 20 words, the limit of the conference paper, which
prints the same figures. With address, argument and the three words of the header that is
25 words, and an Arctic packet has 24, so here it is 16.`},
	{[]string{"get"}, []string{"16_ovhd"},
		`The source of these calls is not in the thesis. A get of 16 words is an XFER of one packet
here, whose data the cards move while the processors go on, so it costs them hardly more
than a get of one. As a message of 16 words it would take 1,055 cycles.`},
	{[]string{"barrier"}, nil,
		`The source of the barrier is not in the thesis. The table's time has room for six hops, a
tree up and down would have ten. This one has log2(32) = 5 rounds, each of a message that
is sent, travels, and is received, and what its own instructions take is counted as the
least that does it.`},
}

// explainMisses says why, for rows that differ by more than miss per cent.
func (r *simResult) explainMisses() {
	for i := range r.Rows {
		row := &r.Rows[i]
		if math.Abs(row.Diff) <= miss {
			continue
		}
		row.Why = fmt.Sprintf("not explained: profile %s is not the one that the explanations are for", r.Profile)
		for _, w := range reasons {
			if r.Profile == "sbus-arctic" && slices.Contains(w.names, row.Name) && (w.measures == nil || slices.Contains(w.measures, row.Measure)) {
				row.Why = w.text
			}
		}
	}
}
