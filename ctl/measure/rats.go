package measure

// This file is `funet bench rats`.

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/apps"
)

// ratsBytes is the length of a short message in bytes: that of a request of four words.
const ratsBytes = 16

func keyed() *cobra.Command {
	var f flags
	o := bench.RatsOptions{Progress: os.Stderr}
	by := func(do string, bytes, part int) func(context.Context, *lab.Lab) (bench.RatsSample, error) {
		return func(ctx context.Context, l *lab.Lab) (bench.RatsSample, error) {
			p := program.RatsOptions{Do: do, Bytes: bytes, Count: max(o.Exchanges/part, 1), WarmUp: bench.Warmup / part}
			r, err := program.RunNodes[program.RatsResult](ctx, &f.Flags, l, program.RatsProgram, p.Arguments())
			if err != nil {
				return bench.RatsSample{}, err
			}
			return bench.RatsSample{Sample: bench.Sample{P50: r[0].P50, P99: r[0].P99}, XDPMode: r[0].XDPMode,
				BindMode: r[0].BindMode}, nil
		}
	}
	o.Tags, o.Calls = by(program.RatsTags, ratsBytes, 1), by(program.RatsCalls, ratsBytes, 1)
	o.Bulk = by(program.RatsBulk, bench.RatsBlock, 10)
	o.PingPong = func(ctx context.Context, l *lab.Lab) (s bench.RatsSample, err error) {
		p := program.PingPongOptions{PingPongOptions: apps.PingPongOptions{Exchanges: o.Exchanges,
			WarmUp: bench.Warmup}}
		r, err := program.RunNodes[program.PingPongResult](ctx, &f.Flags, l, "pingpong", p.Arguments())
		if err == nil {
			s = bench.RatsSample{Sample: bench.Sample{P50: r[0].P50, P99: r[0].P99}, XDPMode: r[0].XDPMode,
				BindMode: r[0].BindMode}
		}
		return s, err
	}
	o.Transfer = func(ctx context.Context, l *lab.Lab) (bench.RatsSample, error) {
		t := program.TransferOptions{TransferOptions: apps.TransferOptions{Bytes: max(o.Exchanges/10,
			1) * bench.RatsBlock, Block: bench.RatsBlock, Depth: 1}}
		s, err := goodput(ctx, &f.Flags, l, "transfer", t.Arguments())
		if err != nil {
			return bench.RatsSample{}, err
		}
		return bench.RatsSample{Sample: bench.Sample{P50: bench.RatsBlock * 8 / s.Gbit / 1e3}, XDPMode: s.XDPMode,
			BindMode: s.BindMode}, nil
	}
	c := f.onLab(&cobra.Command{
		Use:   "rats",
		Short: "Compare writes to keyed memory (package rats) with active messages and transfers",
		Long: `Compare round trips of package rats with those of active messages, and its long messages with transfers. A tagged
write of 16 bytes that is answered by another, and a simple datagram of 16 bytes that carries the ticket for its answer, stand
beside a request and a reply of four words. A message of 16 KiB that a notification tells about, answered by one without
data, stands beside the transfer of a block of 16 KiB, one at a time. They take turns; figures are medians over the rounds,
and ratios medians of those in each round.`,
		Example: "  funet bench rats --lab 2 --json",
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Rats(ctx, l, o) })
	f.number(c, &o.Exchanges, "exchanges", bench.Exchanges, "round trips in each run; a tenth of them of long messages")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}
