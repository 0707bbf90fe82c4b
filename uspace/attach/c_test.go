package attach_test

// This file runs the C example against the daemon of these tests.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/tests/long"
	"github.com/funet/funet/uspace/attach"
)

// compile makes a program of C with the strictest warnings.
func compile(t *testing.T, source string) (program string) {
	t.Helper()
	// what go test has to know of, or it repeats old results
	for _, file := range []string{"../funi/funi.h", source} {
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
		"-Wconversion", "-Werror",
		"-I../funi", "-o", program, source).CombinedOutput()
	if err != nil {
		t.Fatalf("compiling %s with cc, which gcc or clang brings: %v\n%s", source, err, out)
	}
	return program
}

// member returns the command for a node of the job. One that has not ended when its time is over is
// killed.
func (d *daemon) member(program string, node uint16, arguments ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(d.t.Context(), timeout)
	d.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, program, arguments...)
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
		r := await(t, "a node ends", results)
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

// Rule: a C program says in one line why it could not attach, and is told when the daemon crashes.
func TestCExampleEndsWithAReason(t *testing.T) {
	long.Test(t)
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
		cfg := fakeDaemon(t, func(conn *net.UnixConn, _ []byte) { _ = attach.Send(conn, c.answer, c.fds...) })
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
	eventually(t, "node 0 is attached", d.attached)
	d.crash()
	said := make([]byte, 1000)
	n, _ := out.Read(said)
	if err := m.Wait(); err == nil || !strings.Contains(string(said[:n]), "the daemon is gone") {
		t.Errorf("after a crash: %v, %q", err, said[:n])
	}
}

// placeOf is a C program that prints its place as funi.h reads it, or why there is none.
const placeOf = `
#include "funi.h"

int main(void)
{
	static struct funi_context c;
	struct funi_place p;
	if (funi_environment(&c, &p) != 0) {
		printf("error: %s\n", c.error);
		return 0;
	}
	printf("%s %u %u %u ", p.socket, p.gid, p.node, p.nodes);
	for (int i = 0; i < FUNI_TOKEN_SIZE; i++)
		printf("%02x", p.token[i]);
	printf("\n");
	return 0;
}
`

// Rule: C and Go programs find the same place in the same environment, with the same one of
// several that tell, and refuse the same (attach.Environment, funi_environment).
func TestEnvironmentInC(t *testing.T) {
	source := filepath.Join(t.TempDir(), "place.c")
	if err := os.WriteFile(source, []byte(placeOf), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compile(t, source)
	ranks := [][2]string{{"FUNET_NODE", "FUNET_NODES"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		{"PMI_RANK", "PMI_SIZE"},
		{"PMIX_RANK", "PMIX_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}}
	job := map[string]string{attach.SocketVariable: "/tmp/s", attach.GIDVariable: "5",
		attach.TokenVariable: token.Text()}
	for name := range job {
		t.Setenv(name, "")
	}
	for _, r := range ranks {
		t.Setenv(r[0], "")
		t.Setenv(r[1], "")
	}
	places, refused := 0, 0
	compare := func(t *testing.T, more map[string]string) {
		t.Helper()
		env := maps.Clone(job)
		maps.Copy(env, more)
		for name, value := range env {
			t.Setenv(name, value)
		}
		defer func() {
			for name := range env {
				os.Unsetenv(name)
			}
		}()
		out, err := exec.Command(program).Output()
		if err != nil {
			t.Fatal(err)
		}
		inC := strings.TrimSuffix(string(out), "\n")
		c, err := attach.Environment()
		if err != nil {
			refused++
			// Both name the variable, in one line, and say what to do.
			name := regexp.MustCompile(`reading ([A-Z_]+)`).FindStringSubmatch(err.Error())
			if name == nil || !strings.HasPrefix(inC, "error: reading "+name[1]) || strings.Contains(inC, "\n") ||
				!strings.Contains(inC, "funet run") || !strings.Contains(err.Error(), "funet run") {
				t.Errorf("%v: Go says %v, C says %q", more, err, inC)
			}
			return
		}
		places++
		socket := c.Socket
		if socket == "" {
			socket = attach.DefaultSocket
		}
		if want := fmt.Sprintf("%s %d %d %d %s", socket, c.GID, c.Node, c.Nodes, c.Token.Text()); inC != want {
			t.Errorf("%v: Go reads %q, C reads %q", more, want, inC)
		}
	}
	// Every set of those that tell: the same one comes first.
	for set := range 1 << len(ranks) {
		env := map[string]string{}
		for i, r := range ranks {
			if set>>i&1 != 0 {
				env[r[0]], env[r[1]] = fmt.Sprint(10+i), fmt.Sprint(20+i)
			}
		}
		compare(t, env)
	}
	values := []string{"", "0", "7", "007", "65535", "65536", "131071", "131072", "-1", "+1", " 1", "1 ", "1x", "0x1",
		"1_0", "x", "1.5",
		"99999999999999999999999", "00000000000000000000000001", "two\nlines", "\x80"}
	for _, r := range ranks {
		for _, v := range values {
			compare(t, map[string]string{r[0]: v, r[1]: "3"})
			compare(t, map[string]string{r[0]: "1", r[1]: v})
		}
	}
	for _, v := range values {
		compare(t, map[string]string{attach.NodeVariable: "1", attach.GIDVariable: v})
		compare(t, map[string]string{attach.NodeVariable: "1", attach.SocketVariable: v})
		compare(t, map[string]string{attach.NodeVariable: "1", attach.TokenVariable: v})
	}
	// lists of sockets
	for _, v := range []string{"/a:/b", "/a:/b:/c:/d", "/a:", ":/b", "/a::/c"} {
		for node := range 4 {
			compare(t, map[string]string{attach.NodeVariable: fmt.Sprint(node), attach.SocketVariable: v})
		}
	}
	for _, v := range []string{strings.Repeat("Ab", 32), strings.Repeat("0", 63), strings.Repeat("0", 65),
		strings.Repeat("g1", 32)} {
		compare(t, map[string]string{attach.NodeVariable: "1", attach.TokenVariable: v})
	}
	if places < 40 || refused < 40 {
		t.Errorf("%d places and %d refusals were compared", places, refused)
	}
}

// Rule: a C program takes its rank from whoever started it, and does not start in a group of
// another size.
func TestCExampleWithRanks(t *testing.T) {
	long.Test(t)
	program := compile(t, "../funi/example/pingpong.c")
	for _, names := range [][2]string{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"},
		{"PMIX_RANK", ""}, {"SLURM_PROCID", "SLURM_NTASKS"}} {
		d := start(t, "") // a node that has left an earlier job is gone, and not waited for
		errs := make(chan error)
		for node := range uint16(2) {
			m := d.member(program, node, "100")
			m.Env = append(m.Env, attach.NodeVariable+"=", fmt.Sprintf("%s=%d", names[0], node))
			if names[1] != "" {
				m.Env = append(m.Env, fmt.Sprintf("%s=%d", names[1], members))
			}
			go func() {
				out, err := m.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				errs <- err
			}()
		}
		for range 2 {
			if err := await(t, "a node ends", errs); err != nil {
				t.Errorf("%s: %v", names[0], err)
			}
		}
	}
	m := start(t, "").member(program, 0)
	m.Env = append(m.Env, attach.NodesVariable+"=77")
	if out, err := m.CombinedOutput(); err == nil || !strings.Contains(string(out), "77 processes were started") ||
		strings.Count(string(out), "\n") != 1 {
		t.Errorf("with another number of processes: %v, %s", err, out)
	}
}

// Rule: SIGINT and SIGTERM end a C program that waits, for a message, for its attachment, for
// the start of its queues (funi_wait, funi_attach: -EINTR).
func TestCExampleInterrupted(t *testing.T) {
	long.Test(t)
	program := compile(t, "../funi/example/pingpong.c")
	d := start(t, "")
	asked := make(chan struct{})
	mute := fakeDaemon(t, func(c *net.UnixConn, _ []byte) {
		select {
		case asked <- struct{}{}:
		case <-t.Context().Done():
			return
		}
		// returns when the client is gone
		_, _, _ = attach.Receive(c, make([]byte, attach.MaxMessage), 0)
	})
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for name, socket := range map[string]string{"attached": d.path, "attaching": mute.Socket} {
			m := d.member(program, 0)
			m.Env = append(m.Env, attach.SocketVariable+"="+socket)
			var said strings.Builder
			m.Stderr = &said
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			if socket == d.path {
				eventually(t, "node 0 is attached", d.attached)
			} else {
				await(t, "the program asks to be attached", asked)
			}
			if err := m.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			_ = m.Wait() // the code tells
			if code := m.ProcessState.ExitCode(); code != 128+int(signal) ||
				said.String() != "pingpong: node 0: interrupted\n" {
				t.Errorf("%s, %v: %v, and it said %q", name, signal, m.ProcessState, said.String())
			}
			eventually(t, "the daemon has ended the context", func() bool { return !d.attached() })
		}
	}
}

// Rule: a program with an event loop of its own sleeps in epoll for the card too, loses no wake-up,
// and hears there that the daemon has crashed or a signal has come (funi_fd, funi_arm, funi_woken).
func TestCEventLoop(t *testing.T) {
	program := compile(t, "../funi/example/epoll.c")
	d := start(t, "")
	type result struct {
		out []byte
		err error
	}
	results := make(chan result)
	for node := range uint16(members) {
		go func() {
			out, err := d.member(program, node, "40").CombinedOutput()
			results <- result{out, err}
		}()
	}
	printed := ""
	for range members {
		r := await(t, "a node ends", results)
		if r.err != nil {
			t.Errorf("%v: %s", r.err, r.out)
		}
		printed += string(r.out)
	}
	if want := fmt.Sprintf("40 ticks, %d answers\n", 40*(members-1)); printed != want {
		t.Errorf("it printed %q, want %q", printed, want)
	}
	for name, end := range map[string]func(*daemon, *os.Process){
		"the daemon is gone": func(d *daemon, _ *os.Process) { d.crash() },
		"interrupted":        func(_ *daemon, p *os.Process) { _ = p.Signal(syscall.SIGTERM) },
	} {
		d := start(t, "")
		m := d.member(program, 1)
		var said strings.Builder
		m.Stderr = &said
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a node is attached", d.attached)
		end(d, m.Process)
		if err := m.Wait(); err == nil || !strings.Contains(said.String(), name) ||
			strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%s: %v, and it said %q", name, err, said.String())
		}
	}
}

// adopted is the output of adopt.c.
const adopted = `nothing: -22: it does not begin and end on a page
half a page: -22: it does not begin and end on a page
from within a page: -22: it does not begin and end on a page
to the end of all: -22: it does not begin and end on a page
the stack: -22: it is the stack
far up the stack: -22: it is the stack
a file: -22: it is shared, a file's, or not to be read and written
shared memory: -22: it is shared, a file's, or not to be read and written
what cannot be written: -22: it is shared, a file's, or not to be read and written
a hole: -22: nothing is mapped there
one page of four that cannot be written: -22: it is shared, a file's, or not to be read and written
one page of four that is locked: -22: it is locked, of huge pages, not for children, or the like
memory that no child has: -22: it is locked, of huge pages, not for children, or the like
`

// Rule: a program can have memory of its own where the daemon's cards reach it (funi_adopt,
// funi_disown). The daemon's memory takes the place of the program's with its content, and gives it
// back. Memory that would become something else by that, such as locked memory, is refused,
// untouched.
func TestCAdopts(t *testing.T) {
	long.Test(t)
	program := compile(t, "testdata/adopt.c")
	d := start(t, "")
	out, err := d.member(program, 0).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, ok := strings.CutPrefix(string(out), adopted)
	if !ok {
		t.Fatalf("it refused\n%s", out)
	}
	want := fmt.Sprintf(`a bad address: %d
the source: 0 
the destination: 0 
a page of the heap: 0 
what is adopted: -22: it is shared, a file's, or not to be read and written
a transfer: 0 
the notice: 1 200000 7 65536
the source again: 0 
the destination again: 0 
what is none: 1 ending a segment: `, uint32(attach.ErrSegment))
	if rest, ok := strings.CutPrefix(got, want); !ok || !strings.HasSuffix(rest, "\nthe end\n") {
		t.Errorf("it printed\n%s\nwant\n%s", got, want)
	}
}

// Rule: a program that has armed the card is woken by what comes, and one that has something
// waiting is not let sleep; the end of the daemon wakes, too (funi_fd, funi_arm, funi_woken).
func TestCArms(t *testing.T) {
	program := compile(t, "testdata/arm.c")
	d := start(t, "")
	m := d.member(program, 0)
	out, err := m.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 1000)
	n, _ := out.Read(said)
	d.crash()
	if err := m.Wait(); err != nil || string(said[:n]) != "ready\n" {
		t.Errorf("it ended with %v and said %q", err, said[:n])
	}
}

// Rule (Dial, funi_attach): a path of any length leads to the socket, in Go and in C.
func TestLongSocketPath(t *testing.T) {
	program := compile(t, "../funi/example/pingpong.c")
	d := start(t, "")
	folder := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(folder, "s.sock")
	if err := os.Symlink(d.path, long); err != nil {
		t.Fatal(err)
	}
	c, err := attach.Dial(t.Context(), long, timeout)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	d.path = long
	others := make(chan error)
	go func() { others <- d.member(program, 1, "100").Run() }()
	if out, err := d.member(program, 0, "100").CombinedOutput(); err != nil ||
		!strings.HasPrefix(string(out), "100 round trips") {
		t.Errorf("%v: %s", err, out)
	}
	if err := <-others; err != nil {
		t.Error(err)
	}
	d.path = filepath.Join(folder, strings.Repeat("y", 100))
	if _, err := attach.Dial(t.Context(), d.path, timeout); !errors.Is(err, unix.ENAMETOOLONG) ||
		!strings.Contains(err.Error(), "shorter name") {
		t.Errorf("a name of 100 bytes in a long folder: %v", err)
	}
	if out, err := d.member(program, 0, "100").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "name too long") {
		t.Errorf("the same in C: %v: %s", err, out)
	}
}

// Rule (funi_attach): a process without room for the daemon's descriptors hears that, and not that
// the versions differ.
func TestCAtItsLimitOfFiles(t *testing.T) {
	program := compile(t, "../funi/example/pingpong.c")
	d := start(t, "")
	for _, n := range []string{"4", "5", "6", "7"} { // 0 to 2, the socket, and four descriptors
		// without what whoever runs the tests has handed down, such as flock(1)
		script := "exec 3>&- 4>&-; ulimit -n " + n + "; exec " + program + " 10"
		if out, err := d.member("/bin/sh", 0, "-c", script).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "ulimit -n") {
			t.Errorf("with ulimit -n %s: %v: %s", n, err, out)
		}
	}
}
