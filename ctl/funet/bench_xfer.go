package main

// This file is `funet bench xfer`.

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/apps"
)

func benchXfer() *cobra.Command {
	var f benchFlags
	o := bench.XferOptions{Progress: progressLines()}
	c := &cobra.Command{
		Use:   "xfer",
		Short: "Compare the bandwidth of block transfers with that of TCP by iperf3",
		Long: `Compare how fast blocks of memory move from one host of a lab to the other with how
fast iperf3 sends there by one TCP stream, at one MTU after the other. iperf3 has a lab
of its own without an XDP program. Senders run on processor 0, receivers on 1. FUNet's
frames are received on the receiver's processor (--steer), TCP's on the sender's: that
is faster for either. The two take turns; figures are medians over the rounds, the ratio
is the median of those in each round. Without iperf3 the report says so and has FUNet's figures alone.`,
		Example: "  funet bench xfer --lab 2 --mtu 1500,3500,9000",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(f.check(),
				inRange("--seconds", o.Seconds, 1, bench.MaxXferSeconds),
				inRange("--block", o.Block, bench.XferBlockUnit, bench.MaxXferBlock),
				inRange("--depth", o.Depth, 1, bench.MaxXferDepth)); err != nil {
				return err
			}
			o.Rounds, o.Steered = f.rounds, f.steer
			var here nodeFlags // on the lab of the moment, with the XDP mode that was found for it
			o.Up = func(ctx context.Context, mtu int) (*lab.Lab, error) {
				here = f.nodeFlags
				here.mtu = mtu
				return here.measuredLab(ctx)
			}
			o.Funet = func(ctx context.Context, l *lab.Lab, bytes int) (bench.GoodputSample, error) {
				t := transferOptions{apps.TransferOptions{Bytes: bytes, Block: o.Block, Depth: o.Depth}}
				return here.goodput(ctx, l, "transfer", t.args())
			}
			r, err := bench.Xfer(c.Context(), o)
			if err != nil {
				return err
			}
			return show(f.json, r)
		},
	}
	p := c.Flags()
	p.IntSliceVar(&o.MTUs, "mtu", []int{1500, 3500, 9000}, "of the labs' links, in bytes")
	p.IntVar(&o.Seconds, "seconds", bench.DefaultXferSeconds, "that each run takes, about")
	p.IntVar(&o.Block, "block", bench.DefaultXferBlock, "bytes of one transfer, a multiple of 16 up to 64 MiB")
	p.IntVar(&o.Depth, "depth", bench.DefaultXferDepth, "transfers under way at once")
	p.BoolVar(&f.steer, "steer", true, "receive each host's frames on its own processor (RPS), not on the sender's")
	f.register(c, 2, 2)
	return c
}
