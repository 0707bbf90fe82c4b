// Children of a lab: where they run, and that they end with it, whatever happens to its owner.

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestStartIsInside(t *testing.T) {
	l := mustUp(t, Options{Hosts: 3, Topology: Mesh})
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range inodes(t, l) {
		// $$ is the shell that Start started; its process group has its number.
		cmd := l.Command(i, "sh", "-c",
			"stat -L -c %i /proc/self/ns/net; ls -m /sys/class/net; cut -d' ' -f5 /proc/$$/stat; echo $$; pwd")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := l.Start(i, cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range l.Hosts()[i].Interfaces {
			names = append(names, f.Name)
		}
		pid := cmd.Process.Pid
		wanted := fmt.Sprintf("%d\n%s, lo\n%d\n%d\n%s\n", want, strings.Join(names, ", "), pid, pid, cwd)
		if out.String() != wanted {
			t.Errorf("host %d: got %q, want %q", i, out.String(), wanted)
		}
	}
}

// Rule: a program starts in the working directory of whoever starts it, also in one that has been
// deleted (POSIX.1 execve).
func TestStartInADeletedFolder(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2})
	dir := filepath.Join(t.TempDir(), "deleted")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	cmd := l.Command(0, "readlink", "/proc/self/cwd")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := l.Start(0, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := dir + " (deleted)\n"; out.String() != want {
		t.Errorf("it runs in %q, want %q", out.String(), want)
	}
}

func TestStartRefused(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2})
	for _, host := range []int{-1, 2} {
		if err := l.Start(host, exec.Command("true")); !errors.Is(err, ErrNoHost) {
			t.Errorf("Start(%d): %v", host, err)
		}
		if err := l.Command(host, "true").Start(); !errors.Is(err, ErrNoHost) {
			t.Errorf("Command(%d): %v", host, err)
		}
	}
	err := l.Start(0, l.Command(0, "/no/such/program"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/program on host 0") {
		t.Error(err)
	}
	cmd := l.Command(0, "true")
	if err := l.Start(0, cmd); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(0, cmd); err == nil {
		t.Error("a command was started twice")
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A child must outlive the goroutine that called Start and the thread that ran it: it is tied to
// the thread of the host, not to any other (prctl(2), PR_SET_PDEATHSIG).
func TestChildOutlivesStarter(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2})
	cmd := l.Command(1, "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // so that the thread ends with the goroutine
		ended <- l.Start(1, cmd)
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("cat did not live to see the end of its input: %v", err)
	}
}

// Close ends children, what they started, and those that ignore every signal that can be ignored,
// also when nobody waits for them; and it leaves no zombies.
func TestCloseKills(t *testing.T) {
	leavesNothing(t)
	l, err := Up(Options{Hosts: 2})
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for i := range l.Hosts() {
		cmd := l.Command(i, "sh", "-c", "trap '' INT TERM HUP; sleep 600 & echo $!; wait")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(i, cmd); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		grandchild, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, cmd.Process.Pid, grandchild)
	}
	// A child that has ended and was waited for, but left one behind in its group.
	cmd := l.Command(0, "sh", "-c", "sleep 600 >/dev/null & echo $!")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(0, cmd); err != nil {
		t.Fatal(err)
	}
	var orphan int
	if _, err := fmt.Fscan(out, &orphan); err != nil {
		t.Fatal(err)
	}
	pids = append(pids, orphan)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	// Each Start forgets those that are really gone; this must not forget the orphan.
	last := l.Command(0, "sleep", "600")
	if err := l.Start(0, last); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- last.Wait() }()

	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("process %d has already ended", pid)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	// Somebody in Wait when Close comes gets an answer; which depends on who reaped the child.
	var exit *exec.ExitError
	if err := <-waited; !errors.As(err, &exit) && !errors.Is(err, syscall.ECHILD) {
		t.Errorf("Wait during Close: %v", err)
	}
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	if stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d", last.Process.Pid)); len(stats) != 0 {
		t.Errorf("child %d is still a zombie", last.Process.Pid)
	}
}

// Children that were waited for are forgotten, so that a lab that runs a million programs needs no
// more memory or file descriptors than one that runs one.
func TestChildrenAreForgotten(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2})
	for range 20 {
		cmd := l.Command(0, "true")
		if err := l.Start(0, cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.children); n != 1 {
		t.Errorf("%d children are remembered, want the last", n)
	}
}

// The attributes that a caller sets stay, and a session of its own is also a group.
func TestOwnSession(t *testing.T) {
	l := mustUp(t, Options{Hosts: 2})
	cmd := exec.CommandContext(context.Background(), "sh", "-c", "cut -d' ' -f5,6 /proc/$$/stat; pwd")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := l.Start(0, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d %[1]d\n/\n", cmd.Process.Pid); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// An anonymous lab has no trace that could outlive its owner, even one killed by SIGKILL.
func TestOwnerKilled(t *testing.T) {
	leavesNothing(t)
	a := start(t, "anonymous")
	children, spaces := a.values("child"), a.values("namespace")
	if !a.ready || len(children) != 3 || len(spaces) != 4 {
		t.Fatalf("owner failed: %q", a.lines)
	}
	var namespaces []uint64
	held := heldNamespaces(t)
	for _, s := range spaces {
		ino, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if held[ino] == "" {
			t.Errorf("namespace %d is not seen while it exists", ino)
		}
		namespaces = append(namespaces, ino)
	}
	var pids []int
	for _, c := range children {
		pid, err := strconv.Atoi(c)
		if err != nil {
			t.Fatal(err)
		}
		if !alive(pid) {
			t.Errorf("child %d is not seen while it lives", pid)
		}
		pids = append(pids, pid)
	}
	a.kill()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("child %d is gone", pid), func() bool { return !alive(pid) })
	}
	gone(t, namespaces)
}
