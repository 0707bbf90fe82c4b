package tests

// This file tests `funet top`.

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// topReport has the fields of a document that the tests read.
type topReport struct {
	Card      *int    `json:"card"`
	Interval  float64 `json:"interval_seconds"`
	Restarted bool    `json:"restarted"`
	Error     string  `json:"error"`
	Sums      struct {
		Sent    float64 `json:"messages_sent_per_second"`
		Bytes   float64 `json:"frame_bytes_sent_per_second"`
		Packets float64 `json:"packets_per_frame"`
	} `json:"sums"`
	Jobs []struct {
		GID  int     `json:"gid"`
		Sent float64 `json:"messages_sent_per_second"`
	} `json:"jobs"`
	Contexts []struct {
		Sent float64 `json:"messages_sent_per_second"`
	} `json:"contexts"`
	RoundTrips []struct {
		Card int   `json:"card"`
		NS   int64 `json:"round_trip_ns"`
	} `json:"round_trips"`
	Interfaces []struct {
		State string `json:"state"`
	} `json:"interfaces"`
}

// screened is `funet top` on a pseudo-terminal of a given number of rows and columns.
type screened struct {
	*process
	user, terminal *os.File
	shown          growing
	before         unix.Termios
	rows, columns  uint16
}

func topOn(t *testing.T, rows, columns uint16, args ...string) *screened {
	t.Helper()
	s := &screened{}
	s.user, s.terminal = pty(t)
	s.resize(rows, columns)
	before, err := unix.IoctlGetTermios(int(s.terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	s.before = *before
	go func() { _, _ = io.Copy(&s.shown, s.user) }() // until the test closes it
	cmd := exec.Command(command, append([]string{"top", "--interval", "200ms"}, args...)...)
	cmd.Stdin, cmd.Stdout = s.terminal, s.terminal
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	s.process = start(t, cmd, nil)
	return s
}

func (s *screened) resize(rows, columns uint16) {
	s.rows, s.columns = rows, columns
	// what is shown says whether it worked
	_ = unix.IoctlSetWinsize(int(s.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
}

func (s *screened) press(keys string) {
	s.t.Helper()
	if _, err := s.user.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until the texts have been written whole. Of a screen only what changes is written,
// but for one that has another size: so it gets one.
func (s *screened) shows(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		before := s.shown.count(text)
		eventually(s.t, fmt.Sprintf("the screen shows %q", text), func() bool {
			s.resize(s.rows, s.columns^1)
			return s.shown.count(text) > before
		})
	}
}

// gone checks that it has ended with a code and left the terminal as it was.
func (s *screened) gone(code int) {
	s.t.Helper()
	if got := s.wait(); got != code {
		s.t.Errorf("exit code %d; it said %q", got, s.stderr.String())
	}
	after, err := unix.IoctlGetTermios(int(s.terminal.Fd()), unix.TCGETS)
	if err != nil || *after != s.before {
		s.t.Errorf("the terminal is left as %+v, not %+v: %v", after, s.before, err)
	}
	// the screen before, with a cursor
	for _, restored := range []string{"\x1b[?1049l", "\x1b[?25h"} {
		eventually(s.t, fmt.Sprintf("%q is written", restored), func() bool { return s.shown.count(restored) > 0 })
	}
}

// TestTop checks that funet top is live on a terminal of any size, with keys that choose what it
// shows. It ends on q and Ctrl-C, and leaves the terminal as it was. Without a terminal it prints a
// table, or documents. An ordinary user sees the sums, and only jobs of that user.
func TestTop(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	job := s.run("-n", "2", "--", "funet", "pingpong", "--exchanges", "1000000000")
	eventually(t, "both nodes are attached", func() bool { return s.attached() >= 2 })

	out := start(t, nobody(exec.Command(command, "top", "--json", "--count", "2", "--socket", s.sockets[0])), nil).ok()
	documents := strings.Split(strings.TrimSpace(out), "\n")
	if len(documents) != 2 {
		t.Fatalf("%d documents: %s", len(documents), out)
	}
	for _, d := range documents {
		r := decode[topReport](t, d)
		if r.Card == nil || r.Sums.Sent <= 0 || r.Sums.Bytes <= 0 || r.Sums.Packets < 1 || len(r.Jobs) != 1 ||
			r.Jobs[0].Sent <= 0 || len(r.Contexts) != 1 || r.Contexts[0].Sent <= 0 ||
			len(r.RoundTrips) != 1 || r.RoundTrips[0].NS <= 0 || len(r.Interfaces) != 1 ||
			r.Interfaces[0].State != "up" || r.Interval <= 0 {
			t.Errorf("%s", d)
		}
	}
	other := exec.Command(command, "top", "--json", "--count", "1", "--socket", s.sockets[0])
	other.Dir, other.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	if r := decode[topReport](t, start(t, other, nil).ok()); len(r.Jobs) != 0 || len(r.Contexts) != 0 ||
		r.Sums.Sent <= 0 {
		t.Errorf("another user sees %+v", r)
	}
	table := start(t, nobody(exec.Command(command, "top", "--interval", "200ms", "--socket", s.sockets[0])), nil).ok()
	for _, want := range []string{"card 0 of ", "interface  fu0: up, XDP generic", "packets a frame",
		"round trip median", "nobody", "*msg/s out"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
	if strings.Contains(table, "\x1b") {
		t.Errorf("it printed %q", table)
	}

	p := topOn(t, 24, 80, "--socket", s.sockets[0])
	p.shows("msg/s out", "nobody", "q quit")
	p.press("c")
	p.shows("process")
	p.press("p")
	p.shows("varies by")
	p.press(">>r")
	p.resize(6, 20)
	p.shows("contexts")
	p.resize(1, 1)
	p.resize(50, 200)
	p.shows("card 0 of", "q quit")
	p.press("q")
	p.gone(0)
	p = topOn(t, 24, 80, "--socket", s.sockets[0])
	p.shows("msg/s out")
	p.press("\x03") // Ctrl-C
	p.gone(0)
	p = topOn(t, 24, 80, "--socket", s.sockets[0])
	p.shows("msg/s out")
	p.signal(syscall.SIGTERM)
	p.gone(128 + int(syscall.SIGTERM))
	job.signal(syscall.SIGINT)
	job.wait()
}

// TestTopRefusals: what is wrong is one line that says what to do.
func TestTopRefusals(t *testing.T) {
	dir := t.TempDir()
	funet(t, "top", "--socket", filepath.Join(dir, "none")).fails("no daemon listens there; start funid")
	funet(t, "top", "--interval", "1ms").fails("--interval 1ms: use 100ms and more")
	funet(t, "top", "--count", "1").fails("--count is for --json")
	funet(t, "top", "--json", "--count", "-1").fails("--count -1: use 1 and more")
	funet(t, "top", "extra").fails("see `funet top --help`")
	// One that takes connections and says nothing holds up nobody.
	l, err := net.ListenUnix(attach.Network, &net.UnixAddr{Name: filepath.Join(dir, "mute"), Net: attach.Network})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := funet(t, "top", "--socket", filepath.Join(dir, "mute"))
	if c, err := l.Accept(); err == nil {
		defer c.Close()
	}
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit code %d", code)
	}
}

// TestTopGoesOn: top reports a daemon that restarts, on a terminal and in documents, and looks at
// the daemon again when it is back; keys go on meanwhile.
func TestTopGoesOn(t *testing.T) {
	long.Test(t)
	name, l := namedLab(t)
	socket := filepath.Join(t.TempDir(), "funid.sock")
	config := file(t, fmt.Sprintf("card: 0\npeers: %s\nsocket: %s\nxdp: generic\ndrain: 10ms\n",
		peersFile(t, name, 0), socket))
	funid := func() *process {
		cmd := l.Command(0, filepath.Join(filepath.Dir(command), "funid"), "--config", config)
		p := start(t, cmd, func(c *exec.Cmd) error { return l.Start(0, c) })
		eventually(t, "the daemon answers", func() bool {
			return exec.Command(command, "status", "--socket", socket).Run() == nil
		})
		return p
	}
	daemon := funid()
	onTerminal := topOn(t, 24, 80, "--socket", socket)
	onTerminal.shows("msg/s out")
	var documents growing
	cmd := exec.Command(command, "top", "--json", "--interval", "200ms", "--socket", socket)
	cmd.Stdout = &documents
	written := start(t, cmd, nil)
	eventually(t, "a document comes", func() bool { return documents.count("\n") > 0 })
	daemon.signal(syscall.SIGTERM)
	daemon.wait()
	onTerminal.shows("listens", "again")
	onTerminal.press("p")
	onTerminal.shows("varies by")
	eventually(t, "a document says so", func() bool { return documents.count("no daemon listens there") > 0 })
	daemon = funid()
	onTerminal.shows("begun anew")
	eventually(t, "a document says so", func() bool { return documents.count(`"restarted":true`) == 1 })
	onTerminal.press("q")
	onTerminal.gone(0)
	written.signal(syscall.SIGINT)
	if code := written.wait(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit code %d", code)
	}
	for _, line := range strings.Split(strings.TrimSpace(documents.text.String()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q", line)
		}
	}
	daemon.signal(syscall.SIGTERM)
	daemon.wait()
}
