package paper

// This file is `funet sim ni` of the virtualised interface and ULTRA (Froening's thesis): the
// figures of froening.csv, beside what the profile's parts take in virtual time.

import (
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/funet/funet/hwprofiles"
)

// froening has the printed figures: the row, the profile of the machine, what is printed, what it
// should be, the section, which figures of the profile were made from it, and why a printed figure
// is wrong. Times are in ns.
//
//go:embed froening.csv
var froening string

// errVirtual reports a profile without the units of the virtualised interface, errHop one whose
// network is too slow for the workload.
var (
	errVirtual = errors.New("the profile has io, but not units.clock_mhz, network.clock_mhz, io.access_ns and " +
		"io.register_read_ns; give them all, or use virt-ni")
	errHop = fmt.Errorf("a hop takes more than %d times io.access_ns; give a faster network", longestHop)
)

// Kinds of rows.
const (
	kindTarget   = "target"   // the model is to be within 1 %
	kindDerived  = "derived"  // the same, but a figure of the profile was made from the printed one
	kindReported = "reported" // there is nothing to compare with, or no model of it
)

// virtualRow is a figure, beside the one that the thesis prints.
type virtualRow struct {
	Row     string   `json:"row"`
	Section string   `json:"section"`
	Kind    string   `json:"kind"`
	Printed *float64 `json:"printed_ns"` // nil: not printed for this machine
	Target  *float64 `json:"target_ns"`  // nil: the model is not judged
	Model   *float64 `json:"model_ns"`   // nil: another system's figure
	// Diff is the model's difference from the target, or if there is none from what is printed.
	Diff *float64 `json:"diff_percent"`
	Slip string   `json:"slip"` // the mistake in the printed figure
	How  string   `json:"how,omitempty"`
}

// virtualClaim is a statement of the thesis.
type virtualClaim struct {
	Claim   string `json:"claim"`
	Section string `json:"section"`
	Holds   *bool  `json:"holds"`
	Shown   string `json:"shown"`
}

// virtualReport is the JSON document.
type virtualReport struct {
	Profile string         `json:"profile"`
	Rows    []virtualRow   `json:"rows"`
	Worst   float64        `json:"worst_percent"` // of the rows that are targets or derived
	Claims  []virtualClaim `json:"claims"`
	Issue   *issueReport   `json:"issue"`
}

// virtualised is a machine with a virtualised interface.
type virtualised struct{ p *hwprofiles.Profile }

// newVirtualised returns errVirtual for a profile that lacks parts.
func newVirtualised(p *hwprofiles.Profile) (*virtualised, error) {
	if p.Units.Clock == 0 || p.Network.Clock == 0 || p.IO.Access == 0 || p.IO.RegisterRead == 0 {
		return nil, fmt.Errorf("profile %s: %w", p.Name, errVirtual)
	}
	if int64(hopTime(p, 1)) > longestHop*slotTime(p) {
		return nil, fmt.Errorf("profile %s: %w", p.Name, errHop)
	}
	return &virtualised{p}, nil
}

// figures runs the accesses and returns their times by row.
func (m *virtualised) figures(ctx context.Context) (all []virtualRow, err error) {
	add := func(row string, ns float64, how string) {
		all = append(all, virtualRow{Row: row, Kind: kindReported, Model: &ns, How: how})
	}
	for _, t := range []struct {
		row           string
		threads, each int
		how           string
	}{{"trigger_1_thread", 1, 1000, "a load from the device, and the device's entry in the buffer"},
		{"trigger_8_threads_8_ops", 8, 8, "the loads wait for each other; the host's scheduler takes the printed time"},
		{"trigger_64_threads_8_ops", 64, 8, "the same"}} {
		ns, err := triggers(ctx, m.p, t.threads, t.each)
		if err != nil {
			return nil, err
		}
		add(t.row, ns, t.how)
	}
	add("register_read_4_bytes", registerRead(m.p), "a load")
	add("hop", hop(m.p), "the mean of 1000: 30 cycles at 330 MHz are no whole number of ns; the text says about 90")
	if m.p.Ultra.Clock == 0 {
		return all, nil
	}
	u, err := ultra(m.p)
	if err != nil {
		return nil, err
	}
	add("ultra_end_to_end", u.total, "from the first word's store until the status word is in memory")
	add("ultra_inject", u.inject, "one burst of the processor")
	add("ultra_units", u.units, "requester and completer")
	add("ultra_store", u.store, "one burst of the device")
	add("ultra_interval", u.interval, "between packets that follow each other without a pause")
	return all, nil
}

// report runs everything.
func (m *virtualised) report(ctx context.Context, explain bool) (*virtualReport, error) {
	r := &virtualReport{Profile: m.p.Name}
	var err error
	if r.Rows, err = m.figures(ctx); err != nil {
		return nil, err
	}
	if err := r.compare(); err != nil {
		return nil, err
	}
	if r.Issue, err = issue(ctx, m.p); err != nil {
		return nil, err
	}
	r.judge()
	if !explain {
		for i := range r.Rows {
			r.Rows[i].How = ""
		}
	}
	return r, nil
}

// compare adds what is printed for the machine that the profile names, and for other systems.
func (r *virtualReport) compare() error {
	lines, err := csv.NewReader(strings.NewReader(froening)).ReadAll()
	if err != nil {
		return fmt.Errorf("reading froening.csv: %w", err)
	}
	for _, line := range lines[1:] {
		row := r.row(line[0])
		switch {
		case line[1] == "-" && r.row("ultra_end_to_end") != nil:
			r.Rows = append(r.Rows, virtualRow{Row: line[0], Kind: kindReported, How: "start-up latencies, ISC 2005"})
			row = &r.Rows[len(r.Rows)-1]
		case line[1] != r.Profile || row == nil:
			continue
		}
		row.Printed, row.Target, row.Section, row.Slip = number(line[2]), number(line[3]), line[4], line[6]
		if row.Target != nil {
			if row.Kind = kindTarget; line[5] != "" {
				row.Kind = kindDerived
				row.How += "; the profile's " + line[5] + " is what this total leaves"
			}
		}
		beside := row.Target
		if beside == nil {
			beside = row.Printed
		}
		if row.Model != nil && beside != nil {
			diff := percent(*row.Model, *beside)
			if row.Diff = &diff; row.Target != nil {
				r.Worst = max(r.Worst, math.Abs(diff))
			}
		}
	}
	return nil
}

// row returns the row of a name, or nil.
func (r *virtualReport) row(name string) *virtualRow {
	for i := range r.Rows {
		if r.Rows[i].Row == name {
			return &r.Rows[i]
		}
	}
	return nil
}

// number returns a figure of froening.csv, or nil for an empty one.
func number(text string) *float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return &v
}

// judge adds the thesis's statements.
func (r *virtualReport) judge() {
	one, eight, many := *r.row("trigger_1_thread").Model, *r.row("trigger_8_threads_8_ops").Model,
		*r.row("trigger_64_threads_8_ops").Model
	linear := eight <= 8*one && many <= 64*one
	r.Claims = append(r.Claims, virtualClaim{"the time of a trigger rises no faster than the number of callers",
		"4.4.2", &linear, fmt.Sprintf("%.1f times with 8, %.1f times with 64", eight/one, many/one)})
	var lost []string
	for _, v := range r.Issue.Policies {
		lost = append(lost, fmt.Sprintf("%.2f", v.BlockedNS/1e3))
	}
	r.Claims = append(r.Claims, virtualClaim{
		"independent work is blocked less by each of: single issue, look-ahead, multi-issue, that with wait queues",
		"3.2.6", &r.Issue.Order, strings.Join(lost, ", ") + " us"})
}

// print writes the report for people.
func (r *virtualReport) print(s *sheet) {
	s.line("profile %s", r.Profile)
	rows := [][]string{{"ns", "section", "printed", "target", "model", "diff", "kind"}}
	show := func(v *float64, format string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v)
	}
	for _, v := range r.Rows {
		rows = append(rows, []string{v.Row, v.Section, show(v.Printed, "%.0f"), show(v.Target, "%.1f"),
			show(v.Model, "%.1f"), show(v.Diff, "%+.2f %%"), v.Kind})
	}
	s.table(rows...)
	for _, v := range r.Rows {
		if v.Slip != "" {
			s.line("%s: the printed figure is a slip: %s", v.Row, v.Slip)
		}
	}
	for _, v := range r.Rows {
		if v.How != "" {
			s.line("%s: %s", v.Row, v.How)
		}
	}
	s.line("worst of targets: %.2f %%\n", r.Worst)
	i := r.Issue
	s.line("one of %d contexts gets no answer for %.0f us; each issues a request in %.1f us (slots of %d ns):",
		i.Contexts, float64(i.UnansweredNS)/1e3, float64(i.PeriodNS)/1e3, i.SlotNS)
	rows = [][]string{{"policy", "issues a slot", "window", "wait queue", "others blocked, mean us", "most us"}}
	for _, v := range i.Policies {
		rows = append(rows, []string{v.Policy, fmt.Sprint(v.Issues), fmt.Sprint(v.Window), fmt.Sprint(v.Wait),
			fmt.Sprintf("%.2f", v.BlockedNS/1e3), fmt.Sprintf("%.1f", float64(v.MostNS)/1e3)})
	}
	s.table(rows...)
	s.line("")
	for _, c := range r.Claims {
		s.line("%s: %s: %s (%s)", c.Section, c.Claim, verdict(c.Holds), c.Shown)
	}
}
