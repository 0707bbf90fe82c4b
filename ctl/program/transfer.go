package program

// This file is `funet transfer`.

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
)

// transferResult is the JSON document of one node of transfer.
type transferResult struct {
	Bytes int `json:"bytes"`
	Block int `json:"block_bytes"`
	Depth int `json:"blocks_at_once"`
	MTU   int `json:"mtu,omitempty"`         // of a lab
	Frame int `json:"frame_bytes,omitempty"` // the longest; not with a daemon
	Flow
}

// TransferOptions are the program's flags.
type TransferOptions struct{ apps.TransferOptions }

// Arguments are the flags that say the same.
func (o TransferOptions) Arguments() []string {
	return []string{"--bytes", fmt.Sprint(o.Bytes), "--block", fmt.Sprint(o.Block), "--depth", fmt.Sprint(o.Depth)}
}

// Transfer is `funet transfer`.
func Transfer() *cobra.Command {
	var f Flags
	var o TransferOptions
	c := &cobra.Command{
		Use:     "transfer",
		Short:   "Move blocks of memory from node 0 to node 1 and check them",
		Example: "  funet transfer --lab 2 --bytes 1GiB\n  funet transfer --lab 2 --mtu 9000 --jumbo --block 65536 --depth 8",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := Run(c, &f, o.Arguments(), o.run)
			if err != nil {
				return err
			}
			if f.Lab != 0 {
				r.MTU = f.MTU
			}
			return Show(f.JSON, r)
		},
	}
	f.Register(c)
	p := c.Flags()
	o.Bytes, o.Block = 1<<30, 1<<18
	p.Var(usage.Bytes{To: &o.Bytes}, "bytes", "to move in all, such as 256MiB, a multiple of --block")
	p.Var(usage.Bytes{To: &o.Block}, "block", "of one transfer, a multiple of 16 up to 64MiB")
	p.IntVar(&o.Depth, "depth", 4, "transfers under way at once")
	return c
}

// check refuses options that the program does not support.
func (o TransferOptions) check() error {
	const largest = arctic.MaxTransferWords * arctic.WordSize
	switch {
	case o.Block < arctic.TransferAlign || o.Block > largest || o.Block%arctic.TransferAlign != 0:
		return fmt.Errorf("--block %d: use a multiple of %d up to %d", o.Block, arctic.TransferAlign, largest)
	case o.Bytes < o.Block || o.Bytes%o.Block != 0:
		return fmt.Errorf("--bytes %d: use a multiple of --block, which is %d", o.Bytes, o.Block)
	case o.Depth < 1 || o.Depth > apps.MaxTransferDepth || o.Depth*o.Block > apps.MaxTransferMemory:
		return fmt.Errorf("--depth %d: use 1 to %d", o.Depth,
			min(apps.MaxTransferDepth, apps.MaxTransferMemory/o.Block))
	}
	return nil
}

// run runs transfer on one node.
func (o TransferOptions) run(n *Node) (*transferResult, error) {
	o.Progress = n.Progress
	m, err := apps.Transfer(n.Endpoint, n.Segment, n.Now, o.TransferOptions)
	if err != nil {
		return nil, err
	}
	r := &transferResult{Block: o.Block, Depth: o.Depth, Frame: n.frameSize(),
		Flow: Flow{Place: n.Where(), Card: n.counters()}}
	if m.Nanoseconds > 0 {
		r.Bytes, r.Seconds = m.Bytes, float64(m.Nanoseconds)/1e9
		r.Goodput = float64(m.Bytes) * 8 / float64(m.Nanoseconds)
	}
	return r, nil
}

// WriteTable prints the result for people.
func (r *transferResult) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "transfer: %d bytes from memory to memory in blocks of %d, %d at once, every one checked\n", r.Bytes,
		r.Block, r.Depth)
	rows := [][]string{
		{"  goodput", fmt.Sprintf("%.2f Gbit/s", r.Goodput)},
		{"  time", fmt.Sprintf("%.3f s", r.Seconds)},
		{"  XDP mode", r.Modes()},
	}
	if r.Frame != 0 {
		rows = slices.Insert(rows, 2, []string{"  frames", fmt.Sprintf("up to %d bytes", r.Frame)})
	}
	return output.Table(w, rows...)
}
