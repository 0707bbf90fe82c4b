// Two or more things that are measured in turn: rounds, an order that moves on, one deadline a run.

package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// contender is one of the things that are compared. Its run says how much it achieved, in the unit
// that all contenders share.
type contender struct {
	name string
	run  func(ctx context.Context) (float64, error)
}

// turns says how contenders are measured.
type turns struct {
	what     string // for errors: "measure rates"
	unit     string // of the figures, for progress
	rounds   int
	deadline time.Duration // of one run
	progress io.Writer     // a line after every round that ends later than quiet after the start; nil for none
}

// play runs every contender once a round, alone, beginning with another one each time, so that what
// changes on the machine meanwhile meets all alike. The result is indexed by contender and
// round. The first failure ends it: a comparison needs all of them.
func (t turns) play(ctx context.Context, contenders ...contender) ([][]float64, error) {
	figures := make([][]float64, len(contenders))
	start := time.Now()
	for round := range t.rounds {
		for i := range contenders {
			i = (i + round) % len(contenders)
			c := contenders[i]
			figure, err := t.run(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s: round %d, %s: %w", t.what, round+1, c.name, err)
			}
			figures[i] = append(figures[i], nanos(figure))
		}
		if t.progress != nil && time.Since(start) > quiet {
			var line strings.Builder
			for i, c := range contenders {
				fmt.Fprintf(&line, " %s %.4g", c.name, figures[i][round])
			}
			fmt.Fprintf(t.progress, "round %d of %d after %.0f s, %s:%s\n", round+1, t.rounds, time.Since(start).Seconds(), t.unit, line.String())
		}
	}
	return figures, nil
}

// run runs a contender once.
func (t turns) run(ctx context.Context, c contender) (float64, error) {
	late := fmt.Errorf("not done within %v: %w", t.deadline, context.DeadlineExceeded)
	within, cancel := context.WithTimeoutCause(ctx, t.deadline, late)
	defer cancel()
	figure, err := c.run(within)
	switch {
	case err != nil && context.Cause(within) == late:
		return 0, fmt.Errorf("%w (%w)", late, err)
	case err == nil && !(figure > 0):
		return 0, fmt.Errorf("measured %v %s, which cannot be", figure, t.unit)
	}
	return figure, err
}

// perRound divides the figures of each round, the first by the second.
func perRound(a, b []float64) []float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = nanos(a[i] / b[i])
	}
	return ratios
}
