package main

// This file tests what the gate lets through, and what it says.

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/funet/funet/tests/long"
)

// asGate makes the test binary the gate.
const asGate = "FUNET_TEST_GATE"

func TestMain(m *testing.M) {
	if os.Getenv(asGate) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Rule: failures, skips without a kernel's reason, and runs without a test are refused; the tests
// that took longest are named, longest first, and those within others are not. Tests are left to
// make test-all only with -short, and are counted.
func TestGate(t *testing.T) {
	const (
		quick = `{"Action":"pass","Package":"a/b","Test":"TestQuick","Elapsed":0.5}`
		slow  = `{"Action":"pass","Package":"a/b","Test":"TestSlow","Elapsed":7}`
		part  = `{"Action":"pass","Package":"a/b","Test":"TestSlow/part","Elapsed":6}`
		fails = `{"Action":"fail","Package":"a/b","Test":"TestFails","Elapsed":1}`
		lacks = `{"Action":"output","Package":"a/b","Test":"TestSkips","Output":"the kernel has no XDP\n"}`
		leave = `{"Action":"output","Package":"a/b","Test":"TestSkips","Output":"    x_test.go:9: ` + long.Left + `\n"}`
		skips = `{"Action":"skip","Package":"a/b","Test":"TestSkips"}`
		total = `{"Action":"pass","Package":"a/b","Elapsed":8}`
	)
	for name, c := range map[string]struct {
		lines []string
		says  string
		ok    bool
		args  []string
	}{
		"passes": {[]string{quick, part, slow, total}, "the slowest:\n      b TestSlow" + strings.Repeat(" ", 40) +
			"    7.0 s\n      b TestQuick" +
			strings.Repeat(" ", 39) + "    0.5 s\n3 passed, 0 failed, 0 skipped\n", true, nil},
		"fails":            {[]string{quick, fails}, "1 passed, 1 failed, 0 skipped\n", false, nil},
		"skips":            {[]string{quick, skips}, "without naming a missing kernel feature", false, nil},
		"the kernel lacks": {[]string{quick, lacks, skips}, "1 passed, 0 failed, 1 skipped\n", true, nil},
		"nothing":          {nil, "no test ran", false, nil},
		"left": {[]string{quick, leave, skips}, "1 passed, 0 failed, 0 skipped, 1 left to make test-all\n", true,
			[]string{"-short"}},
		"left though all were to run": {[]string{quick, leave, skips}, "without naming a missing kernel feature", false, nil},
		"skips where tests are left":  {[]string{quick, skips}, "without naming a missing kernel feature", false, []string{"-short"}},
		"all are left":                {[]string{leave, skips}, "no test ran", false, []string{"-short"}},
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", c.args...)
		cmd.Env = append(os.Environ(), asGate+"=1")
		cmd.Stdin = strings.NewReader(strings.Join(c.lines, "\n") + "\n")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), c.says) || (err == nil) != c.ok {
			t.Errorf("%s: %v:\n%s", name, err, out)
		}
	}
}
