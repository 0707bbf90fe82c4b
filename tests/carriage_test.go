package tests

// This file tests what users see of the choice between direct ports and the daemons' cards.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/live"
	"github.com/funet/funet/ctl/report"
	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// statusAt is the status of a daemon.
func statusAt(t *testing.T, socket string) (s report.Status) {
	t.Helper()
	if err := json.Unmarshal([]byte(funet(t, "status", "--socket", socket, "--json").ok()), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// readable lets everybody into a folder of t.TempDir.
func readable(t *testing.T, folder string) {
	t.Helper()
	for _, dir := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAutoCarriage: daemons with carriage: auto prove ports and say so. funet run takes ports
// without being asked, and if it is asked it says what it took. status and top show the ports.
// Programs that use funi.h are refused with the flag to use.
func TestAutoCarriage(t *testing.T) {
	long.Test(t)
	folder := t.TempDir()
	inC := filepath.Join(folder, "pingpong")
	if out, err := exec.Command("cc", "-std=c11", "-O2", "-I", "../uspace/funi", "-o", inC,
		"../uspace/funi/example/pingpong.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	readable(t, folder)
	s := serviceOf(t, "auto", []string{"--carriage", "auto", "--xdp", "native"})
	for _, socket := range s.sockets {
		if c := statusAt(t, socket).Carriage; c.Configured != "auto" || c.Chosen != "direct" ||
			!strings.Contains(c.Why, "exchanged frames") {
			t.Errorf("the status says %+v", c)
		}
	}
	args := []string{"-n", "2", "--lab=" + s.name, "--", "funet", "pingpong", "--exchanges", "300", "--warm-up", "10"}
	p := start(t, nobody(exec.Command(command, append([]string{"run"}, args...)...)), nil)
	if out := p.ok(); !strings.Contains(out, "own card on a direct port") || p.stderr.Len() > 0 {
		t.Errorf("it printed %s and said %s", out, p.stderr.String())
	}
	p = start(t, nobody(exec.Command(command, append([]string{"run", "--card", "auto"}, args...)...)), nil)
	if code := p.wait(); code != 0 || !strings.Contains(p.stdout.String(), "own card on a direct port") ||
		!strings.Contains(p.stderr.String(), "funet: the processes have direct ports") {
		t.Errorf("exit code %d, it printed %s and said %s", code, p.stdout.String(), p.stderr.String())
	}
	s.card = "daemon"
	if out := s.run("-n", "2", "--", inC, "300").ok(); !strings.Contains(out, "300 round trips") {
		t.Errorf("with contexts it printed %s", out)
	}
	s.card = "auto"
	if p := s.run("-n", "2", "--", inC, "300"); p.wait() == 0 ||
		!strings.Contains(p.stderr.String(), "funet run --card daemon") {
		t.Errorf("a program that uses funi.h said %s", p.stderr.String())
	}
	s.free()

	p = s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "1000000000")
	socket := s.sockets[0]
	eventually(t, "a port sends", func() bool {
		d := statusAt(t, socket).Direct
		return d != nil && d.Ports == 1 && d.Frames.Sent > 100
	})
	if links := statusAt(t, socket).Links; len(links) != 1 || links[0].Direct == nil || links[0].Direct.Handed < 100 {
		t.Errorf("the interface says %+v", links)
	}
	eventually(t, "top shows its frames", func() bool {
		var r live.Report
		if err := json.Unmarshal([]byte(funet(t, "top", "--socket", socket, "--json", "--count", "1", "--interval",
			"200ms").ok()), &r); err != nil {
			t.Fatal(err)
		}
		return r.Direct != nil && r.Direct.Ports == 1 && r.Direct.Sent > 0 && r.Direct.Received > 0
	})
	for _, want := range []string{`(?m)^jobs may have direct ports: two test ports`, `(?m)^  1 port of all users`,
		`(?m)^  frames sent: [1-9]\d* to hosts, \d+ here; dropped: none$`} {
		if out := funet(t, "status", "--socket", socket).ok(); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the status has no line like %s: %s", want, out)
		}
	}
	gid := statusAt(t, socket).Jobs[0].GID
	funet(t, "trace", "--socket", socket, "--gid", fmt.Sprint(gid)).fails("direct ports", "funet run --card daemon")
	for what, args := range map[string][]string{"1 direct port, past the card, cannot be traced": {"trace"},
		"[fu0 direct ports]": {"capture", filepath.Join(folder, "frames.pcapng")}} {
		var said growing
		cmd := exec.Command(command, append(args, "--socket", socket)...)
		looks := start(t, cmd, func(c *exec.Cmd) error {
			c.Stderr = &said
			return c.Start()
		})
		eventually(t, "it says "+what, func() bool { return said.count(what) == 1 })
		looks.signal(syscall.SIGINT)
		looks.wait()
	}
	p.signal(syscall.SIGINT)
	p.wait()
	s.free()
	bare(t, s.name)
}

// TestNoCarriage: a daemon with carriage: auto whose helper may make no namespace goes on without
// direct ports; it says why in its log and status, and funet run to whoever asks. With carriage:
// direct it does not start, and says why in one line.
func TestNoCarriage(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	folder := t.TempDir()
	readable(t, folder)
	socket := filepath.Join(folder, "funid.sock")
	// of what is started there
	if err := l.Do(0, func() error { return unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN, 0, 0, 0) }); err !=
		nil {
		t.Fatal(err)
	}
	funid := func(carriage string) *process {
		config := file(t, fmt.Sprintf("card: 0\npeers: %s\nsocket: %s\nxdp: native\ncarriage: %s\n",
			peersFile(t, name, 0), socket, carriage))
		cmd := l.Command(0, filepath.Join(filepath.Dir(command), "funid"), "--config", config)
		return start(t, cmd, func(c *exec.Cmd) error { return l.Start(0, c) })
	}
	p := funid("direct")
	if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "CAP_SYS_ADMIN") ||
		!strings.Contains(p.stderr.String(), "carriage out, or let it be auto") {
		t.Errorf("carriage: direct: exit code %d, %s", code, p.stderr.String())
	}
	p = funid("auto")
	eventually(t, "the daemon answers", func() bool {
		return exec.Command(command, "status", "--socket", socket).Run() == nil
	})
	if c := statusAt(t, socket).Carriage; c.Configured != attach.CarriageAuto || c.Chosen != attach.CarriageDaemon ||
		!strings.Contains(c.Why, "CAP_SYS_ADMIN") {
		t.Errorf("the status says %+v", c)
	}
	said := func(args ...string) string {
		run := start(t, nobody(exec.Command(command,
			append(append([]string{"run", "--socket", socket}, args...), "--", "true")...)), nil)
		if code := run.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return run.stderr.String()
	}
	if text := said(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no direct ports: ") ||
		!strings.Contains(text, "CAP_SYS_ADMIN") {
		t.Errorf("funet run said %q", text)
	}
	if text := said("--card", "daemon"); text != "" {
		t.Errorf("funet run --card daemon said %q", text)
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 || !strings.Contains(p.stderr.String(),
		"there are no direct ports, and all messages travel by the daemon: ") {
		t.Errorf("exit code %d, and the log says %s", code, p.stderr.String())
	}
}
