// Package tests runs the funet command end to end: real processes in network
// namespaces, as a person would run them. It holds what needs more than one package.
//
// TestMain builds the command and the daemon once, or takes the command that FUNET_BINARY names,
// with the daemon beside it. Every process that a test starts carries a mark in its environment,
// which its children inherit. By the mark a test tells its own processes from what others on the
// machine do. census_test.go follows the marks to namespaces, programs and maps and checks that
// they are gone. Labs that need a name get one that no other run has. So tests may run at the same
// time: those that wait for most of their time do, after the others (t.Parallel).
package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
)

// deadline bounds everything that a test waits for; a machine that is busy with other
// things is still given time.
const deadline = 5 * time.Minute

// Environment variables of the children.
const (
	markEnv   = "FUNET_TESTS_MARK"
	memberEnv = "FUNET_TESTS_MEMBER" // makes the test binary a member, member_test.go
	typistEnv = "FUNET_TESTS_TYPIST" // or a typist, terminal_test.go
)

// command is the path of the command under test.
var command string

// programs are the programs that make builds.
var programs = []string{"funet", "funet-bench", "funet-paper", "funid"}

func TestMain(m *testing.M) {
	if os.Getenv(typistEnv) != "" {
		typist()
		return
	}
	if spec := os.Getenv(containerEnv); spec != "" {
		if err := contain(spec); err != nil {
			fmt.Fprintln(os.Stderr, "container:", err)
			os.Exit(1)
		}
		return
	}
	if config := os.Getenv(memberEnv); config != "" {
		if err := member(config); err != nil {
			fmt.Fprintln(os.Stderr, "member:", err)
			os.Exit(1)
		}
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("these tests make network namespaces and AF_XDP sockets: run them as root")
	}
	if command = os.Getenv("FUNET_BINARY"); command != "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "funet-tests")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // nobody runs it too
		return 0, err
	}
	command = filepath.Join(dir, "funet")
	// the others beside the command, where it looks
	for _, name := range programs {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), "github.com/funet/funet/ctl/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // funid must be built without
		if out, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return m.Run(), nil
}

// process is a program that a test started.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	mark   string
	stdout bytes.Buffer
	stderr bytes.Buffer
	ended  chan struct{}
	err    error
	// patience is how long wait waits: deadline, unless a test that does much says otherwise.
	patience time.Duration
}

var serial atomic.Int64

// unique returns a word that no other process of this or another run has.
func unique() string {
	return strconv.FormatInt(int64(os.Getpid()), 36) + "-" + strconv.FormatInt(serial.Add(1), 36)
}

// start starts a command with a mark, by its own Start or in a lab; it is ended with the test.
func start(t *testing.T, cmd *exec.Cmd, by func(*exec.Cmd) error) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, mark: unique(), ended: make(chan struct{}), patience: deadline}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, markEnv+"="+p.mark)
	if cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	cmd.Stderr = &p.stderr
	if by == nil {
		by = (*exec.Cmd).Start
		// Should this process be killed, so are those that it started.
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error)
	go func() {
		// The kernel kills the child with the thread that started it (prctl(2), PR_SET_PDEATHSIG).
		// Threads that have been in a lab end when it is closed.
		runtime.LockOSThread()
		err := by(cmd)
		if started <- err; err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %v: %v", cmd.Args, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.ended
		for _, pid := range marked(p.mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // what a failed test leaves
		}
	})
	return p
}

// funet starts the command under test.
func funet(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, exec.Command(command, args...), nil)
}

// on starts the command under test on a host of a lab, without the help of lab exec.
func on(t *testing.T, l *lab.Lab, host int, args ...string) *process {
	t.Helper()
	return start(t, l.Command(host, command, args...), func(c *exec.Cmd) error { return l.Start(host, c) })
}

// wait waits for the end and returns the exit code; -1 is a signal's.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(p.patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // Go programs say where they are
		select {
		case <-p.ended:
		case <-time.After(5 * time.Second):
		}
		p.t.Fatalf("%v has not ended after %v\nstderr: %s", p.cmd.Args, p.patience, tail(p.stderr.String()))
	}
	return p.cmd.ProcessState.ExitCode()
}

// tail is the end of a long text.
func tail(s string) string { return s[max(0, len(s)-4000):] }

// progressLine matches what a command says of its progress when it takes long.
var progressLine = regexp.MustCompile(`(?m)^(\[\d+\] )?funet: .* \.\.\. .*\n`)

// complaints returns what a command wrote to standard error besides.
func complaints(stderr string) string { return progressLine.ReplaceAllString(stderr, "") }

// ok waits for an end without an error or a complaint and returns what was printed.
func (p *process) ok() string {
	p.t.Helper()
	if code := p.wait(); code != 0 || complaints(p.stderr.String()) != "" {
		p.t.Fatalf("%v ended with %d, want 0 and nothing on stderr\nstderr: %s", p.cmd.Args, code,
			tail(p.stderr.String()))
	}
	return p.stdout.String()
}

// fails waits for an end with an error, which is one line that starts with "funet:" and
// has all the given parts, and returns it.
func (p *process) fails(parts ...string) string {
	p.t.Helper()
	code := p.wait()
	line := complaints(p.stderr.String())
	if code <= 0 {
		p.t.Errorf("%v ended with %d, want an exit code that is an error\nstderr: %s", p.cmd.Args, code, tail(line))
	}
	if !strings.HasPrefix(line, "funet: ") || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		p.t.Errorf("%v: stderr is not one line that starts with \"funet: \": %q", p.cmd.Args, tail(line))
	}
	for _, part := range parts {
		if !strings.Contains(line, part) {
			p.t.Errorf("%v: %q does not say %q", p.cmd.Args, tail(line), part)
		}
	}
	return line
}

// decode reads exactly one JSON document.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("reading %q: %v", tail(text), err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one JSON document: %s", tail(text))
	}
	return v
}

// eventually fails the test unless the condition comes true in time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

// namedLab makes a lab with `funet lab up` and opens it; it goes down with the test.
func namedLab(t *testing.T, args ...string) (name string, l *lab.Lab) {
	t.Helper()
	name = "t" + unique()
	funet(t, append([]string{"lab", "up", name}, args...)...).ok()
	t.Cleanup(func() { // the last resort of tests that fail
		if err := lab.Down(name); err != nil && !errors.Is(err, lab.ErrNotFound) {
			t.Error(err)
		}
	})
	l, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return name, l
}

// peersFile writes what `funet lab peers` prints for a host.
func peersFile(t *testing.T, name string, host int) (path string) {
	t.Helper()
	return file(t, funet(t, "lab", "peers", name, "--host", strconv.Itoa(host)).ok())
}

// file writes a file that goes with the test and that everybody may read.
func file(t *testing.T, text string) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "funet-tests") // t.TempDir's is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "peers.yaml")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

// interfaces lists the interfaces of a host, as --iface takes them.
func interfaces(l *lab.Lab, host int) string {
	var names []string
	for _, i := range l.Hosts()[host].Interfaces {
		names = append(names, i.Name)
	}
	return strings.Join(names, ",")
}
