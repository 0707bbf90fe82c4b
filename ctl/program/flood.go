package program

// This file is `funet flood`.

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/xdp"
)

// floodNode is the JSON document of one node of flood.
type floodNode struct {
	Place
	Level      string           `json:"level"`
	Delivered  int              `json:"delivered"`
	Lost       int              `json:"lost"`
	Duplicated int              `json:"duplicated"`
	Damaged    int              `json:"damaged"`
	Seconds    float64          `json:"seconds"`
	RingFull   uint64           `json:"rx_ring_full"`
	FillEmpty  uint64           `json:"fill_ring_empty"`
	Card       *engine.Counters `json:"card,omitempty"` // not with a daemon
}

// floodResult is the JSON document of flood on a lab.
type floodResult struct {
	Messages   int         `json:"messages"`
	Lost       int         `json:"lost"`
	Duplicated int         `json:"duplicated"`
	Damaged    int         `json:"damaged"`
	RingFull   uint64      `json:"rx_ring_full"`
	FillEmpty  uint64      `json:"fill_ring_empty"`
	Nodes      []floodNode `json:"nodes"`
}

// floodOptions are the program's flags.
type floodOptions struct {
	messages, stalls int
	stall            time.Duration
	seed             uint64
}

// Flood is `funet flood`.
func Flood() *cobra.Command {
	var f Flags
	var o floodOptions
	c := &cobra.Command{
		Use:   "flood",
		Short: "Send at full rate to a node that stalls at random moments, and count what was lost or came twice",
		Long: `Node 0 sends requests to node 1 as fast as it can and node 1 replies to each; both
stop looking at their queues at random moments. On a lab the rings are made so
small that the kernel has to drop frames: node 1's receive ring runs full, node
0's fill ring empty; and the queues so small (unless --slots is given) that the
cards have to reject packets. Every message is accounted for at both priorities.`,
		Example: "  funet flood --lab 2 --messages 1000000",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			if o.messages < 1 || o.stalls < 0 || o.stall < 0 {
				return errors.New("--messages must be at least 1, --stalls and --stall not negative")
			}
			if f.Lab == 0 {
				n, err := runOn(c, &f, o.run)
				if err != nil {
					return err
				}
				if f.JSON {
					return output.JSON(n)
				}
				return errors.Join(output.Table(os.Stdout, floodHeader, n.row()), n.writeHost(os.Stdout), n.verdict())
			}
			return f.floodLab(c, o)
		},
	}
	f.Register(c)
	p := c.Flags()
	p.IntVar(&o.messages, "messages", 1_000_000, "requests, and as many replies")
	p.IntVar(&o.stalls, "stalls", 10, "how often each node stalls")
	p.DurationVar(&o.stall, "stall", 200*time.Millisecond, "how long")
	p.Uint64Var(&o.seed, "seed", 1, "of the moments")
	return c
}

// floodLab runs all nodes and adds up their counts.
func (f *Flags) floodLab(c *cobra.Command, o floodOptions) error {
	if f.rxRing == 0 && f.fillFrames == 0 {
		f.provoke = true
		if !c.Flags().Changed("slots") {
			f.Slots = provokingSlots
		}
	}
	nodes, err := onLab[floodNode](c.Context(), f, "flood", []string{"--messages", fmt.Sprint(o.messages),
		"--stalls", fmt.Sprint(o.stalls), "--stall", o.stall.String(), "--seed", fmt.Sprint(o.seed)})
	if err != nil {
		return err
	}
	r := floodResult{Messages: o.messages, Nodes: nodes}
	rows := [][]string{floodHeader}
	for i := range nodes {
		n := &nodes[i]
		r.Lost, r.Duplicated, r.Damaged = r.Lost+n.Lost, r.Duplicated+n.Duplicated, r.Damaged+n.Damaged
		r.RingFull, r.FillEmpty = r.RingFull+n.RingFull, r.FillEmpty+n.FillEmpty
		err = errors.Join(err, n.verdict())
		rows = append(rows, n.row())
	}
	if f.JSON {
		return errors.Join(output.JSON(r), err)
	}
	fmt.Printf("flood: %d requests to node 1 and as many replies, %d stalls of %v on each node\n", o.messages,
		o.stalls, o.stall)
	err = errors.Join(output.Table(os.Stdout, rows...), err)
	for _, n := range nodes[1:] {
		nodes[0].Host.add(n.Host)
	}
	return errors.Join(nodes[0].writeHost(os.Stdout), err)
}

// run runs flood on one node.
func (o floodOptions) run(n *Node) (*floodNode, error) {
	stall := func(ns int64) { pause(n.ctx, time.Duration(ns)) }
	m, err := apps.Flood(n.Endpoint, n.Now, stall, apps.FloodOptions{Messages: o.messages, Stalls: o.stalls,
		Stall: int64(o.stall), Seed: o.seed, Progress: n.Progress})
	if err != nil {
		return nil, err
	}
	r := &floodNode{Place: n.Where(), Delivered: m.Delivered, Lost: m.Lost, Duplicated: m.Duplicated,
		Damaged: m.Damaged,
		Seconds: float64(m.Nanoseconds) / 1e9, Card: n.counters()}
	r.Level = [...]string{"reply", "request"}[min(r.Node, 1)]
	if n.Own == nil {
		return r, nil
	}
	var sum xdp.Statistics
	for _, p := range n.Own.Ports() {
		s, err := p.Statistics()
		if err != nil {
			return nil, err
		}
		sum.RxRingFull += s.RxRingFull
		sum.RxFillRingEmpty += s.RxFillRingEmpty
	}
	r.RingFull, r.FillEmpty = sum.RxRingFull, sum.RxFillRingEmpty
	return r, nil
}

var floodHeader = []string{"  node", "level", "delivered", "lost", "twice", "damaged", "time", "ring full",
	"fill empty", "rejected", "retransmitted", "XDP mode"}

func (n *floodNode) row() []string {
	var rejected, retransmitted any = "-", "-"
	if n.Card != nil {
		rejected, retransmitted = n.Card.RejectsReceived, n.Card.Retransmitted
	}
	return output.Row(fmt.Sprintf("  %d", n.Node), n.Level, n.Delivered, n.Lost, n.Duplicated, n.Damaged,
		fmt.Sprintf("%.2f s", n.Seconds), n.RingFull, n.FillEmpty, rejected, retransmitted, n.Modes())
}

// verdict returns an error if a message was lost, damaged or delivered twice.
func (n *floodNode) verdict() error {
	if n.Lost+n.Duplicated+n.Damaged != 0 {
		return fmt.Errorf("node %d: %d messages lost, %d twice, %d damaged", n.Node, n.Lost, n.Duplicated, n.Damaged)
	}
	return nil
}
