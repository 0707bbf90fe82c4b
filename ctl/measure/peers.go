package measure

// This file is `funet bench peers`.

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/cluster"
)

func peers() *cobra.Command {
	var f flags
	o := bench.Options{RoleCommand: roleArgs, Progress: os.Stderr}
	exchanges := func() []string {
		return program.PingPongOptions{PingPongOptions: apps.PingPongOptions{Exchanges: o.Exchanges,
			WarmUp: bench.Warmup}}.Arguments()
	}
	o.Daemons = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
		return throughDaemons(ctx, &f.Flags, l, exchanges())
	}
	o.Direct = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
		return directly(ctx, &f.Flags, l, 2, exchanges())
	}
	o.Shared = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
		return directly(ctx, &f.Flags, l, 1, exchanges())
	}
	o.Local = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
		return twoContexts(ctx, &f.Flags, l, o.Exchanges)
	}
	o.UDP = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
		datagrams := f.Flags
		datagrams.Encap = cluster.UDP.String()
		return pingPong(ctx, &datagrams, l, exchanges())
	}
	o.Funet = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
		return pingPong(ctx, &f.Flags, l, exchanges())
	}
	c := f.onLab(&cobra.Command{
		Use:     "peers",
		Example: "  funet bench peers --lab 2\n  funet bench peers --lab 2 --only tcp_spin,ucx --rounds 9",
		Short:   "Compare round trips of FUNet, raw AF_XDP, sockets, UCX, libfabric and MPI on one lab",
		Long: `Compare round trips on one lab of two hosts. Every round runs every peer once, so
that a change of the machine's speed meets all of them; figures are medians over
the rounds. Peers that are not installed are reported as absent; "make peers"
installs them.`,
		PreRunE: func(*cobra.Command, []string) error { return o.CheckOnly() },
	}, func(ctx context.Context, l *lab.Lab) (_ output.Report, err error) {
		// The modes that were found for FUNet are raw_afxdp's too.
		if o.Attach, err = program.ParseAttach(f.Mode); err != nil {
			return nil, err
		}
		if o.Bind, err = program.ParseBind(f.Bind); err != nil {
			return nil, err
		}
		return bench.Peers(ctx, l, o)
	})
	f.number(c, &o.Exchanges, "exchanges", bench.Exchanges, "round trips of each peer and round")
	c.Flags().StringSliceVar(&o.Only, "only", nil, "measure only these peers, besides funet: "+
		strings.Join(bench.Keys(), ", "))
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}

// pingPong measures the ping-pong program between embedded cards.
func pingPong(ctx context.Context, f *program.Flags, l *lab.Lab, args []string) (bench.Sample, error) {
	r, err := program.RunNodes[program.PingPongResult](ctx, f, l, "pingpong", args)
	if err != nil {
		return bench.Sample{}, err
	}
	return bench.Sample{P50: r[0].P50, P99: r[0].P99}, nil
}
