// A comparison: two or more contenders that are measured in turn. Rounds, their order, the
// deadline of a run, what a failure means, and the ratios of what was found.

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
	progress io.Writer     // where to say how it goes on; nil: nowhere
}

// contender is one of the things that are compared.
type contender struct {
	name string
	// run runs it once and returns how much it achieved, in the unit that all contenders share.
	run func(ctx context.Context) (float64, error)
	// spared is after how many failed runs it is left out of further rounds. With 0 its first
	// failure ends the comparison.
	spared int

	figures []float64 // of the rounds in which it did not fail, in their order
	failed  int       // runs
	err     error     // its last failure, with the round
}

// ours is a contender that the caller runs, and without which nothing can be compared. take keeps
// what a run measured and returns its figure.
func ours[S any](name string, run func(context.Context) (S, error), take func(S) float64) *contender {
	return &contender{name: name, run: func(ctx context.Context) (float64, error) {
		sample, err := run(ctx)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrFunet, err)
		}
		return take(sample), nil
	}}
}

// play runs every contender once a round, alone, beginning with another one each time, so that what
// changes on the machine meanwhile meets all alike. It fills in what the contenders found, also as
// far as it came before an error.
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

// within runs f with the deadline of a run.
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

// found says what a round found.
func (c *comparison) found(round int, contenders []*contender, found []float64) string {
	var line strings.Builder
	for i, p := range contenders {
		if found[i] > 0 {
			fmt.Fprintf(&line, " %s %.4g", p.name, found[i])
		}
	}
	return fmt.Sprintf("round %d of %d, %s:%s", round+1, c.rounds, c.unit, line.String())
}

// median is that of the figures of a contender that ends the comparison when it fails.
func (p *contender) median() float64 { return *median(p.figures) }

// figures are those of contenders that end the comparison when they fail, by contender and round.
func figures(contenders []*contender) [][]float64 {
	all := make([][]float64, len(contenders))
	for i, p := range contenders {
		all[i] = p.figures
	}
	return all
}

// byRound divides the figures of each round, the first by the second; nil when one of the two
// failed in a round.
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
