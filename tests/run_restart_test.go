package tests

// This file tests funet run --restart: nodes that fail are started again, on their hosts, and how
// such jobs end.

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// failsTwice is a program whose node 1 fails in its first two lives, once by a signal.
const failsTwice = `echo life $FUNET_LIFE of $FUNET_RESTARTS
	[ $FUNET_NODE = 0 ] && { cat; exit 0; }
	case $FUNET_LIFE in 0) kill -KILL $$;; 1) exit 7;; esac`

// checkFailsTwice checks what a job of failsTwice with two nodes, and "input\n" for node 0, has
// printed and said.
func checkFailsTwice(t *testing.T, p *process) {
	t.Helper()
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	out := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	slices.Sort(out)
	if want := []string{"[0] input", "[0] life 0 of 3", "[1] life 0 of 3", "[1] life 1 of 3",
		"[1] life 2 of 3"}; !slices.Equal(out, want) {
		t.Errorf("it printed %q, want %q", out, want)
	}
	said := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if len(said) != 2 || !strings.HasPrefix(said[0], "funet: node 1 with ") ||
		!strings.HasSuffix(said[0], ": killed by signal 9 (killed); starting it again (1 of 3)") ||
		!strings.HasSuffix(said[1], ": exit code 7; starting it again (2 of 3)") {
		t.Errorf("it said %q", said)
	}
}

// TestRunRestart: a node that fails is started again with the number of its life, and the others
// stay; what ends well ends for good, and gives the job's exit code.
func TestRunRestart(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "-n", "2", "--restart", "--", "sh", "-c", failsTwice))
	cmd.Stdin = strings.NewReader("input\n")
	checkFailsTwice(t, start(t, cmd, nil))
	checkFailsTwice(t, s.behindSSH(t)("input\n", "-n", "2", "--hosts", "host-0,host-1", "--restart=3", "--", "sh",
		"-c", failsTwice))
	s.free()
}

// TestRunRestartUsedUp: when a node has failed once more than --restart allows, it ends the job as
// ever.
func TestRunRestartUsedUp(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	p := s.run("-n", "3", "--restart=2", "--", "sh", "-c",
		`echo life $FUNET_LIFE; [ $FUNET_NODE != 1 ] || exit $((7 + $FUNET_LIFE)); exec sleep 600`)
	if code, said := p.wait(), p.stderr.String(); code != 9 || strings.Count(said, "; starting it again (") != 2 ||
		!strings.HasSuffix(said, ": exit code 9, after 2 restarts; ending the other 2\n") {
		t.Errorf("exit code %d; it said %q", code, said)
	}
	if out := p.stdout.String(); strings.Count(out, "[1] life ") != 3 || strings.Count(out, "life 0") != 3 {
		t.Errorf("it printed %q", out)
	}
	s.free()
}

// TestRunRestartInterrupted: Ctrl-C ends a job whose only node left rests before its next life, at
// once, and starts nothing.
func TestRunRestartInterrupted(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "-n", "2", "--restart=100", "--", "sh", "-c",
		"[ $FUNET_NODE = 1 ] || { echo life $FUNET_LIFE; exit 5; }"))
	var out growing
	cmd.Stdout = &out
	p := start(t, cmd, nil)
	eventually(t, "node 0 is about to rest for seconds", func() bool { return out.count("life 6\n") == 1 })
	// but the launcher and its agents
	eventually(t, "no process runs", func() bool { return len(marked(p.mark)) == 1+2 })
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code, said := p.wait(), p.stderr.String(); code != 128+2 || out.count("life 7\n") != 0 ||
		!strings.HasSuffix(said, "(7 of 100)\nfunet: interrupted (SIGINT); ending the job\n") {
		t.Errorf("exit code %d; it said %q", code, said)
	}
	eventually(t, "no process is left", func() bool { return len(marked(p.mark)) == 0 })
	s.free()
}

// TestRunWithoutRestart: without --restart the variables of restarts are not there, also within a
// job that has them, and the first failure ends the job.
func TestRunWithoutRestart(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	cmd := nobody(exec.Command(command, "run", "--lab="+s.name, "-n", "1", "--", "sh", "-c",
		`[ -z "$FUNET_LIFE$FUNET_RESTARTS" ] && exit 7`))
	cmd.Env = append(os.Environ(), attach.LifeVariable+"=7", attach.RestartsVariable+"=9")
	p := start(t, cmd, nil)
	if code, said := p.wait(), p.stderr.String(); code != 7 || !strings.Contains(said, "exit code 7\n") ||
		strings.Contains(said, "again") {
		t.Errorf("exit code %d; it said %q", code, said)
	}
	for _, c := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--restart", "--once"}, "--restart or --once"},
		{[]string{"--restart=-1"}, "--restart=-1: use 0 to 65535"},
		{[]string{"--restart=65536"}, "--restart=65536: use 0 to 65535"},
	} {
		s.run(append(c.flags, "--", "true")...).fails(c.says)
	}
	s.free()
}

// TestRunRestartNotPossible: a node whose program is no longer there ends the job, which says so.
func TestRunRestartNotPossible(t *testing.T) {
	long.Test(t)
	s := daemons(t)
	p := s.run("-n", "2", "--restart", "--", vanishing(t))
	if code, said := p.wait(), p.stderr.String(); code != 1 || !strings.Contains(said, "(1 of 3)") ||
		!strings.Contains(said, "funet: starting node 1 with ") || !strings.Contains(said, "; ending the other 1\n") {
		t.Errorf("exit code %d; it said %q", code, said)
	}
	s.free()
}

// vanishing is a program that removes itself in node 1, which fails.
func vanishing(t *testing.T) string {
	t.Helper()
	path := file(t, "#!/bin/sh\n[ $FUNET_NODE = 1 ] || exec sleep 600\nrm \"$0\"; exit 3\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil { // nobody may remove it
		t.Fatal(err)
	}
	return path
}
