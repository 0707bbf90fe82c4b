package main

// This file is `funet matmul`.

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
)

// matmulResult is the JSON document of matmul.
type matmulResult struct {
	Nodes    int     `json:"nodes"`
	Size     int     `json:"size"`
	Verified bool    `json:"verified"`
	Seconds  float64 `json:"seconds"`
	MFLOPS   float64 `json:"mflop_per_s"`
	Error    float64 `json:"worst_relative_error"`
	XDPMode  string  `json:"xdp_mode"`
	BindMode string  `json:"bind_mode"`
	Node     int     `json:"node"`
}

func matmulCommand() *cobra.Command {
	var f nodeFlags
	var size int
	var seed uint64
	c := &cobra.Command{
		Use:   "matmul",
		Short: "Multiply two matrices in column blocks, fetching the next column while working on the last",
		Example: `  funet matmul --lab 4 --size 256
  funet matmul --iface eth1 --node 0 --peers peers.yaml --size 1024    # and the other nodes on theirs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if size < 1 || size > apps.MaxDimension {
				return fmt.Errorf("--size %d: use 1 to %d", size, apps.MaxDimension)
			}
			var r matmulResult
			if f.lab != 0 {
				all, err := onLab[matmulResult](c.Context(), &f, "matmul", []string{"--size", fmt.Sprint(size), "--seed", fmt.Sprint(seed)})
				if err != nil {
					return err
				}
				r = all[0]
			} else if err := f.matmul(size, seed, &r); err != nil {
				return err
			}
			if err := r.print(f.json); err != nil {
				return err
			}
			if r.Node == 0 && !r.Verified {
				return fmt.Errorf("the product is wrong: off by %g relative to the largest element", r.Error)
			}
			return nil
		},
	}
	f.register(c)
	c.Flags().IntVar(&size, "size", 256, "rows and columns of the matrices")
	c.Flags().Uint64Var(&seed, "seed", 1, "of the random matrices")
	return c
}

// matmul runs one node.
func (f *nodeFlags) matmul(size int, seed uint64, r *matmulResult) error {
	n, err := f.open()
	if err != nil {
		return err
	}
	m, err := apps.MatMul(n.e, n.Now, apps.MatMulOptions{N: size, R: size, M: size, Seed: seed})
	if err != nil {
		return errors.Join(n.explain(err), n.Close(0))
	}
	r.XDPMode, r.BindMode = n.modes()
	r.Node, r.Nodes, r.Size = n.e.Node(), n.e.Nodes(), size
	r.Verified, r.Error = m.Verified, m.WorstError
	if m.Nanoseconds > 0 {
		r.Seconds = float64(m.Nanoseconds) / 1e9
		r.MFLOPS = m.Flops / float64(m.Nanoseconds) * 1e3
	}
	return n.Close(linger)
}

func (r *matmulResult) print(asJSON bool) error {
	if asJSON {
		return printJSON(r)
	}
	if r.Node != 0 {
		fmt.Printf("node %d: done; node 0 has the figures (XDP %s, %s)\n", r.Node, r.XDPMode, r.BindMode)
		return nil
	}
	verdict := "equal to a local Dgemm"
	if !r.Verified {
		verdict = "WRONG"
	}
	fmt.Printf("matrix multiply: %d x %d doubles in column blocks on %d nodes\n", r.Size, r.Size, r.Nodes)
	return table(os.Stdout,
		[]string{"  result", fmt.Sprintf("%s (worst relative error %.1e)", verdict, r.Error)},
		[]string{"  time", fmt.Sprintf("%.4f s, %.0f MFLOP/s", r.Seconds, r.MFLOPS)},
		[]string{"  XDP mode", r.XDPMode + ", " + r.BindMode})
}
