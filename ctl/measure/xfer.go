package measure

// This file is `funet bench xfer`.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/port/afxdp"
)

func xfer() *cobra.Command {
	var f flags
	o := bench.XferOptions{RoleCommand: roleArgs, Progress: os.Stderr}
	var here program.Flags // of the lab of the moment
	transfer := func(ctx context.Context, l *lab.Lab, bytes int) (bench.GoodputSample, error) {
		t := program.TransferOptions{TransferOptions: apps.TransferOptions{Bytes: bytes, Block: o.Block,
			Depth: o.Depth}}
		return goodput(ctx, &here, l, "transfer", t.Arguments())
	}
	o.Funet = transfer
	o.Up = func(ctx context.Context, mtu int) (*lab.Lab, bench.XferWay, error) {
		here = f.Flags
		here.MTU = mtu
		return fastest(ctx, &here, func(l *lab.Lab) (bench.GoodputSample, error) {
			return transfer(ctx, l, (tried+o.Block-1)/o.Block*o.Block)
		})
	}
	c := f.command(&cobra.Command{
		Use:   "xfer",
		Short: "Compare the bandwidth of block transfers with raw AF_XDP's and that of TCP by iperf3",
		Long: `Compare how fast blocks of memory move from one host of a lab to the other with how
fast raw AF_XDP moves the same frames, with one copy in, one out and no protocol, and
with how fast iperf3 sends there by one TCP stream, at one MTU after the other. iperf3
has a lab of its own without an XDP program. Senders run on processor 0, receivers on 1.
FUNet's frames travel in the way that a few short transfers find fastest: received on the
sender's processor, as TCP's are, or on the receiver's (steered); of one buffer, or as
long as the MTU allows (jumbo). The three take turns; figures are medians over the
rounds, ratios are medians of those in each round. Without iperf3 the report says so and
lacks its figures.`,
		Example: "  funet bench xfer --lab 2 --mtu 1500,9000,65535",
	}, func(ctx context.Context) (output.Report, error) {
		if f.OnPorts() { // whose frames are no longer
			o.MTUs = slices.DeleteFunc(slices.Clone(o.MTUs), func(mtu int) bool { return mtu > program.LongestDirect })
			if len(o.MTUs) == 0 {
				return nil, fmt.Errorf("--mtu: direct ports have up to %d on a lab", program.LongestDirect)
			}
		}
		return bench.Xfer(ctx, o)
	})
	c.Flags().IntSliceVar(&o.MTUs, "mtu", []int{1500, 9000, 65535}, "of the labs' links, in bytes")
	f.number(c, &o.Seconds, "seconds", bench.XferSeconds, "that each run takes, about")
	f.number(c, &o.Block, "block", bench.XferBlock, "bytes of one transfer, a multiple of 16 up to 64 MiB")
	f.number(c, &o.Depth, "depth", bench.XferDepth, "transfers under way at once")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}

// tried is the approximate number of bytes in a transfer that tries a way.
const tried = 128 << 20

// fastest makes the lab on which a transfer is fastest, and sets the flags so that nodes use it. It
// tries each way three times. The caller closes the lab.
func fastest(ctx context.Context, f *program.Flags,
	transfer func(*lab.Lab) (bench.GoodputSample, error)) (best *lab.Lab, way bench.XferWay, err error) {
	longest := f.MTU + arctic.EthernetSize
	single := min(longest, afxdp.MaxSingle)
	ways := []bench.XferWay{{Frame: single}, {Frame: single, Steered: true}}
	if longest > single {
		ways = append(ways, bench.XferWay{Frame: longest, Jumbo: true},
			bench.XferWay{Frame: longest, Jumbo: true, Steered: true})
	}
	defer func() {
		if err != nil && best != nil {
			err = errors.Join(err, best.Close())
		}
	}()
	most := 0.0
	for _, w := range ways {
		f.Steer, f.Jumbo = w.Steered, w.Jumbo
		l, err := measuredLab(ctx, f)
		if err != nil {
			return best, way, err
		}
		gbit := 0.0
		for range 3 {
			sample, err := transfer(l)
			if err != nil {
				return best, way, errors.Join(err, l.Close())
			}
			gbit = max(gbit, sample.Gbit)
		}
		worse := l
		if gbit > most {
			worse, best, most, way = best, l, gbit, w
		}
		if worse != nil {
			if err := worse.Close(); err != nil {
				return best, way, err
			}
		}
	}
	f.Steer, f.Jumbo = way.Steered, way.Jumbo
	if way.Attach, err = program.ParseAttach(f.Mode); err != nil {
		return best, way, err
	}
	way.Bind, err = program.ParseBind(f.Bind)
	return best, way, err
}
