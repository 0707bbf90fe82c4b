package guest

// This file carries out the rig's orders.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// agentPort is the serial port of orders and words. The first serial port is the kernel's console.
const agentPort = "/dev/ttyS1"

// cancelDelay is how long the agent waits for the outputs of a killed program, as its children may
// hold them open.
const cancelDelay = time.Second

// longestLine bounds an order, in bytes.
const longestLine = 1 << 20

// agent carries out the rig's orders.
type agent struct {
	port *os.File

	mu      sync.Mutex // of running, and of writing to port
	running map[int]*os.Process
}

// openAgent opens the serial port as a stream of bytes.
func openAgent() (*agent, error) {
	if err := os.MkdirAll("/dev", 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil && err != unix.EBUSY {
		return nil, fmt.Errorf("mounting /dev: %w", err)
	}
	f, err := os.OpenFile(agentPort, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	raw := unix.Termios{Cflag: unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200, Ispeed: unix.B115200,
		Ospeed: unix.B115200}
	raw.Cc[unix.VMIN] = 1
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("setting up %s: %w", agentPort, err)
	}
	return &agent{port: f, running: map[int]*os.Process{}}, nil
}

// say sends a word to the rig.
func (a *agent) say(w Word) {
	line, err := json.Marshal(w)
	if err != nil {
		panic(err) // words are plain data
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.port.Write(append(line, '\n')) // without the port there is nobody to tell
}

// serve carries out orders until the port fails.
func (a *agent) serve() {
	in := bufio.NewScanner(a.port)
	in.Buffer(nil, longestLine)
	for in.Scan() {
		var o Order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, "guest: reading an order:", err)
			continue
		}
		switch {
		case o.Start != nil:
			go a.run(o.ID, o.Start)
		case o.Kill != nil:
			a.mu.Lock()
			if p := a.running[o.ID]; p != nil {
				_ = p.Signal(syscall.Signal(o.Kill.Signal)) // it may just have ended
			}
			a.mu.Unlock()
		}
	}
	fmt.Fprintln(os.Stderr, "guest: no orders any more:", in.Err())
}

// run runs a program to its end, and reports it.
func (a *agent) run(id int, o *StartOrder) {
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	var out, complaints kept
	e := Ended{ID: id}
	cmd := exec.CommandContext(ctx, o.Args[0], o.Args[1:]...)
	cmd.Env = []string{"PATH=" + searchPath, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh", "TMPDIR=/tmp"}
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = cancelDelay
	a.mu.Lock()
	err := cmd.Start()
	if err == nil {
		a.running[id] = cmd.Process
	}
	a.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
		a.mu.Lock()
		delete(a.running, id)
		a.mu.Unlock()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		e.Code, e.Error = 128+int(syscall.SIGKILL), fmt.Sprintf("did not end within %v", o.Timeout)
	case errors.As(err, &exit):
		e.Code = exit.ExitCode()
		if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
			e.Code = 128 + int(s.Signal())
		}
	default:
		e.Code, e.Error = 127, err.Error()
	}
	e.Stdout, e.Stderr = out.text(), complaints.text()
	a.say(Word{Ended: &e})
}

// kept holds the beginning and the end of an output.
type kept struct {
	first, last bytes.Buffer
	left        int // bytes left out between them
}

// Write keeps the first and the last bytes, as far as there is room.
func (k *kept) Write(b []byte) (int, error) {
	n := min(len(b), mostOutput/2-k.first.Len())
	k.first.Write(b[:n])
	k.last.Write(b[n:])
	if more := k.last.Len() - mostOutput/2; more > 0 {
		k.last.Next(more)
		k.left += more
	}
	return len(b), nil
}

// text returns the kept text, with a note about bytes left out.
func (k *kept) text() string {
	if k.left == 0 {
		return k.first.String() + k.last.String()
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", k.first.String(), k.left, k.last.String())
}
