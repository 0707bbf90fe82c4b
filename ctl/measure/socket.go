package measure

// This file is `funet bench socket`.

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

// warmConnections is the number of connections opened before the counted ones.
const warmConnections = 50

func sockets() *cobra.Command {
	var f flags
	o := bench.SocketOptions{Progress: os.Stderr}
	over := func(network string) func(context.Context, *lab.Lab, bench.SocketDo) (bench.SocketSample, error) {
		return func(ctx context.Context, l *lab.Lab, do bench.SocketDo) (bench.SocketSample, error) {
			p := map[bench.SocketDo]program.SocketOptions{
				bench.SocketRoundTrips: {Do: program.SocketRoundTrips, Bytes: bench.PayloadBytes, Count: o.Exchanges,
					WarmUp: bench.Warmup},
				bench.SocketBeside: {Do: program.SocketBeside, Bytes: bench.PayloadBytes,
					Count: max(o.Exchanges/10, 1), WarmUp: bench.Warmup / 10},
				bench.SocketBulk:      {Do: program.SocketBulk, Bytes: o.Megabytes << 20},
				bench.SocketShares:    {Do: program.SocketStreams, Streams: bench.SocketStreams},
				bench.SocketDatagrams: {Do: program.SocketDatagrams, Bytes: bench.PayloadBytes},
				bench.SocketIdle:      {Do: program.SocketIdle, Count: o.Idle},
				bench.SocketDials:     {Do: program.SocketConnections, Count: o.Connections, WarmUp: warmConnections},
			}[do]
			p.Over = network
			who := &f.Flags
			if network == program.OverTCP {
				who = who.OnOwnCards() // it takes the hosts' addresses
			}
			r, err := program.RunNodes[program.SocketResult](ctx, who, l, program.SocketProgram, p.Arguments())
			if err != nil {
				return bench.SocketSample{}, err
			}
			client, server := r[0], r[1]
			return bench.SocketSample{Sample: bench.Sample{P50: client.P50, P99: client.P99},
				PerSecond: max(client.Rate, server.Rate), Gbit: max(client.Gbit, server.Gbit),
				Jain: server.Jain, BytesEach: max(client.BytesEach, server.BytesEach), CPU: client.CPU + server.CPU,
				XDPMode: client.XDPMode, BindMode: client.BindMode}, nil
		}
	}
	o.Funet, o.TCP = over(program.OverFunet), over(program.OverTCP)
	o.Transfer = func(ctx context.Context, l *lab.Lab, bytes int) (bench.SocketSample, error) {
		t := program.TransferOptions{TransferOptions: apps.TransferOptions{Bytes: bytes, Block: bench.XferBlock.Usual,
			Depth: bench.XferDepth.Usual}}
		s, err := goodput(ctx, &f.Flags, l, "transfer", t.Arguments())
		return bench.SocketSample{Gbit: s.Gbit}, err
	}
	c := f.onLab(&cobra.Command{
		Use:   "socket",
		Short: "Compare connections (package socket) with Go's TCP and with block transfers",
		Long: `Compare the connections that FUNet gives Go programs (package socket) with those of TCP: the same program with the
one and with the other, in turn, between the same two hosts and interfaces. Measured are round trips of 64 bytes, alone
and beside a connection that is written to as fast as it takes it; bytes a second of one connection, beside TCP's and beside
the blocks of bench xfer; how evenly 64 connections share the way (Jain's index, 1 where they are equal); and connections
opened, used for one round trip and closed; datagrams that arrive, beside UDP's; and what connections cost that were used and
are idle: memory of a process for each, and time of both. Each process has a processor for itself. Figures are medians over the
rounds, and ratios medians of those in each round.`,
		Example: "  funet bench socket --lab 2 --json",
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Socket(ctx, l, o) })
	f.number(c, &o.Exchanges, "exchanges", bench.Exchanges, "round trips in each run")
	f.number(c, &o.Connections, "connections", bench.SocketConnections, "opened in each run")
	f.number(c, &o.Idle, "idle", bench.SocketIdling, "connections that are open at once and not used")
	f.number(c, &o.Megabytes, "megabytes", bench.SocketMegabytes, "of each bulk transfer, in units of 2^20 bytes")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}
