package main

// This file reports the result of a run as medians and ratios, in JSON and as a table. It also
// reports the results of several runs as a table in Markdown.

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// These are the limits of what a victim must keep beside an attack. They are ratios to what it has
// beside a process on each host that only computes.
const (
	leastRate = 0.5
	mostP99   = 4
	// With direct ports, or an enemy that only sends to the victim's hosts, the limits are
	// stricter, as victim and enemy share less.
	leastDirectRate = 0.7
	mostDirectP99   = 3
)

// report is the result. Its JSON form is stable. Figures are medians over the rounds.
type report struct {
	Attacks []*attackReport `json:"attacks"`
	Alone   figures         `json:"alone"`
	Burner  figures         `json:"burner"` // beside a process on each host that only computes
	Met     bool            `json:"met"`    // for all attacks on FUNet

	LeastRateRatio float64 `json:"least_rate_ratio"` // the limit of RateRatio, for Met
	MostP99Ratio   float64 `json:"most_p99_ratio"`
	Rounds         int     `json:"rounds"`
	WindowSeconds  float64 `json:"window_s"`
	// Outstanding is the number of requests under way while the pipelined rate is measured.
	Outstanding int    `json:"outstanding"`
	MTU         int    `json:"mtu_bytes"`
	XDPMode     string `json:"xdp_mode"`
	Card        string `json:"card"` // of the victim
	Hub         string `json:"hub"`  // the network of routers between the hosts; "": a link
	// Gangs reports whether groups took turns together, with another one beside the victim's.
	Gangs bool `json:"gangs"`
	Etcd  bool `json:"etcd"` // the hosts' table was in an etcd
	// OwnSession reports whether the victim's processes are in sessions of their own.
	OwnSession bool `json:"own_session"`

	// Control is how long requests at a daemon's socket take beside attacks on them, and
	// ControlAlone how long they take alone.
	Control      []*controlReport `json:"control_requests"`
	ControlAlone asking           `json:"control_requests_alone"`

	alone, burner []window
	controlAlone  []asking
}

// figures are the measurements of the victim.
type figures struct {
	Rate    float64 `json:"rate_per_s"` // exchanges a second, one after the other
	P50     float64 `json:"p50_us"`     // of the round trips of these exchanges
	P99     float64 `json:"p99_us"`
	Longest float64 `json:"longest_us"` // the longest of all rounds
	// Pipelined is exchanges a second with outstanding requests under way.
	Pipelined float64 `json:"pipelined_rate_per_s"`
	// Quiet is how many seconds of a processor a daemon used in a second that serves nobody: that
	// of another member of the table in etcd.
	Quiet float64 `json:"quiet_daemon_cpu_s_per_s,omitempty"`
}

// attackReport is the report of one attack.
type attackReport struct {
	Name string `json:"name"`
	Does string `json:"does"`
	// NotMeasured says why the attack was not made. It is not met then.
	NotMeasured string `json:"not_measured,omitempty"`
	// RateRatio and P99Ratio are medians over the rounds. A round's ratio is to what the victim had
	// beside the computing processes just before and after.
	RateRatio float64 `json:"rate_ratio"`
	P99Ratio  float64 `json:"p99_ratio"`
	// Met reports whether both ratios are within their limits, and the attack went on.
	Met bool `json:"met"`
	// PipelinedRatio is not judged: where victim and enemy both want the whole card, half of it is
	// a fair share.
	PipelinedRatio float64 `json:"pipelined_rate_ratio"`
	figures
	// Returned is how many requests came back and were sent again, in all rounds.
	Returned int     `json:"returned"`
	Did      float64 `json:"did_per_s"` // attacks a second

	RoundsRate      []float64 `json:"rounds_rate_ratio"`
	RoundsP99       []float64 `json:"rounds_p99_ratio"`
	RoundsPipelined []float64 `json:"rounds_pipelined_rate_ratio"`

	waits   bool // the attack need not go on (attack.Attack)
	judged  bool // it counts for the report's Met
	windows []window
	did     []float64
}

func newReport(o *options) *report {
	r := &report{Rounds: o.Rounds, WindowSeconds: o.Window.Seconds(), Outstanding: outstanding, MTU: o.MTU,
		XDPMode: o.XDP, Card: o.Card, Hub: o.Hub, Gangs: o.Gangs, Etcd: o.Etcd, OwnSession: o.ownSession(),
		LeastRateRatio: leastRate, MostP99Ratio: mostP99}
	if o.direct() || o.Gangs {
		r.LeastRateRatio, r.MostP99Ratio = leastDirectRate, mostDirectP99
	}
	for _, a := range o.attacks {
		report := &attackReport{Name: a.Name, Does: a.Does, waits: a.Waits, judged: !a.Yardstick}
		if a.Rank != "" {
			report.NotMeasured = o.noRanks
		}
		r.Attacks = append(r.Attacks, report)
	}
	r.Control = newControl(o.control)
	return r
}

// add enters a round of an attack.
func (r *report) add(i int, before, beside, after window, did float64) {
	a := r.Attacks[i]
	ratio := func(of func(window) float64) float64 { return digits(2 * of(beside) / (of(before) + of(after))) }
	a.RoundsRate = append(a.RoundsRate, ratio(func(w window) float64 { return w.Rate }))
	a.RoundsPipelined = append(a.RoundsPipelined, ratio(func(w window) float64 { return w.Pipelined }))
	a.RoundsP99 = append(a.RoundsP99, ratio(func(w window) float64 { return w.P99 }))
	a.windows, a.did = append(a.windows, beside), append(a.did, did)
	a.Returned += beside.Returned
}

// finish computes the medians, and judges them.
func (r *report) finish() *report {
	r.Alone, r.Burner = summary(r.alone), summary(r.burner)
	r.Met = true
	for _, a := range r.Attacks {
		if a.NotMeasured != "" {
			r.Met = false
			continue
		}
		a.figures, a.Did = summary(a.windows), median(a.did)
		a.RateRatio, a.P99Ratio, a.PipelinedRatio = median(a.RoundsRate), median(a.RoundsP99), median(a.RoundsPipelined)
		// beside an attack that stands still others lose nothing
		a.Met = a.RateRatio >= r.LeastRateRatio && a.P99Ratio <= r.MostP99Ratio && (a.Did > 0 || a.waits)
		r.Met = r.Met && (a.Met || !a.judged)
	}
	r.finishControl()
	return r
}

// summary returns the medians of measurement windows, and the longest round trip of all.
func summary(all []window) (f figures) {
	of := func(one func(window) float64) float64 {
		var values []float64
		for _, w := range all {
			values = append(values, one(w))
			f.Longest = max(f.Longest, w.Longest)
		}
		return median(values)
	}
	f.Rate, f.Pipelined = of(func(w window) float64 { return w.Rate }),
		of(func(w window) float64 { return w.Pipelined })
	f.P50, f.P99 = of(func(w window) float64 { return w.P50 }), of(func(w window) float64 { return w.P99 })
	f.Quiet = of(func(w window) float64 { return w.Quiet })
	return f
}

// median returns the median of the values: of an even number, the mean of the two in the middle.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return digits((v[(len(v)-1)/2] + v[len(v)/2]) / 2)
}

// writeMarkdown prints a table in Markdown from the JSON documents of runs. A row is an attack of
// the first run, in that run's order, with the smallest and the largest ratio of all runs.
// writeMarkdown refuses a run that lacks one of these attacks.
func writeMarkdown(out io.Writer, files []string) error {
	var runs []report
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading a run: %w", err)
		}
		var r report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("reading a run from %s: %w; write it with --json", name, err)
		}
		runs = append(runs, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		"| attack | what the other user does | rate kept | p99 longer | attacks/s |\n|---|---|---|---|---|\n")
	for _, first := range runs[0].Attacks {
		if first.NotMeasured != "" {
			fmt.Fprintf(&b, "| `%s` | %s | not measured | | |\n", first.Name, first.Does)
			continue
		}
		var rate, p99, did []float64
		for i := range runs {
			n := slices.IndexFunc(runs[i].Attacks, func(a *attackReport) bool {
				return a.Name == first.Name && a.NotMeasured == ""
			})
			if n < 0 {
				return fmt.Errorf("%s has no %s; use runs of the same attacks", files[i], first.Name)
			}
			a := runs[i].Attacks[n]
			rate, p99, did = append(rate, a.RateRatio), append(p99, a.P99Ratio), append(did, a.Did)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", first.Name, first.Does, span("%.2f", rate), span("%.1f", p99),
			span("%.0f", did))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// span returns the smallest and the largest value, or one value if both are printed alike.
func span(format string, values []float64) string {
	least, most := fmt.Sprintf(format, slices.Min(values)), fmt.Sprintf(format, slices.Max(values))
	if least == most {
		return least
	}
	return least + " to " + most
}

// digits rounds to three decimals.
func digits(v float64) float64 { return math.Round(v*1000) / 1000 }

// writeTable prints the report for people.
func (r *report) writeTable(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "two hosts with a daemon each, MTU %d, XDP %s; medians of %d rounds of %g s\n", r.MTU, r.XDPMode,
		r.Rounds, r.WindowSeconds)
	fmt.Fprintf(&b, "%-20s %9s %9s %9s %9s %6s %6s %6s  %9s %6s\n", "beside", "rate", "p50 us", "p99 us", "longest",
		"rate", "p99", "", "rate of", "")
	fmt.Fprintf(&b, "%-20s %9s %9s %9s %9s %6s %6s %6s  %9s %6s\n", "", "/s", "", "", "ms", "x", "x", "",
		fmt.Sprint(r.Outstanding, " /s"), "x")
	for _, row := range []struct {
		name string
		figures
	}{{"nothing", r.Alone}, {"two that compute", r.Burner}} {
		fmt.Fprintf(&b, "%-20s %9.0f %9.1f %9.1f %9.1f %6s %6s %6s  %9.0f\n", row.name, row.Rate, row.P50, row.P99,
			row.Longest/1000, "", "", "", row.Pipelined)
	}
	for _, a := range r.Attacks {
		if a.NotMeasured != "" {
			fmt.Fprintf(&b, "%-20s not measured: %s\n", a.Name, a.NotMeasured)
			continue
		}
		verdict := "kept"
		if !a.Met {
			verdict = "LOST"
		}
		fmt.Fprintf(&b, "%-20s %9.0f %9.1f %9.1f %9.1f %6.2f %6.2f %6s  %9.0f %6.2f\n",
			a.Name, a.Rate, a.P50, a.P99, a.Longest/1000, a.RateRatio, a.P99Ratio, verdict, a.Pipelined,
			a.PipelinedRatio)
	}
	if r.Etcd {
		fmt.Fprintf(&b, "a daemon that serves nobody used %.3f of a processor", r.Alone.Quiet)
		for _, a := range r.Attacks {
			fmt.Fprintf(&b, ", beside %s %.3f", a.Name, a.Quiet)
		}
		b.WriteString("\n")
	}
	if len(r.Control) > 0 {
		fmt.Fprintf(&b, "%-20s %9s %9s %9s\n%-20s %9.1f %9.1f\n", "requests beside", "p50 ms", "p99 ms", "at most",
			"nothing", r.ControlAlone.P50, r.ControlAlone.P99)
	}
	for _, c := range r.Control {
		verdict := "kept"
		if !c.Met {
			verdict = "LOST"
		}
		fmt.Fprintf(&b, "%-20s %9.1f %9.1f %9.1f %6s\n", c.Name, c.P50, c.P99, c.MostP50, verdict)
	}
	fmt.Fprintf(&b,
		"x: by that beside two processes that compute; kept: at least %g times the rate, at most %g times the p99, beside an attack that goes on\n", r.LeastRateRatio, r.MostP99Ratio)
	_, err := io.WriteString(out, b.String())
	return err
}
