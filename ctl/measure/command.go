package measure

// This file is `funet bench`: the common parts of its measurements, and the command that their
// child processes run.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/xdp"
)

// Command is `funet bench`.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "bench", Example: "  funet bench peers --lab 2\n  funet bench rate --lab 2 --json",
		Short: command.Bench.Short}
	c.AddCommand(peers(), calls(), rate(), incast(), xfer(), sockets(), keyed(), rma(), matmul())
	return c
}

// Tree is funet-bench: the measurements, and hidden commands that their child processes run. Nodes
// are the same programs as those of funet.
func Tree() command.Tree {
	nodes := []*cobra.Command{program.PingPong(), program.MatMul(), program.Stream(), program.Transfer(),
		program.Remote(), program.Socket(), program.Rats(), program.RMA()}
	for _, c := range nodes {
		c.Hidden = true
	}
	hidden := []*cobra.Command{program.Agent(), roleCommand(), SelfCommand(),
		usage.Man(usage.Written{Section: "1", Of: []string{"bench"}})}
	return command.Tree{
		Commands:  slices.Concat([]*cobra.Command{Command()}, nodes, hidden),
		Completed: program.Completed.With(usage.Completed{"--only": usage.Words(bench.Keys()...)}),
		OnCtrlC:   map[string]string{"bench": "Ctrl-C ends what it runs and takes its labs down; nothing is printed."},
		Orderly:   []string{"bench", launch.AgentCommand},
	}
}

// roleArgs name the hidden command that plays one end of a measurement.
var roleArgs = []string{"bench-role"}

// roleCommand is the command that roleArgs name.
func roleCommand() *cobra.Command {
	return &cobra.Command{
		Use:    roleArgs[0] + " ROLE CONFIG",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return bench.RunRole(args[0], json.RawMessage(args[1]))
		},
	}
}

// flags are the common flags of all measurements.
type flags struct {
	program.Flags
	numbers []limited // flags that check verifies
}

// command makes c the command of a measurement. It checks the flags, then measures and prints the
// report.
func (f *flags) command(c *cobra.Command, measure func(context.Context) (output.Report, error)) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		r, err := measure(c.Context())
		if err != nil {
			return err
		}
		return output.Show(f.JSON, r)
	}
	return c
}

// onLab is like command, for a measurement on one lab. It makes and closes that lab.
func (f *flags) onLab(c *cobra.Command, measure func(context.Context, *lab.Lab) (output.Report, error)) *cobra.Command {
	return f.command(c, func(ctx context.Context) (output.Report, error) {
		l, err := measuredLab(ctx, &f.Flags)
		if err != nil {
			return nil, err
		}
		r, err := measure(ctx, l)
		return r, errors.Join(err, l.Close())
	})
}

// limited is a flag for a number with limits of a comparison.
type limited struct {
	name  string
	value *int
	bench.Limits
}

// number adds a flag with limits.
func (f *flags) number(c *cobra.Command, to *int, name string, l bench.Limits, usage string) {
	c.Flags().IntVar(to, name, l.Usual, usage)
	f.numbers = append(f.numbers, limited{"--" + name, to, l})
}

// register adds the common flags. rounds is where the measurement keeps its number of rounds. A
// measurement takes a lab of least to most hosts; usual is the default.
func (f *flags) register(c *cobra.Command, rounds *int, least, most, usual int) {
	f.Node, f.MTU, f.CPU, f.Slots, f.Wait = -1, lab.DefaultMTU, -1, program.DefaultSlots, program.DefaultWait
	hosts := fmt.Sprint(most)
	if least < most {
		hosts = fmt.Sprintf("%d to %d", least, most)
	}
	p := c.Flags()
	f.number(c, &f.Lab, "lab", bench.Limits{Least: least, Most: most, Usual: usual}, "hosts of the lab: "+hosts)
	f.number(c, rounds, "rounds", bench.Rounds, "interleaved rounds")
	p.StringVar(&f.Mode, "xdp", xdp.AttachAuto.String(), "auto (measured), native or generic")
	p.StringVar(&f.Bind, "bind", xdp.BindAuto.String(), "auto, copy or zero-copy")
	p.BoolVar(&f.JSON, "json", false, "print one JSON document")
}

// check refuses flags out of range before a lab is made. Package bench takes 0 for the default, but
// a user who gives 0 does not mean the default.
func (f *flags) check() error {
	for _, n := range f.numbers {
		if err := program.InRange(n.name, *n.value, n.Least, n.Most); err != nil {
			return err
		}
	}
	return f.Flags.Check()
}

// measuredLab makes the lab that the flags ask for and finds its XDP mode. The caller closes it.
func measuredLab(ctx context.Context, f *program.Flags) (*lab.Lab, error) {
	l, err := lab.Up(f.LabOptions())
	if err != nil {
		return nil, err
	}
	if err := f.MeasureMode(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// goodput runs stream or transfer on all hosts of the lab.
func goodput(ctx context.Context, f *program.Flags, l *lab.Lab, name string,
	args []string) (bench.GoodputSample, error) {
	nodes, err := program.RunNodes[program.Flow](ctx, f, l, name, args)
	if err != nil {
		return bench.GoodputSample{}, err
	}
	sample := bench.GoodputSample{Gbit: nodes[0].Goodput, XDPMode: nodes[0].XDPMode, BindMode: nodes[0].BindMode}
	for _, n := range nodes {
		sample.Rejected += n.Card.RejectsSent
		sample.Retransmitted += n.Card.Retransmitted
		sample.Timeouts += n.Card.Timeouts
		sample.Duplicates += n.Card.Duplicates
	}
	return sample, nil
}
