package tests

// This file tests that Ctrl-C and SIGTERM end every command, in every form, that it says so, and
// that it exits with 128 and the signal's number (POSIX.1-2017, Shell Command Language 2.8.2).

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// endless are the programs on a group, each with so much to do that it would go on for minutes.
var endless = [][]string{
	{"pingpong", "--exchanges", "1000000000"},
	{"stream", "--messages", "1000000000"},
	{"flood", "--messages", "200000000", "--stalls", "1000", "--stall", "1h"},
	{"transfer", "--bytes", "1099511627776", "--block", "65536"},
	{"matmul", "--size", "4000"},
	{"cmam", "--rounds", "100"},
}

// ending are the signals that end a command, by name.
var ending = map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM}

// interruptedBy waits for the end of a command that was sent a signal.
func (p *process) interruptedBy(name string, signal syscall.Signal) {
	p.t.Helper()
	if code := p.wait(); code != 128+int(signal) || p.stderr.String() != "funet: interrupted ("+name+")\n" {
		p.t.Errorf("%v: exit code %d, want %d; it said %q", p.cmd.Args, code, 128+int(signal), tail(p.stderr.String()))
	}
	if p.stdout.Len() != 0 {
		p.t.Errorf("%v printed %q", p.cmd.Args, tail(p.stdout.String()))
	}
}

// signal sends one.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// TestProgramsAreInterrupted: each program on a group ends on a lab of its own, as a node with an
// embedded card, and as a node on a daemon's. The first Ctrl-C of funet run ends all of them.
func TestProgramsAreInterrupted(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	s := daemons(t)
	var peers [2]string
	for host := range peers {
		peers[host] = peersFile(t, name, host)
	}
	for _, args := range endless {
		for word, signal := range ending {
			t.Run(args[0]+" "+word+" lab", func(t *testing.T) {
				p := funet(t, append(args, "--lab", "2", "--xdp", "generic")...)
				var h holdings
				eventually(t, "both nodes have their programs attached", func() bool {
					h = hold(t, p.mark)
					return len(h.programs) == 2
				})
				p.signal(signal)
				p.interruptedBy(word, signal)
				h.gone(t, p.mark)
			})
			t.Run(args[0]+" "+word+" iface", func(t *testing.T) {
				var nodes [2]*process
				var held [2]holdings
				for host := range nodes {
					nodes[host] = on(t, l, host, append(args, "--iface", interfaces(l, host), "--node",
						fmt.Sprint(host), "--peers", peers[host], "--xdp", "generic")...)
				}
				for host, p := range nodes {
					eventually(t, "the node has its program attached", func() bool {
						held[host] = hold(t, p.mark)
						return len(held[host].programs) == 1
					})
				}
				nodes[0].signal(signal)
				nodes[0].interruptedBy(word, signal)
				// The other one may have noticed, and then it says so.
				_ = nodes[1].cmd.Process.Signal(signal)
				nodes[1].fails()
				for _, p := range nodes {
					eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
				}
			})
			t.Run(args[0]+" "+word+" run", func(t *testing.T) {
				s.t = t
				p := s.run(append([]string{"-n", "2", "--", "funet"}, args...)...)
				// A job, a context and memory on each daemon.
				eventually(t, "both nodes are attached", func() bool { return s.inUse() == 2*3 })
				p.signal(signal)
				code := p.wait()
				// Each node says it too, or, where another has gone before its own signal came,
				// that.
				if said := p.stderr.String(); code != 128+int(signal) ||
					strings.Count(said, "funet: interrupted ("+word+"); ending the job\n") != 1 ||
					strings.Count(said, "[0] funet: ") != 1 || strings.Count(said, "[1] funet: ") != 1 ||
					strings.Count(said, "\n") != 3 ||
					!strings.Contains(said, "] funet: interrupted ("+word+")\n") {
					t.Errorf("exit code %d; it said %q", code, said)
				}
				eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
				s.free()
			})
		}
	}
}

// TestCommandsAreInterrupted: so does every other command that takes its time, whether it waits or
// computes.
func TestCommandsAreInterrupted(t *testing.T) {
	long.Test(t)
	// computes reports whether the process has used a quarter of a second.
	computes := func(p *process) bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		ticks := 0
		if err == nil && len(fields) > 11 {
			_, err = fmt.Sscan(fields[11], &ticks) // utime (proc(5)), in hundredths of a second
		}
		return err == nil && ticks >= 25
	}
	measures := func(p *process) bool { return len(marked(p.mark)) >= 3 }
	for _, c := range []struct {
		args  []string
		ready func(*process) bool
	}{
		{[]string{"sim", "chaos", "--seeds", "1..1000000", "--messages", "1000000"}, computes},
		{[]string{"sim", "scale", "--nodes", "4096", "--messages", "64"}, computes},
		{[]string{"sim", "gang", "--hosts", "16"}, computes},
		{[]string{"sim", "matmul", "--figure", "6.5"}, computes},
		{[]string{"sim", "cmam"}, computes},
		{[]string{"bench", "rate", "--rounds", "1000", "--xdp", "generic"}, measures},
		{[]string{"bench", "incast", "--lab", "3", "--rounds", "1000", "--xdp", "generic"}, measures},
		{[]string{"run", "-n", "2", "--lab=" + daemons(t).name, "--", "sleep", "600"}, func(p *process) bool {
			return sleepers(p.mark) == 2
		}},
	} {
		for word, signal := range ending {
			t.Run(strings.Join(c.args[:2], " ")+" "+word, func(t *testing.T) {
				p := funet(t, c.args...)
				eventually(t, "it is under way", func() bool { return c.ready(p) })
				h := hold(t, p.mark)
				p.signal(signal)
				if c.args[0] == "run" {
					if code := p.wait(); code != 128+int(signal) ||
						!strings.Contains(p.stderr.String(), "funet: interrupted ("+word+"); ending the job\n") {
						t.Errorf("exit code %d; it said %q", code, p.stderr.String())
					}
				} else {
					p.interruptedBy(word, signal)
				}
				h.gone(t, p.mark)
			})
		}
	}
}

// TestInterruptedTwice: a second signal ends a command that does not end at the first, such as
// one whose program under lab exec takes no notice.
func TestInterruptedTwice(t *testing.T) {
	long.Test(t)
	name, _ := namedLab(t)
	var out growing
	cmd := exec.Command(command, "lab", "exec", "--name", name, "0", "--", "sh", "-c",
		"trap 'echo not yet' TERM; echo ready; while :; do sleep 0.05; done")
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	eventually(t, "the program is ready", func() bool { return out.count("ready\n") == 1 })
	p.signal(syscall.SIGINT)
	eventually(t, "the first signal arrived", func() bool { return out.count("not yet\n") == 1 })
	p.signal(syscall.SIGINT)
	if p.wait(); p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", p.cmd.ProcessState)
	}
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
}
