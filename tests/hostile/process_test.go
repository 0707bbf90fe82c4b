package hostile

// This file is the processes of a test: how they are started, heard and ended.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/funet/funet/tests/attack"
)

// process is a role that runs.
type process struct {
	*attack.Process
	t testing.TB
}

// options say how a role is started.
type options struct {
	name string
	user uint32                // 0: root
	by   func(*exec.Cmd) error // nil: cmd.Start
	hear func(line string)     // takes what the role says; nil: next does
	env  []string
}

// start starts a role; it is killed with the test at the latest.
func start(t testing.TB, role string, config any, o options) *process {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role, configEnv+"="+string(text)), o.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if o.user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.user, Gid: o.user}
	}
	if o.by == nil {
		o.by = (*exec.Cmd).Start
	}
	var hear func(string) bool
	if o.hear != nil {
		hear = func(line string) bool { o.hear(line); return true }
	}
	p := &process{t: t}
	if p.Process, err = attack.Start(o.name, cmd, o.by, hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// say sends a line. A process that is gone hears nothing.
func (p *process) say(line string) { _, _ = io.WriteString(p.In, line+"\n") }

// next waits for a line that starts with a word, passing others over, and returns its rest.
func (p *process) next(word string) string {
	p.t.Helper()
	rest, err := p.Next(p.t.Context(), word, patience)
	if err != nil {
		p.t.Fatal(err)
	}
	return rest
}

// wait waits for the end.
func (p *process) wait() error {
	select {
	case <-p.Ended:
		return p.Err
	case <-time.After(patience):
		_ = p.Cmd.Process.Signal(syscall.SIGQUIT) // says where it is
		select {
		case <-p.Ended:
		case <-time.After(5 * time.Second):
		}
		return fmt.Errorf("%s does not end\n%s", p.Name, p.Complaints())
	}
}

// kill ends the process and those that it has started, and waits for it. What holds its
// output has its group.
func (p *process) kill() {
	_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
	select {
	case <-p.Ended:
	case <-time.After(patience):
		p.t.Errorf("%s survives SIGKILL", p.Name)
	}
}
