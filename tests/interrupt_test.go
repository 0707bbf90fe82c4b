package tests

// This file tests that nothing outlives the command, however it ends: no process, no
// namespace and with it no link, no eBPF program, map or attachment (package ctl/lab:
// "when the process ends, even by SIGKILL, the kernel removes everything").

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/long"
)

// TestEndedInTheMiddle: Ctrl-C, SIGTERM and SIGKILL in the middle of a run on a lab.
func TestEndedInTheMiddle(t *testing.T) {
	long.Test(t)
	for _, program := range []struct {
		hosts int
		args  []string
	}{
		{2, []string{"pingpong", "--lab", "2", "--exchanges", "1000000000", "--xdp", "generic"}},
		{2, []string{"pingpong", "--lab", "2", "--exchanges", "1000000000", "--xdp", "native"}},
		{4, []string{"matmul", "--lab", "4", "--size", "4000", "--xdp", "generic"}},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(strings.Join(program.args[:3], " ")+" "+program.args[len(program.args)-1]+" "+signal.String(),
				func(t *testing.T) {
					p := funet(t, append(program.args, "--json")...)
					var h holdings
					eventually(t, "every node has its program attached", func() bool {
						h = hold(t, p.mark)
						// The hub of a bridge is a namespace more.
						return len(h.processes) == program.hosts+1 && len(h.links) >= program.hosts &&
							len(h.programs) == program.hosts && len(h.maps) >= program.hosts &&
							len(h.namespaces) >= program.hosts
					})
					if err := p.cmd.Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
					if signal == syscall.SIGKILL {
						p.wait()
					} else {
						p.interruptedBy(unix.SignalName(signal), signal)
					}
					if p.stdout.Len() != 0 {
						t.Errorf("it printed %s", tail(p.stdout.String()))
					}
					h.gone(t, p.mark)
				})
		}
	}
}

// TestNodeOfALabKilled: when one node of a lab dies, the command ends the others and
// says which.
func TestNodeOfALabKilled(t *testing.T) {
	long.Test(t)
	p := funet(t, "pingpong", "--lab", "3", "--exchanges", "1000000000", "--xdp", "generic")
	var h holdings
	eventually(t, "every node has its program attached", func() bool {
		h = hold(t, p.mark)
		return len(h.programs) == 3
	})
	for _, pid := range h.processes {
		if pid != p.cmd.Process.Pid {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	p.fails("node ", "killed")
	h.gone(t, p.mark)
}

// TestExecInterrupted: a program under lab exec ends with lab exec, and the lab stays.
func TestExecInterrupted(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		p := start(t, exec.Command(command, "lab", "exec", "--name", name, "0", "--", "sleep", "600"), nil)
		var h holdings
		eventually(t, "the program runs", func() bool {
			h = hold(t, p.mark)
			return len(h.processes) == 2
		})
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code == 0 {
			t.Errorf("lab exec ended with %d after %v", code, signal)
		}
		eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
	}
	for host := range l.Hosts() {
		out := funet(t, "lab", "exec", "--name", name, strconv.Itoa(host), "--", "cat",
			"/sys/class/net/fu0/operstate").ok()
		if out != "up\n" {
			t.Errorf("host %d: fu0 is %q", host, out)
		}
	}
	funet(t, "lab", "down", name).ok()
	noLab(t, name)
}
