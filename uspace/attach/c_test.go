package attach_test

// This file runs the C example against the daemon of these tests.

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// compile makes a program of C with the strictest warnings.
func compile(t *testing.T, source string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror",
		"-I../funi", "-o", program, source).CombinedOutput()
	if err != nil {
		t.Fatalf("compiling %s with cc, which gcc or clang brings: %v\n%s", source, err, out)
	}
	return program
}

// member returns the command for a node of the job.
func (d *daemon) member(program string, node uint16, arguments ...string) *exec.Cmd {
	c := exec.Command(program, arguments...)
	c.Env = append(os.Environ(), attach.SocketVariable+"="+d.path, fmt.Sprintf("%s=%d", attach.GIDVariable, gid),
		fmt.Sprintf("%s=%d", attach.NodeVariable, node), attach.TokenVariable+"="+token.Text())
	return c
}

// Rule: a C program with the documented header attaches, sends, receives, transfers and
// waits (funi.h).
func TestCExample(t *testing.T) {
	program := compile(t, "../funi/example/pingpong.c")
	d := start(t, "")
	const exchanges = "3000"
	type result struct {
		out []byte
		err error
	}
	results := make(chan result)
	for node := range uint16(2) {
		go func() {
			out, err := d.member(program, node, exchanges).CombinedOutput()
			results <- result{out, err}
		}()
	}
	printed := ""
	for range 2 {
		r := <-results
		if r.err != nil {
			t.Errorf("%v: %s", r.err, r.out)
		}
		printed += string(r.out)
	}
	if !regexp.MustCompile(`^3000 round trips, half of them within [0-9.]+ us; 64 KiB there and back\n$`).MatchString(printed) {
		t.Errorf("it printed %q", printed)
	}
	t.Log(strings.TrimSpace(printed))
}

// Rule: a C program says in one line why it could not attach, and is told when the daemon
// crashes.
func TestCExampleEndsWithAReason(t *testing.T) {
	program := compile(t, "../funi/example/pingpong.c")
	d := start(t, "")
	for name, c := range map[string]struct{ variable, value, want string }{
		"a wrong token":   {attach.TokenVariable, strings.Repeat("A1", 32), attach.ErrToken.Error()},
		"a short token":   {attach.TokenVariable, "a1", "funet run"},
		"no hex token":    {attach.TokenVariable, strings.Repeat("g1", 32), "funet run"},
		"no group":        {attach.GIDVariable, "", "funet run"},
		"a bad node":      {attach.NodeVariable, "65536", "funet run"},
		"another's group": {attach.GIDVariable, "77", attach.ErrGroup.Error()},
		"no daemon":       {attach.SocketVariable, "/nowhere/s", "No such file"},
		"a long path":     {attach.SocketVariable, strings.Repeat("s", 200), "too long"},
	} {
		m := d.member(program, 0)
		m.Env = append(m.Env, c.variable+"="+c.value)
		out, err := m.CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	for name, c := range badAnswers(t) {
		cfg := fake(t, func(conn *net.UnixConn, _ []byte) { _ = attach.Send(conn, c.answer, c.fds...) })
		m := d.member(program, 0)
		m.Env = append(m.Env, attach.SocketVariable+"="+cfg.Socket)
		out, err := m.CombinedOutput()
		if m.ProcessState.ExitCode() != 1 || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	m := d.member(program, 0) // waits for node 1
	out, err := m.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	for attached := false; !attached; {
		d.do(func() { attached = d.served[0] != nil })
	}
	d.crash()
	said := make([]byte, 1000)
	n, _ := out.Read(said)
	if err := m.Wait(); err == nil || !strings.Contains(string(said[:n]), "the daemon is gone") {
		t.Errorf("after a crash: %v, %q", err, said[:n])
	}
}
