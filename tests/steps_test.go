package tests

// This file does what the manual says about two hosts: the commands of its steps, on hosts of a lab
// that have files of their own in /etc and /run.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/long"
)

// steps returns the command lines of a section of a page, those that are indented, by the number of
// their step. Of a line that has several columns the comment is left out.
func steps(t *testing.T, page, section string) map[int][]string {
	t.Helper()
	manual, err := os.ReadFile("../ctl/manual/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(manual), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	commands, step := map[int][]string{}, 0
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^(\d)\. `).FindStringSubmatch(line); m != nil {
			step = int(m[1][0] - '0')
		}
		if words, ok := strings.CutPrefix(line, "       "); ok {
			words, _, _ = strings.Cut(words, "  #")
			commands[step] = append(commands[step], strings.TrimSpace(words))
		}
	}
	return commands
}

// realHost is a host of a lab with an /etc and a /run of its own, on which commands are executed.
type realHost struct {
	t   *testing.T
	pid int
}

func newRealHost(t *testing.T, l *lab.Lab, host int) *realHost {
	t.Helper()
	dir := filepath.Dir(file(t, ""))
	script := fmt.Sprintf(`set -e; mount --make-rprivate /; mount -t tmpfs none %[1]s; mkdir %[1]s/upper %[1]s/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=%[1]s/upper,workdir=%[1]s/work /etc; mkdir -p /etc/funet; mount -t tmpfs none /run; mkdir /run/funet; echo ready; exec sleep 3600`, dir)
	var out growing
	p := start(t, l.Command(host, "unshare", "--mount", "sh", "-c", script), func(c *exec.Cmd) error {
		c.Stdout = &out
		return l.Start(host, c)
	})
	eventually(t, "the host has its files", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("it has not: %s", p.stderr.String())
		default:
		}
		return out.count("ready\n") == 1
	})
	return &realHost{t, p.cmd.Process.Pid}
}

// on returns a command line of a shell on the host.
func (h *realHost) on(line string) *exec.Cmd {
	cmd := exec.Command("nsenter", "--target", fmt.Sprint(h.pid), "--mount", "--net", "sh", "-c", "cd /; "+line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(command)+":"+os.Getenv("PATH"))
	return cmd
}

// does executes it, and wants it to succeed without a complaint.
func (h *realHost) does(line string) string {
	h.t.Helper()
	return start(h.t, h.on(line), nil).ok()
}

// TestTwoHostsInSteps: the manual's steps for two hosts on a segment lead to programs that talk. So
// do those for two cloud VMs, where a router stands for the cloud. Each command there is executed,
// but for those that install, and of systemd.
func TestTwoHostsInSteps(t *testing.T) {
	long.Test(t)
	for _, c := range []struct {
		name, page, section string
		lab                 []string
		head                string // of the peers file
	}{
		{"segment", "hosts", "Two hosts in five steps", nil, ""},
		{"cloud", "clouds", "Two cloud VMs in six steps", []string{"--router"}, "encap: udp\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, l := namedLab(t, c.lab...)
			if len(steps(t, c.page, c.section)) == 0 {
				t.Fatalf("%s has no commands in %q", c.page, c.section)
			}
			five := steps(t, "hosts", "Two hosts in five steps") // the six refer to them
			hosts := []*realHost{newRealHost(t, l, 0), newRealHost(t, l, 1)}
			here := func(line string) string {
				line = strings.ReplaceAll(line, "eth1", l.Hosts()[0].Interfaces[0].Name)
				return strings.ReplaceAll(line, "192.0.2.11", l.Hosts()[1].Interfaces[0].Addr.Addr().String())
			}
			take := func(step int, begins string) string {
				t.Helper()
				for i, line := range five[step] {
					if strings.HasPrefix(line, begins) {
						five[step] = append(five[step][:i:i], five[step][i+1:]...)
						return here(line)
					}
				}
				t.Fatalf("step %d has no %q: %q", step, begins, five[step])
				return ""
			}

			peers, line := c.head+take(2, "peers:")+"\n", take(2, "funid peer --iface eth1 --node 0")
			example := regexp.MustCompile(`[0-9a-f:]{17}|\d+\.\d+\.\d+\.\d+`)
			for i, h := range hosts {
				said := h.does(strings.Replace(line, "--node 0", fmt.Sprintf("--node %d", i), 1))
				shown := take(2, fmt.Sprintf("- {node: %d", i))
				if got := strings.TrimSpace(said); example.ReplaceAllString(got, "") !=
					example.ReplaceAllString(shown, "") {
					t.Errorf("it prints %q, and the manual shows %q", got, shown)
				}
				peers += said
			}
			configure, check := take(3, "echo"), take(3, "funid --check")
			for _, h := range hosts {
				cmd := h.on("cat > /etc/funet/peers.yaml; " + configure)
				cmd.Stdin = strings.NewReader(peers)
				start(t, cmd, nil).ok()
				if out := h.does(check); !strings.Contains(out, "the configuration is valid") {
					t.Errorf("%s printed %s", check, out)
				}
			}

			answering := start(t, hosts[1].on("exec "+take(3, "funet doctor --answer")), nil)
			ask := take(3, "funet doctor --iface")
			passes := "EtherType 0x88B5 from the peer   passes"
			if c.head != "" {
				passes = "UDP from the peer                passes"
			}
			eventually(t, "the doctor finds the peer: "+passes, func() bool {
				// its exit code says whether anything fails
				out, _ := hosts[0].on(ask).CombinedOutput()
				return strings.Contains(string(out), passes)
			})
			if err := answering.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			answering.wait()

			for _, line := range []string{"systemctl daemon-reload", "systemctl enable --now funid"} {
				take(4, line) // without systemd:
			}
			status := take(4, "funet status")
			for _, h := range hosts {
				start(t, h.on("exec funid --config /etc/funet/funid.yaml"), nil)
				eventually(t, "funid serves", func() bool { return h.on(status).Run() == nil })
			}

			dir := filepath.Dir(file(t, ""))
			script :=
				fmt.Sprintf("#!/bin/sh\nuntil [ \"$1\" = -- ]; do shift; done; shift\ncase $1 in a) pid=%d;; b) pid=%d;; *) exit 255; esac; shift\n"+
					"PATH=%s:$PATH exec nsenter --target $pid --mount --net --setuid 65534 --setgid 65534 sh -c \"cd /; $*\"\n", hosts[0].pid, hosts[1].pid, filepath.Dir(command))
			if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			run := exec.Command("sh", "-c", take(5, "funet run")+" --exchanges 300 --warm-up 50")
			run.Env = append(os.Environ(), "PATH="+dir+":"+filepath.Dir(command)+":"+os.Getenv("PATH"))
			if out := start(t, run, nil).ok(); !strings.Contains(out, "300 exchanges, every one verified") ||
				!strings.Contains(out, "card of a daemon") {
				t.Errorf("ping-pong printed %s", out)
			}
			take(5, "funet run -n 4") // the same with a program of one's own
			for step, left := range five {
				if len(left) > 0 {
					t.Errorf("of step %d nobody has tried %q", step, left)
				}
			}
		})
	}
}
