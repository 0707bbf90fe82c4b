package hostile

// This file is the processes of a test: how they are started, heard and ended.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a role that runs.
type process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	hear  func(line string) // from a goroutine of its own; nil: lines goes
	lines chan string
	ended chan struct{}
	err   error // after ended

	mu     sync.Mutex
	errors strings.Builder
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
	p := &process{t: t, name: o.name, hear: o.hear, lines: make(chan string, 1024), ended: make(chan struct{})}
	p.cmd = exec.Command(program)
	p.cmd.Dir = folder
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role, configEnv+"="+string(text))
	p.cmd.Env = append(p.cmd.Env, o.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if o.user != 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.user, Gid: o.user}
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p
	if o.by == nil {
		o.by = (*exec.Cmd).Start
	}
	if err := o.by(p.cmd); err != nil {
		t.Fatalf("starting %s: %v", o.name, err)
	}
	go p.listen(out)
	t.Cleanup(p.kill)
	return p
}

// listen takes what the process says until it ends. What another process that it has
// started says is of no interest.
func (p *process) listen(out io.Reader) {
	s := bufio.NewScanner(out)
	for s.Scan() {
		if p.hear != nil {
			p.hear(s.Text())
			continue
		}
		select {
		case p.lines <- s.Text():
		case <-time.After(patience): // nobody asks
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// Write takes the process's complaints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.errors.Len() < 1<<16 {
		p.errors.Write(b)
	}
	return len(b), nil
}

// complaints returns what the process wrote to standard error.
func (p *process) complaints() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors.String()
}

// say sends a line. A process that is gone hears nothing.
func (p *process) say(line string) { _, _ = io.WriteString(p.in, line+"\n") }

// next waits for a line that starts with a word, passing others over, and returns its rest.
func (p *process) next(word string) string {
	p.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line := <-p.lines:
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest)
			}
		case <-p.ended:
			select {
			case line := <-p.lines:
				if rest, ok := strings.CutPrefix(line, word); ok {
					return strings.TrimSpace(rest)
				}
				continue
			default:
			}
			p.t.Fatalf("%s ended (%v) instead of saying %q\n%s", p.name, p.err, word, p.complaints())
		case <-timeout:
			p.t.Fatalf("%s does not say %q\n%s", p.name, word, p.complaints())
		}
	}
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// wait waits for the end.
func (p *process) wait() error {
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // says where it is
		select {
		case <-p.ended:
		case <-time.After(5 * time.Second):
		}
		return fmt.Errorf("%s does not end\n%s", p.name, p.complaints())
	}
}

// kill ends the process and those that it has started, and waits for it. What holds its
// output has its group.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s survives SIGKILL", p.name)
	}
}
