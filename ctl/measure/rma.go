package measure

// This file is `funet bench rma`.

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/uspace/apps"
)

func rma() *cobra.Command {
	var f flags
	var daemons bool
	o := bench.RMAOptions{Progress: os.Stderr}
	// run runs a program between embedded cards, or through daemons, and returns a figure of node
	// 0's. What the programs print has the same names.
	run := func(ctx context.Context, l *lab.Lab, figure func(*program.RMAResult) float64, name string,
		args []string) (bench.RMASample, error) {
		var r program.RMAResult
		if daemons {
			d := lab.DaemonOptions{XDP: f.Mode, Bind: f.Bind, Jumbo: f.Jumbo}
			job := launch.Options{Nodes: 2, Label: true, Program: "funet",
				Args: append([]string{name, "--json"}, args...)}
			var err error
			if r, err = onDaemons[program.RMAResult](ctx, l, d, job); err != nil {
				return bench.RMASample{}, err
			}
		} else {
			all, err := program.RunNodes[program.RMAResult](ctx, &f.Flags, l, name, args)
			if err != nil {
				return bench.RMASample{}, err
			}
			r = all[0]
		}
		return bench.RMASample{Figure: figure(&r), XDPMode: r.XDPMode, BindMode: r.BindMode}, nil
	}
	p50 := func(r *program.RMAResult) float64 { return r.P50 }
	goodput := func(r *program.RMAResult) float64 { return r.Goodput }
	rate := func(r *program.RMAResult) float64 { return r.Rate }
	writes := func(do string, figure func(*program.RMAResult) float64, count func() int) func(context.Context,
		*lab.Lab) (bench.RMASample, error) {
		return func(ctx context.Context, l *lab.Lab) (bench.RMASample, error) {
			p := program.RMAOptions{Do: do, Block: bench.RMABlock, Count: count(), WarmUp: bench.Warmup}
			return run(ctx, l, figure, program.RMAProgram, p.Arguments())
		}
	}
	trips := func() int { return max(o.Exchanges, 2) }
	blocks := func() int { return max(o.Exchanges/100, 2*bench.RMADepth) }
	messages := func() int { return max(10*o.Exchanges, 2) }
	o.Put, o.Notify = writes(program.RMAPut, p50, trips), writes(program.RMANotify, p50, trips)
	o.Get, o.Add, o.Swap = writes(program.RMAGet, p50, trips), writes(program.RMAAdd, p50, trips),
		writes(program.RMASwap, p50, trips)
	o.Gets = writes(program.RMAGets, goodput, blocks)
	o.Bulk, o.Rate = writes(program.RMABulk, goodput, blocks), writes(program.RMARate, rate, messages)
	o.PingPong = func(ctx context.Context, l *lab.Lab) (bench.RMASample, error) {
		p := program.PingPongOptions{PingPongOptions: apps.PingPongOptions{Exchanges: trips(), WarmUp: bench.Warmup}}
		return run(ctx, l, p50, "pingpong", p.Arguments())
	}
	o.Transfer = func(ctx context.Context, l *lab.Lab) (bench.RMASample, error) {
		t := program.TransferOptions{TransferOptions: apps.TransferOptions{Bytes: blocks() * bench.RMABlock,
			Block: bench.RMABlock, Depth: bench.RMADepth}}
		return run(ctx, l, goodput, "transfer", t.Arguments())
	}
	o.Stream = func(ctx context.Context, l *lab.Lab) (bench.RMASample, error) {
		s := program.StreamOptions{StreamOptions: apps.StreamOptions{Senders: 1, Messages: messages(),
			Words: bench.RateWords}}
		return run(ctx, l, rate, "stream", s.Arguments())
	}
	c := f.onLab(&cobra.Command{
		Use:   "rma",
		Short: "Compare operations on another process's memory with active messages, transfers, UCX and OpenMPI",
		Long: `Compare operations that a card carries out on the memory of another process. Each end of a round trip writes 8 bytes, and
the other sees them in its memory (put), or hears of them by a notification (put_notify); of a read, a fetch-and-add and a
swap of 8 bytes (get, add, swap) the other process has no part. Beside them stand a request and a reply of four words, and
ucx_perftest's ucp_put_lat, ucp_get, ucp_fadd and ucp_swap over TCP. Writes and reads of blocks of 1 MiB stand beside
transfers, and writes of 8 bytes one way beside messages of four words. One-sided operations of OpenMPI, UCX's ucp_put_bw
and libfabric's fi_rma_bw (fabtests) run in the same rounds, all over TCP. They take turns; figures are medians over the
rounds, and ratios medians of those in each round. Tools that are absent are named, and their figures lacking.`,
		Example: "  funet bench rma --lab 2 --json\n  funet bench rma --lab 2 --daemons",
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.RMA(ctx, l, o) })
	f.number(c, &o.Exchanges, "exchanges", bench.Exchanges,
		"round trips in each run; ten times as many writes one way, a hundredth of blocks")
	c.Flags().BoolVar(&daemons, "daemons", false, "FUNet through the daemons of both hosts instead of embedded cards")
	f.RegisterCard(c)
	f.register(c, &o.Rounds, 2, 2, 2)
	return c
}
