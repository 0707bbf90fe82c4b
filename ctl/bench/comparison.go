package bench

// This file plays a comparison: two or more contenders, measured in turn. It defines the rounds,
// their order, the deadline of a run, the meaning of a failure, and the ratios of the figures.

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/funet/funet/ctl/output"
)

// comparison says how contenders are measured.
type comparison struct {
	what     string // for errors: "measure rates"
	unit     string // of the figures, for progress
	rounds   int
	deadline time.Duration // of one run
	progress io.Writer     // where to report progress; nil: nowhere
}

// contender is one of the compared subjects.
type contender struct {
	name string
	// run runs it once and returns its figure, in the unit that all contenders share.
	run func(ctx context.Context) (float64, error)
	// spared is the number of failed runs after which it is left out of further rounds. With 0, its
	// first failure ends the comparison.
	spared int

	figures []float64 // of the rounds without a failure, in their order
	failed  int       // failed runs
	err     error     // its last failure, with the round
}

// play runs every contender once a round, alone. Each round begins with another contender, so
// changes of the machine's speed affect all alike. play fills in the contenders' figures; after an
// error it has filled in those of the runs before.
func (c *comparison) play(ctx context.Context, contenders ...*contender) error {
	told := output.BeginOn(c.progress, c.what, int64(c.rounds*len(contenders)))
	defer told.End()
	for round := range c.rounds {
		found := make([]float64, len(contenders)) // 0: nothing in this round
		for n := range contenders {
			i := (n + round) % len(contenders)
			p := contenders[i]
			if n > 0 || round > 0 {
				told.Add(1) // the one before
			}
			if p.failed > 0 && p.failed >= p.spared {
				continue
			}
			figure, err := c.once(ctx, p)
			if err != nil {
				p.failed++
				p.err = fmt.Errorf("round %d: %w", round+1, err)
				if ctx.Err() != nil {
					err = ctx.Err() // which is why, whatever the run said
				} else if p.spared > 0 {
					continue
				}
				return fmt.Errorf("%s: round %d, %s: %w", c.what, round+1, p.name, err)
			}
			found[i] = nanos(figure)
			p.figures = append(p.figures, found[i])
		}
		told.Line(c.found(round, contenders, found))
	}
	return nil
}

// once runs a contender once.
func (c *comparison) once(ctx context.Context, p *contender) (figure float64, err error) {
	err = c.within(ctx, func(ctx context.Context) error {
		figure, err = p.run(ctx)
		return err
	})
	if err == nil && !(figure > 0) {
		return 0, fmt.Errorf("measured %v %s, which cannot be", figure, c.unit)
	}
	return figure, err
}

// within runs f, and ends its context at the deadline of a run.
func (c *comparison) within(ctx context.Context, f func(context.Context) error) error {
	late := fmt.Errorf("not done within %v: %w", c.deadline, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, c.deadline, late)
	defer cancel()
	err := f(ctx)
	if err != nil && context.Cause(ctx) == late {
		return fmt.Errorf("%w (%w)", late, err)
	}
	return err
}

// found returns the figures of a round as text.
func (c *comparison) found(round int, contenders []*contender, found []float64) string {
	var line strings.Builder
	for i, p := range contenders {
		if found[i] > 0 {
			fmt.Fprintf(&line, " %s %.4g", p.name, found[i])
		}
	}
	return fmt.Sprintf("round %d of %d, %s:%s", round+1, c.rounds, c.unit, line.String())
}

// byRound divides the first figure of each round by the second. It returns nil if one of the two
// contenders failed in a round.
func byRound(a, b []float64) []float64 {
	if len(a) != len(b) {
		return nil
	}
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = nanos(a[i] / b[i])
	}
	return ratios
}

// median returns the median of the values, nil without values. For an even number it is the mean of
// the two in the middle.
func median(values []float64) *float64 {
	n := len(values)
	if n == 0 {
		return nil
	}
	v := slices.Sorted(slices.Values(values))
	m := nanos((v[(n-1)/2] + v[n/2]) / 2)
	return &m
}

// nanos rounds to three digits after the point; for microseconds, that is to a nanosecond.
func nanos(us float64) float64 { return math.Round(us*1000) / 1000 }

// two writes a number with two digits after the point; "-": there is none.
func two(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}
