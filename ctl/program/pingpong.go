package program

// This file is `funet pingpong`.

import (
	"errors"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/apps"
)

// PingPongResult is the JSON document of pingpong. Its microseconds are round trips.
type PingPongResult struct {
	Exchanges int64   `json:"exchanges"`
	P50       float64 `json:"rtt_p50_us"`
	P99       float64 `json:"rtt_p99_us"`
	Min       float64 `json:"rtt_min_us"`
	Max       float64 `json:"rtt_max_us"`
	Nodes     int     `json:"nodes"`
	Place
}

// PingPongOptions are the program's flags.
type PingPongOptions struct{ apps.PingPongOptions }

// Arguments are the flags that say the same.
func (o PingPongOptions) Arguments() []string {
	return []string{"--exchanges", fmt.Sprint(o.Exchanges), "--warm-up", fmt.Sprint(o.WarmUp)}
}

// PingPong is `funet pingpong`.
func PingPong() *cobra.Command {
	var f Flags
	var o PingPongOptions
	c := &cobra.Command{
		Use:   "pingpong",
		Short: "Measure round trips of a 4-word request and a 4-word reply between nodes 0 and 1",
		Example: `  funet pingpong --lab 2
  funet pingpong --iface eth1 --node 0 --peers peers.yaml   # and --node 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Exchanges < 1 || o.WarmUp < 0 {
				return errors.New("--exchanges must be at least 1 and --warm-up not negative")
			}
			r, err := Run(c, &f, o.Arguments(), o.run)
			if err != nil {
				return err
			}
			return Show(f.JSON, r)
		},
	}
	f.Register(c)
	c.Flags().IntVar(&o.Exchanges, "exchanges", 200_000, "round trips to measure")
	c.Flags().IntVar(&o.WarmUp, "warm-up", 5_000, "round trips before that")
	return c
}

// run runs pingpong on one node.
func (o PingPongOptions) run(n *Node) (*PingPongResult, error) {
	o.Progress = n.Progress
	h, err := apps.PingPong(n.Endpoint, n.Now, o.PingPongOptions)
	if err != nil {
		return nil, err
	}
	r := &PingPongResult{}
	if h != nil {
		r = RoundTrips(h)
	}
	r.Nodes, r.Place = n.Endpoint.Nodes(), n.Where()
	return r, nil
}

// RoundTrips returns the figures of a histogram of nanoseconds.
func RoundTrips(h *hdrhistogram.Histogram) *PingPongResult {
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	return &PingPongResult{
		Exchanges: h.TotalCount(),
		P50:       us(h.ValueAtPercentile(50)), P99: us(h.ValueAtPercentile(99)),
		Min: us(h.Min()), Max: us(h.Max()),
	}
}

// WriteTable prints the result for people.
func (r *PingPongResult) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "ping-pong: 4-word request and 4-word reply, %d exchanges, every one verified\n", r.Exchanges)
	return output.Table(w,
		[]string{"  round trip", "p50", "p99", "min", "max"},
		[]string{"", fmt.Sprintf("%.2f us", r.P50), fmt.Sprintf("%.2f us", r.P99), fmt.Sprintf("%.2f us", r.Min),
			fmt.Sprintf("%.2f us", r.Max)},
		[]string{"  XDP mode", r.Modes()})
}
