package main

// This file is `funet bench incast`.

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/apps"
)

func benchIncast() *cobra.Command {
	var f nodeFlags
	var o bench.IncastOptions
	c := &cobra.Command{
		Use:   "incast",
		Short: "Compare the goodput of many senders to one host with that of a single sender",
		Long: fmt.Sprintf(`Compare the goodput at one host of a lab when all other hosts send to it with that
when one of them does: messages of %d words, as many in all. Every host runs a node
either way. The two take turns; figures are medians over the rounds.`, bench.IncastWords),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if f.lab < 3 || f.lab > lab.MaxHosts {
				return fmt.Errorf("--lab %d: use 3 to %d hosts", f.lab, lab.MaxHosts)
			}
			if o.Rounds < 1 || o.Rounds > bench.MaxRounds {
				return fmt.Errorf("--rounds %d: use 1 to %d", o.Rounds, bench.MaxRounds)
			}
			if o.Messages < bench.MinIncastMessages || o.Messages > bench.MaxIncastMessages {
				return fmt.Errorf("--messages %d: use %d to %d", o.Messages, bench.MinIncastMessages, bench.MaxIncastMessages)
			}
			l, err := f.measuredLab(c.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			o.Funet = func(ctx context.Context, l *lab.Lab, senders, messages int) (bench.GoodputSample, error) {
				s := streamOptions{apps.StreamOptions{Senders: senders, Messages: messages, Words: bench.IncastWords}}
				r, err := runNodes[streamResult](ctx, &f, l, "stream", s.args())
				if err != nil {
					return bench.GoodputSample{}, err
				}
				sample := bench.GoodputSample{Gbit: r[0].Goodput, XDPMode: r[0].XDPMode, BindMode: r[0].BindMode}
				for _, n := range r {
					sample.Rejected += n.Card.RejectsSent
					sample.Retransmitted += n.Card.Retransmitted
					sample.Timeouts += n.Card.Timeouts
					sample.Duplicates += n.Card.Duplicates
				}
				return sample, nil
			}
			o.Progress = progressLines()
			r, err := bench.Incast(c.Context(), l, o)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(r)
			}
			return r.WriteTable(os.Stdout)
		},
	}
	p := c.Flags()
	p.IntVar(&f.lab, "lab", lab.MaxHosts, fmt.Sprintf("hosts of the lab: 3 to %d", lab.MaxHosts))
	p.IntVar(&o.Rounds, "rounds", bench.DefaultRounds, "interleaved rounds")
	p.IntVar(&o.Messages, "messages", bench.DefaultIncastMessages, "of all senders together, in each run")
	f.registerBench(c)
	return c
}
