package launch

// This file notices that a host has died. Its agent says each beatEvery that it lives, whatever
// else it does. The launcher gives the host up when it has heard nothing for Options.HostTimeout.
// That works through ssh or any other transport. Before the agent runs, ssh's own keep-alive does
// the same (remote.go).
//
// Time counts only while the launcher reads. While the launcher is stopped (Ctrl-Z), or its output
// is not read, the host's messages wait, and the host does not count as silent.
//
// In the same way the agent notices that the launcher's machine has died, and ends all that it
// started. A connection alone would take a quarter of an hour to break (tcp(7), tcp_retries2). A
// process beside the launcher says that the machine lives (Relay), because the launcher itself may
// be stopped.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// beatEvery is the interval between two signs of life of an agent.
	beatEvery    = 500 * time.Millisecond
	looksAtPulse = 10 // the number of looks for a sign of life within HostTimeout
	// ShortestHostTimeout has room for four signs of life, so that one may be late.
	ShortestHostTimeout = 4 * beatEvery
	DefaultHostTimeout  = 5 * time.Second // leaves half of 10 s for ending the other nodes
)

// beat says at each interval that the agent lives, until ended is closed.
func (a *agent) beat(ended <-chan struct{}) {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for a.speaker.say(word{Alive: true}) == nil {
		select {
		case <-t.C:
		case <-ended:
			return
		}
	}
}

// ErrLauncher reports that nothing was heard from the launcher for Options.HostTimeout.
var ErrLauncher = errors.New("the launcher was not heard")

// RelayCommand is the command of funet that calls Relay.
const RelayCommand = "run-relay"

// Relay passes the launcher's orders, line by line until they end, to the command that reaches a
// host. Between them it says that the launcher's machine lives. It runs in a process of its own, so
// that the agent hears it while the launcher is stopped.
func Relay(in io.Reader, out io.Writer, timeout time.Duration) error {
	s := speaker{to: out}
	go func() {
		for s.say(order{Alive: timeout.Milliseconds()}) == nil {
			time.Sleep(beatEvery)
		}
	}()
	return hear(linesOf(in), func(line *json.RawMessage) error { return s.say(line) })
}

// relay starts a process that runs Relay. Text written to orders can be read from passed. The
// process ends when either end is closed.
func (r *remote) relay(timeout time.Duration) (orders io.WriteCloser, passed *os.File, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	passed, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c := exec.Command(self, RelayCommand, timeout.String())
	c.Stdout = theirs
	c.Stderr = &r.said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if orders, err = c.StdinPipe(); err == nil {
		err = c.Start()
	}
	theirs.Close()
	if err != nil {
		passed.Close()
		return nil, nil, err
	}
	go func() { _ = c.Wait() }()
	return orders, passed, nil
}

// listen carries out orders until they end. The launcher's first sign of life names a timeout. From
// then on listen returns ErrLauncher when none came for that long.
func (a *agent) listen(ctx context.Context, in io.Reader) error {
	p := &pulse{from: in}
	over, silent := make(chan error, 1), make(chan struct{})
	ended := make(chan struct{})
	defer close(ended)
	var timeout time.Duration
	go func() {
		over <- hear(linesOf(p), func(o *order) error {
			if o.Alive == 0 {
				return a.carryOut(o)
			}
			if timeout == 0 {
				timeout = max(time.Duration(o.Alive)*time.Millisecond, ShortestHostTimeout)
				go p.watch(timeout, ended, func() { close(silent) })
			}
			return nil
		})
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
		return nil
	case <-silent:
		return fmt.Errorf("%w for %v; its machine may have died, or the network to it (--host-timeout), and what it started here is ended", ErrLauncher, timeout)
	}
}

// pulse reads the words of a host, or of a launcher, and notes when some came.
type pulse struct {
	from    io.Reader
	waiting atomic.Bool // for the host's next byte
	heard   atomic.Uint64
}

// Read reads from the other end, and counts the reads.
func (p *pulse) Read(b []byte) (int, error) {
	p.waiting.Store(true)
	n, err := p.from.Read(b)
	p.waiting.Store(false)
	p.heard.Add(1)
	return n, err
}

// watch calls silent once if the other end says nothing for timeout; closing ended stops it. The
// time is counted in looks. A late look counts as one, because words may have come meanwhile that
// were not read yet.
func (p *pulse) watch(timeout time.Duration, ended <-chan struct{}, silent func()) {
	t := time.NewTicker(timeout / looksAtPulse)
	defer t.Stop()
	last := p.heard.Load()
	for missed := 0; missed < looksAtPulse; missed++ {
		select {
		case <-t.C:
		case <-ended:
			return
		}
		if now := p.heard.Load(); now != last || !p.waiting.Load() {
			missed, last = -1, now
		}
	}
	silent()
}
