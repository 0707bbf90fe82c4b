package bench

// This file starts the processes of a run on a host of the lab. It ends them, with all their
// descendants, at their deadline or when the run is over.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// outputLimit is the most bytes kept of a tool's output. The rest is dropped, so that a tool
	// gone mad neither blocks nor fills our memory.
	outputLimit = 64 << 10
	// pipeDelay bounds the wait for a pipe's end after the process has ended. Nothing should hold
	// it then.
	pipeDelay = 5 * time.Second
)

// process is a running program. The goroutine that waits for it closes done.
type process struct {
	name   string
	output *said // stdout and stderr; only stderr if lines are read from stdout
	kill   context.CancelFunc
	done   chan struct{}
	err    error // after done
}

// tool starts a program of the system on a host, through taskset(1), which pins it to the CPU of
// the same number.
func (s *session) tool(ctx context.Context, host int, env []string, argv ...string) (*process, error) {
	argv = append([]string{"taskset", "-c", strconv.Itoa(host)}, argv...)
	out := new(said)
	return s.start(ctx, host, argv[3], out, argv, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = out, out
	})
}

// start starts argv on a host as the first process of a new PID namespace. When it ends, the kernel
// kills all processes left there, and Wait returns after that (pid_namespaces(7)). So neither a
// daemon nor a process in another process group can escape.
func (s *session) start(ctx context.Context, host int, name string, out *said, argv []string,
	set func(*exec.Cmd)) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	cmd.WaitDelay = pipeDelay
	set(cmd)
	if err := s.lab.Start(host, cmd); err != nil {
		cancel()
		return nil, err
	}
	p := &process{name: name, output: out, kill: cancel, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		if pw, ok := cmd.Stdout.(*io.PipeWriter); ok {
			pw.Close()
		}
		close(p.done)
	}()
	return p, nil
}

// wait waits for the process to end by itself and returns its result.
func (p *process) wait() error {
	<-p.done
	if p.err != nil {
		return p.fault(p.err)
	}
	return nil
}

// stop kills the process and returns when it and all its descendants are gone.
func (p *process) stop() {
	p.kill()
	<-p.done
}

// fault adds the program's output to an error.
func (p *process) fault(err error) error {
	if said := p.output.last(); said != "" {
		return fmt.Errorf("%s: %w: %s", p.name, err, said)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// listening returns when a socket of the host is bound to the port, which the server p should do.
// It looks in proc(5), so that the server takes no probe of ours for the client. protocol is tcp or
// udp.
func (s *session) listening(ctx context.Context, p *process, host int, protocol string, port int) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var table []byte
		err := s.lab.Do(host, func() (err error) {
			// thread-self: sockets are those of the thread's namespace.
			table, err = os.ReadFile("/proc/thread-self/net/" + protocol)
			return err
		})
		if err != nil {
			return fmt.Errorf("look for the port of %s: %w", p.name, err)
		}
		if bound(string(table), protocol, port) {
			return nil
		}
		select {
		case <-p.done:
			return p.fault(errors.Join(errors.New("ended before it served"), p.err))
		case <-ctx.Done():
			return p.fault(fmt.Errorf("does not serve port %d: %w", port, context.Cause(ctx)))
		case <-tick.C:
		}
	}
}

// bound reports whether /proc/net/tcp or udp has a server's socket on the port. The fields are
// slot, local address:port in hexadecimal, remote, state. State 0A is TCP_LISTEN and 07 an
// unconnected UDP socket (Documentation/networking/proc_net_tcp.rst).
func bound(table, protocol string, port int) bool {
	state := map[string]string{"tcp": "0A", "udp": "07"}[protocol]
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == state {
			return true
		}
	}
	return false
}

// exchange runs a server tool and, once that serves, a client tool. It returns the client's output,
// and stops the server.
func (s *session) exchange(ctx context.Context, protocol string, port int, env, server,
	client []string) (string, error) {
	srv, err := s.tool(ctx, 1, env, server...)
	if err != nil {
		return "", err
	}
	defer srv.stop()
	if err := s.listening(ctx, srv, 1, protocol, port); err != nil {
		return "", err
	}
	return s.runTool(ctx, env, client...)
}

// runTool runs a tool on host 0 to its end and returns its output.
func (s *session) runTool(ctx context.Context, env []string, argv ...string) (string, error) {
	p, err := s.tool(ctx, 0, env, argv...)
	if err != nil {
		return "", err
	}
	defer p.stop()
	if err := p.wait(); err != nil {
		return "", err
	}
	return p.output.String(), nil
}

// said keeps the output of a process, up to outputLimit.
type said struct {
	mu  sync.Mutex
	buf []byte
}

func (o *said) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, b[:min(len(b), outputLimit-len(o.buf))]...)
	return len(b), nil
}

func (o *said) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf)
}

// last returns the end of the output as one line: the last three lines with words in them, 300
// bytes at most, without control characters.
func (o *said) last() string {
	var lines []string
	for scan := bufio.NewScanner(strings.NewReader(o.String())); scan.Scan(); {
		line := strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, scan.Text())
		if strings.ContainsFunc(line, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	said := strings.Join(lines[max(0, len(lines)-3):], "; ")
	return strings.ToValidUTF8(said[max(0, len(said)-300):], "")
}
