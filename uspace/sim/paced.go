package sim

// This file has clusters of modelled machines: package machine makes any number of them from a
// hardware profile, on the network of the profile.

import (
	"fmt"
	"math/bits"

	"github.com/funet/funet/hwprofiles"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/machine"
	"github.com/funet/funet/uspace/topology"
)

// NewPacedCluster makes a cluster of the given number of machines that the profile describes. Every
// node runs the program, with queues of the given number of slots. The profile must have a network
// and a bus. Only what has a cost in the profile takes time.
func NewPacedCluster(p *hwprofiles.Profile, nodes, slots int, program Program) (*Cluster, error) {
	return NewPacedRemote(p, nodes, slots, funi.RemoteSizes{}, program)
}

// NewPacedRemote is NewPacedCluster of processes with remote memory of the sizes.
func NewPacedRemote(p *hwprofiles.Profile, nodes, slots int, remote funi.RemoteSizes,
	program Program) (*Cluster, error) {
	m, err := machine.New(p)
	if err != nil {
		return nil, fmt.Errorf("simulating: %w", err)
	}
	top, err := pacedTopology(p, m, nodes)
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
	o.Remote = remote
	switch {
	case n.Clock == 0: // the network is one latency, and the rest is the cards' (hwprofiles.Step)
		cycle := p.Bus.Clock.Duration(hwprofiles.Cycle)
		o.Arctic.Cycle, o.Arctic.Wire, o.Arctic.Weightless = cycle, 1, true
		// a wire to the switch, and one from there
		o.Arctic.FlowThrough = max(int(m.Link().Latency/cycle)-2, 1)
	case m.Link().Word == 0: // it has a clock, in whose cycles the latency is none
		o.Arctic.Cycle, o.Arctic.Wire, o.Arctic.Weightless = 1, 1, true
		o.Arctic.FlowThrough = max(int(m.Link().Latency)-2, 1)
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

// pacedTopology returns one crossbar, if the profile says so or if the profile has nothing but
// links, between any two cards. Otherwise it returns a hypercube with a card at each router.
// Routers of four ports make a hypercube of eight nodes at most, and the thesis does not say how
// its 32 nodes were wired. So the routers have eight ports, and the latency of the profile's.
func pacedTopology(p *hwprofiles.Profile, m *machine.Machine, nodes int) (*topology.Network, error) {
	if p.Network.Topology == hwprofiles.Crossbar || m.Link().Word == 0 {
		return topology.Hypercube(8, 0, nodes)
	}
	return topology.Hypercube(8, bits.Len(uint(nodes-1)), 1)
}
