package tests

// This file tests how jobs of `funet run` end: by themselves, by signals, by kill -9 of anything.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// TestRunExitCode: the code is that of the first node that fails, 128 and the number for a signal,
// and the others are ended: asked first, killed if they do not listen, and with all that they
// started.
func TestRunExitCode(t *testing.T) {
	s := daemons(t)
	room := filepath.Dir(file(t, ""))
	if err := os.Chmod(room, 0o777); err != nil { // nobody says there that it is ready
		t.Fatal(err)
	}
	for _, c := range []struct {
		script string
		code   int
		says   string
	}{
		{`exit 0`, 0, ""},
		{`[ $FUNET_NODE = 1 ] && exit 7; sleep 600`, 7, "node 1 with the daemon at "},
		{`[ $FUNET_NODE = 1 ] && kill -KILL $$; sleep 600`, 128 + 9, "killed by signal 9"},
		{`there=` + filepath.Join(room, "there") + `; [ $FUNET_NODE = 1 ] && { while [ ! -e $there ]; do sleep 0.01; done; exit 3; }
			trap 'echo asked; exit 9' TERM; : > $there; sleep 600 & wait`, 3, "exit code 3; ending the other 1"},
		{`[ $FUNET_NODE = 1 ] && exit 4; trap '' TERM; while :; do sleep 600; done`, 4, "exit code 4"},
		{`sleep 600 & exit 0`, 0, ""},
	} {
		p := s.run("-n", "2", "--grace", "300ms", "--", "sh", "-c", c.script)
		if code := p.wait(); code != c.code || !strings.Contains(p.stderr.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d; it said %q, want %q", c.script, code, c.code,
				p.stderr.String(), c.says)
		}
		if strings.Contains(c.script, "asked") && !strings.Contains(p.stdout.String(), "[0] asked\n") {
			t.Errorf("%s: the other was not asked to end: %q", c.script, p.stdout.String())
		}
		eventually(t, "no process of "+c.script+" is left", func() bool { return len(marked(p.mark)) == 0 })
	}
	s.free()
}

// TestRunSignals: SIGINT, SIGTERM and SIGHUP reach the nodes, and the exit code says which it was;
// a second SIGINT kills.
func TestRunSignals(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for _, c := range []struct {
		signals []syscall.Signal
		script  string
		code    int
	}{
		{[]syscall.Signal{syscall.SIGINT}, `trap 'echo there; exit 11' INT`, 128 + 2},
		{[]syscall.Signal{syscall.SIGTERM}, `trap 'echo there; exit 0' TERM`, 128 + 15},
		{[]syscall.Signal{syscall.SIGHUP}, `trap 'echo there; exit 13' HUP`, 128 + 1},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGINT}, `trap 'echo there' INT`, 128 + 2},
	} {
		if signal.Ignored(c.signals[0]) {
			continue // as nohup(1) has SIGHUP, for all of the job
		}
		cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "-n", "2", "--", "sh", "-c",
			c.script+"; echo ready; while :; do sleep 0.05; done"))
		var out growing
		cmd.Stdout = &out
		p := start(t, cmd, nil)
		eventually(t, "both nodes are ready", func() bool { return out.count("ready\n") == 2 })
		for i, signal := range c.signals {
			if i > 0 {
				eventually(t, "the first signal arrived", func() bool { return out.count("there\n") == 2 })
			}
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		if code := p.wait(); code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.signals, code, c.code, p.stderr.String())
		}
		if out.count("there\n") != 2 || !strings.HasPrefix(p.stderr.String(),
			"funet: interrupted ("+unix.SignalName(c.signals[0])+"); ending the job\n") {
			t.Errorf("%v: it printed %q and said %q", c.signals, out.text.String(), p.stderr.String())
		}
	}
	s.free()
}

// growing is output that is looked at while it grows.
type growing struct {
	mu   sync.Mutex
	text strings.Builder
}

func (g *growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

// String is what has come.
func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func (g *growing) count(s string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Count(g.text.String(), s)
}

// TestRunKilled: kill -9 of the launcher ends the nodes and frees the group; so does that of a
// daemon for the nodes of its host, and the lab still goes down.
func TestRunKilled(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for range 3 {
		p := s.run("-n", "4", "--", "funet", "pingpong", "--exchanges", "1000000000")
		eventually(t, "all nodes are attached", func() bool { return s.attached() >= 4 })
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.wait()
		eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
		s.free()
	}
	p := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "1000000000")
	eventually(t, "all nodes are attached", func() bool { return s.attached() >= 2 })
	victim := daemonPID(t, s.sockets[1])
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code == 0 || !strings.Contains(p.stderr.String(), "node ") {
		t.Errorf("after the end of a daemon: code %d, %s", code, p.stderr.String())
	}
	s.run("-n", "2", "--", "true").fails("no daemon at " + s.sockets[1])
	other := daemonPID(t, s.sockets[0])
	funet(t, "lab", "down", s.name).ok()
	// a zombie has none
	if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", other)); len(line) != 0 {
		t.Errorf("the other daemon is still there after lab down: %q", line)
	}
	if _, err := os.Stat(lab.DaemonDir(s.name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the daemons' folder is still there: %v", err)
	}
}

// daemonPID is the process behind a socket.
func daemonPID(t *testing.T, socket string) int {
	t.Helper()
	config := strings.TrimSuffix(socket, ".sock") + ".yaml"
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(string(line), "\x00--config\x00"+config+"\x00") {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			return pid
		}
	}
	t.Fatalf("no process serves %s", socket)
	return 0
}

// TestLabDaemonsKilled: what a killed `funet lab up --daemons` leaves, the next command of labs
// removes, daemons too.
func TestLabDaemonsKilled(t *testing.T) {
	long.Test(t)
	name := "t" + unique()
	p := funet(t, "lab", "up", name, "--daemons", "--hosts", "8", "--xdp", "generic")
	eventually(t, "the first daemon has started", func() bool {
		_, err := os.Stat(filepath.Join(lab.DaemonDir(name), "host-0.log"))
		return err == nil
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	start(t, exec.Command(command, "lab", "list"), nil).wait()
	if err := lab.Down(name); err != nil && !errors.Is(err, lab.ErrNotFound) {
		t.Fatal(err) // it had been published before it was killed
	}
	eventually(t, "no daemon is left", func() bool { return len(marked(p.mark)) == 0 })
	if _, err := os.Stat(lab.DaemonDir(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the daemons' folder is still there: %v", err)
	}
	noLab(t, name)
}

// TestRunFullDisk: where what the nodes print cannot be written, the launcher says why, and not
// what the nodes made of it (SIGPIPE), ends them, and fails; also when none of them would have
// noticed.
func TestRunFullDisk(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for _, script := range []string{"while :; do echo x; done", "echo x; exec sleep 600", "echo x"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := nobody(exec.Command(command, "run", "-n", "2", "--lab="+s.name, "--", "sh", "-c", script))
		cmd.Stdout = full
		p := start(t, cmd, nil)
		full.Close()
		if code, said := p.wait(), p.stderr.String(); code != 1 || !strings.Contains(said, "no space left on device") ||
			strings.Contains(said, "pipe") {
			t.Errorf("%s: code %d, %s", script, code, said)
		}
		s.free()
	}
}
