package main

// This file is what a run found, as JSON and as a table.

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/funet/funet/tests/qemu/guest"
)

// report is the result. Its JSON form is stable.
type report struct {
	QEMU        string           `json:"qemu"`
	Accelerator string           `json:"accelerator"`   // kvm, or tcg: translated, and much slower
	Why         string           `json:"why,omitempty"` // not kvm
	Passed      bool             `json:"passed"`        // everything
	Runs        []*configuration `json:"configurations"`
}

// configuration is what a NIC did on a kernel.
type configuration struct {
	NIC     string   `json:"nic"`
	Kernel  string   `json:"kernel"`
	Driver  string   `json:"driver"`
	XDP     string   `json:"xdp"` // that was asked for
	Bind    string   `json:"bind"`
	Rows    []row    `json:"programs"`
	Beside  *beside  `json:"kernel_traffic,omitempty"`
	Kmsg    []string `json:"kernel_complaints,omitempty"` // of both kernels, the first of them
	LinkUps int      `json:"link_ups"`                    // how often links came up, of both hosts together
	Error   string   `json:"error,omitempty"`             // it went no further
	Seconds float64  `json:"seconds"`
}

// row is a program. Figures that it does not have are zero.
type row struct {
	Program  string  `json:"program"`
	Passed   bool    `json:"passed"`
	XDPMode  string  `json:"xdp_mode,omitempty"` // that it got
	BindMode string  `json:"bind_mode,omitempty"`
	P50      float64 `json:"rtt_p50_us,omitempty"`
	P99      float64 `json:"rtt_p99_us,omitempty"`
	Rate     float64 `json:"msgs_per_s,omitempty"`
	Bytes    float64 `json:"mbyte_per_s,omitempty"` // 10^6 bytes
	MFLOPS   float64 `json:"mflop_per_s,omitempty"`
	// Seconds is how long it took to go on after a fault, or to notice it.
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// mode takes the mode of a node's document.
func (r *row) mode(d result) {
	if d.XDPMode != "" {
		r.XDPMode, r.BindMode = d.XDPMode, d.BindMode
	}
}

// judge says whether the program did what it should.
func (r *row) judge(failed ...error) {
	err := errors.Join(failed...)
	r.Passed = err == nil
	if err != nil {
		r.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// beside is the kernel's own traffic over the NIC.
type beside struct {
	Alone *guest.TCP `json:"tcp_alone"` // null: none got through
	Idle  *guest.TCP `json:"tcp_funid_idle"`
	Job   *guest.TCP `json:"tcp_funid_job"`
	After *guest.TCP `json:"tcp_after"` // funid has ended
	// IdleRatio is the rate beside an idle funid, by the mean of those without.
	IdleRatio float64 `json:"tcp_idle_ratio"`

	PingAlone  *guest.Pings `json:"ping_alone"`
	PingStarts *guest.Pings `json:"ping_funid_starts_and_stops"`
	PingIdle   *guest.Pings `json:"ping_funid_idle"`
	PingJob    *guest.Pings `json:"ping_funid_job"`
	Error      string       `json:"error,omitempty"`     // of a daemon
	Log        []string     `json:"funid_log,omitempty"` // of both daemons, the first lines
}

// leastIdle is what TCP is to keep beside an idle funid.
const leastIdle = 0.8

// figure is a program's, short.
func (r *row) figure() string {
	switch {
	case !r.Passed:
		return "FAILED"
	case r.Seconds > 0:
		return fmt.Sprintf("%.0f s", r.Seconds)
	case r.P50 > 0:
		return fmt.Sprintf("%.0f us", r.P50)
	case r.Rate > 0:
		return fmt.Sprintf("%.0f k/s", r.Rate/1000)
	case r.Bytes > 0:
		return fmt.Sprintf("%.1f MB/s", r.Bytes)
	}
	return fmt.Sprintf("%.0f MFLOP/s", r.MFLOPS)
}

// mode is the one that programs got.
func (c *configuration) mode() string {
	for _, r := range c.Rows {
		if r.XDPMode != "" {
			return r.XDPMode + ", " + r.BindMode
		}
	}
	return "-"
}

// find returns a program's row.
func (c *configuration) find(name string) *row {
	for i := range c.Rows {
		if c.Rows[i].Program == name {
			return &c.Rows[i]
		}
	}
	return nil
}

// passed reports whether everything that was tried did what it should.
func (c *configuration) passed() bool {
	ok := c.Error == "" && len(c.Rows) > 0
	for _, r := range c.Rows {
		ok = ok && r.Passed
	}
	if b := c.Beside; b != nil {
		ok = ok && b.Error == "" && b.IdleRatio >= leastIdle && all(b.PingIdle) && all(b.PingJob)
	}
	return ok
}

// all reports whether no ping was lost.
func all(p *guest.Pings) bool { return p != nil && p.Received == p.Sent }

// finish says whether everything passed.
func (r *report) finish() *report {
	r.Passed = len(r.Runs) > 0
	for _, c := range r.Runs {
		r.Passed = r.Passed && c.passed()
	}
	return r
}

// writeTable prints the report for people, in a form that a page of Markdown takes as it is.
func (r *report) writeTable(out io.Writer) error {
	header := append([]string{"NIC", "kernel", "mode"}, programNames()...)
	header = append(header, "TCP idle", "TCP job", "pings idle", "job", "start, stop")
	lines := [][]string{header}
	var notes []string
	for _, c := range r.Runs {
		kernel, _, _ := strings.Cut(c.Kernel, "+")
		line := []string{c.NIC, kernel, c.mode()}
		for _, name := range programNames() {
			cell := "-"
			if one := c.find(name); one != nil {
				cell = one.figure()
				if !one.Passed {
					notes = append(notes, fmt.Sprintf("%s, %s, %s: %s", c.NIC, kernel, name, one.Error))
				}
			}
			line = append(line, cell)
		}
		lines = append(lines, append(line, c.Beside.cells()...))
		if c.Error != "" {
			notes = append(notes, fmt.Sprintf("%s, %s: %s", c.NIC, kernel, c.Error))
		}
		if c.Beside != nil && c.Beside.Error != "" {
			notes = append(notes, fmt.Sprintf("%s, %s: %s", c.NIC, kernel, c.Beside.Error))
		}
		for _, k := range c.Kmsg {
			notes = append(notes, fmt.Sprintf("%s, %s: kernel: %s", c.NIC, kernel, k))
		}
	}
	var b strings.Builder
	how := "QEMU " + r.QEMU + ", " + r.Accelerator
	if r.Why != "" {
		how += " (no kvm: " + r.Why + ")"
	}
	fmt.Fprintf(&b, "%s; two guests of one processor and %d MB\n\n", how, guestMemory)
	writeColumns(&b, lines)
	if len(notes) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(notes, "\n"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// cells are the columns of the kernel's own traffic.
func (b *beside) cells() []string {
	if b == nil {
		return []string{"-", "-", "-", "-", "-"}
	}
	job := "FAILED"
	if b.Job != nil && b.Alone != nil {
		job = fmt.Sprintf("%.2f", b.Job.Rate/max(b.Alone.Rate, 1e-9))
	}
	return []string{fmt.Sprintf("%.2f", b.IdleRatio), job, pings(b.PingIdle), pings(b.PingJob), pings(b.PingStarts)}
}

func pings(p *guest.Pings) string {
	if p == nil {
		return "FAILED"
	}
	return fmt.Sprintf("%d/%d", p.Received, p.Sent)
}

// writeColumns writes a table of Markdown whose columns stand below each other.
func writeColumns(b *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, cell := range l {
			width[i] = max(width[i], len(cell))
		}
	}
	for i, l := range lines {
		for j, cell := range l {
			fmt.Fprintf(b, "| %-*s ", width[j], cell)
		}
		b.WriteString("|\n")
		if i == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
}
