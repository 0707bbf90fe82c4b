package sim

// This file is a cluster of modelled machines: what a hardware profile means for the
// cards, processors and network of a world.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/timing"
)

// NewPacedCluster makes a cluster of so many machines as the profile describes, in which
// every node runs the program, with queues of so many slots. The profile must have a
// network and a bus. Nothing takes time but what the profile says does.
func NewPacedCluster(p *hwprofiles.Profile, nodes, slots int, program Program) (*Cluster, error) {
	if p.Bus.Clock == 0 || p.CPU.Clock == 0 || p.Network.Clock == 0 {
		return nil, fmt.Errorf("simulating profile %s: it has no bus, no processor or no network; use one that has, such as sbus-arctic", p.Name)
	}
	top, err := pacedTopology(nodes)
	if err != nil {
		return nil, err
	}
	n := &p.Network
	o := ClusterOptions{
		Options:  Options{PollTime: 1, StepTime: 1},
		Topology: top,
		Arctic: ArcticConfig{
			Cycle: n.Clock.Duration(hwprofiles.Cycle), Buffers: n.InputBuffers,
			FlowThrough: int(n.RouterCycles / hwprofiles.Cycle), Wire: int(n.WireCycles / hwprofiles.Cycle),
			Transmit: 4 * nodes, Bare: true,
		},
		Nodes: nodes, Slots: slots,
	}
	var buses []*timing.Bus
	o.Tune = func(c *engine.Config) {
		PaceCard(c, p)
		buses = append(buses, c.Timing.Bus)
	}
	k, err := NewCluster(o, program)
	if err != nil {
		return nil, err
	}
	for i, process := range k.Processes {
		process.Pace(timing.CPUConfig{
			Cycle: p.CPU.Clock.Duration(p.CPU.InstructionCycles),
			Store: p.CPU.Clock.Duration(p.CPU.UncachedWriteCycles),
			Stall: max(0, p.CPU.Clock.Duration(p.CPU.UncachedReadCycles)-p.Bus.Transaction(1)),
		}, buses[i])
	}
	return k, nil
}

// PaceCard gives a card the limits of the profile's, and its units the times, with a bus of
// their own. The profile must have a bus.
func PaceCard(c *engine.Config, p *hwprofiles.Profile) {
	limit(c, p)
	bus, network := p.Bus.Clock, p.Network.Clock
	c.Timing = &engine.Timing{
		Bus:       timing.NewBus(bus.Duration(p.Bus.TransactionCycles), bus.Duration(p.Bus.WordCycles)),
		Bursts:    p.Bus.Bursts,
		Retrieval: bus.Duration(p.Units.RetrievalCycles),
		Dispatch:  bus.Duration(p.Units.DispatchCycles),
		Delivery:  bus.Duration(p.Units.DeliveryCycles),
		Transmit:  network.Duration(p.Units.TransmitCycles), Preprocess: network.Duration(p.Units.PreprocessCycles),
	}
}

// limit gives a card the limits of the profile's.
func limit(c *engine.Config, p *hwprofiles.Profile) {
	n := &p.Network
	set := func(to *int, v int) {
		if v > 0 {
			*to = v
		}
	}
	set(&c.Lines, p.Card.Lines)
	set(&c.ReplyLines, p.Card.ReplyLines)
	set(&c.Sets, p.Card.Contexts)
	set(&c.FIFO, p.Card.FIFOPackets)
	set(&c.Train, p.Card.TrainPackets)
	set(&c.AckEvery, p.Card.AcknowledgeEveryFrames)
	c.Blocks = false                               // a unit moves packets
	c.MinHold = n.Clock.Duration(hwprofiles.Cycle) // a rejected packet is dispatched again at once (5.2.4)
	c.MaxHold = c.MinHold
}

// pacedTopology is a hypercube with a card at each router. Routers of four ports make one
// of eight nodes at most, and the thesis does not say how its 32 were wired, so the
// routers have eight, and the latency of the profile's.
func pacedTopology(nodes int) (*Topology, error) {
	return Hypercube(8, bits.Len(uint(nodes-1)), 1)
}
