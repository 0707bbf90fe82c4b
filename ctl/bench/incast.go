package bench

// This file is `funet bench incast`. All hosts run a node in both cases, so only the number of
// senders differs.

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/lab"
)

// incastWords is the number of words in a message, the most that a message can have.
const incastWords = 20

// incast compares the goodput at host 0 of all other hosts with that of host 1 alone.
type incast struct {
	messages   int // in a run, of all senders together
	senders    int // of the incast
	congestion map[string][]congestion
}

func (o *incast) command(f *flags) *cobra.Command {
	f.Apart = true // as the receiver would have a processor to itself, and its senders not
	c := &cobra.Command{
		Use:     "incast",
		Example: "  funet bench incast --lab 8",
		Short:   "Compare the goodput of many senders to one host with that of a single sender",
		Long: fmt.Sprintf(`Compare the goodput at one host of a lab when all other hosts send to it with that
when one of them does: messages of %d words, as many in all. Every host runs a node
either way. The two take turns; figures are medians over the rounds.`, incastWords),
	}
	// The usual number is divisible by 1 to 7 senders.
	f.number(c, &o.messages, "messages", limits{10_000, 1_000_000_000, 2_100_000},
		"of all senders together, in each run")
	f.RegisterCard(c)
	return f.register(c, 3, lab.MaxHosts, lab.MaxHosts)
}

func (o *incast) enter(_ context.Context, m *match) error {
	m.what, m.unit, m.deadline = "measure incast", "Gbit/s", longest(o.messages)
	o.senders, o.congestion = len(m.hosts)-1, map[string][]congestion{}
	o.messages -= o.messages % o.senders // as many of each sender, so that both runs carry the same
	for name, senders := range o.sides() {
		m.funet(name, "stream", stream(senders, o.messages/senders, incastWords), func(n []node) float64 {
			o.congestion[name] = append(o.congestion[name], sum(n))
			return goodput(n)
		})
	}
	return nil
}

// sides yields the names of both contenders, with their numbers of senders.
func (o *incast) sides() func(func(string, int) bool) {
	return func(yield func(string, int) bool) {
		_ = yield("one to one", 1) && yield(fmt.Sprintf("%d to one", o.senders), o.senders)
	}
}

// sum returns the congestion of all nodes.
func sum(nodes []node) (all congestion) {
	for _, n := range nodes {
		all.add(n.Card)
	}
	return all
}

func (o *incast) report(m *match) (r report, err error) {
	one, all := m.playing[0], m.playing[1]
	ratio := nanos(m.median(all.name) / m.median(one.name))
	r.with(figure{"one_to_one_gbit_per_s", m.median(one.name)}, figure{"incast_gbit_per_s", m.median(all.name)},
		figure{"ratio", ratio}, figure{"senders", o.senders}, figure{"rounds", m.rounds},
		figure{"rounds_one_to_one_gbit_per_s", one.figures}, figure{"rounds_incast_gbit_per_s", all.figures},
		figure{"rounds_ratio", byRound(all.figures, one.figures)},
		figure{"rounds_one_to_one_congestion", o.congestion[one.name]},
		figure{"rounds_incast_congestion", o.congestion[all.name]},
		figure{"messages", o.messages}, figure{"words", incastWords}, figure{"xdp_mode", m.attach},
		figure{"bind_mode", m.bind})
	r.print("messages of %d words to one host, medians of %d rounds; XDP %s, %s\n", incastWords, m.rounds,
		m.attach, m.bind)
	r.print("%-12s %8s %10s %10s %9s  %s\n", "senders", "Gbit/s", "rejected", "sent again",
		"timeouts", "rounds")
	for name, senders := range o.sides() {
		var c congestion
		for _, round := range o.congestion[name] {
			c.add(round)
		}
		r.print("%-12d %8.2f %10d %10d %9d  %s\n", senders, m.median(name), c.Rejected, c.Retransmitted,
			c.Timeouts, list("%.2f", m.of(name).figures, 1))
	}
	r.print("%-12s %8.2f\n", "ratio", ratio)
	return r, nil
}
