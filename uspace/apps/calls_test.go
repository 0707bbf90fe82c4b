package apps_test

// This file tests the program of all calls, on cards in memory and in the simulator.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/topology"
)

// small is the card of thesis 5.2: 8 lines, FIFOs of 10, neither trains nor blocks.
func small(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.Train, c.Blocks = 8, 2, 10, 1, false }

// TestCalls: every call brings what it should, on any number of nodes, queues, card and
// network, and node 0 alone learns how long it took.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		nodes, slots int
		faults       wire.Faults
		tune         func(*engine.Config)
		o            callsOptions
	}{
		{1, 64, wire.Faults{}, nil, callsOptions{Rounds: 3, Words: 100}},
		{2, 64, wire.Faults{}, nil, callsOptions{Rounds: 5, Words: 1}},
		{2, 2, wire.Faults{}, nil, callsOptions{Rounds: 5, Words: 50000}},
		{3, 64, wire.Faults{}, small, callsOptions{Rounds: 5, Words: 1001}},
		{5, 4, faults, nil, callsOptions{Rounds: 10, Words: 333, Seed: 9}},
		{8, 2, faults, small, callsOptions{Rounds: 3, Words: 77}},
	} {
		t.Run(fmt.Sprintf("%d nodes %d slots %+v faults %v small %v", c.nodes, c.slots, c.o, c.faults != wire.Faults{},
			c.tune != nil), func(t *testing.T) {
			b := bed.New(t, bed.Options{Nodes: c.nodes, Slots: c.slots, Net: wire.Config{Seed: 1, Faults: c.faults},
				Tune: c.tune})
			results := make([]callsResult, c.nodes)
			b.MustRun(func(n *bed.Node) (err error) {
				results[n.Node()], err = calls(n.Endpoint, n.Register, n.Now, c.o)
				return err
			})
			for i, r := range results {
				if (i == 0) != (r.Rounds == c.o.Rounds && r.Nanoseconds > 0) {
					t.Errorf("node %d learnt %+v", i, r)
				}
			}
		})
	}
}

// TestCallsInTheSimulator: the same program, on 16 nodes of an Ethernet that loses frames
// and of the Arctic network, which has no blocks.
func TestCallsInTheSimulator(t *testing.T) {
	tree, err := topology.FatTree(4, 4) // 16 terminals
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]sim.ClusterOptions{
		"Ethernet": {Net: sim.EthernetConfig{Seed: 3, Bandwidth: 1e10,
			Faults: sim.Faults{Loss: 0.02, Duplicate: 0.02}}},
		"Arctic": {Topology: tree, Tune: small},
	} {
		o.Nodes = 16
		k, err := sim.NewCluster(o, func(p *sim.Process) error {
			e, err := p.Endpoint(o.Nodes)
			if err != nil {
				return err
			}
			_, err = calls(e, p.Context().Register, p.Now, callsOptions{Rounds: 3, Words: 500})
			if err == nil {
				// what was sent last is retransmitted if need be
				p.Sleep(int64(100 * time.Millisecond))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Finish(time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCallsWithoutANode: the program ends on all nodes when one is gone.
func TestCallsWithoutANode(t *testing.T) {
	for _, at := range []time.Duration{50, 200, 500, 1000, 3000} {
		b := bed.New(t, bed.Options{Nodes: 4, Limit: 5 * time.Minute, Tune: func(c *engine.Config) {
			c.PeerTimeout = 100 * time.Millisecond
		}})
		b.At(at*time.Microsecond, b.Nodes[2].Kill)
		for i, err := range b.Run(func(n *bed.Node) error {
			_, err := calls(n.Endpoint, n.Register, n.Now, callsOptions{Rounds: 10000, Words: 300})
			return err
		}) {
			var u *am.Undelivered
			if i == 2 && !errors.Is(err, bed.ErrKilled) || i != 2 && !errors.As(err, &u) {
				t.Errorf("killed after %v: node %d ended with %v", at*time.Microsecond, i, err)
			}
		}
	}
}

// TestCallsRefusals: options out of range are errors before anything is sent.
func TestCallsRefusals(t *testing.T) {
	for _, o := range []callsOptions{{}, {Rounds: 1}, {Words: 1}, {Rounds: -1, Words: 1},
		{Rounds: 1, Words: mostCallsWords + 1}} {
		b := bed.New(t, bed.Options{Nodes: 2})
		for i, err := range b.Run(func(n *bed.Node) error {
			_, err := calls(n.Endpoint, n.Register, n.Now, o)
			return err
		}) {
			if err == nil || b.Nodes[i].Card.Counters().FramesSent != 0 {
				t.Errorf("%+v: error %v and %d frames sent on node %d", o, err,
					b.Nodes[i].Card.Counters().FramesSent, i)
			}
		}
	}
}
