package program

// This file is `funet matmul` as the thesis measured it: by columns, on a modelled machine with
// that machine's time for computing.

import (
	"fmt"
	"io"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/uspace/apps"
)

// runColumns runs the program by columns on one node.
func (o MatMulOptions) runColumns(n *Node) (*MatMulResult, error) {
	m, err := apps.MatMulColumns(n.Endpoint, n.Segment, n.Now,
		apps.ColumnsOptions{N: o.Size, R: o.Size, M: o.Size, Extensions: !o.Plain, Seed: o.Seed,
			Progress: n.Progress})
	if err != nil {
		return nil, err
	}
	r := &MatMulResult{Nodes: n.Endpoint.Nodes(), Size: o.Size, Verified: m.Verified, Error: m.WorstError,
		Kernel:  apps.MatMulKernel(),
		Seconds: float64(m.Nanoseconds) / 1e9, MFLOPS: m.Flops / float64(m.Nanoseconds) * 1e3,
		Columns: &columnsResult{Extensions: !o.Plain}, Place: n.Where()}
	if n.Own == nil || n.Own.CPU() == nil || n.Endpoint.Node() != 0 {
		return r, nil
	}
	p := n.Profile
	r.Columns.SpeedUp =
		float64(m.Cycles) * float64(p.CPU.Clock.Duration(p.CPU.InstructionCycles)) / float64(m.Nanoseconds)
	x := virtual.Product{Nodes: n.Endpoint.Nodes(), N: o.Size, R: o.Size, M: o.Size, Extensions: !o.Plain}
	if r.Columns.Virtual, err = x.SpeedUp(n.ctx, p, nil); err != nil {
		return nil, fmt.Errorf("multiplying in virtual time: %w", err)
	}
	return r, nil
}

// writeColumns prints the result for people.
func (r *MatMulResult) writeColumns(w io.Writer, verdict string) error {
	if r.Verified {
		verdict = "equal to what each node computes alone"
	}
	library := "cmam_mfer_n"
	if !r.Columns.Extensions {
		library = "cmam_xfer_4"
	}
	fmt.Fprintf(w, "matrix multiply: %d x %d doubles by columns (thesis 6.2.2) with %s on %d nodes\n", r.Size, r.Size,
		library, r.Nodes)
	cells := [][]string{{"  result", fmt.Sprintf("%s (worst relative error %.1e)", verdict, r.Error)},
		{"  time", fmt.Sprintf("%.4f s, %.1f MFLOP/s", r.Seconds, r.MFLOPS)}}
	if r.Columns.SpeedUp > 0 {
		cells = append(cells, []string{"  speed-up",
			fmt.Sprintf("%.2f to one processor's peak; %.2f in virtual time (%+.1f %%)", r.Columns.SpeedUp,
				r.Columns.Virtual,
				100*(r.Columns.SpeedUp/r.Columns.Virtual-1))})
	}
	return output.Table(w, append(cells, []string{"  XDP mode", r.Modes()})...)
}
