package main

// This file states what counts as passed, and how the table looks.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/funet/funet/tests/qemu/guest"
)

// good is a configuration that passed.
func good() *configuration {
	every := &guest.Pings{Sent: 100, Received: 100}
	return &configuration{NIC: "igb", Kernel: "7.3.4+deb13-amd64",
		Rows: []row{{Program: "pingpong", Passed: true, XDPMode: "native", BindMode: "zero-copy", P50: 99.4},
			{Program: "transfer", Passed: true, Bytes: 80.26}},
		Beside: &beside{Alone: &guest.TCP{Rate: 20}, Idle: &guest.TCP{Rate: 16}, Job: &guest.TCP{Rate: 5},
			After: &guest.TCP{Rate: 20}, PingIdle: every, PingJob: every,
			PingStarts: &guest.Pings{Sent: 100, Received: 60},
			StartsLog:  []string{"funid: interface eth0: its driver resets the link when the NIC program comes or goes; this time it was back after 2.0 s"}}}
}

// TestVerdict: a run passed if every program did, and three more conditions hold. Beside an idle
// funid the kernel's TCP kept 0.8 of its rate, or of what the driver's XDP mode leaves of it. No
// ping was lost while funid was there. Nor was one lost while funid started and stopped, unless its
// log says that the driver resets its link.
func TestVerdict(t *testing.T) {
	c := good()
	c.Beside.ratio()
	if c.Beside.IdleRatio != 0.8 || !c.passed() {
		t.Fatalf("%+v", c.Beside)
	}
	c.Beside.Idle.Rate, c.Beside.Bare = 8, &guest.TCP{Rate: 10}
	c.Beside.ratio()
	if notes := c.notes(); !c.passed() || len(notes) != 1 ||
		!strings.Contains(notes[0], "TCP keeps 0.40 of its rate beside an idle funid, and 0.50 beside") {
		t.Errorf("where XDP halves the rate: passed %v, notes %q", c.passed(), notes)
	}
	for name, spoil := range map[string]func(*configuration){
		"TCP is slower than XDP makes it": func(c *configuration) {
			c.Beside.Idle.Rate, c.Beside.Bare = 7.9, &guest.TCP{Rate: 10}
		},
		"a program failed":    func(c *configuration) { c.Rows[1].Passed = false },
		"nothing was tried":   func(c *configuration) { c.Rows = nil },
		"it went no further":  func(c *configuration) { c.Error = "guest 0: QEMU has ended" },
		"a daemon failed":     func(c *configuration) { c.Beside.Error = "funid" },
		"TCP is slow":         func(c *configuration) { c.Beside.Idle.Rate = 15.9 },
		"TCP is cut":          func(c *configuration) { c.Beside.Idle = nil },
		"TCP does not return": func(c *configuration) { c.Beside.After = nil },
		"a ping is lost": func(c *configuration) {
			c.Beside.PingIdle = &guest.Pings{Sent: 100, Received: 99}
		},
		"pings are lost and nobody says why": func(c *configuration) { c.Beside.StartsLog = nil },
		"pings are cut":                      func(c *configuration) { c.Beside.PingJob = nil },
	} {
		c := good()
		spoil(c)
		c.Beside.ratio()
		if r := (&report{Runs: []*configuration{good(), c}}).finish(); c.passed() || r.Passed {
			t.Errorf("%s: passed", name)
		}
	}
	if (&report{}).finish().Passed {
		t.Error("a run of nothing passed")
	}
}

// The table is one of Markdown: a column for each program, a line for each NIC and kernel, and
// below it why something failed.
func TestTable(t *testing.T) {
	bad := good()
	bad.NIC, bad.Rows[0] = "virtio", row{Program: "pingpong", Error: "host 0: peer silent"}
	bad.Rows[1].Passed = true
	bad.Beside, bad.Kmsg = nil, []string{"host 1: WARNING: CPU: 0"}
	first := good()
	first.Beside.Bare = &guest.TCP{Rate: 18}
	first.Beside.ratio()
	var b strings.Builder
	if err := (&report{QEMU: "10", Accelerator: "tcg", Why: "no /dev/kvm",
		Runs: []*configuration{first, bad}}).writeTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"QEMU 10, tcg (no kvm: no /dev/kvm); two guests of one processor and 512 MB\n\n| NIC    | kernel | mode              | pingpong | stream |",
		"\n|--------|--------|-------------------|----------|--------|",
		"\n| igb    | 7.3.4  | native, zero-copy | 99 us    | -      | -     | 80.3 MB/s |",
		"| 0.90     | 0.80     | 0.25    | 100/100    | 100/100 | 60/100      |\n",
		"\n| virtio | 7.3.4  | -                 | FAILED   | -      |",
		"\nvirtio, 7.3.4, pingpong: host 0: peer silent\nvirtio, 7.3.4: kernel: host 1: WARNING: CPU: 0\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	width := 0
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "|") {
			if width == 0 {
				width = len(line)
			}
			if len(line) != width {
				t.Errorf("columns do not stand below each other:\n%s", b.String())
			}
		}
	}
}

// A configuration that was not run because the machine is too busy has passed, and the table says
// that it was not run; where the speed of TCP is not judged it may be slow, but must get through.
func TestVerdictInCI(t *testing.T) {
	c := &configuration{NIC: "igb", Kernel: "7.3.4+deb13-amd64", NotRun: "guests took 50 s to boot"}
	if lines := c.notes(); !c.passed() || len(lines) != 1 ||
		lines[0] != "igb, 7.3.4: not run: guests took 50 s to boot" {
		t.Errorf("passed %v, notes %q", c.passed(), lines)
	}
	c = good()
	c.tcpUnjudged = true
	c.Beside.Idle.Rate = 1
	c.Beside.ratio()
	if !c.passed() {
		t.Errorf("slow TCP: %q", c.failures())
	}
	if c.Beside.Idle = nil; c.passed() {
		t.Error("TCP is cut: passed")
	}
}

// The form for a page has each configuration on a line and says what the columns mean; it is made
// from the documents of earlier runs, too, of one QEMU.
func TestMarkdown(t *testing.T) {
	write := func(r *report) string {
		path := filepath.Join(t.TempDir(), "run.json")
		text, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two := good(), good()
	one.Beside.ratio()
	two.Beside.ratio()
	two.Kernel = "6.12.107+deb13-amd64"
	a, b := write(&report{QEMU: "10", Accelerator: "tcg", Runs: []*configuration{one}}),
		write(&report{QEMU: "10", Accelerator: "tcg", Runs: []*configuration{two}})
	r, err := readReports([]string{a, b})
	if err != nil || !r.Passed {
		t.Fatal(err, r)
	}
	var page strings.Builder
	if err := r.writeMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| NIC | kernel | mode | pingpong |", "\n|---|---|",
		"\n| igb | 7.3.4 | native, zero-copy | 99 us |", "\n| igb | 6.12.107 | native,",
		"| NIC | kernel | mode | link_bounce | ring_change |", "| matmul | daemons | direct | TCP bare |",
		"\nQEMU 10, tcg, two guests of one processor and 512 MB. `TCP bare`"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
	if _, err := readReports([]string{a, write(&report{QEMU: "11", Accelerator: "tcg"})}); err == nil ||
		!strings.Contains(err.Error(), "they do not belong in one table") {
		t.Errorf("two QEMUs: %v", err)
	}
	if _, err := readReports([]string{"/etc/passwd"}); err == nil ||
		!strings.Contains(err.Error(), "is not what `qemu --json` writes") {
		t.Errorf("another file: %v", err)
	}
}

// Figures are in the unit of their program, and a failure has none.
func TestFigures(t *testing.T) {
	for want, r := range map[string]row{
		"FAILED": {P50: 99}, "99 us": {Passed: true, P50: 99.4, P99: 200}, "756 k/s": {Passed: true, Rate: 756_400},
		"80.3 MB/s": {Passed: true, Bytes: 80.26}, "107 MFLOP/s": {Passed: true, MFLOPS: 107},
		"7 s": {Passed: true, P50: 99, Seconds: 7.2},
	} {
		if got := r.figure(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
