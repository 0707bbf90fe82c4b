package program

// This file is `funet pingpong`.

import (
	"errors"
	"fmt"
	"io"
	"time"

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
	Mean      float64 `json:"rtt_mean_us"`
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

// trips are the figures of round trips that only measurements print, in microseconds.
type trips struct {
	P50 float64 `json:"rtt_p50_us"`
	P99 float64 `json:"rtt_p99_us"`
}

// NewTimes returns a histogram of nanoseconds, in which a round trip of 10 s is as long as longer
// ones.
func NewTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(10*time.Second), 3) }

// timed makes round trips, and records in h those after the first warmUp. Each begins when the one
// before has ended. now is a clock of nanoseconds.
func timed(h *hdrhistogram.Histogram, now func() int64, warmUp, count int, trip func(i int) error) error {
	begin := now()
	for i := range warmUp + count {
		if err := trip(i); err != nil {
			return err
		}
		end := now()
		if i >= warmUp {
			_ = h.RecordValue(end - begin) // without those too long for it
		}
		begin = end
	}
	return nil
}

// times is timed by the clock of the process, which returns the figures.
func times(warmUp, count int, trip func(i int) error) (trips, error) {
	base, h := time.Now(), NewTimes()
	err := timed(h, func() int64 { return int64(time.Since(base)) }, warmUp, count, trip)
	return tripsOf(h), err
}

func tripsOf(h *hdrhistogram.Histogram) trips {
	t := RoundTrips(h)
	return trips{t.P50, t.P99}
}

// RoundTrips returns the figures of a histogram of nanoseconds.
func RoundTrips(h *hdrhistogram.Histogram) *PingPongResult {
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	return &PingPongResult{
		Exchanges: h.TotalCount(),
		P50:       us(h.ValueAtPercentile(50)), P99: us(h.ValueAtPercentile(99)),
		Min: us(h.Min()), Max: us(h.Max()), Mean: h.Mean() / 1000,
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
