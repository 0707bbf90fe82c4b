package tests

// This file tests hosts of a job that die, and hosts that only seem to: all of a host's processes
// of the job are stopped: from elsewhere a machine without power looks like that.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/tests/long"
)

// ofHost returns the processes of a job on a host behind ssh.
func (s *service) ofHost(mark string, host int) (pids []int) {
	for _, pid := range marked(mark) {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may have ended
		if bytes.Contains(environ, []byte("FUNET_SOCKET="+s.sockets[host]+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signalAll sends a signal to processes of this test.
func signalAll(t *testing.T, pids []int, s syscall.Signal) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("there is no process to signal")
	}
	for _, pid := range pids {
		// it may just have ended
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// stopAll stops processes of this test, and returns when they stand still: kill(2) returns before,
// and a thread that has not taken notice yet goes on.
func stopAll(t *testing.T, pids []int) {
	t.Helper()
	signalAll(t, pids, syscall.SIGSTOP)
	eventually(t, "all processes have stopped", func() bool { return !slices.ContainsFunc(pids, runs) })
}

// runs says whether a process has a thread that neither has stopped nor ended (proc_pid_stat(5),
// state).
func runs(pid int) bool {
	// the pattern is good
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		stat, _ := os.ReadFile(path) // it may have ended
		_, state, _ := strings.Cut(string(stat), ") ")
		return state != "" && !strings.ContainsAny(state[:1], "TtZX")
	})
}

// TestRunHostDies: a host that is silent for --host-timeout is given up: one line names it and its
// nodes, the other nodes are ended, and the exit code is 255, also where another node noticed
// first. When it answers again, what ran there ends.
func TestRunHostDies(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := daemons(t)
	hosts := s.behindSSH(t)
	word := filepath.Join(filepath.Dir(file(t, "")), "word")
	for _, c := range []struct {
		nodes, timeout, program, says string
		sleepers, lines               int
	}{
		{"2", "4s", "exec sleep 600", "funet: node 1 with host host-1: nothing was heard from it for 4s", 2, 1},
		{"4", "4s", "exec sleep 600", "its 2 nodes [1 3]", 4, 1},
		// Node 0 fails when it has the word, which is given after the host has died and long before
		// the launcher notices that. Its own short sleeps go by another name: they are no sleepers,
		// and only node 1 is waited for.
		{"2", "15s", "[ $FUNET_NODE = 1 ] && exec sleep 600; until [ -e " + word + " ]; do /bin/sleep 0.01; done; exit 7",
			"funet: node 1 with host host-1: nothing was heard", 1, 2},
	} {
		p := hosts("", "-n", c.nodes, "--host-timeout", c.timeout, "--grace", "30s", "--hosts", "host-0,host-1",
			"--", "sh", "-c", c.program)
		eventually(t, "all processes run", func() bool { return sleepers(p.mark) >= c.sleepers && s.inUse() == 2 })
		dead := s.ofHost(p.mark, 1)
		stopAll(t, dead)
		if c.lines == 2 {
			if err := os.WriteFile(word, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		code := p.wait()
		if out := p.stderr.String(); code != 255 || !strings.Contains(out, c.says) ||
			strings.Count(out, "\n") != c.lines {
			t.Errorf("exit code %d: %s", code, out)
		}
		if left := s.ofHost(p.mark, 0); len(left) != 0 {
			t.Errorf("processes of the host that lives are left: %v", left)
		}
		signalAll(t, dead, syscall.SIGCONT)
		eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
	}
	s.free()
}

// TestRunLauncherDies: when nothing is heard any more of the launcher and what is beside it, as
// when its machine has died, what ran on the hosts ends after --host-timeout, and the group is
// free.
func TestRunLauncherDies(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	hosts := s.behindSSH(t)
	p := hosts("", "-n", "4", "--host-timeout", "2s", "--hosts", "host-0,host-1", "--", "sh", "-c", "exec sleep 600")
	eventually(t, "all processes run", func() bool { return sleepers(p.mark) == 4 && s.inUse() == 2 })
	onHosts := func() []int { return append(s.ofHost(p.mark, 0), s.ofHost(p.mark, 1)...) }
	there := onHosts()
	here := slices.DeleteFunc(marked(p.mark), func(pid int) bool { return slices.Contains(there, pid) })
	stopAll(t, here)
	eventually(t, "nothing is left on the hosts", func() bool { return len(onHosts()) == 0 })
	s.free()
	signalAll(t, here, syscall.SIGCONT)
	if code := p.wait(); code == 0 {
		t.Error("the launcher that came back says that all went well")
	}
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
}

// TestRunHostLives: a host that is busy for a while, a launcher that was stopped, and nodes whose
// output nobody takes for a while are no dead hosts.
func TestRunHostLives(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := daemons(t)
	hosts := s.behindSSH(t)
	const timeout = 10 * time.Second
	begin := func(program string) *process {
		p := hosts("", "-n", "2", "--label=false", "--host-timeout", timeout.String(), "--hosts", "host-0,host-1", "--",
			"sh", "-c", program)
		eventually(t, "all processes run", func() bool { return sleepers(p.mark) == 2 })
		return p
	}
	ended := func(p *process) {
		t.Helper()
		for _, pid := range marked(p.mark) {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line),
				"sleep\x00") {
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
		if code := p.wait(); code != 0 {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
	}
	const program = "sleep 600; exit 0"
	p := begin(program)
	busy := s.ofHost(p.mark, 1)
	stopAll(t, busy)
	pass(t, timeout/3)
	signalAll(t, busy, syscall.SIGCONT)
	ended(p)

	p = begin(program)
	stopAll(t, []int{p.cmd.Process.Pid})
	pass(t, timeout+timeout/3)
	signalAll(t, []int{p.cmd.Process.Pid}, syscall.SIGCONT)
	ended(p)
	s.free()
}

// pass lets time pass that is the subject of a test.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
