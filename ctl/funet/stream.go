package main

// This file is `funet stream`.

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
)

// streamResult is the JSON document of one node of stream.
type streamResult struct {
	Messages int             `json:"messages"`
	Words    int             `json:"words"`
	Senders  int             `json:"senders"`
	Seconds  float64         `json:"seconds"`
	Rate     float64         `json:"msgs_per_s"`
	Goodput  float64         `json:"goodput_gbit_per_s"`
	XDPMode  string          `json:"xdp_mode"`
	BindMode string          `json:"bind_mode"`
	Node     int             `json:"node"`
	Card     engine.Counters `json:"card"`
}

// streamOptions are the program's flags.
type streamOptions struct{ apps.StreamOptions }

// args are the flags that say the same.
func (o streamOptions) args() []string {
	return []string{"--senders", fmt.Sprint(o.Senders), "--messages", fmt.Sprint(o.Messages), "--words", fmt.Sprint(o.Words)}
}

func streamCommand() *cobra.Command {
	var f nodeFlags
	var o streamOptions
	c := &cobra.Command{
		Use:     "stream",
		Short:   "Send messages one way at full rate, from one node or several to node 0",
		Example: "  funet stream --lab 2\n  funet stream --lab 8 --senders 7 --words 20",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			var r streamResult
			if f.lab != 0 {
				all, err := onLab[streamResult](c.Context(), &f, "stream", o.args())
				if err != nil {
					return err
				}
				r = all[0]
			} else if err := f.stream(o.StreamOptions, &r); err != nil {
				return err
			}
			return r.print(f.json)
		},
	}
	f.register(c)
	p := c.Flags()
	p.IntVar(&o.Senders, "senders", 1, "nodes that send: 1 to this number")
	p.IntVar(&o.Messages, "messages", 5_000_000, "messages of each")
	p.IntVar(&o.Words, "words", 4, "of each message, 1 to 20")
	return c
}

// stream runs one node.
func (f *nodeFlags) stream(o apps.StreamOptions, r *streamResult) error {
	n, err := f.open()
	if err != nil {
		return err
	}
	m, err := apps.Stream(n.e, n.Now, o)
	if err != nil {
		return errors.Join(n.explain(err), n.Close(0))
	}
	r.XDPMode, r.BindMode = n.modes()
	r.Node, r.Words, r.Senders, r.Card = n.e.Node(), o.Words, o.Senders, n.Engine().Counters()
	if m.Nanoseconds > 0 {
		r.Messages, r.Seconds = m.Messages, float64(m.Nanoseconds)/1e9
		r.Rate = float64(m.Messages) / r.Seconds
		r.Goodput = r.Rate * float64(o.Words) * 32 / 1e9
	}
	return n.Close(linger)
}

func (r *streamResult) print(asJSON bool) error {
	if asJSON {
		return printJSON(r)
	}
	if r.Node != 0 {
		fmt.Printf("node %d: done; node 0 has the figures (XDP %s, %s)\n", r.Node, r.XDPMode, r.BindMode)
		return nil
	}
	fmt.Printf("stream: %d messages of %d words from %d nodes, every one verified\n", r.Messages, r.Words, r.Senders)
	return table(os.Stdout,
		[]string{"  rate", fmt.Sprintf("%.2f million messages/s", r.Rate/1e6)},
		[]string{"  goodput", fmt.Sprintf("%.2f Gbit/s", r.Goodput)},
		[]string{"  time", fmt.Sprintf("%.3f s", r.Seconds)},
		[]string{"  XDP mode", r.XDPMode + ", " + r.BindMode})
}
