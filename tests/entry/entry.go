// Package entry is how the commands among the tests run (tests/qemu, tests/share): SIGINT, SIGTERM
// and SIGHUP end the command's context, so that it takes down what it has made, and the exit code
// is then 128 and the signal's number.
package entry

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a command until it ends, and this process with exit code 1 if it failed. The error is
// one line with the name of the command before it. It is the last call of main.
func Main(c *cobra.Command) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		signals = append(signals, syscall.SIGHUP)
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { cancel(ended{(<-caught).(syscall.Signal)}) }()
	if err := c.ExecuteContext(ctx); err != nil {
		code := 1
		if by, ok := context.Cause(ctx).(ended); ok {
			err, code = by, 128+int(by.signal)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.Name(), strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(code)
	}
}

// ended is the cause of the context's end: a signal.
type ended struct{ signal syscall.Signal }

func (e ended) Error() string { return fmt.Sprintf("ended by %v", e.signal) }
