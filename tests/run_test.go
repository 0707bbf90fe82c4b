package tests

// This file tests `funet run`: jobs of an unprivileged user on the daemons of a lab, how they
// end, and what they leave, which is nothing.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// service is a lab with a daemon on each host.
type service struct {
	t       *testing.T
	name    string
	sockets []string
	card    string // of the processes, as funet run has it
}

// daemons makes a lab with daemons that goes down with the test.
func daemons(t *testing.T, args ...string) *service {
	t.Helper()
	return serviceOf(t, "daemon", append([]string{"--xdp", "generic"}, args...))
}

// directs makes one whose processes have direct ports.
func directs(t *testing.T, args ...string) *service {
	t.Helper()
	return serviceOf(t, "direct", append([]string{"--carriage", "direct"}, args...))
}

func serviceOf(t *testing.T, card string, args []string) *service {
	t.Helper()
	name, _ := namedLab(t, append([]string{"--daemons"}, args...)...)
	sockets, err := lab.Sockets(name)
	if err != nil {
		t.Fatal(err)
	}
	return &service{t, name, sockets, card}
}

// run starts `funet run` as nobody on the lab.
func (s *service) run(args ...string) *process {
	s.t.Helper()
	cmd := nobody(exec.Command(command, append([]string{"run", "--lab=" + s.name, "--card", s.card}, args...)...))
	return start(s.t, cmd, nil)
}

// inUse returns how many jobs, contexts and ports the daemons have, as root sees them, and on how
// many memory counts.
func (s *service) inUse() int {
	s.t.Helper()
	attached, others := s.counts()
	return attached + others
}

// attached returns how many contexts and ports the daemons have.
func (s *service) attached() int {
	s.t.Helper()
	attached, _ := s.counts()
	return attached
}

// counts returns how many contexts and ports there are, and what else inUse counts.
func (s *service) counts() (attached, others int) {
	s.t.Helper()
	for _, socket := range s.sockets {
		var status struct {
			Jobs     []json.RawMessage `json:"jobs"`
			Contexts []json.RawMessage `json:"contexts"`
			Ports    []json.RawMessage `json:"ports"`
			Bytes    int64             `json:"bytes"`
		}
		out := funet(s.t, "status", "--socket", socket, "--json").ok()
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
		if status.Jobs == nil || status.Contexts == nil {
			s.t.Fatalf("the status of %s has no jobs or contexts: %s", socket, out)
		}
		attached += len(status.Contexts) + len(status.Ports)
		if others += len(status.Jobs); status.Bytes != 0 {
			others++
		}
	}
	return attached, others
}

// free checks that the daemons have nothing of anybody soon.
func (s *service) free() {
	s.t.Helper()
	eventually(s.t, "the daemons have no job and no context", func() bool { return s.inUse() == 0 })
}

// TestRunPingPong: an ordinary user's ping-pong through daemons (funet
// run -n 2 --lab -- funet pingpong), and no capability in /proc/PID/status.
func TestRunPingPong(t *testing.T) {
	s := daemons(t)
	out := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100").ok()
	for _, want := range []string{"[0] ping-pong: 4-word request", "500 exchanges, every one verified",
		"[0]   XDP mode", "generic, copy; card of a daemon", "[1] node 1: done"} {
		if !strings.Contains(out, want) {
			t.Errorf("it did not print %q: %s", want, out)
		}
	}
	out = s.run("-n", "2", "--", "grep", "-E", "^(Uid|Cap(Inh|Prm|Eff|Amb))", "/proc/self/status").ok()
	for line := range strings.Lines(out) {
		if !regexp.MustCompile(`^\[[01]\] (Cap(Inh|Prm|Eff|Amb):\t0+|Uid:(\t65534){4})$`).MatchString(strings.TrimSpace(line)) {
			t.Errorf("a process has %q", line)
		}
	}
	s.free()
}

// TestRunPrograms: the programs of funet verify their data through daemons, also with more
// nodes than hosts.
func TestRunPrograms(t *testing.T) {
	long.Test(t)
	runPrograms(daemons(t, "--hosts", "3"), "generic")
}

// runPrograms runs the programs as an ordinary user.
func runPrograms(s *service, mode string) {
	t := s.t
	for _, c := range [][]string{
		{"-n", "5", "--", "funet", "matmul", "--size", "60", "--json"},
		{"-n", "2", "--", "funet", "cmam", "--rounds", "2", "--json"},
		{"-n", "2", "--", "funet", "transfer", "--bytes", "4194304", "--block", "65536", "--json"},
		{"-n", "4", "--", "funet", "stream", "--senders", "3", "--messages", "20000", "--json"},
		{"-n", "2", "--", "funet", "flood", "--messages", "20000", "--stalls", "2", "--stall", "20ms", "--json"},
	} {
		nodes, _ := strconv.Atoi(c[1])
		p := s.run(c...)
		byNode := make([]strings.Builder, nodes)
		for line := range strings.Lines(p.ok()) {
			var n int
			if _, err := fmt.Sscanf(line, "[%d] ", &n); err != nil || n >= nodes {
				t.Fatalf("%v printed %q", c, line)
			}
			byNode[n].WriteString(line[strings.Index(line, "]")+2:])
		}
		for n := range byNode {
			r := decode[struct {
				Node     int    `json:"node"`
				Card     string `json:"card_of"`
				XDPMode  string `json:"xdp_mode"`
				Verified *bool  `json:"verified"`
				Lost     int    `json:"lost"`
				Twice    int    `json:"duplicated"`
				Damaged  int    `json:"damaged"`
			}](t, byNode[n].String())
			if r.Node != n || r.Card != s.card || r.XDPMode != mode || r.Lost+r.Twice+r.Damaged != 0 ||
				n == 0 && r.Verified != nil && !*r.Verified {
				t.Errorf("%v: node %d reports %+v", c, n, r)
			}
		}
	}
	s.free()
}

// TestRunOnOccasion: root without a lab has one made, and the program runs as nobody
// without any capability, not even one to be had back; nothing is left.
func TestRunOnOccasion(t *testing.T) {
	long.Test(t)
	if _, err := lab.Sockets("lab"); err == nil {
		t.Fatal("this machine has a lab with the default name; take it down first: funet lab down")
	}
	cmd := exec.Command(command, "run", "-n", "3", "--lab", "--xdp", "generic", "--", "sh", "-c",
		"id -u; grep ^Cap /proc/self/status; echo $FUNET_SOCKET")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SUDO_UID=") })
	cmd.Dir = "/" // nobody may not enter every folder that this one may be in
	p := start(t, cmd, nil)
	var folder string
	for line := range strings.Lines(p.ok()) {
		text := strings.TrimSpace(line[strings.Index(line, "]")+2:])
		switch {
		case strings.HasSuffix(text, ".sock"):
			folder = filepath.Dir(text)
		case text != "65534" && !regexp.MustCompile(`^Cap...:\t0+$`).MatchString(text):
			t.Errorf("a process printed %q", line)
		}
	}
	if _, err := os.Stat(folder); folder == "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the daemons' folder %q is still there: %v", folder, err)
	}
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })

	// kill -9 of the launcher: the kernel removes lab, daemons and nodes; the next command the
	// folder.
	var out growing
	cmd = exec.Command(command, "run", "-n", "2", "--lab", "--xdp", "generic", "--label=false", "--", "sh", "-c",
		"echo $FUNET_SOCKET; exec sleep 600")
	cmd.Stdout = &out
	p = start(t, cmd, nil)
	eventually(t, "both nodes run", func() bool { return out.count(".sock\n") == 2 })
	h := hold(t, p.mark)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	h.gone(t, p.mark)
	funet(t, "lab", "list").wait()
	first, _, _ := strings.Cut(out.text.String(), "\n")
	if _, err := os.Stat(filepath.Dir(first)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder %s of a killed launcher is still there: %v", filepath.Dir(first), err)
	}
}

// TestRunOnce: a program that starts the nodes itself, as srun does, with what funet run tells it.
func TestRunOnce(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	script :=
		fmt.Sprintf(`[ -z "$FUNET_NODE$FUNET_NODES" ] || exit 9; for i in 0 1; do PMI_RANK=$i PMI_SIZE=2 %s pingpong --exchanges 200 --warm-up 100 & done; wait`, command)
	cmd := nobody(exec.Command(command, "run", "-n", "2", "--once", "--socket", s.sockets[0], "--", "sh", "-c", script))
	cmd.Env = append(os.Environ(), attach.NodeVariable+"=7") // of a job around this one
	out := start(t, cmd, nil).ok()
	if !strings.Contains(out, "\nping-pong") && !strings.HasPrefix(out, "ping-pong") ||
		!strings.Contains(out, "node 1: done") {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// TestRunTwoJobs: two jobs at once on the same cards have different groups, and each is correct.
func TestRunTwoJobs(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	jobs := []*process{
		s.run("-n", "2", "--gid", "77", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100"),
		s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "500", "--warm-up", "100"),
		s.run("-n", "4", "--", "funet", "matmul", "--size", "48"),
	}
	for _, p := range jobs {
		p.ok()
	}
	s.free()
}

// TestRunInput: standard input goes to node 0, and the others have none.
func TestRunInput(t *testing.T) {
	s := daemons(t)
	cmd := nobody(exec.Command(command, "run", "-n", "2", "--lab="+s.name, "--", "cat"))
	cmd.Stdin = strings.NewReader("one\ntwo without an end")
	if out := start(t, cmd, nil).ok(); out != "[0] one\n[0] two without an end\n" {
		t.Errorf("it printed %q", out)
	}
	// A node that has ended leaves the rest.
	cmd = nobody(exec.Command(command, "run", "-n", "1", "--lab="+s.name, "--", "true"))
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	start(t, cmd, nil).ok()
}

// TestRunRefused: what cannot be run is one line, and no job is left.
func TestRunRefused(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	secret := file(t, "#!/bin/sh\n") // nobody may read, and not run it
	absent := filepath.Join(filepath.Dir(secret), "funid.sock")
	holder := s.run("-n", "1", "--gid", "99", "--", "sleep", "600")
	eventually(t, "group 99 is taken", func() bool { return s.inUse() == 1 })
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--lab=" + s.name, "-n", "2", "--", "no-such-program"},
			[]string{"cannot start the program no-such-program", "the daemon at"}},
		{[]string{"--lab=" + s.name, "-n", "2", "--", secret}, []string{"permission denied"}},
		{[]string{"--lab=" + s.name, "-n", "2", "--gid", "99", "--", "true"}, []string{"in use", "leave out --gid"}},
		{[]string{"--lab=" + s.name, "-n", "2", "--gid", "2048", "--", "true"}, []string{"--gid 2048", "2047"}},
		{[]string{"--lab=" + s.name, "-n", "0", "--", "true"}, []string{"-n 0"}},
		{[]string{"--lab=" + s.name, "-n", "40000", "--", "true"}, []string{"-n 40000", strconv.Itoa(attach.MaxNodes)}},
		{[]string{"--lab=" + s.name, "-n", "2", "--profile", "sbus-arctic", "--", "true"},
			[]string{"runs profile native, not sbus-arctic"}},
		{[]string{"--lab=" + s.name, "--user", "root", "--", "true"}, []string{"only root"}},
		{[]string{"--lab=" + s.name, "--hosts", "a", "--", "true"}, []string{"--lab or --hosts"}},
		{[]string{"--lab=no-such-lab", "--", "true"}, []string{"no such lab", "lab up no-such-lab --daemons"}},
		{[]string{"--lab=../x", "--", "true"}, []string{"bad name"}},
		{[]string{"--socket", absent, "--", "true"}, []string{"no daemon at " + absent}},
		{[]string{"--hosts", "-x", "--", "true"}, []string{"is no host"}},
		{[]string{"--lab=" + s.name}, []string{"--help"}},
	} {
		p := start(t, nobody(exec.Command(command, append([]string{"run"}, c.args...)...)), nil)
		p.fails(c.says...)
	}
	if err := holder.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	holder.wait()
	s.free()
	// A node that no daemon knows, a token that is not the group's, a program outside of a job.
	s.run("-n", "1", "--", "env", "FUNET_NODE=5", command, "pingpong").failsLabelled("no such node")
	s.run("-n", "1", "--", "env", "FUNET_TOKEN="+strings.Repeat("0", 64), command, "pingpong").failsLabelled("token")
	start(t, nobody(exec.Command(command, "pingpong", "--card", "daemon", "--socket", s.sockets[0])),
		nil).fails("funet run")
	s.free()
}

// failsLabelled waits for an end with an error of node 0.
func (p *process) failsLabelled(says string) {
	p.t.Helper()
	if code := p.wait(); code == 0 || !strings.Contains(p.stderr.String(), "[0] funet: ") ||
		!strings.Contains(p.stderr.String(), says) {
		p.t.Errorf("%v: exit code %d, and %q", p.cmd.Args, code, p.stderr.String())
	}
}

// TestRunPlaces: within mpirun or srun a process takes its number from there.
func TestRunPlaces(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	for _, names := range [][2]string{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"},
		{"PMIX_RANK", "PMIX_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}} {
		script :=
			fmt.Sprintf(`n=$FUNET_NODE; unset FUNET_NODE FUNET_NODES; exec env %s=$n %s=2 %s pingpong --exchanges 200 --warm-up 100`, names[0], names[1], command)
		if out := s.run("-n", "2", "--", "sh", "-c", script).ok(); !strings.Contains(out, "[0] ping-pong") ||
			!strings.Contains(out, "[1] node 1: done") {
			t.Errorf("%v: it printed %q", names, out)
		}
	}
	s.run("-n", "1", "--", "sh", "-c", "unset FUNET_NODE FUNET_NODES; exec env PMI_RANK=0 PMI_SIZE=3 "+command+
		" pingpong").failsLabelled("the group has 1 nodes, and 3 processes were started")
}

// behindSSH makes an ssh that runs a command on this machine with the daemon that the host's name
// stands for, and returns what starts `funet run` as nobody with it.
func (s *service) behindSSH(t *testing.T) func(stdin string, args ...string) *process {
	t.Helper()
	return s.behindLogin(t, "", `exec sh -c "$*"`)
}

// behindLogin is behindSSH whose login runs shell text before the command, and another text as the
// command, "$*".
func (s *service) behindLogin(t *testing.T, before, runs string) func(stdin string, args ...string) *process {
	t.Helper()
	dir := filepath.Dir(file(t, ""))
	script :=
		fmt.Sprintf("#!/bin/sh\nuntil [ \"$1\" = -- ]; do shift; done; host=$2; shift 2\n[ -e %[1]s/$host.sock ] || { echo \"ssh: cannot resolve $host\" >&2; exit 255; }\nexport PATH=%[2]s:$PATH FUNET_SOCKET=%[1]s/$host.sock\n%[3]s\n%[4]s\n",
			lab.DaemonDir(s.name), filepath.Dir(command), before, runs)
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(stdin string, args ...string) *process {
		t.Helper()
		cmd := nobody(exec.Command(command, append([]string{"run"}, args...)...))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		cmd.Stdin = strings.NewReader(stdin)
		return start(t, cmd, nil)
	}
}

// TestRunHosts: hosts behind ssh.
func TestRunHosts(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	hosts := s.behindSSH(t)
	out := hosts("", "-n", "3", "--hosts", "host-0,host-1", "--", "funet", "pingpong", "--exchanges", "500",
		"--warm-up", "100").ok()
	if !strings.Contains(out, "[0] ping-pong") || !strings.Contains(out, "[1] node 1: done") ||
		!strings.Contains(out, "[2] node 2: done") {
		t.Errorf("it printed %s", out)
	}
	big := strings.Repeat("a line of some length\n", 10000)
	if out := hosts(big, "-n", "2", "--label=false", "--hosts", "host-0,host-1", "--", "cat").ok(); out != big {
		t.Errorf("%d bytes of input came out as %d", len(big), len(out))
	}
	p := hosts("", "-n", "2", "--hosts", "host-0,host-1", "--", "sh", "-c", "[ $FUNET_NODE = 1 ] && exit 5; sleep 600")
	if code := p.wait(); code != 5 || !strings.Contains(p.stderr.String(), "node 1 with host host-1: exit code 5") {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	s.free()

	hosts("", "-n", "2", "--hosts", "host-0,elsewhere", "--",
		"true").fails("host elsewhere: ssh: cannot resolve elsewhere")
	hosts("", "-n", "2", "--hosts", "host-0,host-1", "--", "no-such-program").fails("host host-0", "no-such-program")
	hosts("", "-n", "2", "--hosts", "host-0,host-0", "--", "true").fails("both have card 0")

	// The token is on no command line, and kill -9 of the launcher ends everything behind ssh.
	p = hosts("", "-n", "2", "--hosts", "host-0,host-1", "--", "sleep", "600")
	eventually(t, "all processes run", func() bool { return s.inUse() == 2 && sleepers(p.mark) == 2 })
	token := ""
	for _, pid := range marked(p.mark) {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may have ended
		for _, v := range strings.Split(string(environ), "\x00") {
			if text, ok := strings.CutPrefix(v, attach.TokenVariable+"="); ok {
				token = text
			}
		}
	}
	if _, err := attach.ParseToken(token); err != nil {
		t.Fatal("no process has a token")
	}
	for _, pid := range marked(p.mark) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), token) {
			t.Errorf("the token is on the command line %q", line)
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
	s.free()
}

// sleepers counts the marked processes that sleep(1).
func sleepers(mark string) (n int) {
	for _, pid := range marked(mark) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), "sleep\x00") {
			n++
		}
	}
	return n
}
