package main

// This file is `funet bench`: what its measurements have in common, and the command that
// their child processes run.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/xdp"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure FUNet beside what one would use otherwise"}
	c.AddCommand(benchPeers(), benchRate(), benchIncast(), benchXfer(), benchMatmul())
	return c
}

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

// benchFlags are those of all measurements.
type benchFlags struct {
	nodeFlags
	rounds  int
	numbers []benchNumber // flags that check looks at
}

// benchNumber is a flag with the limits of a number of the comparison.
type benchNumber struct {
	name  string
	value *int
	bench.Limits
}

// number adds such a flag.
func (f *benchFlags) number(c *cobra.Command, to *int, name string, l bench.Limits, usage string) {
	c.Flags().IntVar(to, name, l.Usual, usage)
	f.numbers = append(f.numbers, benchNumber{"--" + name, to, l})
}

// register adds the flags. A measurement is on a lab of least to most hosts, of as many as usual
// unless told.
func (f *benchFlags) register(c *cobra.Command, least, most, usual int) {
	f.node, f.mtu, f.cpu, f.slots, f.wait = -1, lab.DefaultMTU, -1, defaultSlots, defaultWait
	hosts := fmt.Sprint(most)
	if least < most {
		hosts = fmt.Sprintf("%d to %d", least, most)
	}
	p := c.Flags()
	f.number(c, &f.lab, "lab", bench.Limits{Least: least, Most: most, Usual: usual}, "hosts of the lab: "+hosts)
	f.number(c, &f.rounds, "rounds", bench.Rounds, "interleaved rounds")
	p.StringVar(&f.mode, "xdp", xdp.AttachAuto.String(), "auto (measured), native or generic")
	p.StringVar(&f.bind, "bind", xdp.BindAuto.String(), "auto, copy or zero-copy")
	p.BoolVar(&f.json, "json", false, "print one JSON document")
}

// check refuses flags out of range before a lab is made. The package bench takes 0 for
// the default, a person does not mean it.
func (f *benchFlags) check() error {
	for _, n := range f.numbers {
		if err := inRange(n.name, *n.value, n.Least, n.Most); err != nil {
			return err
		}
	}
	return f.nodeFlags.check()
}

// measuredLab makes the lab that the flags ask for and finds its XDP mode. The
// caller closes it.
func measuredLab(ctx context.Context, f *nodeFlags) (*lab.Lab, error) {
	l, err := lab.Up(f.labOptions())
	if err != nil {
		return nil, err
	}
	if err := f.measureMode(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// measure measures on a lab made for it and prints what it found.
func (f *benchFlags) measure(ctx context.Context, measure func(*lab.Lab) (report, error)) error {
	l, err := measuredLab(ctx, &f.nodeFlags)
	if err != nil {
		return err
	}
	r, err := measure(l)
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	return show(f.json, r)
}

// goodput runs stream or transfer on all hosts of the lab.
func goodput(ctx context.Context, f *nodeFlags, l *lab.Lab, name string, args []string) (bench.GoodputSample, error) {
	nodes, err := runNodes[flow](ctx, f, l, name, args)
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

// progressLines is where measurements print a line a round: a terminal, or nowhere.
func progressLines() io.Writer {
	if !terminal(os.Stderr) {
		return nil
	}
	return os.Stderr
}
