package program

// This file is `funet matmul`.

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/apps"
)

// MatMulResult is the JSON document of matmul.
type MatMulResult struct {
	Nodes    int     `json:"nodes"`
	Size     int     `json:"size"`
	Verified bool    `json:"verified"`
	Seconds  float64 `json:"seconds"`
	MFLOPS   float64 `json:"mflop_per_s"`
	Error    float64 `json:"worst_relative_error"`
	Kernel   string  `json:"kernel"` // what the node computes with
	Place
}

// MatMulOptions are the program's flags.
type MatMulOptions struct {
	Size int
	Seed uint64
}

// Arguments are the flags that say the same.
func (o MatMulOptions) Arguments() []string {
	return []string{"--size", fmt.Sprint(o.Size), "--seed", fmt.Sprint(o.Seed)}
}

// MatMul is `funet matmul`.
func MatMul() *cobra.Command {
	var f Flags
	var o MatMulOptions
	c := &cobra.Command{
		Use:   "matmul",
		Short: "Multiply two matrices in column blocks, fetching the next columns while working on the last",
		Example: `  funet matmul --lab 4 --size 256
  funet matmul --iface eth1 --node 0 --peers peers.yaml --size 1024    # and the other nodes on theirs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := InRange("--size", o.Size, 1, apps.MaxDimension); err != nil {
				return err
			}
			r, err := Run(c, &f, o.Arguments(), o.run)
			if err != nil {
				return err
			}
			if err := Show(f.JSON, r); err != nil {
				return err
			}
			if r.Node == 0 && !r.Verified {
				return fmt.Errorf("the product is wrong: off by %g relative to the largest element", r.Error)
			}
			return nil
		},
	}
	f.Register(c)
	c.Flags().BoolVar(&f.Alone, "alone", false, "on node 0 without the others, to compare")
	c.Flags().IntVar(&o.Size, "size", 256, "rows and columns of the matrices")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the random matrices")
	return c
}

// run is one node.
func (o MatMulOptions) run(n *Node) (*MatMulResult, error) {
	m, err := apps.MatMul(n.Endpoint, n.Segment, n.Now, apps.MatMulOptions{N: o.Size, R: o.Size, M: o.Size, Seed: o.Seed, Progress: n.Progress})
	if err != nil {
		return nil, err
	}
	r := &MatMulResult{Nodes: n.Endpoint.Nodes(), Size: o.Size, Verified: m.Verified, Error: m.WorstError, Kernel: apps.MatMulKernel(), Place: n.Where()}
	if m.Nanoseconds > 0 {
		r.Seconds = float64(m.Nanoseconds) / 1e9
		r.MFLOPS = m.Flops / float64(m.Nanoseconds) * 1e3
	}
	return r, nil
}

// WriteTable prints the result for people.
func (r *MatMulResult) WriteTable(w io.Writer) error {
	verdict := "equal to a local Dgemm"
	if !r.Verified {
		verdict = "WRONG"
	}
	fmt.Fprintf(w, "matrix multiply: %d x %d doubles in column blocks on %d nodes\n", r.Size, r.Size, r.Nodes)
	return output.Table(w,
		[]string{"  result", fmt.Sprintf("%s (worst relative error %.1e)", verdict, r.Error)},
		[]string{"  time", fmt.Sprintf("%.4f s, %.0f MFLOP/s, the second time", r.Seconds, r.MFLOPS)},
		[]string{"  kernel", r.Kernel},
		[]string{"  XDP mode", r.Modes()})
}
