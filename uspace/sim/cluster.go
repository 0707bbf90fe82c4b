package sim

// This file has the plain case: a group of nodes, one to a card, on one network.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
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
	// Parts is in how many worlds the routers are, for FinishOn; at most the topology's Rows.
	// Events that happen at the same time have an order for each number of parts. 0: one world,
	// without FinishOn.
	Parts int
	Nodes int
	// Bundles has the cards send small frames in bundles (Card.Bundle).
	Bundles bool
	Slots   int                  // of each queue; 0: 64
	Tune    func(*engine.Config) // nil: native
	// Neighbours returns the nodes to which a node has routes; nil: all nodes. A card needs some
	// hundred bytes for each other card that it knows.
	Neighbours func(node int) []int
	// Made is called after each node that was made, and ends NewCluster if it returns an error;
	// nil: it is not called.
	Made func(node int) error
}

// Cluster is a world with a group of nodes 0 to Nodes-1, node i on card i. Of a cluster in several
// parts, World and Arctic are the first ones, and the methods of Cluster are about all.
type Cluster struct {
	*World
	Net       *Ethernet // nil on Arctic
	Arctic    *Arctic   // nil on Ethernet
	Processes []*Process
	parts     []*part // nil: the world has no parts
	left      int     // the programs before this one have ended
}

// NewCluster makes a cluster in which every node runs the program.
func NewCluster(o ClusterOptions, program Program) (*Cluster, error) {
	o.Slots = cmp.Or(o.Slots, 64)
	k := &Cluster{World: NewWorld(o.Options)}
	var cards []*Card
	switch {
	case o.Topology == nil && o.Parts > 0:
		return nil, fmt.Errorf("%w: Ethernet in %d parts; only Arctic networks have parts", topology.Err, o.Parts)
	case o.Topology == nil:
		k.Net = k.NewEthernet(o.Net)
		for range o.Nodes {
			cards = append(cards, k.NewCard(k.Net.Plug()))
		}
	case o.Nodes > o.Topology.Terminals():
		return nil, fmt.Errorf("%w: %d nodes on a network for %d", topology.Err, o.Nodes, o.Topology.Terminals())
	default:
		nets, err := k.arctics(o)
		if err != nil {
			return nil, err
		}
		k.Arctic = nets[0]
		for i := range o.Nodes {
			p := nets[0].Port(i)
			cards = append(cards, p.net.world.newCard(i, p))
		}
	}
	everybody, routes := make([]int, o.Nodes), make([]uint32, o.Nodes)
	for i := range everybody {
		everybody[i], routes[i] = i, uint32(i)
	}
	for i, c := range cards {
		cfg := engine.Native()
		cfg.Card, cfg.Incarnation, cfg.Seed, cfg.Routes = uint16(i), uint32(i+1), o.Net.Seed+uint64(i), routes
		know := everybody
		if o.Neighbours != nil {
			know = o.Neighbours(i)
			cfg.Routes = nil
			// A table of each card's own is quicker, but takes 16 GiB for 65,536 cards.
			if cfg.NodesAreCards = o.Parts > 0; !cfg.NodesAreCards {
				cfg.Routes = table(append(slices.Clone(know), i))
			}
		}
		for _, j := range know {
			if j != i {
				cfg.Peers = append(cfg.Peers, engine.Peer{Card: uint16(j), Address: Address(j), Local: Address(i)})
			}
		}
		if o.Tune != nil {
			o.Tune(&cfg)
		}
		if o.Bundles {
			c.Bundle()
		}
		if err := c.Start(cfg); err != nil {
			return nil, err
		}
		p, err := c.Run(Group, uint16(i), o.Slots, program)
		if err != nil {
			return nil, err
		}
		k.Processes = append(k.Processes, p)
		if o.Made != nil {
			if err := o.Made(i); err != nil {
				k.Close()
				return nil, err
			}
		}
	}
	return k, nil
}

// table returns a route table of some nodes, where node i is on card i.
func table(nodes []int) (routes []uint32) {
	for _, j := range nodes {
		for j >= len(routes) {
			routes = append(routes, engine.NoRoute)
		}
		routes[j] = uint32(j)
	}
	return routes
}

// arctics makes the network in as many worlds as it has parts; the first is the cluster's own.
func (k *Cluster) arctics(o ClusterOptions) ([]*Arctic, error) {
	if o.Parts > o.Topology.Rows() {
		return nil, fmt.Errorf("%w: %d parts of %d routers with cards", topology.Err, o.Parts, o.Topology.Rows())
	}
	worlds := []*World{k.World}
	for i := 1; i < o.Parts; i++ {
		w := NewWorld(o.Options)
		w.lives = uint64(i) << 32 // no two endpoints have one
		worlds = append(worlds, w)
	}
	nets, err := newArctics(worlds, o.Topology, o.Arctic)
	if err == nil && o.Parts > 0 {
		k.parts = split(worlds, nets)
	}
	return nets, err
}

// Finish runs until every program has returned. It returns the first error of a program, or an
// error if they take longer than the given virtual time.
func (k *Cluster) Finish(limit time.Duration) error {
	if k.parts != nil {
		return k.FinishOn(context.Background(), 1, limit, nil)
	}
	k.Run(k.now+int64(limit), k.allEnded)
	return k.result(limit)
}

func (k *Cluster) allEnded() bool {
	for k.left < len(k.Processes) && k.Processes[k.left].ended {
		k.left++
	}
	return k.left == len(k.Processes)
}

// result returns what Finish returns at the end of a run.
func (k *Cluster) result(limit time.Duration) error {
	for i, p := range k.Processes {
		if p.err != nil {
			return fmt.Errorf("node %d: %w", i, p.err)
		}
	}
	if !k.allEnded() {
		return fmt.Errorf("node %d has not ended after %v of virtual time", k.left, limit)
	}
	return nil
}

// worlds returns all worlds of the cluster.
func (k *Cluster) worlds() []*World {
	if k.parts == nil {
		return []*World{k.World}
	}
	worlds := make([]*World, len(k.parts))
	for i, p := range k.parts {
		worlds[i] = p.world
	}
	return worlds
}

// Now returns the time of the last event in nanoseconds.
func (k *Cluster) Now() int64 {
	now := k.World.now
	for _, p := range k.parts {
		now = max(now, p.world.now)
	}
	return now
}

// Events returns how many events have happened; see World.
func (k *Cluster) Events() (n uint64) {
	for _, w := range k.worlds() {
		n += w.events
	}
	return n
}

// Hash returns a number over all worlds; see World.
func (k *Cluster) Hash() uint64 {
	if k.parts == nil {
		return k.World.hash
	}
	all := uint64(0)
	for _, p := range k.parts {
		all = mixed(all, p.world.hash)
	}
	return all
}

// Carried returns how many frames the cards of a cluster on Arctic have sent, and how many routers
// the packets in them have come to.
func (k *Cluster) Carried() (frames, hops uint64) {
	nets := []*Arctic{k.Arctic}
	if k.parts != nil {
		nets = nets[:0]
		for _, p := range k.parts {
			nets = append(nets, p.net)
		}
	}
	for _, a := range nets {
		frames, hops = frames+a.Frames, hops+a.Hops
	}
	return frames, hops
}

// Close ends all programs. The cluster must not be used after it.
func (k *Cluster) Close() {
	var all sync.WaitGroup
	for _, w := range k.worlds() {
		all.Go(w.Close)
	}
	all.Wait()
}
