package tests

// This file tests the library libfunet with programs in C (uspace/libfunet).

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

var (
	gnu11 = []string{"cc", "-std=gnu11"}
	cxx20 = []string{"c++", "-x", "c++", "-std=c++20", "-pedantic"}
)

// contents returns a file.
func contents(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// library returns the folder of libfunet.so, which is beside the command under test. It builds the
// library once, as make does.
var library = sync.OnceValues(func() (string, error) {
	dir := filepath.Dir(command)
	path := filepath.Join(dir, "libfunet.so.1")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	exports, err := filepath.Abs("../uspace/libfunet/libfunet.map")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", path, "-ldflags",
		"-s -w -extldflags '-Wl,-soname,libfunet.so.1 -Wl,--version-script="+exports+"'", "../uspace/libfunet")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building libfunet: %w\n%s", err, out)
	}
	// whatever root's umask is
	return dir, errors.Join(os.Chmod(path, 0o755), os.Symlink("libfunet.so.1", filepath.Join(dir, "libfunet.so")))
})

// withLibrary compiles a program in C or C++ that uses libfunet, with a compiler and its flags.
func withLibrary(t testing.TB, compiler []string, source string) string {
	t.Helper()
	dir, err := library()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(open(t), "program")
	args := append(slices.Clone(compiler[1:]), "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror",
		"-I", "../uspace/libfunet", "-o", program, source, "-L", dir, "-lfunet",
		"-Wl,-rpath,"+dir)
	if out, err := exec.Command(compiler[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("compiling with %s: %v\n%s", compiler[0], err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil { // nobody runs it
		t.Fatal(err)
	}
	return program
}

// Rule: the library exports the functions that funet.h declares, and nothing else. The compiler has
// compared their prototypes with the header, and what they call with the functions that cgo exports
// (gate.c).
func TestLibraryExports(t *testing.T) {
	header := contents(t, "../uspace/libfunet/funet.h")
	if n := strings.Count(string(header), "\n"); n > 700 {
		t.Errorf("funet.h has %d lines; it is for declarations and what a program must know", n)
	}
	plain := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(header), "")
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\*?(funet_\w+)\(`).FindAllStringSubmatch(plain, -1) {
		declared = append(declared, m[1])
	}
	dir, err := library()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(dir, "libfunet.so.1")).Output()
	if err != nil {
		t.Fatalf("nm, which binutils brings: %v", err)
	}
	var exported []string
	for _, m := range regexp.MustCompile(`(?m) [A-Z] (\w+)@@FUNET_1$`).FindAllStringSubmatch(string(out), -1) {
		exported = append(exported, m[1])
	}
	slices.Sort(declared)
	slices.Sort(exported)
	if n := strings.Count(string(out), "\n"); !slices.Equal(declared, exported) || len(exported) < 20 ||
		n != len(exported)+1 {
		t.Errorf("funet.h declares %v, the library exports %v, of %d symbols", declared, exported, n)
	}
}

// Rule: two nodes in C exchange messages by arrays, by the daemons' cards and by direct ports, as
// an ordinary user. Each word is checked. Under mpirun and srun they find their places, too, and a
// signal ends them in order.
func TestLibraryPingPong(t *testing.T) {
	program := withLibrary(t, c11, "../uspace/libfunet/example/pingpong.c")
	says := regexp.MustCompile(
		`(?m)^\[0\] 300 round trips, half of them within [0-9.]+ us; 5000 messages, [0-9.]+ million a second$`)
	for name, make := range map[string]func(*testing.T, ...string) *service{"daemon": daemons, "direct": directs} {
		t.Run(name, func(t *testing.T) {
			s := make(t)
			if out := s.run("-n", "2", "--", program, "300", "5000").ok(); !says.MatchString(out) {
				t.Errorf("it printed %q", out)
			}
			s.free()
			p := s.run("-n", "2", "--", program, "100000000")
			eventually(t, "both nodes are attached", func() bool { return s.attached() >= 2 })
			p.signal(syscall.SIGINT)
			if code := p.wait(); code != 128+int(syscall.SIGINT) ||
				!strings.Contains(p.stderr.String(), ": interrupted\n") {
				t.Errorf("interrupted: exit code %d, and it said %q", code, p.stderr.String())
			}
			s.free()
			script := fmt.Sprintf("for i in 0 1; do PMI_RANK=$i PMI_SIZE=2 %s 200 200 & done; wait", program)
			cmd := nobody(exec.Command(command, "run", "-n", "2", "--card", name, "--once", "--socket",
				s.sockets[0], "--", "sh", "-c", script))
			if out := start(t, cmd, nil).ok(); !strings.HasPrefix(out, "200 round trips") {
				t.Errorf("under mpirun it printed %q", out)
			}
			s.free()
		})
	}
}

// Rule: the same program makes a card in its process where there is no daemon.
func TestLibraryWithItsOwnCard(t *testing.T) {
	program := withLibrary(t, c11, "../uspace/libfunet/example/pingpong.c")
	name, _ := namedLab(t)
	var nodes []*process
	for host := range 2 {
		nodes = append(nodes, funet(t, "lab", "exec", "--name", name, fmt.Sprint(host), "--", program, "300", "5000",
			peersFile(t, name, host), "fu0", fmt.Sprint(host)))
	}
	for node, p := range nodes {
		if out := p.ok(); node == 0 && !strings.HasPrefix(out, "300 round trips") {
			t.Errorf("it printed %q", out)
		}
	}
}

// Rule: programs in C call each other, also with errors, send messages and replies of every length
// to handlers and to inboxes, exchange tagged messages and call operations of all nodes, and
// operate on windows. What handlers may not do is refused, and so is what the arguments do not
// permit.
func TestLibraryPrograms(t *testing.T) {
	s := directs(t)
	for _, name := range []string{"talk", "together", "windows", "begun"} {
		program := withLibrary(t, c11, "../uspace/libfunet/testdata/"+name+".c")
		s.run("-n", "3", "--", program).ok()
		s.free()
	}
}

// Rule: the same programs do the same on daemons' cards.
func TestLibraryProgramsOnDaemons(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for _, name := range []string{"talk", "together", "windows", "begun"} {
		program := withLibrary(t, c11, "../uspace/libfunet/testdata/"+name+".c")
		s.run("-n", "4", "--", program).ok()
		s.free()
	}
}

// Rule: address and thread sanitizers find nothing in programs that use the library, with handlers,
// threads, inboxes and windows.
func TestLibraryUnderSanitizers(t *testing.T) {
	long.Test(t)
	s := directs(t)
	for _, sanitizer := range []string{"address,undefined", "thread"} {
		for _, name := range []string{"talk", "together", "windows", "begun"} {
			program := withLibrary(t, append(slices.Clone(c11), "-g", "-fsanitize="+sanitizer),
				"../uspace/libfunet/testdata/"+name+".c")
			if p := s.run("-n", "2", "--", program); p.wait() != 0 || strings.Contains(p.stderr.String(), "Sanitizer") {
				t.Errorf("%s with %s: exit code %d: %s%s", name, sanitizer, p.wait(), p.stdout.String(),
					p.stderr.String())
			}
		}
	}
	s.free()
}

// Rule: a program with the library in it may have threads, handlers of signals that need more stack
// than Go's, children, an event loop, and an environment that it sets itself (doc.go of libfunet).
// It may be bound to one processor, and may load the library at run time.
func TestLibraryRules(t *testing.T) {
	program := withLibrary(t, append(slices.Clone(gnu11), "-pthread"), "../uspace/libfunet/testdata/rules.c")
	s := directs(t)
	for _, with := range []string{"", "taskset -c 0"} {
		followsRules(t, s, program, with)
	}
	s.free()
}

// followsRules runs rules.c on two nodes, by a command.
func followsRules(t *testing.T, s *service, program, with string) {
	t.Helper()
	script := "exec env -u FUNET_GID P_SOCKET=$FUNET_SOCKET P_GID=$FUNET_GID P_NODE=$FUNET_NODE P_NODES=$FUNET_NODES " +
		"P_TOKEN=$FUNET_TOKEN %s " + program
	out := s.run("-n", "2", "--", "sh", "-c", fmt.Sprintf(script, with)).ok()
	if !strings.Contains(out, "[0] rules\n") {
		t.Errorf("%s: it printed %q", with, out)
	}
}

// Rule: the same holds for a program that the static library is linked into.
func TestLibraryIsLinked(t *testing.T) {
	long.Test(t)
	folder := open(t)
	archive, program := filepath.Join(folder, "libfunet.a"), filepath.Join(folder, "rules")
	build := exec.Command("go", "build", "-buildmode=c-archive", "-ldflags=-s -w", "-o", archive, "../uspace/libfunet")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command("cc", "-std=gnu11", "-O2", "-pthread", "-I", "../uspace/libfunet", "-o", program,
		"../uspace/libfunet/testdata/rules.c", archive, "-lresolv").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	s := directs(t)
	followsRules(t, s, program, "")
	s.free()
}

// Rule: a program may load the library at run time, unload it, which keeps it, and load it again.
// Threads that used it may end.
func TestLibraryIsLoaded(t *testing.T) {
	program := withLibrary(t, append(slices.Clone(gnu11), "-pthread"), "../uspace/libfunet/testdata/load.c")
	dir, err := library()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, filepath.Join(dir, "libfunet.so.1"))
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "start the program with funet run") != 20 {
		t.Errorf("it ended with %v, and printed %q", err, out)
	}
}

// Rule: a node that was killed and started again joins its job, and nodes in C are told of its end
// and of its beginning. Operations of all nodes work again after funet_agree.
func TestLibraryRejoins(t *testing.T) {
	program := withLibrary(t, c11, "../uspace/libfunet/testdata/rejoin.c")
	s := directs(t)
	p := s.run("-n", "3", "--restart=1", "--", program)
	if code := p.wait(); code != 0 || strings.Count(p.stdout.String(), "rejoined") != 3 {
		t.Errorf("exit code %d, it printed %q and said %q", code, p.stdout.String(), p.stderr.String())
	}
	s.free()
}

// Rule: a node that is killed within a handler ends what waits for it, with an error that names it,
// on direct ports and on daemons' cards.
func TestLibraryNodeIsGone(t *testing.T) {
	program := withLibrary(t, c11, "../uspace/libfunet/testdata/gone.c")
	for name, make := range map[string]func(*testing.T, ...string) *service{"daemon": daemons, "direct": directs} {
		t.Run(name, func(t *testing.T) {
			s := make(t)
			p := s.run("-n", "2", "--", program)
			p.wait()
			if p.stdout.String() != "[0] told\n" || !strings.Contains(p.stderr.String(), "killed by signal 9") {
				t.Errorf("it printed %q and said %q", p.stdout.String(), p.stderr.String())
			}
			s.free()
		})
	}
}

// Rule: nodes in Go, C, C++ and Python are nodes of one job.
func TestLibraryInFourLanguages(t *testing.T) {
	long.Test(t)
	const page = "../ctl/manual/programs.md"
	folder := open(t)
	for name, text := range map[string]string{"program.c": shown(t, page, "#include <funet.h>"),
		"hello.py": string(contents(t, "../uspace/libfunet/example/hello.py"))} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := library()
	if err != nil {
		t.Fatal(err)
	}
	inGo := map[string]string{"shown/main.go": shown(t, page, "package main\n")}
	first := filepath.Join(externalWith(t, inGo, "./shown"), "shown")
	source, python := filepath.Join(folder, "program.c"), filepath.Join(folder, "hello.py")
	script := fmt.Sprintf("export LD_LIBRARY_PATH=%s; case $FUNET_NODE in 0) exec %s;; 1) exec %s;; 2) exec %s;; "+
		"*) exec /usr/bin/python3 %s;; esac", dir, first, withLibrary(t, c11, source), withLibrary(t, cxx20, source),
		python)
	s := directs(t)
	out := s.run("-n", "4", "--", "sh", "-c", script).ok()
	for _, want := range []string{"[0] hello from C\n", "[1] hello from C\n", "[2] hello world\n",
		"[3] hello python\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it printed %q, and not %q", out, want)
		}
	}
	s.free()
}
