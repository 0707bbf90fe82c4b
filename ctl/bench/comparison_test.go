// Comparisons: the order of the runs, what a failure means, and the limits of options.

package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Each contender runs once a round; another one begins each time; figures are sorted to their
// contender and round.
func TestComparisonOrder(t *testing.T) {
	var order []string
	figure := 0.0
	named := func(name string) *contender {
		return &contender{name: name, run: func(context.Context) (float64, error) {
			order = append(order, name)
			figure++
			return figure, nil
		}}
	}
	var lines bytes.Buffer
	both := []*contender{named("a"), named("b")}
	c := comparison{what: "test", unit: "apples", rounds: 3, deadline: time.Minute, progress: &lines}
	if err := c.play(t.Context(), both...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "b", "a", "a", "b"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]float64{{1, 4, 5}, {2, 3, 6}}, figures(both)); diff != "" {
		t.Error(diff)
	}
	if lines.Len() > 0 {
		t.Errorf("progress of a short comparison: %q", lines.String())
	}
}

// The first failure ends a comparison and names round and contender; so does a figure that cannot
// be, a run that is late, and the caller's context.
func TestComparisonFail(t *testing.T) {
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
		"error": {t.Context(), func(context.Context) (float64, error) {
			return 0, boom
		}, time.Minute, boom, "round 1, a"},
		"zero": {t.Context(), func(context.Context) (float64, error) {
			return 0, nil
		}, time.Minute, nil, "measured 0 apples"},
		"late":      {t.Context(), waits, time.Millisecond, context.DeadlineExceeded, "not done within 1ms"},
		"cancelled": {cancelled, waits, time.Minute, context.Canceled, "round 1, a"},
	} {
		a := &contender{name: "a", run: c.run}
		err := (&comparison{what: "test", unit: "apples", rounds: 2, deadline: c.deadline}).play(c.ctx, a)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == context.Canceled && errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: taken for a deadline: %v", name, err)
		}
		if a.failed != 1 || a.err == nil || len(a.figures) != 0 {
			t.Errorf("%s: %d failures, the last %v, figures %v", name, a.failed, a.err, a.figures)
		}
	}
}

// A contender that is spared is left out after as many failures and ends nothing, unless it is the
// caller's context that failed it. Its figures are those of the rounds in which it did not fail.
func TestComparisonSpares(t *testing.T) {
	boom := errors.New("boom")
	runs := 0
	flaky := &contender{name: "flaky", spared: 2, run: func(context.Context) (float64, error) {
		if runs++; runs%2 == 1 {
			return 0, boom
		}
		return float64(runs), nil
	}}
	steady := &contender{name: "steady", run: func(context.Context) (float64, error) { return 1, nil }}
	c := comparison{what: "test", unit: "apples", rounds: 6, deadline: time.Minute}
	if err := c.play(t.Context(), flaky, steady); err != nil {
		t.Fatal(err)
	}
	if runs != 3 || flaky.failed != 2 || !errors.Is(flaky.err, boom) ||
		!strings.HasPrefix(flaky.err.Error(), "round 3: ") {
		t.Errorf("%d runs, %d failures, the last %v; want 3, 2, in round 3", runs, flaky.failed, flaky.err)
	}
	if diff := cmp.Diff([][]float64{{2}, {1, 1, 1, 1, 1, 1}}, figures([]*contender{flaky, steady})); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := &contender{name: "stopped", spared: 2, run: func(context.Context) (float64, error) {
		cancel()
		return 0, boom
	}}
	if err := c.play(ctx, stopped, steady); !errors.Is(err, context.Canceled) || stopped.failed != 1 {
		t.Errorf("%v after %d failures; want the context's error after the first", err, stopped.failed)
	}
}

// A line of progress has the figures of its round, in the order of the contenders; there is none of
// a contender that failed.
func TestComparisonReport(t *testing.T) {
	c := comparison{unit: "p50 us", rounds: 5}
	got := c.found(1, []*contender{{name: "funet"}, {name: "failed"}, {name: "ucx"}}, []float64{4, 0, 7.456})
	if want := "round 2 of 5, p50 us: funet 4 ucx 7.456"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Rule: a comparison that takes long says which share of its runs is done.
func TestComparisonProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		c := comparison{what: "test", unit: "apples", rounds: 2, deadline: time.Hour, progress: &b}
		slow := func(context.Context) (float64, error) {
			time.Sleep(6 * time.Second)
			return 1, nil
		}
		if err := c.play(t.Context(), &contender{name: "a", run: slow}, &contender{name: "b", run: slow}); err != nil {
			t.Fatal(err)
		}
		if got, want := b.String(),
			"funet: test ... 25 %, 10s, about 30s left\nfunet: test ... 75 %, 20s, about 7s left\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// In as many rounds as there are contenders, each has every place in the order once.
func TestComparisonRotates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "contenders")
		times := rapid.IntRange(1, 3).Draw(t, "times")
		ran := 0
		seen := map[[2]int]int{}
		var contenders []*contender
		for i := range n {
			contenders = append(contenders, &contender{run: func(context.Context) (float64, error) {
				seen[[2]int{i, ran % n}]++
				ran++
				return 1, nil
			}})
		}
		c := comparison{rounds: n * times, deadline: time.Minute}
		if err := c.play(context.Background(), contenders...); err != nil {
			t.Fatal(err)
		}
		for key, k := range seen {
			if k != times {
				t.Fatalf("contender %d was %d times at place %d, want %d", key[0], k, key[1], times)
			}
		}
		if len(seen) != n*n {
			t.Fatalf("%d places, want %d", len(seen), n*n)
		}
	})
}

// FUNet's contender that fails is FUNet's failure; what it measured is taken once.
func TestOurs(t *testing.T) {
	boom := errors.New("boom")
	m := played(nil, 2)
	taken := 0
	take := func(n []node) float64 { taken++; return n[0].P50 / 2 }
	c := m.ours("a", func(context.Context) ([]node, error) { return nil, boom }, take)
	if _, err := c.run(t.Context()); !errors.Is(err, errFunet) || !errors.Is(err, boom) || taken != 0 {
		t.Errorf("%v, taken %d times", err, taken)
	}
	c = m.ours("b", func(context.Context) ([]node, error) {
		return []node{{sample: sample{P50: 7}, XDPMode: "native", BindMode: "zero-copy"}}, nil
	}, take)
	if v, err := c.run(t.Context()); v != 3.5 || err != nil || taken != 1 || m.attach != "native" ||
		m.bind != "zero-copy" || len(m.playing) != 2 {
		t.Errorf("%v, %v, taken %d times, %+v", v, err, taken, m)
	}
}

// Ratios are those of rounds; when one of the two failed in a round there are none.
func TestByRound(t *testing.T) {
	if diff := cmp.Diff([]float64{0.5, 3, 0.333}, byRound([]float64{1, 6, 1}, []float64{2, 2, 3})); diff != "" {
		t.Error(diff)
	}
	if got := byRound([]float64{1, 2}, []float64{1}); got != nil {
		t.Errorf("ratios %v of different rounds", got)
	}
}

// The usual number of each flag is within its limits, and the least is above 0.
func TestLimits(t *testing.T) {
	for _, b := range []benchmark{new(peersBench), new(calls), new(rate), new(incast), new(sockets), new(keyed),
		new(rma), new(matmul)} {
		f := new(flags)
		b.command(f)
		for _, n := range f.numbers {
			if n.least < 1 || n.usual < n.least || n.usual > n.most || *n.value != n.usual {
				t.Errorf("%T %s: %+v, usually %d", b, n.name, n.limits, *n.value)
			}
		}
		if len(f.numbers) < 3 {
			t.Errorf("%T: only %d numbers", b, len(f.numbers))
		}
	}
}

// figures returns the figures by contender and round.
func figures(contenders []*contender) [][]float64 {
	all := make([][]float64, len(contenders))
	for i, p := range contenders {
		all[i] = p.figures
	}
	return all
}
