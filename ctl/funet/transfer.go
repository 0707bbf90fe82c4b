package main

// This file is `funet transfer`.

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
)

// transferResult is the JSON document of one node of transfer.
type transferResult struct {
	Bytes    int             `json:"bytes"`
	Block    int             `json:"block_bytes"`
	Depth    int             `json:"blocks_at_once"`
	MTU      int             `json:"mtu,omitempty"`
	Frame    int             `json:"frame_bytes"` // the longest
	Seconds  float64         `json:"seconds"`
	Goodput  float64         `json:"goodput_gbit_per_s"`
	XDPMode  string          `json:"xdp_mode"`
	BindMode string          `json:"bind_mode"`
	Node     int             `json:"node"`
	Card     engine.Counters `json:"card"`
}

// transferOptions are the program's flags.
type transferOptions struct{ apps.TransferOptions }

// args are the flags that say the same.
func (o transferOptions) args() []string {
	return []string{"--bytes", fmt.Sprint(o.Bytes), "--block", fmt.Sprint(o.Block), "--depth", fmt.Sprint(o.Depth)}
}

func transferCommand() *cobra.Command {
	var f nodeFlags
	var o transferOptions
	c := &cobra.Command{
		Use:     "transfer",
		Short:   "Move blocks of memory from node 0 to node 1 and check them",
		Example: "  funet transfer --lab 2 --bytes 1073741824\n  funet transfer --lab 2 --mtu 9000 --jumbo --block 65536 --depth 8",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			var r transferResult
			if f.lab != 0 {
				all, err := onLab[transferResult](c.Context(), &f, "transfer", o.args())
				if err != nil {
					return err
				}
				r = all[0]
				r.MTU = f.mtu
			} else if err := f.transfer(o.TransferOptions, &r); err != nil {
				return err
			}
			return r.print(f.json)
		},
	}
	f.register(c)
	p := c.Flags()
	p.IntVar(&o.Bytes, "bytes", 1<<30, "to move in all, a multiple of --block")
	p.IntVar(&o.Block, "block", 1<<18, "bytes of one transfer, a multiple of 16 up to 64 MiB")
	p.IntVar(&o.Depth, "depth", 4, "transfers under way at once")
	return c
}

// transfer runs one node.
func (f *nodeFlags) transfer(o apps.TransferOptions, r *transferResult) error {
	n, err := f.open()
	if err != nil {
		return err
	}
	m, err := apps.Transfer(n.e, n.Register, n.Now, o)
	if err != nil {
		return errors.Join(n.explain(err), n.Close(0))
	}
	r.XDPMode, r.BindMode = n.modes()
	r.Frame = n.frameSize()
	r.Node, r.Block, r.Depth, r.Card = n.e.Node(), o.Block, o.Depth, n.Engine().Counters()
	if m.Nanoseconds > 0 {
		r.Bytes, r.Seconds = m.Bytes, float64(m.Nanoseconds)/1e9
		r.Goodput = float64(m.Bytes) * 8 / float64(m.Nanoseconds)
	}
	return n.Close(linger)
}

func (r *transferResult) print(asJSON bool) error {
	if asJSON {
		return printJSON(r)
	}
	if r.Node != 0 {
		fmt.Printf("node %d: done; node 0 has the figures (XDP %s, %s)\n", r.Node, r.XDPMode, r.BindMode)
		return nil
	}
	fmt.Printf("transfer: %d bytes from memory to memory in blocks of %d, %d at once, every one checked\n", r.Bytes, r.Block, r.Depth)
	return table(os.Stdout,
		[]string{"  goodput", fmt.Sprintf("%.2f Gbit/s", r.Goodput)},
		[]string{"  time", fmt.Sprintf("%.3f s", r.Seconds)},
		[]string{"  frames", fmt.Sprintf("up to %d bytes", r.Frame)},
		[]string{"  XDP mode", r.XDPMode + ", " + r.BindMode})
}
