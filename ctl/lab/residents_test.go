// What runs in a lab ends with it, and nothing else does.

package lab

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/funet/funet/uspace/attach"
)

// inside starts a shell script on a host that outlives what this process has in the lab, as the
// programs of another `lab exec` do. It returns when the script has said so.
func inside(t *testing.T, l *Lab, host int, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return begin(t, cmd, func() error { return l.Do(host, cmd.Start) })
}

func begin(t *testing.T, cmd *exec.Cmd, start func() error) *exec.Cmd {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal("the script did not begin:", err)
	}
	return cmd
}

// Down ends the programs that run in the lab's namespaces, also those that do not listen to
// SIGTERM, that are stopped, and their children, and gives the polite ones SIGTERM. Programs
// elsewhere live on.
func TestDownEndsResidents(t *testing.T) {
	name := labName("resid")
	other := mustUp(t, Options{Hosts: 2, Name: labName("other")})
	l := mustUp(t, Options{Hosts: 3, Name: name})

	said := &strings.Builder{}
	polite := exec.Command("sh", "-c", `trap 'echo polite >&2; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	polite.Stderr = said
	polite.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	begin(t, polite, func() error { return l.Do(0, polite.Start) })
	deaf := inside(t, l, 1, `trap '' TERM; echo ready; while :; do sleep 600; done`)
	stopped := inside(t, l, 2, `echo ready; sleep 600`)
	if err := stopped.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	elsewhere := inside(t, other, 0, `echo ready; exec sleep 600`)
	outside := exec.Command("sh", "-c", `echo ready; exec sleep 600`)
	outside.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// as a user's shell may have it
	outside.Env = append(os.Environ(), attach.SocketVariable+"="+socketPath(DaemonDir(name), 0))
	begin(t, outside, outside.Start)
	node := exec.Command("sh", "-c", `echo ready; exec sleep 600`)
	node.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	node.Env = append(outside.Env, attach.TokenVariable+"="+attach.NewToken().Text())
	begin(t, node, node.Start)

	namespaces := inodes(t, l)
	if err := l.Close(); err != nil { // ends what is this process's, which the scripts are not
		t.Fatal(err)
	}
	if !alive(deaf.Process.Pid) {
		t.Fatal("Close has ended a program of another")
	}
	if err := Down(name); err != nil {
		t.Fatal(err)
	}
	if err := polite.Wait(); err != nil || !strings.Contains(said.String(), "polite") {
		t.Errorf("the polite program: %v, said %q", err, said)
	}
	for what, cmd := range map[string]*exec.Cmd{"deaf": deaf, "stopped": stopped, "job's": node} {
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Errorf("the %s program: %v, want it killed", what, err)
		}
	}
	gone(t, namespaces) // with the last program, the children of those above too
	for what, cmd := range map[string]*exec.Cmd{"in another lab": elsewhere, "outside": outside} {
		if !alive(cmd.Process.Pid) {
			t.Errorf("the program %s has ended", what)
		}
	}
}

// A program in the lab does not remove the lab from under itself.
func TestDownFromInside(t *testing.T) {
	name := labName("inner")
	l := mustUp(t, Options{Hosts: 2, Name: name})
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(cmd.Environ(), roleEnv+"=down "+name, stateEnv+"="+stateDir)
	var out strings.Builder
	cmd.Stdout = &out
	if err := l.Start(0, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "leave it first") {
		t.Errorf("%v: %s", err, out.String())
	}
	exchange(t, l)
	if i := find(t, name); i == nil || i.State != "up" {
		t.Errorf("List: %+v", i)
	}
}
