package measure

// This file is `funet bench rate`.

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/apps"
)

func rate() *cobra.Command {
	var f flags
	o := bench.RateOptions{RoleCommand: roleArgs, Progress: os.Stderr}
	o.Funet = func(ctx context.Context, l *lab.Lab, messages int) (bench.RateSample, error) {
		s := program.StreamOptions{StreamOptions: apps.StreamOptions{Senders: 1, Messages: messages,
			Words: bench.RateWords}}
		r, err := program.RunNodes[program.StreamResult](ctx, &f.Flags, l, "stream", s.Arguments())
		if err != nil {
			return bench.RateSample{}, err
		}
		return bench.RateSample{PerSecond: r[0].Rate, XDPMode: r[0].XDPMode, BindMode: r[0].BindMode}, nil
	}
	c := f.onLab(&cobra.Command{
		Use:     "rate",
		Example: "  funet bench rate --lab 2",
		Short:   "Compare the one-way rate of short messages with UDP by sendmmsg",
		Long: fmt.Sprintf(`Compare how many messages of %d words arrive a second, one way between two hosts of
one lab: FUNet's, and datagrams of as many bytes sent by sendmmsg(2) %d at a time and
received by recvmmsg(2), each end spinning on a processor of its own. The two take
turns; figures are medians over the rounds, counted where the messages arrive.`, bench.RateWords, bench.RateBatch),
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Rate(ctx, l, o) })
	f.number(c, &o.Messages, "messages", bench.RateMessages,
		"FUNet's messages in a round; a tenth as many datagrams take about as long")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}
