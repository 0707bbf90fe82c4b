// What the tests share: the test binary in a role, the lab, and a view of what a test leaves
// behind.

package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/funet/funet/ctl/lab"
)

// roleArg makes the test binary play a role instead of testing.
const roleArg = "bench-role"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == roleArg {
		if err := RunRole(os.Args[2], []byte(os.Args[3])); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// options are small ones for a test.
func options(only ...string) Options {
	return Options{Rounds: 2, Exchanges: 200, RoleCommand: []string{roleArg}, Only: only}
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
