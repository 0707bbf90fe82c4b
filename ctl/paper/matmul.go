package paper

// This file is `funet sim matmul`: the matrix multiply of thesis 6.2.2 on modelled machines in
// virtual time, for Figures 6.2 to 6.5.

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/paper/virtual"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
)

// point is the result of a run: x as on the figure's axis, and y, the value reached.
type point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// curve is the points of one machine or library.
type curve struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`
}

// figure is the JSON document.
type figure struct {
	Figure string `json:"figure"`
	// MultiplyAdd is the time of one multiply-add, in cycles of the processor.
	MultiplyAdd int     `json:"multiply_add_cycles"`
	Curves      []curve `json:"curves"`
	Claims      []claim `json:"claims"`
}

// setup is a product, and its place on the axis.
type setup struct {
	virtual.Product
	x float64
}

// moved returns the number of doubles that all nodes fetch. The duration of a run grows with it.
func (r setup) moved() int { return r.Nodes * r.N * r.R }

// machines are the three machines and libraries of every figure.
var machines = []struct {
	name, profile string
	extensions    bool
}{{"cm5", "cm5", false}, {"plain", "sbus-arctic", false}, {"extensions", "sbus-arctic", true}}

// figures has the runs of each figure, and whether y is utilisation in per cent or speed-up.
var figures = map[string]struct {
	runs        []setup
	utilisation bool
}{
	"6.2": {utilisationRuns(), true},
	"6.3": {squareRuns(64), false},
	"6.4": {squareRuns(128), false},
	"6.5": {squareRuns(256), false},
}

// utilisationRuns returns the runs of Figure 6.2: each with as many operations, on 32 nodes.
func utilisationRuns() (runs []setup) {
	for r := 2048; r >= 64; r /= 2 {
		m := 64 * 1024 / r
		runs = append(runs, setup{virtual.Product{Nodes: 32, N: 128, R: r, M: m}, float64(m) / 32})
	}
	return runs
}

// squareRuns returns the runs of Figures 6.3 to 6.5.
func squareRuns(size int) (runs []setup) {
	for nodes := 1; nodes <= 64; nodes *= 2 {
		runs = append(runs, setup{virtual.Product{Nodes: nodes, N: size, R: size, M: size}, float64(nodes)})
	}
	return runs
}

// matmulCommand is `funet sim matmul`.
func matmulCommand() *cobra.Command {
	var f flags
	var name string
	var multiplyAdd int
	c := &cobra.Command{
		Long: `Run the matrix multiply of the thesis (6.2.2, appendix C) on modelled machines in
virtual time, and say which of the thesis's claims hold. Every product is compared.

  6.2            utilisation of 32 processors, by columns of the product on each
  6.3, 6.4, 6.5  speed-up of squares of 64, 128 and 256 on 1 to 64 nodes

Both are relative to one processor's peak: the same loops without communication. Three
curves: cm5 takes what CMAM's calls were measured to take on a CM-5; plain fetches by
cmam_xfer_4, 16 bytes a message, and extensions by cmam_mfer_n, 80 bytes a packet that
the card moves, both on the machine of profile sbus-arctic.

One multiply-add is 63 cycles (--multiply-add): unoptimised C for a processor that has no
instruction to multiply integers, without the routine that does it, which the thesis's
simulator did not count; 54 to 66 can be defended. With 123, routine included, both curves of
Figure 6.2 pass 80 % at half the columns that the thesis names.

What the thesis says of a figure is judged in its words. Where it gives no figure, as for
"closely follows the ideal", what the model has is shown and not judged.

The thesis has a hypercube of routers of 4 ports, which holds 8 nodes; here the routers
have 8 ports, and one node each.`,
		Example: `  funet sim matmul --figure 6.2
  funet sim matmul --figure 6.5 --json --plot figure-6.5.svg --plot f.png`,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, ok := figures[name]; !ok {
				return usage.Explain(c, fmt.Errorf("--figure %q: use 6.2, 6.3, 6.4 or 6.5", name))
			}
			if multiplyAdd < 1 || multiplyAdd > 1000 {
				return usage.Explain(c, fmt.Errorf("--multiply-add %d: use 1 to 1000 cycles", multiplyAdd))
			}
			return f.draw(c, func() (drawn, error) {
				return simulateFigure(c.Context(), name, figures[name].runs, multiplyAdd)
			})
		},
	}
	f.register(c, "", "", "the figure", "")
	c.Flags().StringVar(&name, "figure", "6.2", "which figure: 6.2, 6.3, 6.4 or 6.5")
	c.Flags().IntVar(&multiplyAdd, "multiply-add", apps.MultiplyAddCycles, "cycles of one multiplication and addition")
	return c
}

// simulateFigure runs all points on all processors, each in a world of its own. The result does not
// depend on their order.
func simulateFigure(ctx context.Context, name string, runs []setup, multiplyAdd int) (*figure, error) {
	result := &figure{Figure: name, MultiplyAdd: multiplyAdd}
	for _, m := range machines {
		result.Curves = append(result.Curves, curve{Name: m.name, Points: make([]point, len(runs))})
	}
	order := make([]int, len(runs)) // the longest first, so that none is left to the end
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return runs[b].moved() - runs[a].moved() })
	var all int64
	for _, r := range runs {
		all += int64(len(machines) * r.moved())
	}
	told := output.Begin("simulating figure "+name, all)
	defer told.End()
	err := each(ctx, len(runs)*len(machines), func(i int) error {
		curve, at := i%len(machines), order[i/len(machines)]
		run := runs[at]
		run.MultiplyAdd = multiplyAdd
		so := 0 // of moved, as far as told
		y, err := simulateRun(ctx, curve, run.Product, func(part float64) {
			was := so
			so = int(part * float64(run.moved()))
			told.Add(int64(so - was))
		})
		if result.utilisation() {
			y *= 100 / float64(run.Nodes)
		}
		result.Curves[curve].Points[at] = point{run.x, y}
		told.Add(int64(run.moved() - so))
		return err
	})
	if err == nil {
		result.claim()
	}
	return result, err
}

// simulateRun runs one point of a curve. It returns the speed relative to one processor at its
// peak.
func simulateRun(ctx context.Context, curve int, x virtual.Product, told func(part float64)) (float64, error) {
	p, err := hwprofiles.Load(machines[curve].profile)
	if err != nil {
		return 0, err
	}
	x.Extensions = machines[curve].extensions
	return x.SpeedUp(ctx, p, told)
}

// print writes the result for people.
func (r *figure) print(s *sheet) {
	x, y, format := "nodes", "speed-up, normalised to one processor's peak", "%.2f"
	if r.utilisation() {
		x, y, format = "M/p", "utilisation of 32 processors in % of peak", "%.1f"
	}
	s.line("Figure %s of the thesis: %s", r.Figure, y)
	cells := [][]string{{"  " + x}}
	for _, p := range r.Curves[0].Points {
		cells = append(cells, []string{"  " + fmt.Sprint(p.X)})
	}
	for _, c := range r.Curves {
		cells[0] = append(cells[0], c.Name)
		for i, p := range c.Points {
			cells[i+1] = append(cells[i+1], fmt.Sprintf(format, p.Y))
		}
	}
	s.table(cells...)
	for _, c := range r.Claims {
		s.line("%s: %s (%s)", verdict(c.Holds), c.Text, c.Shows)
	}
}

// utilisation reports whether y is utilisation in per cent, not speed-up.
func (r *figure) utilisation() bool { return figures[r.Figure].utilisation }
