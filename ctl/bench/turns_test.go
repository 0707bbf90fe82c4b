// Turns: the order of the runs, and what a failure means.

package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each contender runs once a round; another one begins each time; figures are sorted to their
// contender and round.
func TestTurnsOrder(t *testing.T) {
	var order []string
	figure := 0.0
	named := func(name string) contender {
		return contender{name, func(context.Context) (float64, error) {
			order = append(order, name)
			figure++
			return figure, nil
		}}
	}
	var lines bytes.Buffer
	figures, err := turns{what: "test", unit: "apples", rounds: 3, deadline: time.Minute, progress: &lines}.play(t.Context(), named("a"), named("b"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "b", "a", "a", "b"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]float64{{1, 4, 5}, {2, 3, 6}}, figures); diff != "" {
		t.Error(diff)
	}
	if lines.Len() > 0 {
		t.Errorf("progress of a short comparison: %q", lines.String())
	}
}

// The first failure ends a comparison and names round and contender; so does a figure that cannot
// be, a run that is late, and the caller's context.
func TestTurnsFail(t *testing.T) {
	boom := errors.New("boom")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	waits := func(ctx context.Context) (float64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for name, c := range map[string]struct {
		ctx      context.Context
		run      func(context.Context) (float64, error)
		deadline time.Duration
		want     error
		says     string
	}{
		"error":     {t.Context(), func(context.Context) (float64, error) { return 0, boom }, time.Minute, boom, "round 1, a"},
		"zero":      {t.Context(), func(context.Context) (float64, error) { return 0, nil }, time.Minute, nil, "measured 0 apples"},
		"late":      {t.Context(), waits, time.Millisecond, context.DeadlineExceeded, "not done within 1ms"},
		"cancelled": {cancelled, waits, time.Minute, context.Canceled, "round 1, a"},
	} {
		_, err := turns{what: "test", unit: "apples", rounds: 2, deadline: c.deadline}.play(c.ctx, contender{"a", c.run})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == context.Canceled && errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: taken for a deadline: %v", name, err)
		}
	}
}
