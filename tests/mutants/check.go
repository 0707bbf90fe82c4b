package main

// This file builds a check with an engine and runs it. A check is a test of the engine, of its
// links or of the libraries, or a chaos run of the funet command. The output of a failed check
// tells whether it caught the mutation or failed by accident.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// check is a check that must notice a mutation: a test or, without the name of a test, a chaos run.
type check struct {
	folder string // of the test's package
	test   string
	faults string // of the chaos run
}

// chaosRun is the arguments of every chaos run, without its faults and the last seed. At least
// fifteen of allSeeds noticed each mutation that is left to chaos, so other random numbers would do
// as well.
const (
	chaosRun   = "sim chaos --nodes 8 --messages 1000 --faults %s --seeds 1..%d"
	firstSeeds = 40
	allSeeds   = 200
)

func (c check) String() string {
	if c.test == "" {
		return "chaos " + c.faults
	}
	if c.folder != engineFolder {
		return filepath.Base(c.folder) + " " + c.test
	}
	return c.test
}

// limit bounds one run. On an idle machine each takes a few seconds at most. A run beyond the limit
// gives no verdict.
const limit = 4 * time.Minute

var (
	errSurvived = errors.New("NOT CAUGHT")
	errAccident = errors.New("NO VERDICT")
)

// bench is a folder where mutants are built and run.
type bench struct {
	root   string // of the module
	folder string // temporary
	mu     sync.Mutex
	built  map[string]string // programs of checks with the unchanged engine, by folder of the test
}

func newBench(ctx context.Context) (*bench, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if err == nil {
		_, err = os.Stat(filepath.Join(root, engineFolder))
	}
	if err != nil {
		return nil, fmt.Errorf("finding the engine's source; run this within the module: %w", err)
	}
	folder, err := os.MkdirTemp("", "funet-mutants")
	if err != nil {
		return nil, fmt.Errorf("making a folder for mutants: %w", err)
	}
	return &bench{root: root, folder: folder, built: map[string]string{}}, nil
}

func (b *bench) remove() { _ = os.RemoveAll(b.folder) }

// catch applies a mutation and returns what a check printed about it. It returns an error if the
// check did not notice the mutation, or gave no verdict.
func (b *bench) catch(ctx context.Context, m mutation, c check) (string, error) {
	folder, err := os.MkdirTemp(b.folder, m.name)
	if err != nil {
		return "", fmt.Errorf("making a folder for the mutant: %w", err)
	}
	defer os.RemoveAll(folder)
	overlay, err := m.mutate(b.root, folder)
	if err == nil && c.test != "" {
		err = b.trim(c, folder, overlay)
	}
	if err != nil {
		return "", err
	}
	binary, err := b.build(ctx, c, folder, "-overlay", overlay)
	if err != nil {
		return "", err
	}
	// Most mutants are noticed by the short form of a check.
	output, err := b.run(ctx, c, binary, true)
	if err == nil {
		output, err = b.run(ctx, c, binary, false)
	}
	if err == nil {
		return "", errSurvived
	}
	return judge(c, output, err)
}

// pass runs a check on the unchanged engine, which must pass it.
func (b *bench) pass(ctx context.Context, c check) (string, error) {
	binary, err := b.unchanged(ctx, c)
	if err != nil {
		return "", err
	}
	output, err := b.run(ctx, c, binary, false)
	if err == nil && strings.Contains(output, "no tests to run") {
		return "", fmt.Errorf("%w: there is no such test", errAccident)
	}
	if err != nil {
		said, accident := judge(c, output, err)
		if accident != nil {
			return "", accident
		}
		return "", fmt.Errorf("FAILS: %s", said)
	}
	return "passes", nil
}

// unchanged returns the program of a check with the unchanged engine, which is built once.
func (b *bench) unchanged(ctx context.Context, c check) (binary string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.built[c.folder] == "" {
		if binary, err = b.build(ctx, c, b.folder); err != nil {
			return "", err
		}
		b.built[c.folder] = binary
	}
	return b.built[c.folder], nil
}

// build compiles the program of a check into the folder. It leaves out what takes long and changes
// no verdict: the profile that funet ships with, and tables for debuggers.
func (b *bench) build(ctx context.Context, c check, folder string, flags ...string) (binary string, err error) {
	var args []string
	if c.test == "" {
		binary = filepath.Join(folder, "funet")
		args = append([]string{"build", "-pgo=off", "-ldflags=-s -w", "-o", binary}, append(flags, "./ctl/funet")...)
	} else {
		binary = filepath.Join(folder, filepath.Base(c.folder)+".test")
		args = append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, append(flags, "./"+c.folder)...)
	}
	cmd := command(ctx, b.root, "go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: go %s: %w: %s", errAccident, args[0], err, bytes.TrimSpace(out))
	}
	return binary, nil
}

// run runs a check and returns all that it printed. The short form is a test with -short, or chaos
// with firstSeeds.
func (b *bench) run(ctx context.Context, c check, binary string, short bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// The same every time, and rapid must not write what it finds into the tree. That it finds
	// something is enough: it need not make it small.
	args := []string{"-test.run", "^" + c.test + "$", "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1s"}
	seeds := allSeeds
	if short {
		args, seeds = append(args, "-test.short"), firstSeeds
	}
	if c.test == "" {
		args = strings.Fields(fmt.Sprintf(chaosRun, c.faults, seeds))
	}
	cmd := command(ctx, filepath.Join(b.root, c.folder), binary, args...)
	cmd.Env = append(os.Environ(), "FUNET_TESTS_ALL=1") // no test is left out (tests/long)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%w: not done within %v", errAccident, limit)
	}
	return string(out), err
}

// command returns a command that ends with this program, however this program ends.
func command(ctx context.Context, folder, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

var (
	failedTest  = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	failedLine  = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: .*$|^panic: .*$`)
	failedSeed  = regexp.MustCompile(`(?m)^seed \d+ failed: (?:at \d+ ns: )?(.*)$`)
	failedSeeds = regexp.MustCompile(`(\d+ of \d+ seeds) broke a promise`)
)

// judge returns, in one line, the error that a failed check found. It returns errAccident if the
// check failed for another reason.
func judge(c check, output string, failure error) (string, error) {
	if errors.Is(failure, errAccident) {
		return "", failure
	}
	said := ""
	if c.test == "" {
		said = saidChaos(output)
	} else {
		said = saidTest(output)
	}
	if said == "" {
		return "", fmt.Errorf("%w: %w: %s", errAccident, failure, brief(output))
	}
	return brief(said), nil
}

// saidChaos returns how many seeds failed, and why the first of them did, or an empty string.
func saidChaos(output string) string {
	seeds, reason := failedSeeds.FindStringSubmatch(output), failedSeed.FindStringSubmatch(output)
	if seeds == nil || reason == nil {
		return ""
	}
	one, _, _ := strings.Cut(reason[1], "; at ")
	return seeds[1] + ": " + one
}

// saidTest returns the first line that a failing test printed, behind the name of its subtest, or
// an empty string.
func saidTest(output string) string {
	line := failedLine.FindStringSubmatchIndex(output)
	if line == nil {
		return ""
	}
	names := failedTest.FindAllStringSubmatch(output[:line[0]], -1)
	if names == nil {
		return ""
	}
	said := strings.TrimSpace(output[line[0]:line[1]])
	if _, sub, ok := strings.Cut(names[len(names)-1][1], "/"); ok {
		return sub + ": " + said
	}
	return said
}

// brief returns the first line of a text, without its middle if it is long. A failure begins with
// the place where it was found, and often ends with the values.
func brief(s string) string {
	const most, end = 110, 45
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(s); len(r) > most {
		return string(r[:most-end-3]) + "..." + string(r[len(r)-end:])
	}
	return s
}
