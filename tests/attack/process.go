package attack

// This file is the processes of the stage: attackers, victims and daemons, each this program again
// in a role. They speak in lines.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A Process plays a role. Any goroutine may use it.
type Process struct {
	Name  string
	Cmd   *exec.Cmd
	In    io.WriteCloser
	Ended chan struct{} // closed at its end
	Err   error         // of its end; valid once Ended is closed

	lines chan string
	mu    sync.Mutex
	said  strings.Builder
}

// mostSaid is about how many bytes of a process's standard error are kept.
const mostSaid = 64 << 10

// Start starts a process by a function such as (*exec.Cmd).Start. hear takes each line that the
// process says, from a goroutine of its own. Lines that hear refuses, or all if hear is nil, wait
// for Next; beyond some they are dropped.
func Start(name string, cmd *exec.Cmd, by func(*exec.Cmd) error, hear func(line string) bool) (*Process, error) {
	p := &Process{Name: name, Cmd: cmd, Ended: make(chan struct{}), lines: make(chan string, 1024)}
	cmd.Stderr = p
	out, err := cmd.StdoutPipe()
	if err == nil {
		p.In, err = cmd.StdinPipe()
	}
	if err == nil {
		err = by(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go p.listen(out, hear)
	return p, nil
}

func (p *Process) listen(out io.Reader, hear func(string) bool) {
	for s := bufio.NewScanner(out); s.Scan(); {
		if hear != nil && hear(s.Text()) {
			continue
		}
		select {
		case p.lines <- s.Text():
		default: // nobody has asked
		}
	}
	p.Err = p.Cmd.Wait()
	close(p.Ended)
}

// Write takes what the process complains of.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said.Len() < mostSaid {
		p.said.Write(b)
	}
	return len(b), nil
}

// Complaints returns what the process wrote to standard error.
func (p *Process) Complaints() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.said.String())
}

// Next waits for a line that starts with a word, passing others over, and returns its rest.
func (p *Process) Next(ctx context.Context, word string, within time.Duration) (string, error) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		select {
		case line := <-p.lines:
			if rest, ok := strings.CutPrefix(line, word); ok {
				return strings.TrimSpace(rest), nil
			}
		case <-p.Ended:
			if len(p.lines) > 0 { // it said them before
				continue
			}
			return "", fmt.Errorf("%s ended (%v) instead of saying %q: %s", p.Name, p.Err, word, p.Complaints())
		case <-timeout.C:
			return "", fmt.Errorf("%s did not say %q within %v: %s", p.Name, word, within, p.Complaints())
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}
