package main_test

// This file tests the command as it is installed: its capabilities, what it tells systemd,
// and its clean end.

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/tests/daemons"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

const patience = 30 * time.Second

// program builds the command, without cgo as it has to be.
func program(t *testing.T) string { return daemons.Build(t, "../..") }

// Rule: a funid that was built with cgo, which cannot drop its capabilities, says so in one line,
// and what to do, before it looks at anything of the host.
func TestBuiltWithCgo(t *testing.T) {
	long.Test(t) // it compiles all packages anew
	path := filepath.Join(t.TempDir(), "funid")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	peers := filepath.Join(t.TempDir(), "peers.yaml")
	if err := os.WriteFile(peers,
		[]byte("gid: 1\npeers: [{node: 0, mac: \"02:00:00:00:00:01\"}, {node: 1, mac: \"02:00:00:00:00:02\"}]\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "--card", "0", "--peers", peers, "--iface",
		"lo").CombinedOutput()
	const want = "funid: this program was built with cgo, so it cannot drop the capabilities of all its threads; build it with `make build`, or with CGO_ENABLED=0; or start it with --keep-privileges\n"
	if err == nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}

// Rule: after its start funid has no capability in any thread, and carries messages all the
// same; the card's thread comes before all others.
// Rule: it tells systemd when it is ready, that it lives, and that it stops (sd_notify(3)), and
// leaves nothing behind.
func TestService(t *testing.T) {
	path := program(t)
	l, err := lab.Up(lab.Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	var sockets []string
	var commands []*exec.Cmd
	var told []*net.UnixConn
	for host := range 2 {
		peers, err := l.Peers(host).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		file := func(name string, text []byte) string {
			p := filepath.Join(dir, fmt.Sprint(name, host))
			if err := os.WriteFile(p, text, 0o644); err != nil {
				t.Fatal(err)
			}
			return p
		}
		socket := filepath.Join(dir, fmt.Sprint("socket", host))
		peersFile := file("peers", peers)
		config := file("config", fmt.Appendf(nil, "card: %d\npeers: %s\nsocket: %s\nxdp: generic\n", host,
			filepath.Base(peersFile), socket))
		notify, err := net.ListenUnixgram("unixgram",
			&net.UnixAddr{Name: filepath.Join(dir, fmt.Sprint("notify", host)), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer notify.Close()
		c := l.Command(host, path, "--config", config)
		c.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify.LocalAddr().String(), "WATCHDOG_USEC=200000")
		c.Stderr = os.Stderr
		if err := l.Start(host, c); err != nil {
			t.Fatal(err)
		}
		sockets, commands, told = append(sockets, socket), append(commands, c), append(told, notify)
		heard(t, notify, "READY=1")
		heard(t, notify, "WATCHDOG=1")
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", commands[0].Process.Pid))
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		// All that is left is CAP_LINUX_IMMUTABLE, number 9; a program that is executed has nothing
		// beyond that (no new privileges), nor that.
		for _, want := range []string{"CapInh:\t0*", "CapPrm:\t0*200", "CapEff:\t0*200",
			"CapBnd:\t[0-9a-f]*[014589cd][0-9a-f]{2}", "CapAmb:\t0*", "NoNewPrivs:\t1"} {
			if !regexp.MustCompile("(?m)^" + want + "$").Match(status) {
				t.Errorf("%s has capabilities, which are not as in %q:\n%s", task, want, status)
			}
		}
	}
	values := map[string]int{} // proc_pid_stat(5)
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(task), "stat"))
		if _, rest, _ := strings.Cut(string(stat), ") "); err == nil {
			values[strings.Fields(rest)[16]]++
		}
	}
	if len(values) != 2 || values["0"] != 1 {
		t.Errorf("threads by nice value: %v; want the card's alone with 0, before the others", values)
	}
	exchange(t, sockets)
	for host, c := range commands {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		heard(t, told[host], "STOPPING=1")
		if err := c.Wait(); err != nil {
			t.Errorf("funid ended with %v", err)
		}
		if _, err := os.Stat(sockets[host]); !os.IsNotExist(err) {
			t.Errorf("the socket is left: %v", err)
		}
	}
}

// heard waits until systemd is told something.
func heard(t *testing.T, c *net.UnixConn, what string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if strings.Contains(string(b[:n]), what) {
			return
		}
	}
}

// exchange sends messages from one host to the other and back.
func exchange(t *testing.T, sockets []string) {
	t.Helper()
	token := attach.NewToken()
	var clients []*attach.Client
	gid := uint16(0)
	for _, s := range sockets {
		conn, err := net.DialUnix(attach.Network, nil, &net.UnixAddr{Name: s, Net: attach.Network})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		message, err := attach.JobRequest{GID: gid, Token: token, Cards: []uint16{0, 1}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := attach.Send(conn, message); err != nil {
			t.Fatal(err)
		}
		answer, _, err := attach.Receive(conn, make([]byte, attach.MaxMessage), 0)
		if err != nil {
			t.Fatal(err)
		}
		a, err := attach.DecodeJobAnswer(answer)
		if err != nil {
			t.Fatal(err)
		}
		gid = a.GID
	}
	for node, s := range sockets {
		c, err := attach.Open(attach.Config{Socket: s, GID: gid, Node: uint16(node), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	end := time.Now().Add(patience)
	for n := range uint32(100) {
		from, to := clients[n%2], clients[1-n%2]
		m := from.Interface().Reserve(funi.Request)
		m.SetHeader(funi.NewHeader(uint16(1-n%2), 1, 1))
		m[funi.PayloadWord] = n
		from.Interface().Commit(funi.Request)
		for ; ; to.Drive() {
			if s := to.Interface().Receive(funi.Request); s != nil {
				if s.Payload()[0] != n {
					t.Fatalf("message %d: got %d", n, s.Payload()[0])
				}
				to.Interface().Release(funi.Request)
				break
			}
			if time.Now().After(end) {
				t.Fatalf("message %d does not arrive", n)
			}
		}
	}
	for _, c := range clients {
		if err := c.Close(patience); err != nil {
			t.Error(err)
		}
	}
}

// Rule: a mistake is reported in one line, with file and line if there is one, and
// nothing is made.
func TestRefuses(t *testing.T) {
	path := program(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	peers := write("peers.yaml",
		"peers:\n  - {node: 0, mac: \"02:00:00:00:00:01\", iface: fu9}\n  - {node: 1, mac: \"02:00:00:00:00:02\", iface: fu9}\n")
	socket := filepath.Join(dir, "sockets", "funid.sock")
	for want, args := range map[string][]string{
		"no such file":          {"--config", filepath.Join(dir, "none")},
		"bad.yaml:2:1: unknown": {"--config", write("bad.yaml", "card: 0\ncolour: red\n")},
		"no peers":              {"--config", write("empty.yaml", "")},
		"peers2.yaml":           {"--config", write("peersless.yaml", "peers: peers2.yaml")},
		"card 2 is not in":      {"--card", "2", "--peers", peers},
		"--card -2":             {"--card", "-2", "--peers", peers},
		"not an absolute path":  {"--card", "0", "--peers", peers, "--socket", "x.sock"},
		"none of its 2 nodes":   {"--peers", peers},
		"interface not found":   {"--peers", peers, "--socket", socket, "--card", "0"},
		"use adaptive, spin or": {"--peers", peers, "--polling", "lazy"},
		"loopback":              {"--card", "0", "--peers", peers, "--metrics", "0.0.0.0:80"},
		"pinning to processor":  {"--card", "0", "--peers", peers, "--socket", socket, "--cpu", "4000"},
		"no host with a port":   {"--card", "0", "--peers", "etcd://a"},
		"number of its own":     {"--peers", "etcd://127.0.0.1:1/x"},
		"interface leads to":    {"--card", "0", "--peers", "etcd://127.0.0.1:1/x"},
		"unknown command":       {"start"},
	} {
		out, err := exec.Command(path, args...).CombinedOutput()
		text := string(out)
		if err == nil || !strings.HasPrefix(text, "funid: ") || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: %v, %q", args, err, text)
		}
		if !strings.Contains(text, want) && want != "interface not found" {
			t.Errorf("%v: %q, want %q", args, text, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "sockets", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if out, err := exec.Command(path, "--check", "--card", "0", "--peers", peers, "--socket",
		socket).CombinedOutput(); err != nil {
		t.Errorf("--check: %v, %s", err, out)
	}
	// Without privileges it says which capabilities are missing. The files are passed open,
	// because the folder is not open to others.
	c := exec.Command(path)
	for _, name := range []string{path, peers} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	c.Path, c.Args = "/proc/self/fd/3", []string{"funid", "--peers", "/proc/self/fd/4"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if text := string(out); err == nil || !strings.HasPrefix(text,
		"funid: a capability is missing: CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON") ||
		strings.Count(text, "\n") != 1 {
		t.Errorf("as nobody: %v, %s", err, text)
	}
}
