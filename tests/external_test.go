package tests

// This file tests programs that people write on FUNet: in Go as a module of its own, which sees
// only what the project exports, and in C with the library (tests/programs).

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// external builds the Go programs of tests/programs in a copy of their module, without a network
// and without changing anything in the source, and returns the folder of the programs, where
// everybody may run them.
func external(t testing.TB, programs ...string) string {
	t.Helper()
	return externalWith(t, nil, programs...)
}

// externalWith is external with more files in the copy.
func externalWith(t testing.TB, files map[string]string, programs ...string) string {
	t.Helper()
	module, bin := filepath.Join(t.TempDir(), "programs"), open(t)
	if err := os.CopyFS(module, os.DirFS("programs")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(module, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	project, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"mod", "edit", "-replace", "github.com/funet/funet=" + project},
		append([]string{"build", "-o", bin + "/"}, programs...),
		append([]string{"vet"}, programs...),
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = module
		// The versions are those that the project asks for, now.
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return bin
}

// open returns a new folder that everybody may look into.
func open(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	for _, f := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(f, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// inC compiles a program of tests/programs, with a compiler that takes C or C++ and the flags.
func inC(t testing.TB, compiler []string, source string) string {
	t.Helper()
	program := filepath.Join(open(t), "program")
	args := append(slices.Clone(compiler[1:]), "-O2", "-Wall", "-Wextra", "-Werror", "-I", "../uspace/funi", "-o",
		program, source)
	if out, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("compiling with %s: %v\n%s", compiler[0], err, out)
	}
	return program
}

var c11 = []string{"cc", "-std=c11", "-pedantic"}

// allToAll checks what a program printed that exchanged verified blocks: for each node how many of
// them, and their sum.
func allToAll(t *testing.T, out, before string, nodes, rounds int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := make([]string, 0, nodes+1)
	for n := range nodes {
		want = append(want, fmt.Sprintf("%snode %d: %d blocks, ", before, n, rounds*(nodes-1)))
	}
	want = append(want, fmt.Sprintf("%s%d nodes, %d rounds: %d blocks, ", before, nodes, rounds,
		rounds*(nodes-1)*nodes))
	if !slices.EqualFunc(lines, want, strings.HasPrefix) {
		t.Errorf("it printed\n%s\nwant the beginnings\n%s", out, strings.Join(want, "\n"))
	}
}

// Rule: a program that somebody writes from the documentation alone works: every node sends each
// other node blocks of all lengths, each of which the receiver checks, through daemons by an
// ordinary user; the first Ctrl-C ends it.
func TestProgramInGo(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	verified(t, s, filepath.Join(external(t, "./alltoall"), "alltoall"), "--bytes", "5000", "--rounds")
}

// verified runs an all-to-all program on three nodes, for some rounds and until it is interrupted.
// The number of rounds is its last argument.
func verified(t *testing.T, s *service, program ...string) {
	t.Helper()
	rounds := func(n string) []string { return slices.Concat([]string{"-n", "3", "--"}, program, []string{n}) }
	allToAll(t, s.run(rounds("20")...).ok(), "[0] ", 3, 20)
	s.free()
	p := s.run(rounds("1000000000")...)
	eventually(t, "all nodes are attached", func() bool { return s.attached() >= 3 })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 128+int(syscall.SIGINT) {
		t.Errorf("interrupted: exit code %d, and it said %q", code, p.stderr.String())
	}
	s.free()
}

// Rule: what package funet and libfunet are for: the program has at most half as many lines by
// them, without empty ones and comments, as the programs had that did the same on cards and words.
func TestProgramsAreHalfAsLong(t *testing.T) {
	for path, before := range map[string]int{"programs/alltoall/main.go": 307, "programs/alltoall.c": 296} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if after := len(regexp.MustCompile(`(?m)^\s*[^\s/*].*$`).FindAll(b, -1)); 2*after > before {
			t.Errorf("%s has %d lines, and %d before", path, after, before)
		}
	}
}

// Rule: the same program in Go makes a card in its process where there is no daemon.
func TestProgramWithItsOwnCard(t *testing.T) {
	long.Test(t)
	program := filepath.Join(external(t, "./alltoall"), "alltoall")
	name, _ := namedLab(t)
	var nodes []*process
	for host := range 2 {
		nodes = append(nodes, funet(t, "lab", "exec", "--name", name, fmt.Sprint(host), "--", program, "--peers",
			peersFile(t, name, host),
			"--iface", "fu0", "--node", fmt.Sprint(host), "--bytes", "70000", "--rounds", "10"))
	}
	for node, p := range nodes {
		if out := p.ok(); node == 0 {
			allToAll(t, out, "", 2, 10)
		}
	}
}

// shown returns the program of a page that begins with some text.
func shown(t *testing.T, page, begins string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(b), "\n    "+begins)
	if !found {
		t.Fatalf("%s has no program that begins with %q", page, begins)
	}
	var program strings.Builder
	program.WriteString(begins)
	for line := range strings.Lines(text) {
		rest, code := strings.CutPrefix(line, "    ")
		if !code && strings.TrimSpace(line) != "" {
			break
		}
		program.WriteString(rest)
	}
	return program.String()
}

// Rule: the programs of the README and of the manual compile as they stand there, and run, each
// alone and in one job together.
func TestProgramsOfTheManual(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	folder := open(t)
	if err := os.WriteFile(filepath.Join(folder, "program.c"),
		[]byte(shown(t, "../ctl/manual/programs.md", "#include <funet.h>")), 0o644); err != nil {
		t.Fatal(err)
	}
	if a, b := shown(t, "../README.md", "package main\n"),
		shown(t, "../ctl/manual/programs.md", "package main\n"); a != b {
		t.Errorf("the README has another program in Go than the manual:\n%s\n%s", a, b)
	}
	inGo := map[string]string{"shown/main.go": shown(t, "../README.md", "package main\n")}
	goProgram := filepath.Join(externalWith(t, inGo, "./shown"), "shown")
	cProgram := withLibrary(t, c11, filepath.Join(folder, "program.c"))
	if out := s.run("-n", "2", "--", goProgram).ok(); !strings.Contains(out, "[0] hello world\n") ||
		!strings.Contains(out, "[1] hello world\n") {
		t.Errorf("in Go it printed %q", out)
	}
	if out := s.run("-n", "2", "--", cProgram).ok(); !strings.Contains(out, "[0] hello from C\n") ||
		!strings.Contains(out, "[1] hello from C\n") {
		t.Errorf("in C it printed %q", out)
	}
	both := fmt.Sprintf("if [ $FUNET_NODE = 0 ]; then exec %s; else exec %s; fi", goProgram, cProgram)
	if out := s.run("-n", "2", "--", "sh", "-c", both).ok(); !strings.Contains(out, "[0] hello from C\n") ||
		!strings.Contains(out, "[1] hello world\n") {
		t.Errorf("in both it printed %q", out)
	}
	s.free()
}
