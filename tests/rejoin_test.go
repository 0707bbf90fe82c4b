package tests

// This file tests a job whose nodes are killed and join again, and which verifies every message
// (program rejoin).

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// ofNode returns the process of a node.
func ofNode(mark string, node int) (pids []int) {
	for _, pid := range marked(mark) {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may have ended
		if bytes.Contains(environ, fmt.Appendf(nil, "FUNET_NODE=%d\x00", node)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestRejoin: of four nodes that verify every message one is killed ten times, and twice another
// one together with it; each is started again and joins its job. Nothing that was promised is lost,
// every call that returned was executed once, and the nodes that live on learn each end and each
// beginning once and in this order.
func TestRejoin(t *testing.T) {
	long.Test(t)
	t.Parallel()
	rejoin(daemons(t), 10)
}

// rejoin kills so many times.
func rejoin(s *service, kills int) {
	const others = 2
	t := s.t
	path := file(t, "")
	end, program := path+".end", filepath.Join(filepath.Dir(path), "rejoin")
	build := exec.Command("go", "build", "-o", program, "./rejoin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "--card", s.card, "-n", "4",
		fmt.Sprintf("--restart=%d", kills), "--", program, end))
	var out growing
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	t.Cleanup(func() {
		if t.Failed() {
			out.mu.Lock()
			defer out.mu.Unlock()
			t.Logf("it printed %s", out.text.String())
		}
	})
	alive := func(what string, lives ...int) {
		t.Helper()
		for node, life := range lives {
			line := fmt.Sprintf("[%d] up life %d\n", node, life)
			eventually(t, what, func() bool { return out.count(line) == 1 || out.count("wrong") > 0 })
		}
	}
	alive("all nodes are up", 0, 0, 0, 0)
	second := 0
	for kill := range kills {
		victims := ofNode(p.mark, 1)
		if kill == 3 || kill == 7 {
			victims = append(victims, ofNode(p.mark, 2)...)
			second++
		}
		signalAll(t, victims, syscall.SIGKILL)
		alive(fmt.Sprintf("all are up after kill %d", kill), 0, kill+1, second, 0)
		for _, survivor := range []int{0, 3} {
			eventually(t, "the survivors know", func() bool {
				return out.count(fmt.Sprintf("[%d] event joined 1 life %d\n", survivor, kill+1)) == 1 ||
					out.count("wrong") > 0
			})
		}
		if out.count("wrong") > 0 {
			break
		}
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 0 || out.count("verified\n") != 4 || out.count("wrong") != 0 {
		t.Fatalf("exit code %d; it printed %s\nand said %s", code, tail(out.text.String()), tail(p.stderr.String()))
	}
	if n := strings.Count(p.stderr.String(), "killed by signal 9 (killed); starting it again"); n != kills+others {
		t.Errorf("%d nodes were started again: %s", n, p.stderr.String())
	}
	for _, survivor := range []int{0, 3} {
		for node, last := range map[int]int{1: kills, 2: others} {
			var got, want []string
			for line := range strings.Lines(out.text.String()) {
				for _, kind := range []string{"left", "joined"} {
					if prefix := fmt.Sprintf("[%d] event %s %d life ", survivor, kind,
						node); strings.HasPrefix(line, prefix) {
						got = append(got, kind+" "+strings.TrimSpace(line[len(prefix):]))
					}
				}
			}
			for life := range last {
				want = append(want, fmt.Sprint("left ", life), fmt.Sprint("joined ", life+1))
			}
			if len(got) > 0 && got[len(got)-1] == fmt.Sprint("left ", last) {
				got = got[:len(got)-1] // it ended before this node did
			}
			if !slices.Equal(got, want) {
				t.Errorf("node %d was told of node %d: %v, want %v", survivor, node, got, want)
			}
		}
	}
	s.free()
}
