package tests

// This file tests direct ports: the processes of an ordinary user have cards of their own.

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// bare waits until a lab's hosts have no links of ports.
func bare(t *testing.T, name string) {
	t.Helper()
	l, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for host := range l.Hosts() {
		eventually(t, "the links of ports are gone", func() bool {
			var links []netlink.Link
			err := l.Do(host, func() (err error) {
				links, err = netlink.LinkList()
				return err
			})
			if errors.Is(err, netlink.ErrDumpInterrupted) { // one of them has just gone
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range links {
				if strings.HasPrefix(k.Attrs().Name, "fup") {
					return false
				}
			}
			return true
		})
	}
}

// TestDirectPrograms: programs verify their data with direct ports, also with several nodes on a
// host; no capability is needed, and nothing is left.
func TestDirectPrograms(t *testing.T) {
	long.Test(t)
	s := directs(t, "--hosts", "3", "--xdp", "generic")
	runPrograms(s, "generic")
	s.free()
	bare(t, s.name)
	for mode, more := range map[string][]string{"native": nil, "generic": {"--router"}} {
		s := directs(t, append(more, "--xdp", mode)...)
		// two on each host
		out := s.run("-n", "4", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100").ok()
		for _, want := range []string{"500 exchanges, every one verified", mode + ", copy; own card on a direct port"} {
			if !strings.Contains(out, want) {
				t.Errorf("it did not print %q: %s", want, out)
			}
		}
	}
}

// TestDirectRejoin is TestRejoin with direct ports.
func TestDirectRejoin(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := directs(t)
	rejoin(s, 8)
	bare(t, s.name)
}

// TestDirectOnOccasion: root has a lab made for a run with direct ports.
func TestDirectOnOccasion(t *testing.T) {
	long.Test(t)
	cmd := exec.Command(command, "run", "-n", "2", "--lab", "--card", "direct", "--", "funet", "pingpong",
		"--exchanges", "300", "--warm-up", "10")
	cmd.Dir = "/" // nobody may not enter every folder that this one may be in
	out := start(t, cmd, nil).ok()
	if !strings.Contains(out, "300 exchanges, every one verified") ||
		!strings.Contains(out, "own card on a direct port") {
		t.Errorf("it printed %s", out)
	}
}

// TestDirectOnLab: commands that make a lab of their own run on direct ports there, and say so;
// what direct ports have not is refused.
func TestDirectOnLab(t *testing.T) {
	r := decode[struct {
		Card string `json:"card_of"`
	}](t, funet(t, "pingpong", "--lab", "3", "--card", "direct", "--exchanges", "300", "--json").ok())
	if r.Card != "direct" {
		t.Errorf("the card is %q", r.Card)
	}
	for _, args := range [][]string{{"--vlan", "5"}, {"--jumbo"}, {"--alone"}} {
		funet(t, append([]string{"matmul", "--lab", "2", "--card", "direct"}, args...)...).fails("direct")
	}
	funet(t, "pingpong", "--card", "direct").fails("--lab N", "funet run --card direct")
}

// pingPongs starts a job that goes on, and waits until each of its nodes has a port.
func (s *service) pingPongs() *process {
	s.t.Helper()
	p := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "1000000000")
	// on each host a job, a port and memory
	eventually(s.t, "both nodes have their ports", func() bool { return s.inUse() == 2*3 })
	return p
}

// TestDirectKilled: a node is killed in the middle of a run. The other ends, and says why; the
// daemons have nothing of the job, and no link is left.
func TestDirectKilled(t *testing.T) {
	long.Test(t)
	s := directs(t)
	p := s.pingPongs()
	signalAll(t, ofNode(p.mark, 1), syscall.SIGKILL)
	if code := p.wait(); code == 0 || !strings.Contains(p.stderr.String(), "node 1") ||
		!strings.Contains(p.stderr.String(), "killed") {
		t.Errorf("a node was killed: exit code %d, %s", code, p.stderr.String())
	}
	s.free()
	bare(t, s.name)
}

// TestDirectOwnersKilled: the launcher, and a daemon with all that it gave: each is killed in the
// middle of a run. The nodes end; the daemons that live have nothing of the job, and no link is
// left.
func TestDirectOwnersKilled(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := directs(t)
	p := s.pingPongs()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
	s.free()
	bare(t, s.name)

	p = s.pingPongs()
	pids, err := exec.Command("pgrep", "-f", "--", "--config "+lab.DaemonDir(s.name)+"/host-1.yaml").Output()
	if err != nil {
		t.Fatalf("finding the daemon: %v", err)
	}
	if out, err := exec.Command("kill", append([]string{"-9"},
		strings.Fields(string(pids))...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code := p.wait(); code == 0 {
		t.Error("the job went on without a daemon")
	}
	bare(t, s.name)
}

// TestDirectInterfaceGone: the interface of a host goes away while ports send. The job ends with
// that reason, which its processes print; nothing of it is left, and the daemons refuse the next
// with the same line.
func TestDirectInterfaceGone(t *testing.T) {
	long.Test(t)
	t.Parallel()
	s := directs(t)
	l, err := lab.Open(s.name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := s.pingPongs()
	if err := l.Do(0, func() error {
		nic, err := netlink.LinkByName("fu0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(nic)
	}); err != nil {
		t.Fatal(err)
	}
	if code, out := p.wait(), p.stderr.String(); code == 0 || !strings.Contains(out, "interface fu0 is gone") {
		t.Errorf("exit code %d: %s", code, out)
	}
	s.free()
	bare(t, s.name)
	s.run("-n", "2", "--", "true").fails("interface fu0 is gone")
}

// TestDirectRefused: what has no direct ports says so in a line.
func TestDirectRefused(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	s.card = "direct"
	s.run("-n", "2", "--", "funet", "pingpong").fails("gives no direct ports", "carriage: auto")
	funet(t, "run", "--card", "own", "--", "true").fails("--card own: use auto, direct or daemon")
	funet(t, "lab", "up", "x", "--carriage", "direct").fails("--carriage is that of the daemons; add --daemons")
}
