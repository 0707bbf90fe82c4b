package main

// This file tests the command as a whole, with short windows: what it prints, what it refuses,
// and that nothing is left of it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/tests/attack"
	"github.com/funet/funet/tests/long"
)

// deadline bounds each run; the machine may be busy.
const deadline = 3 * time.Minute

// built is the folder with share and funid.
var built string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	// Closed to other users, as the home of whoever runs `make share` may be.
	if built, err = os.MkdirTemp("", "funet-share"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(built)
	for name, pkg := range map[string]string{"share": "tests/share", "funid": "ctl/funid"} {
		build := exec.Command("go", "build", "-o", filepath.Join(built, name), "github.com/funet/funet/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // funid must be built without
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return m.Run(), nil
}

// share prepares a run, which ends with the test.
func share(t *testing.T, args ...string) (cmd *exec.Cmd, out, complaints *bytes.Buffer) {
	t.Helper()
	out, complaints = new(bytes.Buffer), new(bytes.Buffer)
	cmd = exec.CommandContext(t.Context(), filepath.Join(built, "share"), args...)
	cmd.Stdout, cmd.Stderr = out, complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, out, complaints
}

// finish waits for the end of a run that was started.
func finish(t *testing.T, cmd *exec.Cmd) (code int) {
	t.Helper()
	timer := time.AfterFunc(deadline, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer timer.Stop()
	_ = cmd.Wait() // the code says it
	return cmd.ProcessState.ExitCode()
}

// TestDocument: a run prints one JSON document, which has for each attack that was asked for the
// ratios, the figures and whether they are within what they are judged by; that they are not is no
// failure.
func TestDocument(t *testing.T) {
	long.Test(t)
	cmd, out, complaints := share(t, "--rounds", "2", "--window", "200ms", "--attacks",
		"stolen_bells,connections", "--json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := finish(t, cmd); code != 0 {
		t.Fatalf("ended with %d: %s", code, complaints)
	}
	var r report
	d := json.NewDecoder(out)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if d.More() {
		t.Error("more than one document")
	}
	if r.Rounds != 2 || r.WindowSeconds != 0.2 || r.LeastRateRatio != leastRate || r.MostP99Ratio != mostP99 {
		t.Errorf("%+v", r)
	}
	for name, f := range map[string]figures{"alone": r.Alone, "burner": r.Burner} {
		if f.Rate <= 0 || f.P50 <= 0 || f.P99 < f.P50 || f.Longest < f.P99 || f.Pipelined <= 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	var found []string
	met := true
	for _, a := range r.Attacks {
		found = append(found, a.Name)
		met = met && a.Met
		mean := (a.RoundsRate[0] + a.RoundsRate[1]) / 2 // the median of two
		if len(a.RoundsRate) != 2 || math.Abs(a.RateRatio-mean) > 0.002 ||
			a.Met != (a.RateRatio >= leastRate && a.P99Ratio <= mostP99 && a.Did > 0) {
			t.Errorf("%+v", a)
		}
		if a.Rate <= 0 || a.P50 <= 0 || a.P99 < a.P50 || a.Does == "" {
			t.Errorf("%+v", a)
		}
	}
	if len(r.Control) != 1 || r.ControlAlone.P50 <= 0 {
		t.Errorf("requests beside %d attacks, not 1; alone %+v", len(r.Control), r.ControlAlone)
	}
	for _, c := range r.Control {
		met = met && c.Met
		if c.Name != "connections" || c.P50 <= 0 || c.P99 < c.P50 || c.MostP50 != mostConnectionP50 ||
			c.Met != (c.P50 <= c.MostP50 && c.Did > 0) {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(found, []string{"stolen_bells", "connections"}) || r.Met != met {
		t.Errorf("attacks %v, met %v", found, r.Met)
	}
}

// TestForeignHosts: the victim's exchanges are all answered, and no answer is false, while foreign
// hosts forge routes, frames and times, or lie to etcd; the attacks go on.
func TestForeignHosts(t *testing.T) {
	long.Test(t)
	for name, c := range map[string]struct {
		args    []string
		attacks []attack.Attack
	}{
		"direct": {[]string{"--hub", "fat-tree", "--card", "direct"}, append(attack.Hub(), attack.Bundles()...)},
		"daemon": {[]string{"--hub", "fat-tree"}, attack.Hub()},
		"gangs":  {[]string{"--hub", "star", "--gangs"}, attack.Hub()},
		"etcd":   {[]string{"--etcd"}, attack.Etcd()},
	} {
		cmd, out, complaints := share(t, append(c.args, "--rounds", "1", "--window", "500ms", "--json")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if code := finish(t, cmd); code != 0 {
			t.Fatalf("%s: ended with %d: %s", name, code, complaints)
		}
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Attacks) != len(c.attacks) || len(r.Control) != 0 || (r.Hub == "") != (name == "etcd") ||
			r.Gangs != (name == "gangs") || r.Etcd != (name == "etcd") {
			t.Errorf("%s: %d attacks, %d on requests, hub %q", name, len(r.Attacks), len(r.Control), r.Hub)
		}
		for _, a := range r.Attacks {
			if a.Rate <= 0 || a.Did <= 0 {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}

// TestMet: others keep their share beside an attack if rate and p99 are within their bounds and the
// attack went on: beside one that stands still nobody loses anything, unless it is one whose cards
// go on without its processes. A yardstick does not count for all.
func TestMet(t *testing.T) {
	for _, row := range []struct {
		name      string
		rate      float64
		did       float64
		waits     bool
		yardstick bool
		wanted    bool
		all       bool
	}{{"kept", 600, 10, false, false, true, true}, {"lost", 400, 10, false, false, false, false},
		{"stands still", 600, 0, false, false, false, false}, {"waits", 600, 0, true, false, true, true},
		{"lost beside a yardstick", 400, 10, false, true, false, true}} {
		r := newReport(&options{Rounds: 1, attacks: []attack.Attack{{Name: row.name, Waits: row.waits,
			Yardstick: row.yardstick}}})
		quiet, beside := window{Rate: 1000, P99: 10, Pipelined: 1}, window{Rate: row.rate, P99: 10, Pipelined: 1}
		r.alone, r.burner = []window{quiet}, []window{quiet, quiet}
		r.add(0, quiet, beside, quiet, row.did)
		if r.finish(); r.Attacks[0].Met != row.wanted || r.Met != row.all {
			t.Errorf("%s: met %v", row.name, r.Met)
		}
	}
}

// TestNotMeasured: without the files that ranks of libfabric need, their attacks are in the report
// with the reason, and not met.
func TestNotMeasured(t *testing.T) {
	long.Test(t)
	cmd, out, complaints := share(t, "--card", "direct", "--ranks", t.TempDir(), "--rounds", "1", "--window", "100ms",
		"--attacks", "ofi_lies", "--json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if code := finish(t, cmd); code != 0 {
		t.Fatalf("ended with %d: %s", code, complaints)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Attacks) != 1 || r.Met || r.Attacks[0].Met || !strings.Contains(r.Attacks[0].NotMeasured, "libfabric-dev") {
		t.Errorf("it printed %s", out)
	}
	if r.Alone.Rate <= 0 {
		t.Errorf("alone: %+v", r.Alone)
	}
	text := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(text, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := errors.Join(r.writeTable(&table), writeMarkdown(&table, []string{text})); err != nil ||
		strings.Count(table.String(), "not measured") != 2 {
		t.Errorf("%v: the tables are %s", err, &table)
	}
}

// TestFrom: the README's table comes from the documents of runs: least and most of their ratios, in
// the order of the first. A document that lacks an attack, or is none, is refused.
func TestFrom(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, content any) string {
		text, err := json.Marshal(content)
		path := filepath.Join(folder, name)
		if err = errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("one", report{Attacks: []*attackReport{{Name: "b", Does: "much", RateRatio: 0.714, P99Ratio: 1,
		Did: 8}, {Name: "a", Does: "little", RateRatio: 0.5, P99Ratio: 2, Did: 3}}})
	two := write("two", report{Attacks: []*attackReport{{Name: "a", RateRatio: 0.5, P99Ratio: 2.04, Did: 3},
		{Name: "b", RateRatio: 0.66, P99Ratio: 1.5, Did: 1000}}})
	less := write("less", report{Attacks: []*attackReport{{Name: "a"}}})
	var out bytes.Buffer
	if err := writeMarkdown(&out, []string{one, two}); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(out.String(), "---|\n")
	if want := "| `b` | much | 0.66 to 0.71 | 1.0 to 1.5 | 8 to 1000 |\n| `a` | little | 0.50 | 2.0 | 3 |\n"; rows !=
		want {
		t.Errorf("%s, want %s", rows, want)
	}
	for _, files := range [][]string{{one, less}, {filepath.Join(folder, "none")}, {write("text", "no report")}} {
		if err := writeMarkdown(&out, files); err == nil {
			t.Errorf("%v: no error", files)
		}
	}
}

// TestRefusals: what cannot be measured is refused in a line, before anything is made.
func TestRefusals(t *testing.T) {
	for _, args := range []string{"--rounds 0", "--window 1ms", "--attacks nonsense", "--xdp fast", "--mtu 100", "--gangs", "--etcd --hub star",
		"--funid /nonexistent", "more"} {
		cmd, out, complaints := share(t, strings.Fields(args)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		code := finish(t, cmd)
		if text := complaints.String(); code != 1 || out.Len() > 0 || !strings.HasPrefix(text, "share: ") ||
			strings.Count(text, "\n") != 1 {
			t.Errorf("%s: ended with %d, printed %q and %q", args, code, out, text)
		}
	}
}

// TestEndedEarly: however a run ends, all its processes end with it.
func TestEndedEarly(t *testing.T) {
	long.Test(t)
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGKILL, -1}} {
		cmd, out, _ := share(t, "--rounds", "1", "--window", "1m", "--attacks", "holes_idle")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		until(t, "the victim's processes and the daemons run", func() bool { return len(children(pid)) >= 4 })
		all := children(pid)
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		if code := finish(t, cmd); code != c.code || out.Len() > 0 {
			t.Errorf("%v: ended with %d, not %d, and printed %q", c.signal, code, c.code, out)
		}
		until(t, "all processes have ended", func() bool {
			return !slices.ContainsFunc(all, func(p int) bool { return running(p) })
		})
	}
}

// until waits for something.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// children returns the children of a process.
func children(pid int) (all []int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range threads {
		text, _ := os.ReadFile(path) // the thread may have ended
		for _, f := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(f, &child); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// running says whether there is such a process that has not ended.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}
