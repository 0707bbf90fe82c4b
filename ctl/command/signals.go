package command

// This file ends commands on Ctrl-C and other signals. The first signal ends the context that every
// command gets. Then the command's waits end (am.Endpoint.Bind, attach.Config.Context), and all
// that it made is taken down. [Tree.Main] says which signal it was and exits with 128 and its
// number. A second signal has its default effect, which needs no help of this process.

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// respite is how long a command that only computes, and so waits for nothing that ends, may go on
// after a signal.
const respite = 500 * time.Millisecond

// interrupted is the cause of the context's end: a signal.
type interrupted struct{ signal syscall.Signal }

// Error names the signal.
func (i interrupted) Error() string {
	return fmt.Sprintf("interrupted (%s)", unix.SignalName(i.signal))
}

// exitCode returns the exit code that a shell would report (POSIX.1-2017, Shell Command Language
// 2.8.2).
func (i interrupted) exitCode() int { return 128 + int(i.signal) }

// Signals returns the signals that end a command; SIGHUP is left out if nohup(1) had it ignored.
func Signals() []os.Signal {
	list := []os.Signal{unix.SIGINT, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) {
		list = append(list, unix.SIGHUP)
	}
	return list
}

// interruptible returns a context that the first signal ends, with interrupted as its cause.
func interruptible() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, Signals()...)
	go func() {
		s := (<-signals).(syscall.Signal)
		signal.Stop(signals)
		cancel(interrupted{s})
	}()
	return ctx
}

// cutShort ends the process a respite after the context has ended, unless the command is orderly.
func (t Tree) cutShort(ctx context.Context, c *cobra.Command) {
	if slices.Contains(t.Orderly, top(c).Name()) {
		return
	}
	context.AfterFunc(ctx, func() {
		time.Sleep(respite)
		exit(ctx, context.Cause(ctx))
	})
}

// leaving is locked, for good, by the goroutine that ends the process.
var leaving sync.Mutex

// exit ends the process because of an error.
func exit(ctx context.Context, err error) {
	leaving.Lock()
	os.Exit(failed(ctx, err))
}

// top returns the command directly below funet.
func top(c *cobra.Command) *cobra.Command {
	for c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	return c
}
