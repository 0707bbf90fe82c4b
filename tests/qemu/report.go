package main

// This file reports the results of a run, as JSON and as a table.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/funet/funet/tests/qemu/guest"
)

// report is the result. Its JSON form is stable.
type report struct {
	QEMU        string           `json:"qemu"`
	Accelerator string           `json:"accelerator"`   // kvm, or tcg: translated, and much slower
	Why         string           `json:"why,omitempty"` // why not kvm
	Passed      bool             `json:"passed"`        // every configuration passed
	Runs        []*configuration `json:"configurations"`
}

// configuration is the outcome of one NIC on one kernel.
type configuration struct {
	NIC    string   `json:"nic"`
	Kernel string   `json:"kernel"`
	Driver string   `json:"driver"`
	XDP    string   `json:"xdp"` // the mode that was asked for
	Bind   string   `json:"bind"`
	Rows   []row    `json:"programs"`
	Beside *beside  `json:"kernel_traffic,omitempty"`
	Kmsg   []string `json:"kernel_complaints,omitempty"` // the first ones of each kernel
	// LinkUps is how often links came up, on both hosts together.
	LinkUps int     `json:"link_ups"`
	Error   string  `json:"error,omitempty"`   // why it ended early
	NotRun  string  `json:"not_run,omitempty"` // why nothing was tried
	Seconds float64 `json:"seconds"`
	// First says why the configuration was tried a second time.
	First []string `json:"first_try,omitempty"`

	tcpUnjudged bool // the rate of TCP is not judged
}

// row is the result of a program or fault. Figures that it does not have are zero.
type row struct {
	Program  string  `json:"program"`
	Passed   bool    `json:"passed"`
	XDPMode  string  `json:"xdp_mode,omitempty"` // the mode that it got
	BindMode string  `json:"bind_mode,omitempty"`
	P50      float64 `json:"rtt_p50_us,omitempty"`
	P99      float64 `json:"rtt_p99_us,omitempty"`
	Rate     float64 `json:"msgs_per_s,omitempty"`
	Bytes    float64 `json:"mbyte_per_s,omitempty"` // 10^6 bytes
	MFLOPS   float64 `json:"mflop_per_s,omitempty"`
	// Seconds is the time from a fault until ping-pong passed again, or until the fault was
	// noticed.
	Seconds float64 `json:"seconds,omitempty"`
	// Refused marks a fault that the driver does not allow; Error says why.
	Refused bool   `json:"refused,omitempty"`
	Error   string `json:"error,omitempty"`
}

// mode takes the XDP mode from a node's document.
func (r *row) mode(d result) {
	if d.XDPMode != "" {
		r.XDPMode, r.BindMode = d.XDPMode, d.BindMode
	}
}

// judge sets whether the program passed: it did unless there is an error.
func (r *row) judge(failed ...error) {
	err := errors.Join(failed...)
	r.Passed = err == nil
	if err != nil {
		r.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// beside is the kernel's own traffic over the NIC.
type beside struct {
	Alone *guest.TCP `json:"tcp_alone"` // null: a stream failed
	Idle  *guest.TCP `json:"tcp_funid_idle"`
	Job   *guest.TCP `json:"tcp_funid_job"`
	After *guest.TCP `json:"tcp_after"` // after funid has ended
	// IdleRatio is the rate beside an idle funid, divided by the mean of the rates without.
	IdleRatio float64 `json:"tcp_idle_ratio"`
	// Bare is the rate beside XDP programs that do nothing, in the same mode, on both hosts.
	Bare      *guest.TCP `json:"tcp_bare_xdp_pass"`
	BareRatio float64    `json:"tcp_bare_ratio"` // computed as IdleRatio is
	BareError string     `json:"bare_xdp_pass_error,omitempty"`

	PingAlone  *guest.Pings `json:"ping_alone"`
	PingStarts *guest.Pings `json:"ping_funid_starts_and_stops"`
	PingIdle   *guest.Pings `json:"ping_funid_idle"`
	PingJob    *guest.Pings `json:"ping_funid_job"`
	// StartsLog is the first lines of both daemons' logs, of their start and stop.
	StartsLog []string `json:"starts_and_stops_log,omitempty"`
	Error     string   `json:"error,omitempty"` // of a daemon
	// Log is the first lines of both daemons' logs.
	Log []string `json:"funid_log,omitempty"`
}

// leastIdle is the part of its rate that TCP must keep beside an idle funid.
const leastIdle = 0.8

// least returns the part of its rate that TCP must keep. It is leastIdle of the rate without
// daemons or, if that is less, of the rate beside an XDP program that does nothing. The driver's
// XDP mode costs any program that much.
func (b *beside) least() float64 {
	if b.Bare == nil {
		return leastIdle
	}
	return leastIdle * min(1, b.BareRatio)
}

// figure returns the main figure of a row, as a short text.
func (r *row) figure() string {
	switch {
	case !r.Passed:
		return "FAILED"
	case r.Refused:
		return "refused"
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

// mode returns the XDP mode and the bind mode that the programs got.
func (c *configuration) mode() string {
	for _, r := range c.Rows {
		if r.XDPMode != "" {
			return r.XDPMode + ", " + r.BindMode
		}
	}
	return "-"
}

// xdpMode returns the XDP mode that the programs got, or native if no program ran.
func (c *configuration) xdpMode() string {
	for _, r := range c.Rows {
		if r.XDPMode != "" {
			return r.XDPMode
		}
	}
	return "native"
}

// kernel returns the version of the kernel, in a short form.
func (c *configuration) kernel() string {
	kernel, _, _ := strings.Cut(strings.TrimSuffix(c.Kernel, "-amd64"), "+")
	return kernel
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

// passed reports whether all that was tried passed. A configuration that was not run counts as
// passed.
func (c *configuration) passed() bool {
	return c.NotRun != "" || len(c.Rows) > 0 && len(c.failures()) == 0
}

// failures describes all that did not pass.
func (c *configuration) failures() (all []string) {
	kernel := c.kernel()
	add := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Sprintf("%s, %s", c.NIC, kernel)+fmt.Sprintf(format, args...))
		}
	}
	for _, r := range c.Rows {
		add(!r.Passed, ", %s: %s", r.Program, r.Error)
	}
	add(c.Error != "", ": %s", c.Error)
	b := c.Beside
	if b == nil {
		return all
	}
	if b.Error != "" {
		add(true, ": %s", b.Error)
		return all // it went no further
	}
	add(b.Idle == nil || b.After == nil, ": TCP does not get through beside an idle funid, or after it")
	add(!c.tcpUnjudged && b.Idle != nil && b.IdleRatio < b.least(),
		": TCP keeps %.2f of its rate beside an idle funid, not %.2f", b.IdleRatio, b.least())
	add(!every(b.PingIdle), ": pings beside an idle funid: %s", pings(b.PingIdle))
	add(!every(b.PingJob), ": pings beside a job: %s", pings(b.PingJob))
	add(!every(b.PingStarts) && !b.resetSaid(),
		": pings while funid starts and stops: %s, and its log does not say that the driver resets its link",
		pings(b.PingStarts))
	return all
}

// every reports whether no ping was lost.
func every(p *guest.Pings) bool { return p != nil && p.Received == p.Sent }

// finish sets whether all configurations passed.
func (r *report) finish() *report {
	r.Passed = len(r.Runs) > 0
	for _, c := range r.Runs {
		r.Passed = r.Passed && c.passed()
	}
	return r
}

// readReports joins the results of runs, from files that --json wrote.
func readReports(paths []string) (*report, error) {
	var all report
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var one report
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("%s is not what `qemu --json` writes: %w", path, err)
		}
		if i == 0 {
			all = one
			continue
		}
		if one.QEMU != all.QEMU || one.Accelerator != all.Accelerator {
			return nil, fmt.Errorf("%s is of QEMU %s with %s, the first of %s with %s: they do not belong in one table",
				path, one.QEMU, one.Accelerator, all.QEMU, all.Accelerator)
		}
		all.Runs = append(all.Runs, one.Runs...)
	}
	return all.finish(), nil
}

// meanings explains the columns.
const meanings = "`TCP bare`, `TCP idle` and `TCP job` are the rate of a TCP stream by the mean of that before and after: beside XDP\n" +
	"programs that do nothing, in the same mode; beside an idle funid; and beside a job. Pings are those that came\n" +
	"back of 100: while funid is idle, while a job runs, and while funid starts and stops (some drivers reset their\n" +
	"link then, and funid's log says so). Times in the columns of faults are from the fault until ping-pong through the\n" +
	"daemons passed again, or, for `guest_killed`, until `funet run` said that a host had died.\n"

// writeMarkdown prints the table for a page, with the meanings of its columns. It leaves out spaces
// that only a terminal needs.
func (r *report) writeMarkdown(out io.Writer) error {
	lines, notes := r.table()
	var b strings.Builder
	// of the faults, which have a table of their own
	first := len(lines[0]) - len(besideColumns) - len(faultNames())
	writePage(&b, lines, func(column int) bool { return column < first || column >= first+len(faultNames()) })
	b.WriteString("\n")
	writePage(&b, lines, func(column int) bool {
		return column < configurationColumns || column >= first && column < first+len(faultNames())
	})
	fmt.Fprintf(&b, "\n%s, two guests of one processor and %d MB. %s", r.how(), guestMemory, meanings)
	for i, n := range notes {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", n)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writePage writes the wanted columns of the table.
func writePage(b *strings.Builder, lines [][]string, wanted func(column int) bool) {
	for i, l := range lines {
		columns := 0
		for j, cell := range l {
			if wanted(j) {
				fmt.Fprintf(b, "| %s ", cell)
				columns++
			}
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", columns) + "|\n")
		}
	}
}

// writeTable prints the report for people, in a form that a page of Markdown can hold as it is.
func (r *report) writeTable(out io.Writer) error {
	lines, notes := r.table()
	var b strings.Builder
	fmt.Fprintf(&b, "%s; two guests of one processor and %d MB\n\n", r.how(), guestMemory)
	writeColumns(&b, lines)
	if len(notes) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(notes, "\n"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// how returns how the guests were executed.
func (r *report) how() string {
	how := "QEMU " + r.QEMU + ", " + r.Accelerator
	if r.Why != "" {
		why, _, _ := strings.Cut(r.Why, ": qemu-system") // its own words are in the JSON form
		how += " (no kvm: " + why + ")"
	}
	return how
}

// configurationColumns is the number of the first columns. besideColumns are the last columns, on
// the kernel's own traffic (cells).
const configurationColumns = 3

var besideColumns = []string{"TCP bare", "TCP idle", "TCP job", "pings idle", "job", "start, stop"}

// table returns the lines of the table, the header first, and the notes below it.
func (r *report) table() (lines [][]string, notes []string) {
	lines = [][]string{slices.Concat([]string{"NIC", "kernel", "mode"}, programNames(), besideColumns)}
	for _, c := range r.Runs {
		kernel := c.kernel()
		line := []string{c.NIC, kernel, c.mode()}
		for _, name := range programNames() {
			cell := "-"
			if one := c.find(name); one != nil {
				cell = one.figure()
			}
			line = append(line, cell)
		}
		lines = append(lines, append(line, c.Beside.cells()...))
		notes = append(notes, c.notes()...)
	}
	return lines, notes
}

// notes returns the lines below the table.
func (c *configuration) notes() (all []string) {
	kernel := c.kernel()
	if c.NotRun != "" {
		return []string{fmt.Sprintf("%s, %s: not run: %s", c.NIC, kernel, c.NotRun)}
	}
	all = c.failures()
	for _, r := range c.Rows {
		if r.Passed && r.Refused {
			all = append(all, fmt.Sprintf("%s, %s, %s: %s", c.NIC, kernel, r.Program, r.Error))
		}
	}
	for _, line := range c.First {
		all = append(all, "tried twice, because of: "+line)
	}
	if b := c.Beside; b != nil && b.Idle != nil && b.IdleRatio >= b.least() && b.IdleRatio < leastIdle {
		all = append(all,
			fmt.Sprintf("%s, %s: TCP keeps %.2f of its rate beside an idle funid, and %.2f beside an XDP program that does nothing: that is the price of the mode", c.NIC, kernel, b.IdleRatio, b.BareRatio))
	}
	if b := c.Beside; b != nil && b.BareError != "" {
		all = append(all, fmt.Sprintf("%s, %s: an XDP program that does nothing: %s", c.NIC, kernel, b.BareError))
	}
	for _, k := range c.Kmsg {
		all = append(all, fmt.Sprintf("%s, %s: kernel: %s", c.NIC, kernel, k))
	}
	return all
}

// cells returns the cells on the kernel's own traffic.
func (b *beside) cells() []string {
	if b == nil {
		return []string{"-", "-", "-", "-", "-", "-"}
	}
	part := func(t *guest.TCP) string {
		if t == nil || b.Alone == nil || b.After == nil {
			return "FAILED"
		}
		return fmt.Sprintf("%.2f", t.Rate/b.without())
	}
	bare := part(b.Bare)
	if b.Bare == nil {
		bare = "-" // which is nothing of FUNet's
	}
	return []string{bare, part(b.Idle), part(b.Job), pings(b.PingIdle), pings(b.PingJob), pings(b.PingStarts)}
}

func pings(p *guest.Pings) string {
	if p == nil {
		return "FAILED"
	}
	return fmt.Sprintf("%d/%d", p.Received, p.Sent)
}

// writeColumns writes a table of Markdown with aligned columns.
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
