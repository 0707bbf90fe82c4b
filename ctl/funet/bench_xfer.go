package main

// This file is `funet bench xfer`.

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

func benchXfer() *cobra.Command {
	var f nodeFlags
	var o bench.XferOptions
	c := &cobra.Command{
		Use:   "xfer",
		Short: "Compare the bandwidth of block transfers with that of TCP by iperf3",
		Long: `Compare how fast blocks of memory move from one host of a lab to the other with how
fast iperf3 sends there by one TCP stream, at one MTU after the other. iperf3 has a lab
of its own without an XDP program. Senders run on processor 0, receivers on 1. The two
take turns; figures are medians over the rounds, the ratio is the median of those in
each round. Without iperf3 the report says so and has FUNet's figures alone.`,
		Example: "  funet bench xfer --lab 2 --mtu 1500,3500,9000",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.lab != 2 {
				return fmt.Errorf("--lab %d: transfers are between two hosts; use --lab 2", f.lab)
			}
			// Package bench takes 0 for the default.
			if o.Rounds == 0 || o.Seconds == 0 || o.Block == 0 || o.Depth == 0 {
				return errors.New("--rounds, --seconds, --block and --depth must be at least 1")
			}
			var here nodeFlags // on the lab of the moment
			o.Up = func(ctx context.Context, mtu int) (*lab.Lab, error) {
				here = f
				here.mtu = mtu
				return here.measuredLab(ctx)
			}
			o.Funet = func(ctx context.Context, l *lab.Lab, bytes int) (bench.GoodputSample, error) {
				t := transferOptions{apps.TransferOptions{Bytes: bytes, Block: o.Block, Depth: o.Depth}}
				r, err := runNodes[transferResult](ctx, &here, l, "transfer", t.args())
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
			r, err := bench.Xfer(c.Context(), o)
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
	p.IntSliceVar(&o.MTUs, "mtu", []int{1500, 3500, 9000}, "of the lab's links, in bytes")
	p.IntVar(&o.Rounds, "rounds", bench.DefaultRounds, "interleaved rounds at each MTU")
	p.IntVar(&o.Seconds, "seconds", bench.DefaultXferSeconds, "that each run takes, about")
	p.IntVar(&o.Block, "block", bench.DefaultXferBlock, "bytes of one transfer, a multiple of 16 up to 64 MiB")
	p.IntVar(&o.Depth, "depth", bench.DefaultXferDepth, "transfers under way at once")
	f.registerBench(c)
	return c
}
