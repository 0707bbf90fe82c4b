// Command funet is everything a person does with FUNet: labs of network
// namespaces, the example programs on a lab or on real hosts, and measurements.
//
// The journey of `funet pingpong --lab 2`: the command makes a lab (package
// ctl/lab), finds the faster XDP mode on it by measurement (ctl/bench), and starts
// itself once in each namespace with the explicit flags that a person would use
// on real hosts; each of these opens an embedded card (uspace/card), runs the
// program (uspace/apps) and prints one JSON object, from which the parent makes the
// table or the JSON document that it prints. The lab is gone when the command ends,
// however it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/usage"
)

func main() {
	ctx := interruptible()
	var out usage.Output
	c := root()
	c.SetOut(&out)
	if asked, _, err := c.Find(os.Args[1:]); err == nil { // else it is refused at once
		cutShort(ctx, asked)
	}
	if err := errors.Join(c.ExecuteContext(ctx), out.Err()); err != nil {
		exit(ctx, err)
	}
}

// failed says why the command failed, unless that has been said, and returns the exit code. When
// the user ended it that is the reason for whatever else went wrong.
func failed(ctx context.Context, err error) int {
	var code exitCode
	var signal interrupted
	switch {
	case errors.As(err, &code):
		return int(code) // the program said itself what was wrong
	case errors.As(context.Cause(ctx), &signal):
		fmt.Fprintln(os.Stderr, "funet:", signal)
		return signal.exitCode()
	}
	fmt.Fprintln(os.Stderr, "funet:", oneLine(err))
	return 1
}

// exitCode is the exit code of a program that was run for the user.
type exitCode int

// Error makes it an error.
func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "funet",
		Short:         "User-level network for Linux clusters: active messages over AF_XDP",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.CompletionOptions.HiddenDefaultCmd = true
	c.AddCommand(runCommand(), runNodeCommand(), runRelayCommand(), labCommand(), pingpongCommand(), cmamHereCommand(), matmulCommand(), floodCommand(), streamCommand(), transferCommand(),
		probeCommand(), doctorCommand(), captureCommand(), traceCommand(), topCommand(), statusCommand(), gidCommand(), routeCommand(), contextCommand(), benchCommand(), simCommand(), profileCommand(), keyCommand(), roleCommand(), selfPingPongCommand(), usage.Man("1"))
	c.AddCommand(topicCommands()...)
	c.SetFlagErrorFunc(usage.Explain)
	checkArgs(c)
	return c
}

// checkArgs makes commands say how they are used when their arguments are wrong, and
// commands that only have commands under them refuse what is none of these.
func checkArgs(c *cobra.Command) {
	args := c.Args
	if c.HasSubCommands() {
		args = cobra.NoArgs
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	c.Args = func(c *cobra.Command, a []string) error { return usage.Explain(c, args(c, a)) }
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}
