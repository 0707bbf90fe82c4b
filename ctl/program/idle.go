package program

// This file measures what connections cost a process that does not use them: memory and time.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/funet/funet/uspace/funet"
	"github.com/funet/funet/uspace/socket"
	"golang.org/x/sys/unix"
)

const (
	// idleBytes go each way on each connection before it is idle. A connection's ring has this size
	// at first, so all of it was touched.
	idleBytes = 16 << 10
	// idleMemory is the process's memory for rings.
	idleMemory = 256 << 20
	// Connections are idle for idleWarm before processor time is counted, and for idleTime while it
	// is.
	idleWarm = time.Second
	idleTime = 3 * time.Second
)

// idle opens --count connections and uses each once. Node 1 accepts them.
func (o SocketOptions) idle(ctx context.Context, f *Flags) (_ *SocketResult, err error) {
	before, err := resident()
	if err != nil {
		return nil, err
	}
	s, place, err := openSocket(ctx, f, socket.Options{Options: funet.Options{Memory: idleMemory},
		Connections: o.Count})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(linger)) }()
	stop := context.AfterFunc(ctx, func() { _ = s.Close(0) }) // which ends what waits
	defer stop()
	r := &SocketResult{Place: place}
	var conns []net.Conn
	if s.Node() == 0 {
		conns, err = o.openIdle(ctx, s, f)
	} else {
		conns, err = o.acceptIdle(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	after, err := resident()
	if err != nil {
		return nil, err
	}
	r.BytesEach = float64(after-before) / float64(len(conns))
	pause(ctx, idleWarm)
	begin, used := time.Now(), processorTime()
	pause(ctx, idleTime)
	r.CPU = 100 * (processorTime() - used).Seconds() / time.Since(begin).Seconds()
	if s.Node() == 0 { // the other end is still there
		for i, c := range conns {
			if err := echo(c, make([]byte, 1)); err != nil {
				return nil, fmt.Errorf("connection %d after it was idle: %w", i, err)
			}
		}
		return r, nil
	}
	b := make([]byte, 1)
	for _, c := range conns {
		if err := answer(c, b); err != nil {
			return nil, err
		}
	}
	_, _ = conns[0].Read(b) // until node 0 ends
	return r, nil
}

func (o SocketOptions) openIdle(ctx context.Context, s *socket.Stack, f *Flags) (conns []net.Conn, err error) {
	b := make([]byte, idleBytes)
	for end := time.Now().Add(f.Wait); len(conns) < o.Count; {
		c, err := s.DialContext(ctx, socket.Network, fmt.Sprintf("1:%d", socketPort))
		// the other node is not there yet
		if err != nil && len(conns) == 0 && time.Now().Before(end) && ctx.Err() == nil {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		if err == nil {
			err = echo(c, b)
		}
		if err != nil {
			return nil, fmt.Errorf("opening connection %d: %w", len(conns), err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func (o SocketOptions) acceptIdle(ctx context.Context, s *socket.Stack) (conns []net.Conn, err error) {
	l, err := s.Listen(socket.Network, fmt.Sprintf(":%d", socketPort))
	if err != nil {
		return nil, err
	}
	end := context.AfterFunc(ctx, func() { l.Close() })
	defer end()
	b := make([]byte, idleBytes)
	for len(conns) < o.Count {
		c, err := accept(ctx, l, warn)
		if err == nil {
			err = answer(c, b)
		}
		if err != nil {
			return nil, fmt.Errorf("accepting connection %d: %w", len(conns), errors.Join(context.Cause(ctx), err))
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// echo writes bytes and reads the same number back. answer does the opposite.
func echo(c net.Conn, b []byte) error {
	_, err := c.Write(b)
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	return err
}

func answer(c net.Conn, b []byte) error {
	_, err := io.ReadFull(c, b)
	if err == nil {
		_, err = c.Write(b)
	}
	return err
}

// resident returns the process's memory in bytes, shared memory included (proc_pid_statm(5)),
// without garbage.
func resident() (int, error) {
	runtime.GC()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("reading how much memory the process has: %w", err)
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("reading how much memory the process has: %q", b)
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0, fmt.Errorf("reading how much memory the process has: %w", err)
	}
	return pages * os.Getpagesize(), nil
}

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
