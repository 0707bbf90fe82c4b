package sim

// This file is a cluster of modelled machines: package machine makes any number of them
// from a hardware profile, and they are on the network of the profile.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/machine"
)

// NewPacedCluster makes a cluster of the given number of machines that the profile describes. Every node runs the
// program, with queues of the given number of slots. The profile must have a network and a bus. Only what has a cost in
// the profile takes time.
func NewPacedCluster(p *hwprofiles.Profile, nodes, slots int, program Program) (*Cluster, error) {
	if _, err := machine.New(p); err != nil {
		return nil, fmt.Errorf("simulating: %w", err)
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
	var machines []*machine.Machine
	o.Tune = func(c *engine.Config) {
		m, _ := machine.New(p) // as above
		machines = append(machines, m)
		m.Tune(c)
	}
	k, err := NewCluster(o, program)
	if err != nil {
		return nil, err
	}
	for i, process := range k.Processes {
		process.Pace(machines[i].CPU(), machines[i].Bus())
	}
	return k, nil
}

// pacedTopology is a hypercube with a card at each router. Routers of four ports make one
// of eight nodes at most, and the thesis does not say how its 32 were wired, so the
// routers have eight, and the latency of the profile's.
func pacedTopology(nodes int) (*Topology, error) {
	return Hypercube(8, bits.Len(uint(nodes-1)), 1)
}
