package main

// This file states what counts as passed, and how the table looks.

import (
	"strings"
	"testing"

	"github.com/funet/funet/tests/qemu/guest"
)

// good is a configuration that passed.
func good() *configuration {
	every := &guest.Pings{Sent: 100, Received: 100}
	return &configuration{NIC: "igb", Kernel: "7.3.4+deb13-amd64",
		Rows: []row{{Program: "pingpong", Passed: true, XDPMode: "native", BindMode: "zero-copy", P50: 99.4}, {Program: "transfer", Passed: true, Bytes: 80.26}},
		Beside: &beside{Alone: &guest.TCP{Rate: 20}, Idle: &guest.TCP{Rate: 16}, Job: &guest.TCP{Rate: 5}, After: &guest.TCP{Rate: 20}, PingIdle: every, PingJob: every,
			PingStarts: &guest.Pings{Sent: 100, Received: 60}}}
}

// A run passed if every program did, the kernel's TCP kept 0.8 of its rate beside an idle funid, and no
// ping was lost while funid was there. Pings are lost while it starts and stops where the driver
// resets its link.
func TestVerdict(t *testing.T) {
	c := good()
	c.Beside.ratio()
	if c.Beside.IdleRatio != 0.8 || !c.passed() {
		t.Fatalf("%+v", c.Beside)
	}
	for name, spoil := range map[string]func(*configuration){
		"a program failed":    func(c *configuration) { c.Rows[1].Passed = false },
		"nothing was tried":   func(c *configuration) { c.Rows = nil },
		"it went no further":  func(c *configuration) { c.Error = "guest 0: QEMU has ended" },
		"a daemon failed":     func(c *configuration) { c.Beside.Error = "funid" },
		"TCP is slow":         func(c *configuration) { c.Beside.Idle.Rate = 15.9 },
		"TCP is cut":          func(c *configuration) { c.Beside.Idle = nil },
		"TCP does not return": func(c *configuration) { c.Beside.After = nil },
		"a ping is lost":      func(c *configuration) { c.Beside.PingIdle = &guest.Pings{Sent: 100, Received: 99} },
		"pings are cut":       func(c *configuration) { c.Beside.PingJob = nil },
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

// The table is one of Markdown: a column for each program, a line for each NIC and kernel, and below it why
// something failed.
func TestTable(t *testing.T) {
	bad := good()
	bad.NIC, bad.Rows[0] = "virtio", row{Program: "pingpong", Error: "host 0: peer silent"}
	bad.Rows[1].Passed = true
	bad.Beside, bad.Kmsg = nil, []string{"host 1: WARNING: CPU: 0"}
	first := good()
	first.Beside.ratio()
	var b strings.Builder
	if err := (&report{QEMU: "10", Accelerator: "tcg", Why: "no /dev/kvm", Runs: []*configuration{first, bad}}).writeTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"QEMU 10, tcg (no kvm: no /dev/kvm); two guests of one processor and 512 MB\n\n| NIC    | kernel | mode              | pingpong | stream |",
		"\n|--------|--------|-------------------|----------|--------|",
		"\n| igb    | 7.3.4  | native, zero-copy | 99 us    | -      | -     | 80.3 MB/s |",
		"| 0.80     | 0.25    | 100/100    | 100/100 | 60/100      |\n",
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

// Figures are in the unit of their program, and a failure has none.
func TestFigures(t *testing.T) {
	for want, r := range map[string]row{
		"FAILED": {P50: 99}, "99 us": {Passed: true, P50: 99.4, P99: 200}, "756 k/s": {Passed: true, Rate: 756_400},
		"80.3 MB/s": {Passed: true, Bytes: 80.26}, "107 MFLOP/s": {Passed: true, MFLOPS: 107}, "7 s": {Passed: true, P50: 99, Seconds: 7.2},
	} {
		if got := r.figure(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
