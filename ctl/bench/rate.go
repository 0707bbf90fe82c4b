package bench

// This file is `funet bench rate`. Host 1 sends, host 0 receives and counts.

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

const (
	rateWords = 4 // of a message
	// ratePayload is a datagram's payload in bytes: as long as the words of a message.
	ratePayload = 4 * rateWords
	// rateBatch is the number of datagrams that a system call sends, and the most that it receives.
	rateBatch = 64
	// perDatagram is the number of FUNet's messages for each datagram, so that both runs take about
	// as long.
	perDatagram = 10
)

// rate compares the one-way rate of messages with that of datagrams.
type rate struct {
	messages      int       // FUNet's in a round
	offered, lost []float64 // datagrams a second, and the part lost, of each round
}

func (o *rate) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:     "rate",
		Example: "  funet bench rate --lab 2",
		Short:   "Compare the one-way rate of short messages with UDP by sendmmsg",
		Long: fmt.Sprintf(`Compare how many messages of %d words arrive a second, one way between two hosts of
one lab: FUNet's, and datagrams of as many bytes sent by sendmmsg(2) %d at a time and
received by recvmmsg(2), each end spinning on a processor of its own. The two take
turns; figures are medians over the rounds, counted where the messages arrive.`, rateWords, rateBatch),
	}
	f.number(c, &o.messages, "messages", limits{100_000, 1_000_000_000, 5_000_000},
		"FUNet's messages in a round; a tenth as many datagrams take about as long")
	f.RegisterCard(c)
	return f.register(c, 2, 2, 2)
}

func (o *rate) enter(_ context.Context, m *match) error {
	m.what, m.unit, m.deadline = "measure rates", "messages/s", longest(o.messages)
	m.funet("funet", "stream", stream(1, o.messages, rateWords), func(n []node) float64 { return n[0].Rate })
	m.theirs("sendmmsg", func(ctx context.Context) (float64, error) {
		sent := o.messages / perDatagram
		c, err := m.countDatagrams(ctx, sent)
		if err != nil {
			return 0, err
		}
		o.offered = append(o.offered, nanos(c.Offered))
		o.lost = append(o.lost, 1-float64(c.Arrived)/float64(sent))
		return c.PerSecond, nil
	})
	return nil
}

func (o *rate) report(m *match) (r report, err error) {
	funet, sendmmsg, offered, lost := m.median("funet"), m.median("sendmmsg"), *median(o.offered), *median(o.lost)
	ratio := nanos(funet / sendmmsg)
	r.with(figure{"msgs_per_s", funet}, figure{"sendmmsg_msgs_per_s", sendmmsg}, figure{"ratio_to_sendmmsg", ratio},
		figure{"sendmmsg_offered_per_s", offered}, figure{"sendmmsg_lost_fraction", lost}, figure{"rounds", m.rounds},
		figure{"rounds_msgs_per_s", m.of("funet").figures},
		figure{"rounds_sendmmsg_msgs_per_s", m.of("sendmmsg").figures},
		figure{"rounds_sendmmsg_offered_per_s", o.offered}, figure{"rounds_ratio", m.ratios("funet", "sendmmsg")},
		figure{"messages", o.messages}, figure{"sendmmsg_messages", o.messages / perDatagram},
		figure{"sendmmsg_batch", rateBatch}, figure{"words", rateWords}, figure{"xdp_mode", m.attach},
		figure{"bind_mode", m.bind})
	r.print("messages of %d words one way, medians of %d rounds; XDP %s, %s\n", rateWords, m.rounds, m.attach,
		m.bind)
	r.print("%-14s %12s  %s\n", "sender", "million/s", "rounds")
	row := func(name string, perSecond float64, rounds []float64, more string) {
		r.print("%-14s %12.2f  %s%s\n", name, perSecond/1e6, list("%.2f", rounds, 1e6), more)
	}
	row("funet", funet, m.of("funet").figures, "")
	row(fmt.Sprintf("sendmmsg(%d)", rateBatch), sendmmsg, m.of("sendmmsg").figures, "")
	row("  offered", offered, o.offered, fmt.Sprintf("; %.1f %% lost", 100*lost))
	r.print("%-14s %12.2f\n", "ratio", ratio)
	return r, nil
}
