package bench

// What the tests share: the test binary in a role, the lab, matches with a FUNet of the test's, and
// a view of what a test leaves behind.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/rawxdp"
	compare "github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == roleArgs[0] {
		if err := runRole(os.Args[2], []byte(os.Args[3])); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// contest is a benchmark whose FUNet is the test's.
type contest struct {
	benchmark
	rounds int
	// nodes are FUNet's.
	nodes        func(ctx context.Context, f *program.Flags, name string, args []string) ([]node, error)
	exe          []string // leads to runRole; nil: this binary does
	attach, bind string   // modes; "": auto
	begun        func(*match)
	ctx          context.Context // nil: the test's
}

// play plays it on a lab.
func (c contest) play(t *testing.T, l *lab.Lab) (r report, err error) {
	t.Helper()
	f := &flags{rounds: c.rounds}
	f.Mode, f.Bind = cmp.Or(c.attach, "auto"), cmp.Or(c.bind, "auto")
	m, err := newMatch(f, l)
	if err != nil {
		t.Fatal(err)
	}
	defer m.end()
	m.nodes = c.nodes
	if c.exe != nil {
		m.exe = c.exe
	}
	if c.begun != nil {
		c.begun(m)
	}
	ctx := c.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	if err := m.compete(ctx, c.benchmark); err != nil {
		return r, err
	}
	return c.report(m)
}

// must returns a report that was made without an error.
func must(r report, err error) report {
	if err != nil {
		panic(err)
	}
	return r
}

// must plays it and returns what the report says, by name.
func (c contest) must(t *testing.T, l *lab.Lab) map[string]any {
	t.Helper()
	r, err := c.play(t, l)
	if err != nil {
		t.Fatal(err)
	}
	return named(t, r)
}

// named returns the figures of a report by name, as JSON has them.
func named(t *testing.T, r report) (figures map[string]any) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &figures)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return figures
}

// says checks some of a report's figures.
func says(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, w := range want {
		if diff := compare.Diff(w, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// same are nodes that print figures, by the program or what it is to do.
func same(figures map[string]node) func(context.Context, *program.Flags, string, []string) ([]node, error) {
	return func(_ context.Context, _ *program.Flags, name string, args []string) ([]node, error) {
		if args[0] == "--options" {
			var o struct{ Do string }
			if err := json.Unmarshal([]byte(args[1]), &o); err != nil {
				return nil, err
			}
			name = o.Do
		}
		n, ok := figures[name]
		if !ok {
			return nil, fmt.Errorf("no figures of %s %q", name, args)
		}
		n.XDPMode, n.BindMode = "generic", "copy"
		return []node{n, n}, nil
	}
}

// fails are nodes that do nothing but fail.
func fails(err error) func(context.Context, *program.Flags, string, []string) ([]node, error) {
	return func(context.Context, *program.Flags, string, []string) ([]node, error) { return nil, err }
}

// played is a match whose contenders have figures, each of two rounds.
func played(figures map[string][]float64, hosts int) *match {
	m := &match{session: &session{hosts: make([]lab.Host, hosts), frame: rawxdp.DefaultFrameSize},
		f: new(flags), attach: "generic", bind: "copy"}
	m.rounds = 2
	for name, f := range figures {
		m.playing = append(m.playing, &contender{name: name, figures: f})
	}
	return m
}

// goldens compares both forms of a report with those that are kept.
func goldens(t *testing.T, name string, r report, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, name+".json", append(text, '\n'))
	golden(t, name+".txt", []byte(r.table))
}

func newLab(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	o.Hosts = max(o.Hosts, lab.MinHosts)
	l, err := lab.Up(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// descendants are the processes below this one, as pid and command line.
func descendants(t *testing.T) (found []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent := map[int]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		// The command's name is in parentheses and may have any character; then state, parent.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
		ppid, err2 := strconv.Atoi(strings.Fields(rest)[1])
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		parent[pid] = ppid
	}
	for pid := range parent {
		for p := parent[pid]; p > 1; p = parent[p] {
			if p == os.Getpid() {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				found = append(found, fmt.Sprint(pid, " ", strings.ReplaceAll(string(line), "\x00", " ")))
				break
			}
		}
	}
	return found
}

// leavesNothing checks at the test's end that no process and no directory of it is left.
func leavesNothing(t *testing.T) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	t.Cleanup(func() {
		eventually(t, "no process is left", func() bool { return len(descendants(t)) == 0 })
		left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("files are left: %q, %v", left, err)
		}
	})
}
