package bench

// This file is the parent's side of our own peers: a pair of child processes, and the lines
// exchanged with each of them.
//
//	parent          child
//	open  ------>   opens its socket
//	      <------   ready
//	run   ------>   both ends play their role; the sockets are closed
//	      <------   {"rtt_p50_us": ...} (outcome; of sendmmsg count)
//
// This may be repeated. A child ends when its standard input ends. A child that fails prints the
// error to standard error and exits.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"

	"github.com/funet/funet/ctl/rawxdp"
)

// roleConfig configures a child. It is passed as JSON on the command line.
type roleConfig struct {
	Server    bool `json:"server"`
	CPU       int  `json:"cpu"`
	Warmup    int  `json:"warmup"`
	Exchanges int  `json:"exchanges"`

	// For the socket peers: addresses with port.
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`

	rawxdp.Config // for AF_XDP
	streamConfig
}

// outcome is the last line of a turn of round trips. A server's outcome has no times.
type outcome struct {
	sample
	Got rawxdp.Modes `json:"got"`
}

// The words of the protocol.
const (
	wordOpen  = "open"
	wordReady = "ready"
	wordRun   = "run"
)

// child is a running process at one end.
type child struct {
	*process
	stdin io.WriteCloser
	lines *bufio.Reader
	close func() // unblocks a child that still prints
}

// startChild starts a role on a host and its CPU.
func (s *session) startChild(ctx context.Context, host int, role string, c roleConfig) (*child, error) {
	config, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", role, err)
	}
	argv := append(slices.Clone(s.exe), role, string(config))
	out := new(said)
	var stdin io.WriteCloser
	pr, pw := io.Pipe()
	var pipeErr error
	p, err := s.start(ctx, host, fmt.Sprintf("%s on host %d", role, host), out, argv, func(cmd *exec.Cmd) {
		cmd.Stdout, cmd.Stderr = pw, out
		stdin, pipeErr = cmd.StdinPipe()
	})
	if err = errors.Join(err, pipeErr); err != nil {
		if p != nil {
			p.stop()
		}
		return nil, err
	}
	return &child{process: p, stdin: stdin, lines: bufio.NewReaderSize(pr, 4096), close: func() { pr.Close() }}, nil
}

func (c *child) end() {
	c.close()
	c.stop()
}

// say sends a word. A child that has ended does not receive it; hear then returns why.
func (c *child) say(word string) { io.WriteString(c.stdin, word+"\n") }

// hear waits for a line, until the context of the process ends.
func (c *child) hear(ctx context.Context) (string, error) {
	line, err := c.lines.ReadSlice('\n')
	if err == nil {
		return strings.TrimSuffix(string(line), "\n"), nil
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", c.fault(err)
	}
	<-c.done // the pipe ends with the process
	if ctx.Err() != nil {
		return "", c.fault(context.Cause(ctx))
	}
	if c.err != nil {
		return "", c.fault(c.err)
	}
	return "", c.fault(err)
}

// pair has both ends of one of our own peers.
type pair struct{ server, client *child }

// startPair starts both ends, without opening a socket yet.
func (s *session) startPair(ctx context.Context, role string, c roleConfig) (*pair, error) {
	var ends [2]*child
	port := s.newPort()
	for host := range ends {
		mine, theirs := s.hosts[host].Interfaces[0], s.hosts[1-host].Interfaces[0]
		c.Server, c.CPU = host == 1, host
		c.Local = net.JoinHostPort(mine.Addr.Addr().String(), fmt.Sprint(port))
		c.Remote = net.JoinHostPort(theirs.Addr.Addr().String(), fmt.Sprint(port))
		c.Interface, c.LocalMAC, c.RemoteMAC = mine.Name, mine.MAC, theirs.MAC
		var err error
		if ends[host], err = s.startChild(ctx, host, role, c); err != nil {
			if host == 1 {
				ends[0].end()
			}
			return nil, err
		}
	}
	return &pair{client: ends[0], server: ends[1]}, nil
}

func (p *pair) end() {
	p.client.end()
	p.server.end()
}

// turn opens both ends, lets them run, and reads their results into client and server. It ignores
// the result of an end whose argument is nil.
func (p *pair) turn(ctx context.Context, client, server any) error {
	for _, c := range []*child{p.server, p.client} {
		c.say(wordOpen)
	}
	for _, c := range []*child{p.server, p.client} {
		if word, err := c.hear(ctx); err != nil {
			return err
		} else if word != wordReady {
			return c.fault(fmt.Errorf("it said %.60q, not %q; the command must lead to runRole", word, wordReady))
		}
	}
	// Both before either is heard: they need each other.
	for _, c := range []*child{p.server, p.client} {
		c.say(wordRun)
	}
	for _, end := range []struct {
		*child
		found any
	}{{p.client, client}, {p.server, server}} {
		line, err := end.hear(ctx)
		if err != nil {
			if end.child == p.client && p.server.output.last() != "" {
				err = fmt.Errorf("%w; %w", p.server.fault(errors.New("failed")), err)
			}
			return err
		}
		if end.found == nil {
			continue
		}
		if err := json.Unmarshal([]byte(line), end.found); err != nil {
			return end.fault(fmt.Errorf("read its result %.60q: %w", line, err))
		}
	}
	return nil
}

// own returns the function that runs one of our own peers.
func own(role string) func(context.Context, *session) (sample, error) {
	return func(ctx context.Context, s *session) (sample, error) { return s.roundTrips(ctx, role, s.exchanges) }
}

// roundTrips measures round trips of one of our own peers.
func (s *session) roundTrips(ctx context.Context, role string, exchanges int) (sample, error) {
	p, err := s.startPair(ctx, role, s.roleConfig(s.modes, warmUp, exchanges))
	if err != nil {
		return sample{}, err
	}
	defer p.end()
	var o outcome
	err = p.turn(ctx, &o, nil)
	if err == nil && role == rawAFXDP {
		s.got = o.Got
	}
	return o.sample, err
}

// roleConfig returns the configuration that both ends of a pair share.
func (s *session) roleConfig(modes rawxdp.Modes, warmUp, exchanges int) roleConfig {
	return roleConfig{
		Warmup: warmUp, Exchanges: exchanges, Config: rawxdp.Config{FrameSize: s.frame,
			Frags: s.mtu > rawxdp.PlainMTU, Modes: modes},
	}
}
