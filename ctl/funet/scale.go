package main

// This file is `funet sim scale`: networks of many nodes in virtual time.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/funet/funet/ctl/output"
	"github.com/funet/funet/ctl/program"
	"github.com/funet/funet/ctl/usage"
	"github.com/funet/funet/uspace/sim/scale"
	"github.com/funet/funet/uspace/topology"
)

func scaleCommand() *cobra.Command {
	var o scale.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "scale",
		Short: "Run a pattern of traffic on a simulated network of up to 65,536 nodes",
		Long: `Run a pattern of traffic on a simulated network of Arctic routers, in virtual time.
Each node has the card that ships. The run fails unless each message arrives once,
from its sender and with its content, and the packets pass as many routers as their
ways have. The same nodes, pattern, network, messages and seed give the same run and
the same hash, on any number of processors.

Patterns: barrier (of all nodes, by dissemination), ring (to the next node), random
(each message of a node by a random permutation of the nodes), incast (all to node 0),
alltoall-sample (over random distances, as in some rounds of an all-to-all).

Networks: fat-tree (routers of 8 ports), hypercube and butterfly (4 nodes at a router).

A node takes about 130 KiB of memory. Events are entries of the queue of events: steps
of cards, turns of programs, and packets and credits that move on.`,
		Example: `  funet sim scale --nodes 4096 --pattern random
  funet sim scale --nodes 65536 --pattern barrier --network fat-tree --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmp.Or(
				program.InRange("--nodes", o.Nodes, scale.MinNodes, scale.MaxNodes),
				oneOf("--pattern", o.Pattern, scale.Patterns()),
				oneOf("--network", o.Network, topology.LargeKinds()),
				program.InRange("--messages", o.Messages, 1, scale.MaxMessages),
				program.InRange("--cores", o.Cores, 1, scale.MaxCores)); err != nil {
				return usage.Explain(c, err)
			}
			return runScale(c.Context(), o, asJSON)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 4096, "nodes, each with a card")
	f.StringVar(&o.Pattern, "pattern", "barrier", strings.Join(scale.Patterns(), ", "))
	f.StringVar(&o.Network, "network", "fat-tree", strings.Join(topology.LargeKinds(), ", "))
	f.IntVar(&o.Messages, "messages", 1, "messages that each node sends; of the pattern barrier, barriers")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the pattern, of the content, and of when nodes begin")
	f.IntVar(&o.Cores, "cores", min(runtime.NumCPU(), scale.MaxCores), "processors that run it")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// oneOf returns an error unless a flag has one of some words.
func oneOf(flag, v string, words []string) error {
	if slices.Contains(words, v) {
		return nil
	}
	return fmt.Errorf("%s %q: use %s", flag, v, strings.Join(words, ", "))
}

func runScale(ctx context.Context, o scale.Options, asJSON bool) error {
	making := output.Begin("making cards", int64(o.Nodes))
	defer making.End()
	var simulating *output.Progress
	r, err := scale.Run(ctx, o, func() { making.Add(1) }, func() {
		if simulating == nil {
			making.End()
			simulating = output.Begin("simulating", 0)
		}
	})
	simulating.End()
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	memory, err := peakResident()
	if err != nil {
		return err
	}
	making.End()
	return output.Show(asJSON, scaleReport{
		Network: o.Network, Pattern: o.Pattern, Nodes: o.Nodes, Messages: o.Messages, Seed: o.Seed, Cores: o.Cores,
		Routers: r.Routers, Parts: r.Parts, Memory: memory, BytesPerNode: memory / int64(o.Nodes), Events: r.Events,
		EventsPerSecond: float64(r.Events) / r.Wall.Seconds(), Virtual: float64(r.Virtual) / float64(time.Microsecond),
		Wall: r.Wall.Seconds(), Setup: r.Setup.Seconds(), Hops: r.Hops, HopsExpected: r.HopsExpected, Frames: r.Frames,
		Retransmitted: r.Retransmitted, Rejected: r.Rejected, Hash: fmt.Sprintf("%016x", r.Hash)})
}

// peakResident returns the most memory in bytes that the process has had (proc(5), VmHWM).
func peakResident() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("reading how much memory was used: %w", err)
	}
	var kib int64
	if _, rest, ok := bytes.Cut(text, []byte("VmHWM:")); !ok {
		err = fmt.Errorf("no VmHWM in /proc/self/status")
	} else if _, err = fmt.Sscan(string(rest), &kib); err == nil {
		return kib << 10, nil
	}
	return 0, fmt.Errorf("reading how much memory was used: %w", err)
}

// scaleReport is what sim scale prints.
type scaleReport struct {
	Network         string  `json:"network"`
	Pattern         string  `json:"pattern"`
	Nodes           int     `json:"nodes"`
	Messages        int     `json:"messages_per_node"`
	Seed            uint64  `json:"seed"`
	Cores           int     `json:"cores"`
	Routers         int     `json:"routers"`
	Parts           int     `json:"parts"`
	Memory          int64   `json:"memory_bytes"` // the most that was resident
	BytesPerNode    int64   `json:"bytes_per_node"`
	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"events_per_second"`
	Virtual         float64 `json:"virtual_time_us"`
	Wall            float64 `json:"wall_seconds"` // without setup
	Setup           float64 `json:"setup_seconds"`
	Hops            uint64  `json:"hops"`
	HopsExpected    uint64  `json:"hops_expected"`
	Frames          uint64  `json:"frames"`
	Retransmitted   uint64  `json:"retransmitted"`
	Rejected        uint64  `json:"packets_rejected"`
	Hash            string  `json:"hash"`
}

// WriteTable prints the report for people.
func (r scaleReport) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s of %s on a %s of %s: verified\n", r.Pattern, output.Count(r.Nodes, "node"), r.Network,
		output.Count(r.Routers, "router"))
	return output.Table(w,
		output.Row("  virtual time", fmt.Sprintf("%.3f us", r.Virtual)),
		output.Row("  wall time", fmt.Sprintf("%.2f s, and %.2f s to make the nodes", r.Wall, r.Setup)),
		output.Row("  events", fmt.Sprintf("%d, %.2f million a second on %s", r.Events, r.EventsPerSecond/1e6,
			output.Count(r.Cores, "processor"))),
		output.Row("  memory", fmt.Sprintf("%.2f GiB, %.1f KiB a node", float64(r.Memory)/(1<<30),
			float64(r.BytesPerNode)/(1<<10))),
		output.Row("  routers passed", fmt.Sprintf("%d by packets; their ways have %d", r.Hops, r.HopsExpected)),
		output.Row("  frames", fmt.Sprintf("%d, %d sent again; %d packets found no room", r.Frames, r.Retransmitted,
			r.Rejected)),
		output.Row("  hash", r.Hash))
}
