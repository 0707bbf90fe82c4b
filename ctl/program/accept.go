package program

// This file is the one policy of loops that accept connections.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// firstPause to longestPause is how long accepting rests after a failure that passes: twice as long
// after each in a row.
const firstPause, longestPause = 5 * time.Millisecond, time.Second

// passing are the failures after which a listener can accept again: no descriptor or memory at
// present, or a client that went away.
var passing = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EINTR, unix.EAGAIN}

// accept returns the listener's next connection. While the process or the system has no descriptor
// or memory for one, it says so once, through tell, and tries again; connections wait in the
// listener's backlog meanwhile. Other errors are the listener's, or the context's cause.
func accept(ctx context.Context, l net.Listener, tell func(line string)) (net.Conn, error) {
	for pause, told := firstPause, false; ; pause = min(2*pause, longestPause) {
		c, err := l.Accept()
		if err == nil || ctx.Err() != nil || !passes(err) {
			return c, err
		}
		if !told && !errors.Is(err, unix.ECONNABORTED) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			told = true
			tell(fmt.Sprintf("accepting connections at %v: %v; tried again until there is room (`ulimit -n` bounds the open files of a process)", l.Addr(), err))
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// passes reports whether accepting may succeed after an error.
func passes(err error) bool {
	for _, p := range passing {
		if errors.Is(err, p) {
			return true
		}
	}
	return false
}

// warn writes a line to standard error.
func warn(line string) { fmt.Fprintln(os.Stderr, "funet:", line) }
