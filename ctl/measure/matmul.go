package measure

// This file is `funet bench matmul`.

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
)

func matmul() *cobra.Command {
	var f flags
	o := bench.MatmulOptions{Progress: os.Stderr}
	o.Funet = func(ctx context.Context, l *lab.Lab, alone bool) (bench.MatmulSample, error) {
		here := f.Flags
		here.Alone = alone
		nodes, err := program.RunNodes[program.MatMulResult](ctx, &here, l, "matmul",
			program.MatMulOptions{Size: o.Size, Seed: 1}.Arguments())
		if err != nil {
			return bench.MatmulSample{}, err
		}
		r := nodes[0]
		return bench.MatmulSample{Seconds: r.Seconds, Kernel: r.Kernel, XDPMode: r.XDPMode, BindMode: r.BindMode}, nil
	}
	c := f.onLab(&cobra.Command{
		Use:   "matmul",
		Short: "Compare the time of a matrix product with that of the same program over OpenMPI",
		Long: `Compare how long funet matmul takes with a program in C over OpenMPI and TCP, on the
same lab: the same panels of columns, as many of them ahead, the same loop. Each also runs
on one host alone, which gives its utilisation: the time of a single node by the number of
nodes times the time on all. Every run computes the product twice, measures the second and
verifies it. The report says what each computes with. The MPI program calls MPI as rarely
as a few trial runs find fastest. The four take turns; figures are medians over the
rounds. With more hosts than processors the nodes share them, and utilisation says
little. Without OpenMPI the report says so and has FUNet's figures alone.

The lab has --mtu 3500, where a frame fills a page of memory. TCP on it sends segments of
64 KB whatever the MTU, but to FUNet each frame costs the same: at 1500 it falls behind.`,
		Example: "  funet bench matmul --lab 2 --size 1024",
	}, func(ctx context.Context, l *lab.Lab) (output.Report, error) { return bench.Matmul(ctx, l, o) })
	f.number(c, &o.Size, "size", bench.MatmulSize, "rows and columns of the matrices")
	f.register(c, &o.Rounds, lab.MinHosts, lab.MaxHosts, 2)
	c.Flags().IntVar(&f.MTU, "mtu", 3500, "of the lab's links, in bytes, for both")
	return c
}
