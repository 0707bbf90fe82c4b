package chaos

// This file draws the shape of a scenario from its seed. Scenarios of one shape find only the
// faults that this shape shows. Scenarios that each leave out a random half of what may happen find
// more than scenarios in which everything happens (A. Groce et al., "Swarm testing", ISSTA 2012).

import (
	"errors"
	"fmt"
	"slices"

	"github.com/funet/funet/uspace/arctic"
)

// Shape says whether a scenario's size and faults are given or drawn.
type Shape uint8

// The shapes.
const (
	Given Shape = iota // the scenario's fields give them
	Swarm              // the seed gives them; see Drawn
)

var shapeNames = [...]string{"given", "swarm"}

// ErrShape reports a name that is not that of a shape.
var ErrShape = errors.New("chaos: no such shape")

// ParseShape reads "given" or "swarm".
func ParseShape(s string) (Shape, error) {
	if i := slices.Index(shapeNames[:], s); i >= 0 {
		return Shape(i), nil
	}
	return 0, fmt.Errorf("reading shape %q: %w; use given or swarm", s, ErrShape)
}

// String returns the form that ParseShape reads.
func (h Shape) String() string { return shapeNames[h%2] }

// swarmProfiles are the profiles that a swarm draws from: those of machines that chaos can run.
// Adding one changes the meaning of all seeds.
var swarmProfiles = []string{"sbus-arctic", "sbus-arctic-paper", "hamlyn", "tokyo"}

// Drawn returns the scenario of a swarm's seed: from 2 to 32 nodes, 16 to 16,383 messages, and each
// kind of fault with a chance of one half. The network is Arctic with a chance of 1/8. A machine's
// profile has a chance of 1/4, and on Ethernet so have direct cards. A small number is as likely as
// a large one: each doubling has the same chance. Run draws the rest from the same seed: how many
// processes share a card, the size of each process's queues, which processes issue by triggers, and
// the MTU.
func (s Scenario) Drawn() Scenario {
	r := s.stream(streamShape)
	doubled := func(least, doublings int) int {
		n := least << r.IntN(doublings)
		return n + r.IntN(n)
	}
	s.Shape = Swarm
	s.Nodes = doubled(2, 4) + r.IntN(2) // 32 is 31 and one
	s.Messages = doubled(16, 10)
	s.Faults = Faults(r.Uint32()) & All
	if s.Network = Ethernet; r.IntN(8) == 0 {
		s.Network = Arctic
	}
	if s.Profile = Native; r.IntN(4) == 0 {
		s.Profile = pick(r, swarmProfiles...)
	}
	s.Direct = s.stream(streamDirect).IntN(4) == 0 && s.Network == Ethernet
	return s
}

// swarm draws what only the plan of a swarm has.
func (s *Scenario) swarm(p *plan) {
	r := s.stream(streamSwarm)
	p.crowd = r.IntN(7)
	p.mtu = arctic.MinMTU + r.IntN(mostMTU-arctic.MinMTU+1)
	for range s.Nodes {
		p.queues = append(p.queues, 2<<r.IntN(9))
	}
	if r := s.stream(streamTrigger); r.IntN(2) == 0 {
		for range s.Nodes {
			p.triggers = append(p.triggers, r.IntN(3) == 0)
		}
	}
}

// Plan describes what the seed draws besides the scenario's fields: groups, cards, queues and MTU.
func (s Scenario) Plan() (string, error) {
	p, err := s.ready()
	if err != nil {
		return "", err
	}
	groups := map[uint16]bool{}
	least, most := p.queue(0), p.queue(0)
	for i, m := range p.members {
		groups[m.gid] = true
		least, most = min(least, p.queue(i)), max(most, p.queue(i))
	}
	mtu := p.net.MTU
	if s.Network == Arctic {
		mtu = p.arctic.MTU
	}
	return fmt.Sprintf("groups %d, cards %d, slots of a queue %d to %d, MTU %d", len(groups), p.cards,
		least, most, mtu), nil
}
