package main

// This file is `funet bench` and the roles that its helpers play in child
// processes.

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/bench"
	"github.com/funet/funet/ctl/lab"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/xdp"
)

// roleArgs and rateRoleArgs start the hidden commands that play one end of a
// measurement: of round trips, and of one-way rates.
var (
	roleArgs     = []string{"bench-role"}
	rateRoleArgs = []string{"bench", "rate-role"}
)

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

func benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure FUNet beside what one would use otherwise"}
	c.AddCommand(benchPeers(), benchRate(), benchIncast(), benchXfer(), rateRoleCommand())
	return c
}

// registerBench adds the flags that all measurements on a lab have.
func (f *nodeFlags) registerBench(c *cobra.Command) {
	p := c.Flags()
	p.StringVar(&f.mode, "xdp", xdp.AttachAuto.String(), "auto (measured), native or generic")
	p.StringVar(&f.bind, "bind", xdp.BindAuto.String(), "auto, copy or zero-copy")
	p.BoolVar(&f.json, "json", false, "print one JSON document")
	f.node, f.mtu, f.cpu, f.slots, f.wait = -1, lab.DefaultMTU, -1, defaultSlots, defaultWait
}

// measuredLab makes the lab that the flags ask for and finds its XDP mode. The
// caller closes it.
func (f *nodeFlags) measuredLab(ctx context.Context) (*lab.Lab, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	l, err := lab.Up(f.labOptions())
	if err != nil {
		return nil, err
	}
	if err := f.measureMode(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// progressLines is where measurements print a line a round: a terminal, or nowhere.
func progressLines() io.Writer {
	if !terminal(os.Stderr) {
		return nil
	}
	return os.Stderr
}

func benchPeers() *cobra.Command {
	var f nodeFlags
	o := bench.Options{RoleCommand: roleArgs}
	c := &cobra.Command{
		Use:   "peers",
		Short: "Compare round trips of FUNet, raw AF_XDP, sockets, UCX, libfabric and MPI on one lab",
		Long: `Compare round trips on one lab of two hosts. Every round runs every peer once, so
that a change of the machine's speed meets all of them; figures are medians over
the rounds. Peers that are not installed are reported as absent; "make peers"
installs them.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Rounds < 1 || o.Exchanges < 1 {
				return errors.New("--rounds and --exchanges must be at least 1")
			}
			f.lab = 2
			l, err := f.measuredLab(c.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			if o.Attach, err = parseAttach(f.mode); err != nil {
				return err
			}
			if o.Bind, err = parseBind(f.bind); err != nil {
				return err
			}
			o.Funet = func(ctx context.Context, l *lab.Lab, _ int) (bench.Sample, error) {
				p := pingpongOptions{apps.PingPongOptions{Exchanges: o.Exchanges, WarmUp: 2000}}
				r, err := runNodes[pingpongResult](ctx, &f, l, "pingpong", p.args())
				if err != nil {
					return bench.Sample{}, err
				}
				return bench.Sample{P50: r[0].P50, P99: r[0].P99}, nil
			}
			o.Progress = progressLines()
			r, err := bench.Peers(c.Context(), l, o)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(r)
			}
			return r.WriteTable(os.Stdout)
		},
	}
	p := c.Flags()
	p.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds")
	p.IntVar(&o.Exchanges, "exchanges", 30_000, "round trips of each peer and round")
	p.StringSliceVar(&o.Only, "only", nil, "measure only these peers, besides funet")
	f.registerBench(c)
	return c
}
