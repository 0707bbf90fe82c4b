// Command funet is the command for all users of FUNet: labs of network namespaces, the example
// programs on a lab or on real hosts, and measurements.
//
// The command tree is made here, and signals and exit codes are handled here. Groups of commands
// have packages of their own:
//
//	ctl/program   programs on a group: pingpong, matmul, flood, stream, transfer
//	ctl/measure   bench: these programs beside the usual alternatives
//	ctl/cmam      cmam, sim cmam: Table 6.1 of the thesis
//	ctl/figure    sim matmul: Figures 6.2 to 6.5
//	ctl/output    tables, JSON documents, progress and files, of all commands
//
// A lab that a command makes for its own run is removed when the command ends, however it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/cmam"
	"github.com/funet/funet/ctl/manual"
	"github.com/funet/funet/ctl/measure"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/rats"
	"github.com/funet/funet/ctl/usage"
)

func main() {
	ctx := interruptible()
	var out usage.Output
	c := root()
	c.SetOut(&out)
	usage.Strict(c)
	if asked, _, err := c.Find(os.Args[1:]); err == nil { // else it is refused at once
		cutShort(ctx, asked)
	}
	if err := out.Join(c.ExecuteContext(ctx)); err != nil {
		exit(ctx, err)
	}
}

// failed prints why the command failed, unless that was printed already, and returns the exit code.
// If the user ended the command, that counts as the reason for all other errors.
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
	fmt.Fprintln(os.Stderr, "funet:", output.OneLine(err))
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
	c.AddCommand(runCommand(), runNodeCommand(), runRelayCommand(), labCommand(), program.PingPong(), cmam.Command(),
		rats.RealCommand(), program.MatMul(), program.Flood(), program.Stream(), program.Transfer(), program.Remote(),
		program.Socket(), program.Forward(), program.Rats(), program.RMA(),
		probeCommand(), doctorCommand(), captureCommand(), traceCommand(), topCommand(), statusCommand(), gidCommand(),
		routeCommand(), contextCommand(), measure.Command(), simCommand(), profileCommand(), keyCommand(),
		measure.RoleCommand(), measure.SelfCommand(), usage.Man("1", manual.Pages()...))
	const commands = "commands"
	for _, command := range c.Commands() {
		command.GroupID = commands
	}
	c.AddGroup(&cobra.Group{ID: commands, Title: "Commands:"},
		&cobra.Group{ID: usage.PagesGroup, Title: "Pages of the manual (funet help PAGE):"})
	c.SetHelpCommandGroupID(commands)
	c.AddCommand(pageCommands()...)
	c.SetFlagErrorFunc(usage.Explain)
	usage.Versioned(c)
	usage.Endings(c, onCtrlC)
	checkArgs(c)
	completed.Register(c)
	return c
}

// checkArgs makes commands print their usage when their arguments are wrong. Commands that only
// group other commands then refuse any other argument.
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
