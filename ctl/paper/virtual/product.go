package virtual

// This file runs the matrix multiply of the thesis (6.2.2, appendix C).

import (
	"context"
	"fmt"
	"time"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/sim"
)

const (
	// mostProduct is the most virtual time of a product, far more than any takes.
	mostProduct = 1000 * time.Second
	// slice is the virtual time between two checks whether the user has cancelled.
	slice = 10 * time.Millisecond
)

// Product is a product of an N x R and an R x M matrix by columns, on some nodes.
type Product struct {
	Nodes, N, R, M int
	Extensions     bool // the thesis's, to CMAM
	MultiplyAdd    int  // cycles of a multiplication and addition; 0: apps.MultiplyAddCycles
}

// SpeedUp runs the product on a profile's machines, on a profile of measured costs as these say.
// It returns the speed relative to one processor at its peak, and ends with the context. It calls
// told, unless that is nil, with the part that is simulated, by the least time that the product can
// take.
func (x Product) SpeedUp(ctx context.Context, p *hwprofiles.Profile, told func(part float64)) (float64, error) {
	if x.MultiplyAdd == 0 {
		x.MultiplyAdd = apps.MultiplyAddCycles
	}
	cluster := sim.NewPacedCluster
	if len(p.Costs) > 0 {
		cluster = sim.NewMeasuredCluster
	}
	var r apps.ColumnsResult
	k, err := cluster(p, x.Nodes, slots, func(process *sim.Process) error {
		e, err := process.Endpoint(x.Nodes)
		if err != nil {
			return err
		}
		found, err := apps.MatMulColumns(e, process.Segment, process.Now, apps.ColumnsOptions{N: x.N, R: x.R, M: x.M,
			Extensions: x.Extensions, MultiplyAdd: x.MultiplyAdd, Seed: 1})
		if e.Node() == 0 {
			r = found
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	defer k.Close()
	cycle := float64(p.CPU.Clock.Duration(p.CPU.InstructionCycles))
	least := float64(x.N) * float64(x.R) * float64(x.M) * float64(x.MultiplyAdd) / float64(x.Nodes) * cycle
	for running(k) && ctx.Err() == nil && k.Now() < int64(mostProduct) && k.Run(k.Now()+int64(slice), nil) {
		if told != nil {
			told(min(float64(k.Now())/least, 1))
		}
	}
	wrong := func(format string, args ...any) (float64, error) {
		return 0, fmt.Errorf("multiplying %d x %d by %d x %d on %d nodes (%s): %w", x.N, x.R, x.R, x.M, x.Nodes, p.Name,
			fmt.Errorf(format, args...))
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if k.Now() >= int64(mostProduct) {
		return wrong("not done after %v of virtual time", mostProduct)
	}
	if err := k.Finish(0); err != nil { // of a program that failed
		return wrong("%w", err)
	}
	if !r.Verified {
		return wrong("the product is wrong by %g relative to the largest element", r.WorstError)
	}
	return float64(r.Cycles) * cycle / float64(r.Nanoseconds), nil
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
