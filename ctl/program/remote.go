package program

// This file is a program that only measurements run: calls of some bytes between nodes 0 and 1.

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
)

// RemoteResult is the JSON document of one node of remote: its calls in the place of round trips.
type RemoteResult struct{ PingPongResult }

// RemoteOptions are the program's flags.
type RemoteOptions struct{ apps.RemoteOptions }

// RemoteProgram is the program's name.
const RemoteProgram = "bench-remote"

// Arguments are the flags that say the same.
func (o RemoteOptions) Arguments() []string {
	return []string{"--bytes", fmt.Sprint(o.Bytes), "--calls", fmt.Sprint(o.Calls), "--warm-up", fmt.Sprint(o.WarmUp)}
}

// Remote is the hidden command that measure starts on a lab.
func Remote() *cobra.Command {
	var f Flags
	var o RemoteOptions
	c := &cobra.Command{
		Use:    RemoteProgram,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := Run(c, &f, o.Arguments(), o.run)
			if err != nil {
				return err
			}
			return Show(f.JSON, r)
		},
	}
	f.Register(c)
	c.Flags().IntVar(&o.Bytes, "bytes", 64, "of each call and each answer")
	c.Flags().IntVar(&o.Calls, "calls", 200_000, "to measure")
	c.Flags().IntVar(&o.WarmUp, "warm-up", 5_000, "calls before that")
	return c
}

// run is one node.
func (o RemoteOptions) run(n *Node) (*RemoteResult, error) {
	h, err := apps.Remote(n.Endpoint, n.Now, o.RemoteOptions)
	if err != nil {
		return nil, err
	}
	r := &RemoteResult{}
	if h != nil {
		r.PingPongResult = *RoundTrips(h)
	}
	r.Nodes, r.Place = n.Endpoint.Nodes(), n.Where()
	return r, nil
}

// WriteTable prints the result for people.
func (r *RemoteResult) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "calls: %d, each answered as it should be; p50 %.2f us, p99 %.2f us\n", r.Exchanges, r.P50, r.P99)
	return err
}
