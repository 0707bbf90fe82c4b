package tests

// This file tests `funet status --watch`.

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
)

// TestStatusWatch: it shows the status again and again until Ctrl-C, plain where nobody reads it on
// a terminal, and on one over the one before.
func TestStatusWatch(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	watch := func() *exec.Cmd {
		return nobody(exec.Command(command, "status", "--watch", "--socket", s.sockets[0]))
	}
	interrupted := func(p *process) {
		t.Helper()
		p.signal(syscall.SIGINT)
		if code := p.wait(); code != 128+int(syscall.SIGINT) || p.stderr.String() != "funet: interrupted (SIGINT)\n" {
			t.Errorf("exit code %d; it said %q", code, p.stderr.String())
		}
	}
	var out growing
	cmd := watch()
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	eventually(t, "it is shown three times", func() bool { return out.count("card 0 of ") >= 3 })
	interrupted(p)
	if out.count("\x1b") != 0 || out.count("interface fu0: up, XDP generic") < 3 {
		t.Errorf("it printed %q", out.text.String())
	}

	user, terminal := pty(t)
	cmd = watch()
	cmd.Stdout = terminal
	var shown growing
	go func() { _, _ = io.Copy(&shown, user) }() // until the test closes it
	p = start(t, cmd, nil)
	eventually(t, "it is shown three times", func() bool { return shown.count("\x1b[H") >= 3 })
	interrupted(p)
	shown.mu.Lock()
	defer shown.mu.Unlock()
	for _, screen := range strings.Split(shown.text.String(), "\x1b[H")[1:] {
		for line := range strings.SplitSeq(screen, "\x1b[K") {
			if len([]rune(strings.Trim(line, "\r\n"))) > 80 {
				t.Errorf("%q is longer than the terminal", line)
			}
		}
	}
	start(t, nobody(exec.Command(command, "status", "--watch", "--json", "--socket", s.sockets[0])),
		nil).fails("--watch or --json")
}
