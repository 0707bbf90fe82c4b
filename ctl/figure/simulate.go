package figure

// This file is `funet sim matmul`: the matrix multiply of thesis 6.2.2 on modelled machines in
// virtual time, for Figures 6.2 to 6.5.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/sim"
)

const (
	// queueSlots is the number of slots in a queue. A column of 256 doubles takes fewer in packets
	// of 16 bytes, so one fetch never fills a queue.
	queueSlots = 256
	// limit is the most virtual time of a run, far more than any takes.
	limit = 1000 * time.Second
	// slice is the virtual time between two checks whether the user has cancelled.
	slice = 10 * time.Millisecond
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

// result is the JSON document.
type result struct {
	Figure string `json:"figure"`
	// MultiplyAdd is the time of one multiply-add, in cycles of the processor.
	MultiplyAdd int     `json:"multiply_add_cycles"`
	Curves      []curve `json:"curves"`
	Claims      []claim `json:"claims"`
}

// setup is the parameters of one point.
type setup struct {
	nodes, n, r, m int
	x              float64
}

// moved returns the number of doubles that all nodes fetch. The duration of a run grows with it.
func (r setup) moved() int { return r.nodes * r.n * r.r }

// machine is a machine and its library.
type machine struct {
	name, profile string
	extensions    bool
	cluster       func(p *hwprofiles.Profile, nodes, slots int, program sim.Program) (*sim.Cluster, error)
}

// machines are the three machines of every figure.
var machines = []machine{
	{"cm5", "cm5", false, sim.NewMeasuredCluster},
	{"plain", "sbus-arctic", false, sim.NewPacedCluster},
	{"extensions", "sbus-arctic", true, sim.NewPacedCluster},
}

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
		runs = append(runs, setup{32, 128, r, m, float64(m) / 32})
	}
	return runs
}

// squareRuns returns the runs of Figures 6.3 to 6.5.
func squareRuns(size int) (runs []setup) {
	for nodes := 1; nodes <= 64; nodes *= 2 {
		runs = append(runs, setup{nodes, size, size, size, float64(nodes)})
	}
	return runs
}

// Command is `funet sim matmul`.
func Command() *cobra.Command {
	var figure string
	var plots []string
	var asJSON bool
	var multiplyAdd int
	c := &cobra.Command{
		Use:   "matmul",
		Short: "Multiply matrices on 1 to 64 modelled machines, as Figures 6.2 to 6.5 of the thesis",
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
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, ok := figures[figure]
			if !ok {
				return usage.Explain(c, fmt.Errorf("--figure %q: use 6.2, 6.3, 6.4 or 6.5", figure))
			}
			if multiplyAdd < 1 || multiplyAdd > 1000 {
				return usage.Explain(c, fmt.Errorf("--multiply-add %d: use 1 to 1000 cycles", multiplyAdd))
			}
			drawn, err := OpenPictures(plots)
			if err != nil {
				return usage.Explain(c, err)
			}
			defer drawn.Discard()
			r, err := simulateFigure(c.Context(), figure, f.runs, f.utilisation, multiplyAdd)
			if err != nil {
				return err
			}
			return errors.Join(drawn.Write(r.drawing()), output.Show(asJSON, r))
		},
	}
	c.Flags().StringVar(&figure, "figure", "6.2", "which figure: 6.2, 6.3, 6.4 or 6.5")
	c.Flags().StringArrayVar(&plots, "plot", nil, "draw the figure into `FILE`.svg or .png; may be repeated")
	c.Flags().IntVar(&multiplyAdd, "multiply-add", apps.MultiplyAddCycles, "cycles of one multiplication and addition")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// simulateFigure runs all points on all processors, each in a world of its own. The result does not
// depend on their order.
func simulateFigure(ctx context.Context, figure string, runs []setup, utilisation bool,
	multiplyAdd int) (*result, error) {
	result := &result{Figure: figure, MultiplyAdd: multiplyAdd}
	for _, c := range machines {
		result.Curves = append(result.Curves, curve{Name: c.name, Points: make([]point, len(runs))})
	}
	order := make([]int, len(runs)) // the longest first, so that none is left to the end
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return runs[b].moved() - runs[a].moved() })
	errs := make([]error, len(runs)*len(machines))
	var all int64
	for _, r := range runs {
		all += int64(len(machines) * r.moved())
	}
	told := output.Begin("simulating figure "+figure, all)
	defer told.End()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(errs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				curve, at := i%len(machines), order[i/len(machines)]
				run := runs[at]
				so := 0 // of moved, as far as told
				y, err := simulateRun(ctx, curve, run, multiplyAdd, func(part float64) {
					was := so
					so = int(part * float64(run.moved()))
					told.Add(int64(so - was))
				})
				if utilisation {
					y *= 100 / float64(run.nodes)
				}
				result.Curves[curve].Points[at], errs[i] = point{run.x, y}, err
				told.Add(int64(run.moved() - so))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	result.claim()
	return result, nil
}

// simulateRun runs one point. It returns the speed relative to one processor at its peak.
func simulateRun(ctx context.Context, curve int, run setup, multiplyAdd int, told func(part float64)) (float64, error) {
	c := &machines[curve]
	p, err := hwprofiles.Load(c.profile)
	if err != nil {
		return 0, err
	}
	return c.run(ctx, p, run, multiplyAdd, told)
}

// run runs one point on a machine. It reports the part of it that is simulated, by the least time
// that the point can take.
func (c *machine) run(ctx context.Context, p *hwprofiles.Profile, run setup, multiplyAdd int,
	told func(part float64)) (float64, error) {
	var r apps.ColumnsResult
	k, err := c.cluster(p, run.nodes, queueSlots, func(process *sim.Process) error {
		e, err := process.Endpoint(run.nodes)
		if err != nil {
			return err
		}
		found, err := apps.MatMulColumns(e, process.Segment, process.Now,
			apps.ColumnsOptions{N: run.n, R: run.r, M: run.m, Extensions: c.extensions,
				MultiplyAdd: multiplyAdd, Seed: 1})
		if e.Node() == 0 {
			r = found
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	defer k.Close()
	what := fmt.Sprintf("multiplying %d x %d by %d x %d on %d nodes (%s)", run.n, run.r, run.r, run.m,
		run.nodes, c.name)
	least :=
		float64(run.n) * float64(run.r) * float64(run.m) * float64(multiplyAdd) / float64(run.nodes) * float64(p.CPU.Clock.Duration(p.CPU.InstructionCycles))
	for running(k) && ctx.Err() == nil && k.Now() < int64(limit) && k.Run(k.Now()+int64(slice), nil) {
		told(min(float64(k.Now())/least, 1))
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if k.Now() >= int64(limit) {
		return 0, fmt.Errorf("%s: not done after %v of virtual time", what, limit)
	}
	if err := k.Finish(0); err != nil { // of a program that failed
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if !r.Verified {
		return 0, fmt.Errorf("%s: the product is wrong by %g relative to the largest element", what, r.WorstError)
	}
	return float64(r.Cycles) * float64(p.CPU.Clock.Duration(p.CPU.InstructionCycles)) / float64(r.Nanoseconds), nil
}

// running reports whether some program still runs and none has failed.
func running(k *sim.Cluster) (some bool) {
	for _, p := range k.Processes {
		over, err := p.Ended()
		if err != nil {
			return false
		}
		some = some || !over
	}
	return some
}

// WriteTable prints the result for people.
func (r *result) WriteTable(w io.Writer) error {
	x, y, format := "nodes", "speed-up, normalised to one processor's peak", "%.2f"
	if r.utilisation() {
		x, y, format = "M/p", "utilisation of 32 processors in % of peak", "%.1f"
	}
	fmt.Fprintf(w, "Figure %s of the thesis: %s\n", r.Figure, y)
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
	if err := output.Table(w, cells...); err != nil {
		return err
	}
	for _, c := range r.Claims {
		if _, err := fmt.Fprintf(w, "%s: %s (%s)\n", c.verdict(), c.Text, c.Shows); err != nil {
			return err
		}
	}
	return nil
}

// utilisation reports whether y is utilisation in per cent, not speed-up.
func (r *result) utilisation() bool { return figures[r.Figure].utilisation }

// SpeedUp multiplies square matrices on some nodes of a profile's machine in virtual time, as in
// Figures 6.3 to 6.5. It returns the speed relative to one processor at its peak. It ends with the
// context.
func SpeedUp(ctx context.Context, p *hwprofiles.Profile, nodes, size int, extensions bool) (float64, error) {
	m := &machine{p.Name, p.Name, extensions, sim.NewPacedCluster}
	return m.run(ctx, p, setup{nodes, size, size, size, float64(nodes)}, apps.MultiplyAddCycles, func(float64) {})
}
