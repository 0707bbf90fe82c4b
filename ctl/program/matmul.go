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
	Kernel   string  `json:"kernel"` // the node's computing kernel
	// Columns is the result of the thesis's program by columns; nil: another program ran.
	Columns *columnsResult `json:"columns,omitempty"`
	Place
}

// columnsResult holds the additional figures of the program by columns.
type columnsResult struct {
	Extensions bool `json:"extensions"`
	// SpeedUp is the speed-up over one processor at its peak (thesis 6.2.2). Virtual is the same in
	// virtual time; 0: no machine is modelled.
	SpeedUp float64 `json:"speed_up_to_peak"`
	Virtual float64 `json:"virtual_speed_up_to_peak"`
}

// MatMulOptions are the program's flags.
type MatMulOptions struct {
	Size    int
	Seed    uint64
	Columns bool // the program of the thesis
	Plain   bool // without the extensions to CMAM
}

// Arguments are the flags that say the same.
func (o MatMulOptions) Arguments() []string {
	return []string{"--size", fmt.Sprint(o.Size), "--seed", fmt.Sprint(o.Seed), fmt.Sprintf("--columns=%t", o.Columns),
		fmt.Sprintf("--plain=%t", o.Plain)}
}

// MatMul is `funet matmul`.
func MatMul() *cobra.Command {
	var f Flags
	var o MatMulOptions
	c := &cobra.Command{
		Use:   "matmul",
		Short: "Multiply two matrices in column blocks, fetching the next columns while working on the last",
		Long: `Multiply two random square matrices, each in blocks of columns, one block a node, and compare the
product with one that is computed alone.

With --columns, and always with a profile that models a machine, the program is that of the
thesis (6.2.2, appendix C): column by column, by cmam_mfer_n, or with --plain by cmam_xfer_4.
On a modelled machine computing takes that machine's time, 63 cycles a multiplication and
addition; so two nodes can be compared with Figures 6.3 to 6.5: the speed-up is that to one
processor at its peak, beside the same in virtual time.`,
		Example: `  funet matmul --lab 4 --size 256
  funet matmul --lab 2 --size 64 --profile sbus-arctic   # Figure 6.3
  funet matmul --iface eth1 --node 0 --peers peers.yaml --size 1024`,
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
	c.Flags().BoolVar(&o.Columns, "columns", false, "column by column, as the thesis measured it")
	c.Flags().BoolVar(&o.Plain, "plain", false, "by columns without the extensions to CMAM, in messages of 16 bytes")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the random matrices")
	return c
}

// run runs matmul on one node.
func (o MatMulOptions) run(n *Node) (*MatMulResult, error) {
	if o.Columns || o.Plain || n.Own != nil && n.Own.CPU() != nil {
		return o.runColumns(n)
	}
	m, err := apps.MatMul(n.Endpoint, n.Segment, n.Now,
		apps.MatMulOptions{N: o.Size, R: o.Size, M: o.Size, Seed: o.Seed, Progress: n.Progress})
	if err != nil {
		return nil, err
	}
	r := &MatMulResult{Nodes: n.Endpoint.Nodes(), Size: o.Size, Verified: m.Verified, Error: m.WorstError,
		Kernel: apps.MatMulKernel(), Place: n.Where()}
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
	if r.Columns != nil {
		return r.writeColumns(w, verdict)
	}
	fmt.Fprintf(w, "matrix multiply: %d x %d doubles in column blocks on %d nodes\n", r.Size, r.Size, r.Nodes)
	return output.Table(w,
		[]string{"  result", fmt.Sprintf("%s (worst relative error %.1e)", verdict, r.Error)},
		[]string{"  time", fmt.Sprintf("%.4f s, %.0f MFLOP/s, the second time", r.Seconds, r.MFLOPS)},
		[]string{"  kernel", r.Kernel},
		[]string{"  XDP mode", r.Modes()})
}
