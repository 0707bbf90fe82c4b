package main

// This file is `funet pingpong`.

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
)

// pingpongResult is the JSON document of pingpong. Microseconds are round trips.
type pingpongResult struct {
	Exchanges int64   `json:"exchanges"`
	P50       float64 `json:"rtt_p50_us"`
	P99       float64 `json:"rtt_p99_us"`
	Min       float64 `json:"rtt_min_us"`
	Max       float64 `json:"rtt_max_us"`
	XDPMode   string  `json:"xdp_mode"`
	BindMode  string  `json:"bind_mode"`
	Node      int     `json:"node"`
	Nodes     int     `json:"nodes"`
}

type pingpongOptions struct{ apps.PingPongOptions }

// args are the flags that say the same.
func (o pingpongOptions) args() []string {
	return []string{"--exchanges", fmt.Sprint(o.Exchanges), "--warm-up", fmt.Sprint(o.WarmUp)}
}

func pingpongCommand() *cobra.Command {
	var f nodeFlags
	o := pingpongOptions{}
	c := &cobra.Command{
		Use:   "pingpong",
		Short: "Measure round trips of a 4-word request and a 4-word reply between nodes 0 and 1",
		Example: `  funet pingpong --lab 2
  funet pingpong --iface eth1 --node 0 --peers peers.yaml    # and --node 1 on the other host`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if o.Exchanges < 1 || o.WarmUp < 0 {
				return errors.New("--exchanges must be at least 1 and --warm-up not negative")
			}
			var r pingpongResult
			if f.lab != 0 {
				all, err := onLab[pingpongResult](c.Context(), &f, "pingpong", o.args())
				if err != nil {
					return err
				}
				r = all[0]
			} else if err := f.pingpong(o.PingPongOptions, &r); err != nil {
				return err
			}
			return r.print(f.json)
		},
	}
	f.register(c)
	c.Flags().IntVar(&o.Exchanges, "exchanges", 200_000, "round trips to measure")
	c.Flags().IntVar(&o.WarmUp, "warm-up", 5_000, "round trips before that")
	return c
}

// pingpong runs one node.
func (f *nodeFlags) pingpong(o apps.PingPongOptions, r *pingpongResult) error {
	n, err := f.open()
	if err != nil {
		return err
	}
	h, err := apps.PingPong(n.e, n.Now, o)
	if err != nil {
		return errors.Join(n.explain(err), n.Close(0))
	}
	r.XDPMode, r.BindMode = n.modes()
	r.Node, r.Nodes = n.e.Node(), n.e.Nodes()
	if h != nil {
		us := func(ns int64) float64 { return float64(ns) / 1000 }
		r.Exchanges = h.TotalCount()
		r.P50, r.P99 = us(h.ValueAtPercentile(50)), us(h.ValueAtPercentile(99))
		r.Min, r.Max = us(h.Min()), us(h.Max())
	}
	return n.Close(linger)
}

func (r *pingpongResult) print(asJSON bool) error {
	if asJSON {
		return printJSON(r)
	}
	if r.Node != 0 {
		fmt.Printf("node %d: answered; node 0 has the figures (XDP %s, %s)\n", r.Node, r.XDPMode, r.BindMode)
		return nil
	}
	fmt.Printf("ping-pong: 4-word request and 4-word reply, %d exchanges, every one verified\n", r.Exchanges)
	return table(os.Stdout,
		[]string{"  round trip", "p50", "p99", "min", "max"},
		[]string{"", fmt.Sprintf("%.2f us", r.P50), fmt.Sprintf("%.2f us", r.P99), fmt.Sprintf("%.2f us", r.Min), fmt.Sprintf("%.2f us", r.Max)},
		[]string{"  XDP mode", r.XDPMode + ", " + r.BindMode})
}
