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

func calls() *cobra.Command {
	var f flags
	o := bench.CallsOptions{RoleCommand: program.RoleArgs, Progress: os.Stderr}
	sample := func(r []program.PingPongResult) bench.CallsSample {
		return bench.CallsSample{Sample: bench.Sample{P50: r[0].P50, P99: r[0].P99}, XDPMode: r[0].XDPMode, BindMode: r[0].BindMode}
	}
	o.PingPong = func(ctx context.Context, l *lab.Lab) (s bench.CallsSample, err error) {
		p := program.PingPongOptions{PingPongOptions: apps.PingPongOptions{Exchanges: o.Exchanges, WarmUp: bench.Warmup}}
		r, err := program.RunNodes[program.PingPongResult](ctx, &f.Flags, l, "pingpong", p.Arguments())
		if err != nil {
			return s, err
		}
		return sample(r), nil
	}
	o.Call = func(ctx context.Context, l *lab.Lab) (s bench.CallsSample, err error) {
		p := program.RemoteOptions{RemoteOptions: apps.RemoteOptions{Bytes: bench.PayloadBytes, Calls: o.Exchanges, WarmUp: bench.Warmup}}
		r, err := program.RunNodes[program.PingPongResult](ctx, &f.Flags, l, program.RemoteProgram, p.Arguments())
		if err != nil {
			return s, err
		}
		return sample(r), nil
	}
	c := f.onLab(&cobra.Command{
		Use:   "calls",
		Short: "Compare calls with ping-pong and with gRPC over TCP",
		Long: fmt.Sprintf(`Compare how long a call of %d bytes takes that a handler answers with as many bytes: FUNet's,
beside a ping-pong of a request and a reply of 16 bytes, and beside a unary call of gRPC over one TCP
connection between the same two hosts. They take turns; figures are medians over the rounds, and ratios
medians of those in each round. An end of gRPC has its host's processor for itself and leaves everything to
Go's scheduler, which does not spin; FUNet polls.`, bench.PayloadBytes),
		Example: "  funet bench calls --lab 2",
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Calls(ctx, l, o) })
	f.number(c, &o.Exchanges, "exchanges", bench.Exchanges, "calls and exchanges of each and in each round")
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}
