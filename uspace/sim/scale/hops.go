package scale

// This file computes how many routers the messages of a pattern pass.

import (
	"math/bits"

	"github.com/funet/funet/uspace/topology"
)

// expectedHops returns the hops of all messages of a pattern.
func (p *pattern) expectedHops(t *topology.Network) (hops uint64) {
	each := func(message int) uint64 {
		if p.shifts != nil {
			if n, ok := shiftHops(t, p.nodes, p.shifts[message%len(p.shifts)]); ok {
				return n
			}
		}
		n := 0
		for node := range p.nodes {
			if to := p.to(node, message); to != nobody {
				n += t.Way(node, to).Hops
			}
		}
		return uint64(n)
	}
	if p.name == "barrier" {
		for round := range p.shifts {
			hops += each(round)
		}
		return hops * uint64(p.messages)
	}
	for m := range p.messages {
		hops += each(m)
	}
	return hops
}

// shiftHops returns, in closed form, the hops of one message of each node to the node that is a
// distance further on, around the end. ok is false where there is no form: if places of the network
// are free, or the distance on a hypercube is no power of two.
//
// Two nodes are apart by the size of the smallest aligned block of nodes that has both. In a block
// of b there are b-d pairs at distance d < b. Messages around the end go back by nodes-d.
func shiftHops(t *topology.Network, nodes, distance int) (hops uint64, ok bool) {
	if nodes != t.Terminals() || distance < 1 || distance >= nodes {
		return 0, false
	}
	together := func(block int) uint64 { // messages that stay in their block
		if block == nodes {
			return uint64(nodes)
		}
		return uint64(nodes / block * (max(block-distance, 0) + max(block-(nodes-distance), 0)))
	}
	each := nodes / t.Rows() // nodes of a router
	switch t.String() {
	case "fat tree": // 2m-1 routers between nodes that a block of 4^m has
		least := uint64(0)
		for block, routers := each, uint64(1); block <= nodes; block, routers = block*each, routers+2 {
			hops += routers * (together(block) - least)
			least = together(block)
		}
		return hops, true
	case "hypercube":
		// Adding 2^d changes bit d, and bit d+c if the c bits from d on are all 1: in one of 2^c
		// nodes. A bit of the router's number that changes is a hop, and the last router is one.
		if distance&(distance-1) != 0 {
			return 0, false
		}
		d, all := bits.TrailingZeros(uint(distance)), bits.TrailingZeros(uint(nodes))
		hops = uint64(nodes)
		for bit := max(d, bits.TrailingZeros(uint(each))); bit < all; bit++ {
			hops += uint64(nodes) >> (bit - d)
		}
		return hops, true
	case "butterfly": // all columns and back, or one router
		columns := uint64(t.Routers() / t.Rows())
		return uint64(nodes) + columns*(uint64(nodes)-together(each)), true
	}
	return 0, false
}
