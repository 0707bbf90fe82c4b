package program

// This file is `funet stream`.

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/cluster"
)

// StreamResult is the JSON document of one node of stream.
type StreamResult struct {
	Messages int     `json:"messages"`
	Words    int     `json:"words"`
	Senders  int     `json:"senders"`
	Rate     float64 `json:"msgs_per_s"`
	Flow
}

// StreamOptions are the program's flags.
type StreamOptions struct{ apps.StreamOptions }

// Arguments are the flags that say the same.
func (o StreamOptions) Arguments() []string {
	return []string{"--senders", fmt.Sprint(o.Senders), "--messages", fmt.Sprint(o.Messages), "--words",
		fmt.Sprint(o.Words)}
}

// Stream is `funet stream`.
func Stream() *cobra.Command {
	var f Flags
	var o StreamOptions
	c := &cobra.Command{
		Use:     "stream",
		Short:   "Send messages one way at full rate, from one node or several to node 0",
		Example: "  funet stream --lab 2\n  funet stream --lab 8 --senders 7 --words 20",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(f.Lab); err != nil {
				return err
			}
			r, err := Run(c, &f, o.Arguments(), o.run)
			if err != nil {
				return err
			}
			return Show(f.JSON, r)
		},
	}
	f.Register(c)
	p := c.Flags()
	p.IntVar(&o.Senders, "senders", 1, "nodes that send: 1 to this number")
	p.IntVar(&o.Messages, "messages", 5_000_000, "messages of each")
	p.IntVar(&o.Words, "words", 4, "of each message, 1 to 20")
	return c
}

// check refuses options that a group of this number of nodes cannot run; 0: the number is not known
// yet.
func (o StreamOptions) check(nodes int) error {
	if nodes == 0 {
		nodes = cluster.MaxNodes
	}
	return cmp.Or(InRange("--messages", o.Messages, 1, math.MaxInt32), InRange("--words", o.Words, 1, am.MaxWords),
		InRange("--senders", o.Senders, 1, max(nodes-1, 1)))
}

// run runs stream on one node.
func (o StreamOptions) run(n *Node) (*StreamResult, error) {
	o.Progress = n.Progress
	m, err := apps.Stream(n.Endpoint, n.Now, o.StreamOptions)
	if err != nil {
		return nil, err
	}
	r := &StreamResult{Words: o.Words, Senders: o.Senders, Flow: Flow{Place: n.Where(), Card: n.counters()}}
	if m.Nanoseconds > 0 {
		r.Messages, r.Seconds = m.Messages, float64(m.Nanoseconds)/1e9
		r.Rate = float64(m.Messages) / r.Seconds
		r.Goodput = r.Rate * float64(o.Words) * 32 / 1e9
	}
	return r, nil
}

// WriteTable prints the result for people.
func (r *StreamResult) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "stream: %d messages of %d words from %d nodes, every one verified\n", r.Messages,
		r.Words, r.Senders)
	return output.Table(w,
		[]string{"  rate", fmt.Sprintf("%.2f million messages/s", r.Rate/1e6)},
		[]string{"  goodput", fmt.Sprintf("%.2f Gbit/s", r.Goodput)},
		[]string{"  time", fmt.Sprintf("%.3f s", r.Seconds)},
		[]string{"  XDP mode", r.Modes()})
}
