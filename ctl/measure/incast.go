package measure

// This file is `funet bench incast`.

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

func incast() *cobra.Command {
	var f flags
	o := bench.IncastOptions{Progress: os.Stderr}
	f.Apart = true // as the receiver would have a processor to itself, and its senders not
	o.Funet = func(ctx context.Context, l *lab.Lab, senders, messages int) (bench.GoodputSample, error) {
		s := program.StreamOptions{StreamOptions: apps.StreamOptions{Senders: senders, Messages: messages,
			Words: bench.IncastWords}}
		return goodput(ctx, &f.Flags, l, "stream", s.Arguments())
	}
	c := f.onLab(&cobra.Command{
		Use:     "incast",
		Example: "  funet bench incast --lab 8",
		Short:   "Compare the goodput of many senders to one host with that of a single sender",
		Long: fmt.Sprintf(`Compare the goodput at one host of a lab when all other hosts send to it with that
when one of them does: messages of %d words, as many in all. Every host runs a node
either way. The two take turns; figures are medians over the rounds.`, bench.IncastWords),
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Incast(ctx, l, o) })
	f.number(c, &o.Messages, "messages", bench.IncastMessages, "of all senders together, in each run")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 3, lab.MaxHosts, lab.MaxHosts)
	return c
}
