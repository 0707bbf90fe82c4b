package program

// This file has the one policy of all loops that accept connections.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// firstPause and longestPause bound the rest after a passing failure of accept. Each failure in a
// row doubles the rest.
const firstPause, longestPause = 5 * time.Millisecond, time.Second

// passing lists the failures after which a listener can accept again: no descriptor or memory at
// present, or a client that went away.
var passing = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EINTR, unix.EAGAIN}

// accept returns the listener's next connection. While the process or the system lacks descriptors
// or memory for one, it says so once, through tell, and tries again. Meanwhile connections wait in
// the listener's backlog. It returns other errors of the listener, or the context's cause.
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

// passes reports whether accept may succeed after this error.
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
