// Command funet is the command for all users of FUNet: labs of network namespaces, the example
// programs on a lab or on real hosts, and measurements.
//
// The command tree is made here. Groups of commands have packages of their own. `funet bench` and
// some of `funet sim` are programs (ctl/funet-bench, ctl/funet-paper):
//
//	ctl/command   the tree, signals, exit codes, and the way to programs of their own
//	ctl/program   programs on a group: pingpong, matmul, flood, cmam and others
//	ctl/output    tables, JSON documents, progress and files, of all commands
//
// A lab that a command makes for its own run is removed when the command ends, however it ends.
package main

import (
	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/manual"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
)

func main() {
	command.HandOver()
	tree().Main()
}

// tree returns the commands of this program.
func tree() command.Tree {
	commands := []*cobra.Command{runCommand(), program.Agent(), runRelayCommand(), labCommand(), hubCommands(),
		topoCommands(), program.PingPong(), program.CMAM(),
		program.Tagged(), program.MatMul(), program.Flood(), program.Stream(), program.Transfer(), program.Forward(),
		program.Rats(), probeCommand(), doctorCommand(), captureCommand(), traceCommand(), topCommand(),
		statusCommand(), gidCommand(), routeCommand(), contextCommand(), command.Bench.Command(), simCommand(),
		profileCommand(), keyCommand(),
		usage.Man(usage.Written{Section: "1", Manual: manual.Pages(), More: command.WritePages})}
	return command.Tree{Commands: append(commands, pageCommands()...), Completed: completed,
		OnCtrlC: onCtrlC, Orderly: []string{"run", launch.AgentCommand, "lab", "trace", "hub"}}
}
