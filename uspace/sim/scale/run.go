package scale

// This file runs a pattern.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/topology"
)

// The limits of Options.
const (
	MinNodes, MaxNodes = 2, topology.MostTerminals
	MaxMessages        = 64
	MaxCores           = 64
)

// ErrOptions reports options that make no sense.
var ErrOptions = errors.New("scale: cannot run")

// Options say what is run.
type Options struct {
	Nodes    int
	Pattern  string // one of Patterns()
	Network  string // one of topology.LargeKinds()
	Messages int    // that each node sends; of barrier: barriers
	Seed     uint64 // of the pattern, of the content, and of when nodes begin
	Cores    int    // how many processors run it
}

// Result is the outcome of a run whose messages have all arrived, once and with their content.
type Result struct {
	Routers       int
	Parts         int
	Events        uint64        // taken from the queues of events
	Virtual       time.Duration // until the last program returned
	Wall          time.Duration // of the run, without making the nodes
	Setup         time.Duration // of making the nodes
	Hops          uint64        // of packets, as routers counted them
	HopsExpected  uint64
	Frames        uint64 // that cards sent
	Retransmitted uint64 // of the frames
	Rejected      uint64 // packets for which a receiver had no room, and which were sent again
	Hash          uint64
}

const (
	// mostParts is in how many parts a large network is.
	mostParts = 16
	// A card of a large network has few lines, and a process short queues.
	lines, replyLines, slots = 32, 8, 8
	limit                    = time.Hour // of virtual time
)

// Run runs a pattern. It calls made after each node that was made, and ran now and then while the
// run goes on. It returns the context's error if that ends first.
func Run(ctx context.Context, o Options, made, ran func()) (*Result, error) {
	switch {
	case o.Nodes < MinNodes || o.Nodes > MaxNodes:
		return nil, fmt.Errorf("%w %d nodes; use %d to %d", ErrOptions, o.Nodes, MinNodes, MaxNodes)
	case o.Messages < 1 || o.Messages > MaxMessages:
		return nil, fmt.Errorf("%w %d messages a node; use 1 to %d", ErrOptions, o.Messages, MaxMessages)
	case o.Cores < 1 || o.Cores > MaxCores:
		return nil, fmt.Errorf("%w on %d processors; use 1 to %d", ErrOptions, o.Cores, MaxCores)
	}
	p, err := newPattern(o.Pattern, o.Nodes, o.Messages, o.Seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	top, err := topology.Large(o.Network, o.Nodes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	program := p.program(o.Seed)
	if p.name == "barrier" {
		program = barriers(o.Nodes, o.Messages, o.Seed)
	}
	begin := time.Now()
	k, err := sim.NewCluster(sim.ClusterOptions{
		Topology: top, Parts: min(top.Rows(), mostParts), Nodes: o.Nodes, Slots: slots, Neighbours: p.peers,
		Net: sim.EthernetConfig{Seed: o.Seed},
		Tune: func(c *engine.Config) {
			c.Lines, c.ReplyLines = lines, replyLines
			// Nothing is lost, but much waits for long.
			c.FirstRTO, c.MinRTO, c.MaxRTO = limit, limit, limit
			c.PeerTimeout, c.ConnectTimeout = limit, limit
		},
		Made: func(int) error {
			made()
			return ctx.Err()
		}}, program)
	if err != nil {
		return nil, fmt.Errorf("making %d nodes: %w", o.Nodes, err)
	}
	defer k.Close()
	r := &Result{Routers: top.Routers(), Parts: min(top.Rows(), mostParts), Setup: time.Since(begin)}
	begin = time.Now()
	if err := k.FinishOn(ctx, o.Cores, limit, ran); err != nil {
		return nil, err
	}
	r.Wall = time.Since(begin)
	r.Events, r.Virtual, r.Hash = k.Events(), time.Duration(k.Now()), k.Hash()
	r.Frames, r.Hops = k.Carried()
	r.HopsExpected = p.expectedHops(top)
	for _, process := range k.Processes {
		c := process.Card().Engine().Counters()
		r.Retransmitted += c.Retransmitted
		r.Rejected += c.RejectsReceived
	}
	switch {
	case r.Retransmitted > 0:
		return nil, fmt.Errorf("%w: %d frames were sent again on a network that loses none", errVerify, r.Retransmitted)
	case r.Hops < r.HopsExpected || r.Rejected == 0 && r.Hops != r.HopsExpected:
		return nil, fmt.Errorf("%w: packets passed %d routers; their ways have %d", errVerify, r.Hops, r.HopsExpected)
	}
	return r, nil
}
