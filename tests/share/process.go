package main

// This file runs the processes of a run: this program again, as another user, on a host of the lab.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/lab"
)

// These are the environment variables of the roles, and the names of the roles.
const (
	roleEnv    = "FUNET_SHARE_ROLE"
	configEnv  = "FUNET_SHARE_CONFIG"
	roleVictim = "victim"
	roleAttack = "attack"
	roleBurner = "burner"
)

// patience bounds the wait for each answer of a process, in addition to the time of its task. It is
// long, as processes are slow beside some attacks.
const patience = time.Minute

// process is a process that plays a role.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // its output, without the lines "did N"
	ended chan struct{}
	err   error // valid once ended is closed

	mu         sync.Mutex
	did        int64 // N of the last line "did N"
	complaints bytes.Buffer
}

// program returns the path of a copy of this program in memory, through a descriptor. Other users
// may have no access to this program's folder.
var program = sync.OnceValues(func() (path string, err error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer self.Close()
	fd, err := unix.MemfdCreate("share", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("making a copy of this program in memory: %w", err)
	}
	copied := os.NewFile(uintptr(fd), "share")
	if _, err := io.Copy(copied, self); err != nil {
		return "", fmt.Errorf("copying this program into memory: %w", err)
	}
	// A file that is open for writing cannot be executed: open it once more, for good.
	readable, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fmt.Sprintf("/proc/self/fd/%d", readable), errors.Join(err, copied.Close())
})

// start starts a process in a role on a host of the lab. With session it gets a session of its own.
func start(l *lab.Lab, host int, name, role string, user uint32, session bool, config any) (*process, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	path, err := program()
	if err != nil {
		return nil, err
	}
	p := &process{name: fmt.Sprintf("%s on host %d", name, host), lines: make(chan string, 64),
		ended: make(chan struct{})}
	p.cmd = exec.Command(path)
	p.cmd.Args, p.cmd.Dir = []string{"share " + name}, "/"
	p.cmd.Env = []string{roleEnv + "=" + role, configEnv + "=" + string(text)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Credential: &syscall.Credential{Uid: user, Gid: user}}
	p.cmd.Stderr = p
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.Start(host, p.cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	go p.listen(out)
	return p, nil
}

// listen reads the process's output until the process ends.
func (p *process) listen(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		var n int64
		if _, err := fmt.Sscanf(s.Text(), "did %d", &n); err == nil {
			p.mu.Lock()
			p.did = n
			p.mu.Unlock()
			continue
		}
		select {
		case p.lines <- s.Text():
		default: // nobody has asked
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// Write keeps the process's standard error, about the first 64 KiB of it.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.complaints.Len() < 64<<10 {
		p.complaints.Write(b)
	}
	return len(b), nil
}

// done returns how much the process has done, by its last report.
func (p *process) done() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.did
}

// next waits for a line that starts with a word, and returns the rest of the line.
func (p *process) next(ctx context.Context, word string, within time.Duration) (string, error) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case line := <-p.lines:
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest), nil
			}
			return "", fmt.Errorf("%s said %.80q, not %q", p.name, line, word)
		case <-p.ended:
			p.mu.Lock()
			defer p.mu.Unlock()
			return "", fmt.Errorf("%s ended instead of saying %q (%v): %s", p.name, word, p.err,
				strings.TrimSpace(p.complaints.String()))
		case <-timeout.C:
			return "", fmt.Errorf("%s did not say %q within %v", p.name, word, within)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// kill ends the process and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// killAll ends processes, and waits for their ends.
func killAll(all []*process) {
	for _, p := range all {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range all {
		<-p.ended
	}
}
