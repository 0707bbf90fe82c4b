package main

// This file is `funet bench rate` and the UDP sender and receiver that it compares with.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/apps"
)

func rateRoleCommand() *cobra.Command {
	return &cobra.Command{
		Use:    rateRoleArgs[1] + " ROLE CONFIG",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return bench.RunRateRole(args[0], json.RawMessage(args[1]))
		},
	}
}

func benchRate() *cobra.Command {
	var f nodeFlags
	o := bench.RateOptions{RoleCommand: rateRoleArgs}
	c := &cobra.Command{
		Use:   "rate",
		Short: "Compare the one-way rate of short messages with UDP by sendmmsg",
		Long: fmt.Sprintf(`Compare how many messages of %d words arrive a second, one way between two hosts of
one lab: FUNet's, and datagrams of as many bytes sent by sendmmsg(2) %d at a time and
received by recvmmsg(2), each end spinning on a processor of its own. The two take
turns; figures are medians over the rounds, counted where the messages arrive.`, bench.RateWords, bench.RateBatch),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if f.lab != 2 {
				return fmt.Errorf("--lab %d: the rate is that between two hosts; use --lab 2", f.lab)
			}
			if o.Rounds < 1 || o.Rounds > bench.MaxRounds {
				return fmt.Errorf("--rounds %d: use 1 to %d", o.Rounds, bench.MaxRounds)
			}
			if o.Messages < bench.MinRateMessages || o.Messages > bench.MaxRateMessages {
				return fmt.Errorf("--messages %d: use %d to %d", o.Messages, bench.MinRateMessages, bench.MaxRateMessages)
			}
			l, err := f.measuredLab(c.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			o.Funet = func(ctx context.Context, l *lab.Lab, messages int) (bench.RateSample, error) {
				s := streamOptions{apps.StreamOptions{Senders: 1, Messages: messages, Words: bench.RateWords}}
				r, err := runNodes[streamResult](ctx, &f, l, "stream", s.args())
				if err != nil {
					return bench.RateSample{}, err
				}
				return bench.RateSample{PerSecond: r[0].Rate, XDPMode: r[0].XDPMode, BindMode: r[0].BindMode}, nil
			}
			o.Progress = progressLines()
			r, err := bench.Rate(c.Context(), l, o)
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
	p.IntVar(&f.lab, "lab", 2, "hosts of the lab: 2")
	p.IntVar(&o.Rounds, "rounds", bench.DefaultRounds, "interleaved rounds")
	p.IntVar(&o.Messages, "messages", bench.DefaultRateMessages, "FUNet's messages in a round; a tenth as many datagrams take about as long")
	f.registerBench(c)
	return c
}
