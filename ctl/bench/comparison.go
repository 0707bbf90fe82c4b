// This file plays a comparison: two or more contenders, measured in turn. It defines the rounds,
// their order, the deadline of a run, the meaning of a failure, and the ratios of the figures.

package bench

import (
	"context"
	"fmt"
	"io"
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

// ours returns a contender that the caller runs, and that the comparison needs. take keeps the
// measurements of a run and returns its figure.
func ours[S any](name string, run func(context.Context) (S, error), take func(S) float64) *contender {
	return &contender{name: name, run: func(ctx context.Context) (float64, error) {
		sample, err := run(ctx)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrFunet, err)
		}
		return take(sample), nil
	}}
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
			figure, err := c.run(ctx, p)
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

// run runs a contender once.
func (c *comparison) run(ctx context.Context, p *contender) (figure float64, err error) {
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

// median returns the median of its figures. It is for contenders whose failure ends the comparison.
func (p *contender) median() float64 { return *median(p.figures) }

// figures returns the figures by contender and round, if a failure of any ends the comparison.
func figures(contenders []*contender) [][]float64 {
	all := make([][]float64, len(contenders))
	for i, p := range contenders {
		all[i] = p.figures
	}
	return all
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
