package command

// This file makes a program's tree of commands, and runs it.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
)

// Tree is what a program of funet's consists of.
type Tree struct {
	Commands  []*cobra.Command
	Completed usage.Completed
	// OnCtrlC maps commands to the effect of the first Ctrl-C; see usage.Endings. A command without
	// an entry ends within a second.
	OnCtrlC map[string]string
	// Orderly lists the commands, by the first word, that must end more than their own process:
	// labs with names, daemons, processes of a job, files. They end when that is done. For all
	// other commands the kernel cleans up, even labs made for one run (package ctl/lab).
	Orderly []string
}

// Root makes the tree.
func (t Tree) Root() *cobra.Command {
	c := &cobra.Command{
		Use:           "funet",
		Short:         "User-level network for Linux clusters: active messages over AF_XDP",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.CompletionOptions.HiddenDefaultCmd = true
	const commands = "commands"
	c.AddCommand(t.Commands...)
	for _, command := range t.Commands {
		if command.GroupID == "" {
			command.GroupID = commands
		}
	}
	c.AddGroup(&cobra.Group{ID: commands, Title: "Commands:"},
		&cobra.Group{ID: usage.PagesGroup, Title: "Pages of the manual (funet help PAGE):"})
	c.SetHelpCommandGroupID(commands)
	c.SetFlagErrorFunc(usage.Explain)
	usage.Versioned(c)
	onCtrlC := map[string]string{"": "Ctrl-C ends it within a second; it leaves nothing behind."}
	maps.Copy(onCtrlC, t.OnCtrlC)
	usage.Endings(c, onCtrlC)
	checkArgs(c)
	t.Completed.Register(c)
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

// Main runs the command that the command line names, and ends the process if it fails.
func (t Tree) Main() {
	ctx := interruptible()
	var out usage.Output
	c := t.Root()
	c.SetOut(&out)
	usage.Strict(c)
	if asked, _, err := c.Find(os.Args[1:]); err == nil { // else it is refused at once
		t.cutShort(ctx, asked)
	}
	if err := out.Join(c.ExecuteContext(ctx)); err != nil {
		exit(ctx, err)
	}
}

// failed prints why the command failed, unless that was printed already, and returns the exit code.
// If the user ended the command, that counts as the reason for all other errors.
func failed(ctx context.Context, err error) int {
	var code ExitCode
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

// ExitCode is the exit code of a program that was run for the user, who is told no more.
type ExitCode int

// Error makes it an error.
func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
