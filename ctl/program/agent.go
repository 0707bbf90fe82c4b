package program

// This file is the hidden command by which programs that run jobs start themselves.

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/uspace/attach"
)

// Agent is the hidden command that `funet run` starts on each host (package ctl/launch). Programs
// that run jobs have it.
func Agent() *cobra.Command {
	var a launch.Agent
	c := &cobra.Command{
		Use:    launch.AgentCommand,
		Short:  "What `funet run` starts on a host; reads orders",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// The launcher says what to do, or is gone. These signals are caught, as the programs
			// would inherit that they are ignored (execve(2)).
			caught := append(command.Signals(), unix.SIGPIPE)
			signal.Notify(make(chan os.Signal, 1), slices.DeleteFunc(caught, signal.Ignored)...)
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
			defer stop()
			a.Socket = DaemonSocket(a.Socket)
			return launch.Serve(ctx, os.Stdin, os.Stdout, os.Stderr, a)
		},
	}
	c.Flags().StringVar(&a.Socket, "socket", "", "of the daemon")
	c.Flags().StringVar(&a.User, "as", "", "the user, where that is not the launcher's")
	c.Flags().BoolVar(&a.Handed, "handed", false, "descriptor 3 is the program")
	c.Flags().IntVar(&a.Provider, "provider", 0, "descriptor of the folder of libfabric's provider")
	return c
}

// DaemonSocket returns the socket of this machine's daemon, from the flag or the environment.
func DaemonSocket(flag string) string {
	return cmp.Or(flag, os.Getenv(attach.SocketVariable), attach.DefaultSocket)
}
