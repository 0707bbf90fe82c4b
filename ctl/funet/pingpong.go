package main

// This file is `funet pingpong`.

import (
	"errors"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
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
	Nodes     int     `json:"nodes"`
	place
}

// pingpongOptions are the program's flags.
type pingpongOptions struct{ apps.PingPongOptions }

// args are the flags that say the same.
func (o pingpongOptions) args() []string {
	return []string{"--exchanges", fmt.Sprint(o.Exchanges), "--warm-up", fmt.Sprint(o.WarmUp)}
}

func pingpongCommand() *cobra.Command {
	var f nodeFlags
	var o pingpongOptions
	c := &cobra.Command{
		Use:   "pingpong",
		Short: "Measure round trips of a 4-word request and a 4-word reply between nodes 0 and 1",
		Example: `  funet pingpong --lab 2
  funet pingpong --iface eth1 --node 0 --peers peers.yaml    # and --node 1 on the other host`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Exchanges < 1 || o.WarmUp < 0 {
				return errors.New("--exchanges must be at least 1 and --warm-up not negative")
			}
			r, err := runProgram(c, &f, o.args(), o.run)
			if err != nil {
				return err
			}
			return showResult(f.json, r)
		},
	}
	f.register(c)
	c.Flags().IntVar(&o.Exchanges, "exchanges", 200_000, "round trips to measure")
	c.Flags().IntVar(&o.WarmUp, "warm-up", 5_000, "round trips before that")
	return c
}

// run is one node.
func (o pingpongOptions) run(n *node) (*pingpongResult, error) {
	h, err := apps.PingPong(n.e, n.Now, o.PingPongOptions)
	if err != nil {
		return nil, err
	}
	r := &pingpongResult{}
	if h != nil {
		r = roundTrips(h)
	}
	r.Nodes, r.place = n.e.Nodes(), n.where()
	return r, nil
}

// roundTrips is what a histogram of nanoseconds says.
func roundTrips(h *hdrhistogram.Histogram) *pingpongResult {
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	return &pingpongResult{
		Exchanges: h.TotalCount(),
		P50:       us(h.ValueAtPercentile(50)), P99: us(h.ValueAtPercentile(99)),
		Min: us(h.Min()), Max: us(h.Max()),
	}
}

// WriteTable prints the result for people.
func (r *pingpongResult) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "ping-pong: 4-word request and 4-word reply, %d exchanges, every one verified\n", r.Exchanges)
	return table(w,
		[]string{"  round trip", "p50", "p99", "min", "max"},
		[]string{"", fmt.Sprintf("%.2f us", r.P50), fmt.Sprintf("%.2f us", r.P99), fmt.Sprintf("%.2f us", r.Min), fmt.Sprintf("%.2f us", r.Max)},
		[]string{"  XDP mode", r.modes()})
}
