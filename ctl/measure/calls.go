package measure

// This file is `funet bench calls`.

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

// warmLong is the number of long messages sent before the measured ones.
const warmLong = 16

func calls() *cobra.Command {
	var f flags
	o := bench.CallsOptions{RoleCommand: roleArgs, Progress: os.Stderr}
	o.PingPong = func(ctx context.Context, l *lab.Lab) (s bench.CallsSample, err error) {
		p := program.PingPongOptions{PingPongOptions: apps.PingPongOptions{Exchanges: o.Exchanges,
			WarmUp: bench.Warmup}}
		r, err := program.RunNodes[program.PingPongResult](ctx, &f.Flags, l, "pingpong", p.Arguments())
		if err == nil {
			s = bench.CallsSample{Sample: bench.Sample{P50: r[0].P50, P99: r[0].P99}, XDPMode: r[0].XDPMode,
				BindMode: r[0].BindMode}
		}
		return s, err
	}
	remote := func(ctx context.Context, l *lab.Lab, p program.RemoteOptions) (s bench.CallsSample, err error) {
		p.Goroutines = max(p.Goroutines, 1)
		if p.WarmUp == 0 {
			p.WarmUp = bench.Warmup
		}
		r, err := program.RunNodes[program.RemoteResult](ctx, &f.Flags, l, program.RemoteProgram, p.Arguments())
		if err == nil {
			s = bench.CallsSample{Sample: bench.Sample{P50: r[0].P50, P99: r[0].P99},
				PerSecond: max(r[0].Rate, r[1].Rate), XDPMode: r[0].XDPMode, BindMode: r[0].BindMode}
		}
		return s, err
	}
	o.Call = func(ctx context.Context, l *lab.Lab) (bench.CallsSample, error) {
		return remote(ctx, l, program.RemoteOptions{Do: program.RemoteCalls, Bytes: bench.PayloadBytes,
			Count: o.Exchanges})
	}
	o.Goroutines = func(ctx context.Context, l *lab.Lab, n int) (bench.CallsSample, error) {
		return remote(ctx, l, program.RemoteOptions{Do: program.RemoteCalls, Bytes: bench.PayloadBytes,
			Count: o.Exchanges, Goroutines: n})
	}
	o.Send = func(ctx context.Context, l *lab.Lab) (bench.CallsSample, error) {
		return remote(ctx, l, program.RemoteOptions{Do: program.RemoteSends, Bytes: 16, Count: o.Messages})
	}
	o.Request = func(ctx context.Context, l *lab.Lab) (bench.CallsSample, error) {
		return remote(ctx, l, program.RemoteOptions{Do: program.RemoteRequests, Bytes: 16, Count: o.Messages})
	}
	o.Send1M = func(ctx context.Context, l *lab.Lab, bytes int) (bench.CallsSample, error) {
		const size = bench.Mebibyte
		s, err := remote(ctx, l, program.RemoteOptions{Do: program.RemoteSends, Bytes: size, Count: bytes / size,
			WarmUp: warmLong})
		s.Gbit = s.PerSecond * size * 8 / 1e9
		return s, err
	}
	o.Transfer = func(ctx context.Context, l *lab.Lab, bytes int) (bench.CallsSample, error) {
		t := program.TransferOptions{TransferOptions: apps.TransferOptions{Bytes: bytes, Block: bench.XferBlock.Usual,
			Depth: bench.XferDepth.Usual}}
		s, err := goodput(ctx, &f.Flags, l, "transfer", t.Arguments())
		return bench.CallsSample{Gbit: s.Gbit, XDPMode: s.XDPMode, BindMode: s.BindMode}, err
	}
	c := f.onLab(&cobra.Command{
		Use:   "calls",
		Short: "Compare calls with ping-pong and with gRPC over TCP",
		Long: fmt.Sprintf(`Compare how long a call of %d bytes takes that a handler answers with as many bytes: FUNet's,
beside a ping-pong of a request and a reply of 16 bytes, and beside a unary call of gRPC over one TCP
connection between the same two hosts. They take turns; figures are medians over the rounds, and ratios
medians of those in each round. Besides: messages of 16 bytes one way, beside requests of as many in words,
messages of 1 MiB, beside blocks as bench xfer moves them, and calls of 1, 2 and 8 goroutines at once. An end of gRPC has its host's processor for itself and leaves everything to
Go's scheduler, which does not spin; FUNet polls.`, bench.PayloadBytes),
		Example: "  funet bench calls --lab 2",
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Calls(ctx, l, o) })
	f.number(c, &o.Exchanges, "exchanges", bench.Exchanges, "calls and exchanges of each and in each round")
	f.number(c, &o.Messages, "messages", bench.CallsMessages, "messages one way in each round")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}
