package bench

// This file is `funet bench hops`: what a router in the kernel costs.

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/funet/funet/ctl/lab"
)

// hops compares round trips over as many routers as ways of the network lead through.
type hops struct {
	hub       string
	exchanges int
	routers   []int // of the way of each contender
}

func (o *hops) command(f *flags) *cobra.Command {
	c := &cobra.Command{
		Use:     "hops",
		Example: "  funet bench hops\n  funet bench hops --lab 16 --hub fat-tree --json",
		Short:   "Measure what a router in the kernel costs, by round trips over more and more of them",
		Long: `Measure round trips of a 4-word request and a 4-word reply between hosts of a lab of
routers in the kernel, for each number of routers that a way leads through. Those take
turns. The cost of a router is the slope of a line through their medians, for one
direction; the figures are medians over the rounds.`,
	}
	c.Flags().StringVar(&o.hub, "hub", string(lab.Hypercube), "hypercube or fat-tree")
	f.number(c, &o.exchanges, "exchanges", limits{1000, 100_000_000, 100_000}, "round trips of a run")
	f.register(c, 3, lab.MaxHubHosts, 8)
	c.PreRunE = func(*cobra.Command, []string) error {
		f.Topology = o.hub
		if t := lab.Topology(o.hub); t != lab.Hypercube && t != lab.FatTree {
			return fmt.Errorf("--hub %s: use hypercube or fat-tree, whose ways are of several lengths", o.hub)
		}
		return nil
	}
	return c
}

func (o *hops) enter(_ context.Context, m *match) error {
	m.what, m.unit, m.deadline = "measure hops", "us", longest(o.exchanges)
	n, err := m.lab.Options().Topology.Network(len(m.hosts))
	if err != nil {
		return err
	}
	for to := 1; to < len(m.hosts); to++ {
		w := n.Way(0, to).Hops
		if len(o.routers) > 0 && w <= o.routers[len(o.routers)-1] {
			continue // the hosts are numbered so that ways grow
		}
		o.routers = append(o.routers, w)
		here := m.f.Flags
		here.Hosts = []int{0, to}
		m.ours(routersName(w), func(ctx context.Context) ([]node, error) {
			return m.nodes(ctx, &here, "pingpong", pingPong(o.exchanges).Arguments())
		}, p50)
	}
	return nil
}

func routersName(n int) string { return fmt.Sprintf("%d routers", n) }

func (o *hops) report(m *match) (r report, err error) {
	slope := func(rtt func(routers int) float64) float64 {
		x, y := make([]float64, len(o.routers)), make([]float64, len(o.routers))
		for i, n := range o.routers {
			x[i], y[i] = float64(n), rtt(n)/2 // two directions
		}
		_, b := stat.LinearRegression(x, y, nil, false)
		return nanos(b)
	}
	var rounds, medians []float64
	for i := range m.rounds {
		rounds = append(rounds, slope(func(n int) float64 { return m.of(routersName(n)).figures[i] }))
	}
	for _, n := range o.routers {
		medians = append(medians, m.median(routersName(n)))
	}
	cost := *median(rounds)
	r.with(figure{"hub", o.hub}, figure{"hosts", len(m.hosts)}, figure{"routers", o.routers},
		figure{"rtt_p50_us", medians}, figure{"router_us", cost}, figure{"rounds_router_us", rounds},
		figure{"rounds", m.rounds}, figure{"exchanges", o.exchanges}, figure{"xdp_mode", m.attach},
		figure{"bind_mode", m.bind})
	r.print("%s of %d hosts: round trips by routers on the way, medians of %d rounds; XDP %s, %s\n", o.hub,
		len(m.hosts), m.rounds, m.attach, m.bind)
	r.print("%-10s %9s  %s\n", "routers", "p50 us", "rounds")
	for i, n := range o.routers {
		r.print("%-10d %9.2f  %s\n", n, medians[i], list("%.2f", m.of(routersName(n)).figures, 1))
	}
	r.print("a router costs %.2f us in each direction (rounds: %s)\n", cost, list("%.2f", rounds, 1))
	return r, nil
}
