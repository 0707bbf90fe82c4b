// Package entry runs the commands among the tests (tests/qemu, tests/share). SIGINT, SIGTERM and
// SIGHUP end the command's context, so that the command removes what it has made. The exit code is
// then 128 plus the signal's number.
package entry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a command until it ends. If the command failed, Main prints the error in one line
// behind the command's name. It then ends this process, with exit code 1 or, after a signal, the
// code above. main calls nothing after Main.
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
		if by, ok := errors.AsType[ended](context.Cause(ctx)); ok {
			err, code = by, 128+int(by.signal)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.Name(), strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(code)
	}
}

// ended is a signal, as the cause of the context's end.
type ended struct{ signal syscall.Signal }

func (e ended) Error() string { return fmt.Sprintf("ended by %v", e.signal) }
