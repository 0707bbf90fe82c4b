package bench

// This file is the tree of funet-bench, and what its commands share: flags, the lab and the report.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/command"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/ctl/launch"
	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/xdp"
)

// Tree is funet-bench: the benchmarks, and hidden commands that their child processes run. Nodes
// are the same programs as those of funet.
func Tree() command.Tree {
	c := &cobra.Command{Use: "bench", Example: "  funet bench peers --lab 2\n  funet bench rate --lab 2 --json",
		Short: command.Bench.Short}
	for _, b := range []benchmark{new(peersBench), new(calls), new(rate), new(incast), new(hops), new(rejects),
		new(sockets), new(keyed), new(rma), new(matmul), new(mpiBench), new(ofi)} {
		c.AddCommand(onLab(b))
	}
	c.AddCommand(xferCommand(), triggerCommand(), contextsCommand())
	nodes := []*cobra.Command{program.PingPong(), program.MatMul(), program.Stream(), program.Transfer(),
		program.Remote(), program.Socket(), program.Rats(), program.RMA(), program.Ultra()}
	for _, n := range nodes {
		n.Hidden = true
	}
	return command.Tree{
		Commands: append(nodes, c, program.Agent(), roleCommand(), selfCommand(), rowsCommand(),
			usage.Man(usage.Written{Section: "1", Of: []string{"bench"}})),
		Completed: program.Completed.With(usage.Completed{"--only": usage.Words(keys()...),
			"--face": usage.Words(faceRMA, program.FaceVirtni), "--imb": usage.Files, "--fabtests": usage.Files}),
		OnCtrlC: map[string]string{"bench": "Ctrl-C ends what it runs and takes its labs down; nothing is printed."},
		Orderly: []string{"bench", launch.AgentCommand},
	}
}

// roleArgs name the hidden command that plays one end of a transport.
var roleArgs = []string{"bench-role"}

func roleCommand() *cobra.Command {
	return &cobra.Command{
		Use:    roleArgs[0] + " ROLE CONFIG",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE:   func(_ *cobra.Command, args []string) error { return runRole(args[0], json.RawMessage(args[1])) },
	}
}

// benchmark is a comparison on one lab.
type benchmark interface {
	// command returns its name and help, and adds its flags.
	command(f *flags) *cobra.Command
	// enter says what is measured, and enters the contenders.
	enter(ctx context.Context, m *match) error
	// report returns the figures when all contenders have played.
	report(m *match) (report, error)
}

// onLab makes the command of a benchmark. It checks the flags, makes the lab, has the contenders
// play there, and prints the report.
func onLab(b benchmark) *cobra.Command {
	f := new(flags)
	return f.run(b.command(f), func(ctx context.Context) (r output.Report, err error) {
		l, err := measuredLab(ctx, &f.Flags)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		m, err := newMatch(f, l)
		if err != nil {
			return nil, err
		}
		defer m.end()
		if err := m.compete(ctx, b); err != nil {
			return nil, err
		}
		return b.report(m)
	})
}

// limits are the least, most and usual value of a number.
type limits struct{ least, most, usual int }

// exchangeLimits are those of round trips in a run.
var exchangeLimits = limits{1, 10_000_000, 30_000}

const (
	// payload is the length in bytes of a message of every peer but funet and raw_afxdp.
	payload = 64
	// warmUp is the number of exchanges before the first that counts.
	warmUp = 2000
)

// flags are the common flags of all benchmarks.
type flags struct {
	program.Flags
	rounds  int
	numbers []limited
}

// limited is a flag for a number with limits.
type limited struct {
	name  string
	value *int
	limits
}

// number adds a flag with limits.
func (f *flags) number(c *cobra.Command, to *int, name string, l limits, usage string) {
	c.Flags().IntVar(to, name, l.usual, usage)
	f.numbers = append(f.numbers, limited{"--" + name, to, l})
}

// register adds the common flags. A benchmark takes a lab of least to most hosts; usual is the
// default.
func (f *flags) register(c *cobra.Command, least, most, usual int) *cobra.Command {
	f.Node, f.MTU, f.CPU, f.Slots, f.Wait = -1, lab.DefaultMTU, -1, program.DefaultSlots, program.DefaultWait
	hosts := fmt.Sprint(most)
	if least < most {
		hosts = fmt.Sprintf("%d to %d", least, most)
	}
	p := c.Flags()
	f.number(c, &f.Lab, "lab", limits{least, most, usual}, "hosts of the lab: "+hosts)
	f.number(c, &f.rounds, "rounds", limits{1, 1000, 5}, "interleaved rounds")
	p.StringVar(&f.Mode, "xdp", xdp.AttachAuto.String(), "auto (measured), native or generic")
	p.StringVar(&f.Bind, "bind", xdp.BindAuto.String(), "auto, copy or zero-copy")
	p.BoolVar(&f.JSON, "json", false, "print one JSON document")
	return c
}

// run makes c the command of a benchmark. It refuses numbers out of range before a lab is made,
// then measures and prints the report.
func (f *flags) run(c *cobra.Command, measure func(context.Context) (output.Report, error)) *cobra.Command {
	return f.alone(c, func(ctx context.Context) (output.Report, error) {
		if err := f.Check(); err != nil {
			return nil, err
		}
		return measure(ctx)
	})
}

// alone is run for a benchmark that needs no lab.
func (f *flags) alone(c *cobra.Command, measure func(context.Context) (output.Report, error)) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		for _, n := range f.numbers {
			if err := program.InRange(n.name, *n.value, n.least, n.most); err != nil {
				return err
			}
		}
		r, err := measure(c.Context())
		if err != nil {
			return err
		}
		return output.Show(f.JSON, r)
	}
	return c
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

// report is the result of a benchmark. The names of its figures are stable.
type report struct {
	figures []figure
	table   string // for people
}

// figure is a number, or several, with its name, which has the unit.
type figure struct {
	name  string
	value any
}

// MarshalJSON writes the figures in their order.
func (r report) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, f := range r.figures {
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(fmt.Appendf(b, "%q:", f.name), value...)
	}
	return append(b, '}'), nil
}

// WriteTable prints the report for people.
func (r report) WriteTable(w io.Writer) error {
	_, err := io.WriteString(w, r.table)
	return err
}

// print adds to the table.
func (r *report) print(format string, args ...any) { r.table += fmt.Sprintf(format, args...) }

// line adds a line to the table, without the spaces at its end.
func (r *report) line(format string, args ...any) {
	r.print("%s\n", strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// with adds figures.
func (r *report) with(more ...figure) { r.figures = slices.Concat(r.figures, more) }
