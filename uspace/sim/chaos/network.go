package chaos

// This file has the two networks that a scenario may run on.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/sim"
	"github.com/funet/funet/uspace/topology"
)

// Network is the kind of network that connects the cards.
type Network uint8

// The networks. Arctic never loses a packet: there only processes and cards can go wrong.
const (
	Ethernet Network = iota
	Arctic
)

var networkNames = [...]string{"ethernet", "arctic"}

// ErrNetwork reports a name that is not that of a network.
var ErrNetwork = errors.New("chaos: no such network")

// ParseNetwork reads "ethernet" or "arctic".
func ParseNetwork(s string) (Network, error) {
	if i := slices.Index(networkNames[:], s); i >= 0 {
		return Network(i), nil
	}
	return 0, fmt.Errorf("reading network %q: %w; use ethernet or arctic", s, ErrNetwork)
}

// String returns the form that ParseNetwork reads.
func (n Network) String() string { return networkNames[n%2] }

// faultsOfEthernet are the kinds of faults that Arctic does not have.
const faultsOfEthernet = Loss | Dup | Reorder | Corrupt | Partition | Cut | Narrow | Forge | Replay | Sizes | Defer

// maxArctic is the most cards that Arctic's 30 route bits lead to: a fat tree of five
// levels of routers with 8 ports.
const maxArctic = 1024

// mostMTU is the longest Ethernet payload, in bytes.
const mostMTU = 3498

// ethernet draws the Ethernet and its faults by chance.
func (s *Scenario) ethernet(p *plan) {
	r := s.stream(streamNet)
	p.net = sim.EthernetConfig{
		Seed:      s.Seed,
		Bandwidth: pick(r, 0, 1e9, 10e9, 100e9),
		Delay:     pick(r, time.Microsecond, 5*time.Microsecond, 40*time.Microsecond),
		MTU:       pick(r, arctic.MinMTU, 1500, mostMTU),
	}
	n := &p.net
	if p.mtu != 0 {
		n.MTU = p.mtu
	}
	for k, f := range []*float64{&n.Faults.Loss, &n.Faults.Duplicate, &n.Faults.Reorder, &n.Faults.Corrupt} {
		chance := pick(s.stream(streamFaults+uint64(k)), .001, .01, .05, .2)
		if s.Faults>>k&1 != 0 {
			*f = chance
		}
	}
	n.Faults.HoldBack = 60 * time.Millisecond
	if s.Faults&Congestion != 0 {
		r := s.stream(streamFaults + 4)
		n.Transmit, n.Switch, n.Receive = pick(r, 1, 8, 64), pick(r, 4, 32, 256), pick(r, 4, 32, 256)
		if n.Bandwidth == 0 {
			n.Bandwidth = 10e9
		}
	}
}

// arctic draws routers, and how they are wired, for all cards.
func (s *Scenario) arctic(p *plan) {
	r := s.stream(streamArctic)
	radix, cube := pick(r, 4, 8), r.IntN(2) == 0
	p.arctic = sim.ArcticConfig{MTU: pick(r, arctic.MinMTU, 1500),
		Cycle: pick(r, 40*time.Nanosecond, 4*time.Nanosecond), Transmit: pick(r, 16, 64)}
	if p.mtu != 0 {
		p.arctic.MTU = p.mtu
	}
	if s.Faults&Congestion != 0 {
		r := s.stream(streamFaults + 4)
		// A greeting that finds no room waits for its timer, so that fewer buffers than
		// this may make two cards miss each other on a network that is fair.
		p.arctic.Buffers, p.arctic.Transmit = 2, 8
		p.arctic.FlowThrough = pick(r, 5, 50)
	}
	// The smallest that has room; the large ones only routers of 8 ports can make.
	for size := 1; p.topology == nil || p.topology.Terminals() < p.cards; size++ {
		var err error
		switch each := radix / 2; {
		case cube && size-1+each <= radix:
			p.topology, err = topology.Hypercube(radix, size-1, each)
		case cube:
			cube, radix, size = false, 8, 0
		default:
			p.topology, err = topology.FatTree(radix, size)
		}
		if err != nil {
			cube, radix, size = false, 8, 0
		}
	}
}

// network has what both kinds of network report.
type network interface {
	UnderWay() int // returns how many frames the network holds
}

// connect makes the network and the cards, which are down.
func (r *run) connect() error {
	if r.scenario.Network == Ethernet {
		r.ethernet = r.world.NewEthernet(r.plan.net)
		r.net = r.ethernet
		sizes := r.scenario.stream(streamFaults + 18)
		for range r.cards {
			p := r.ethernet.Plug()
			if longest := p.FrameSize(); r.scenario.Faults&Sizes != 0 && sizes.IntN(2) == 0 {
				p.Limit(leastFrame + sizes.IntN(longest-leastFrame+1))
			}
			c := r.world.NewCard(p)
			if r.scenario.Faults&Bundles != 0 && !r.scenario.Direct {
				c.Bundle()
			}
		}
		if r.scenario.Faults&(Forge|Replay) != 0 {
			r.spy = newSpy(r.scenario.Seed)
			r.ethernet.Listen(r.spy.hear)
		}
		r.ghosts = newGhosts(r.cards, r.world.Now)
		r.oracle.ghosts = r.ghosts
		r.ethernet.Watch(r.ghosts.arrives)
		if r.scenario.Direct {
			r.gates = r.newGates()
		}
		if r.scenario.Faults&Defer != 0 {
			r.ethernet.Defer(r.absence())
		}
		if r.scenario.Faults&Notices != 0 {
			r.notices = r.newNotices()
		}
		return nil
	}
	n, err := r.world.NewArctic(r.topology, r.plan.arctic)
	if err != nil {
		return fmt.Errorf("building the network of seed %d: %w", r.scenario.Seed, err)
	}
	r.net = n
	for i := range r.cards {
		c := r.world.NewCard(n.Port(i))
		if r.scenario.Faults&Bundles != 0 {
			c.Bundle()
		}
	}
	return nil
}

// absence returns which groups count as absent on a host now. Each comes and goes by itself.
func (r *run) absence() func(port int, gid uint16) bool {
	random := r.scenario.stream(streamFaults + 27)
	shift, one := 13+random.IntN(10), 2+random.Uint64N(6) // 8 us to 4 ms; one time in so many
	return func(port int, gid uint16) bool {
		at := uint64(r.world.Now())>>shift<<32 | uint64(port)<<16 | uint64(gid)
		return rand.New(rand.NewPCG(r.scenario.Seed, at)).Uint64()%one == 0
	}
}

func (r *run) peers(i int) (all []engine.Peer) {
	for j := range r.cards {
		if j != i {
			all = append(all, engine.Peer{Card: uint16(j), Address: sim.Address(j), Local: sim.Address(i), Key: r.key})
		}
	}
	return all
}

// heal makes the network fair. Faults that have an end of their own are left to it.
func (r *run) heal() {
	if r.ethernet != nil {
		r.ethernet.SetFaults(sim.Faults{})
		r.ethernet.Defer(nil)
		r.ethernet.Heal()
	}
}
