package sim

// This file has the plain case: a group of nodes, one to a card, on one network.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/topology"
)

// Group is the group of a cluster's nodes.
const Group = 7

// ClusterOptions say what a cluster is made of.
type ClusterOptions struct {
	Options
	Net EthernetConfig
	// Topology, if not nil, puts the nodes on an Arctic network instead of Ethernet.
	Topology *topology.Network
	Arctic   ArcticConfig
	Nodes    int
	Slots    int                  // of each queue; 0: 64
	Tune     func(*engine.Config) // nil: native
	// Neighbours returns the nodes to which a node has routes; nil: all nodes. A card needs some
	// hundred bytes for each other card that it knows.
	Neighbours func(node int) []int
}

// Cluster is a world with a group of nodes 0 to Nodes-1, node i on card i.
type Cluster struct {
	*World
	Net       *Ethernet // nil on Arctic
	Arctic    *Arctic   // nil on Ethernet
	Processes []*Process
}

// NewCluster makes a cluster in which every node runs the program.
func NewCluster(o ClusterOptions, program Program) (*Cluster, error) {
	o.Slots = cmp.Or(o.Slots, 64)
	k := &Cluster{World: NewWorld(o.Options)}
	if o.Topology == nil {
		k.Net = k.NewEthernet(o.Net)
		for range o.Nodes {
			k.NewCard(k.Net.Plug())
		}
	} else {
		if o.Nodes > o.Topology.Terminals() {
			return nil, fmt.Errorf("%w: %d nodes on a network for %d", topology.Err, o.Nodes, o.Topology.Terminals())
		}
		var err error
		if k.Arctic, err = k.NewArctic(o.Topology, o.Arctic); err != nil {
			return nil, err
		}
		for i := range o.Nodes {
			k.NewCard(k.Arctic.Port(i))
		}
	}
	routes := make([]uint32, o.Nodes)
	for i := range routes {
		routes[i] = uint32(i)
	}
	for i, c := range k.cards {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Seed, cfg.Routes = uint16(i), uint32(i+1), o.Net.Seed+uint64(i), routes
		if o.Neighbours != nil {
			cfg.Routes = nil
			know := append(slices.Clone(o.Neighbours(i)), i)
			for _, j := range know {
				for j >= len(cfg.Routes) {
					cfg.Routes = append(cfg.Routes, engine.NoRoute)
				}
				cfg.Routes[j] = uint32(j)
			}
		}
		for j, r := range cfg.Routes {
			if j != i && r != engine.NoRoute {
				cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(j), Address: Address(j), Local: Address(i)})
			}
		}
		if o.Tune != nil {
			o.Tune(&cfg)
		}
		if err := c.Start(cfg); err != nil {
			return nil, err
		}
		p, err := c.Run(Group, uint16(i), o.Slots, program)
		if err != nil {
			return nil, err
		}
		k.Processes = append(k.Processes, p)
	}
	return k, nil
}

// Finish runs until every program has returned. It returns the first error of a program, or an
// error if they take longer than the given virtual time.
func (k *Cluster) Finish(limit time.Duration) error {
	left := 0
	all := func() bool {
		for left < len(k.Processes) && k.Processes[left].ended {
			left++
		}
		return left == len(k.Processes)
	}
	k.Run(k.now+int64(limit), all)
	for i, p := range k.Processes {
		if p.err != nil {
			return fmt.Errorf("node %d: %w", i, p.err)
		}
	}
	if !all() {
		return fmt.Errorf("node %d has not ended after %v of virtual time", left, limit)
	}
	return nil
}
