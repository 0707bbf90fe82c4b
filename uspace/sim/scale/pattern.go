package scale

// This file has the patterns: which node each message of a node goes to.

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Patterns returns the names of the patterns.
func Patterns() []string { return []string{"barrier", "ring", "random", "incast", "alltoall-sample"} }

// nobody stands for no node.
const nobody = -1

// pattern says where the messages of nodes go.
type pattern struct {
	name     string
	nodes    int
	messages int // of each node
	shifts   []int
	random   []permutation
}

// newPattern returns a pattern in which each node sends the given number of messages.
func newPattern(name string, nodes, messages int, seed uint64) (*pattern, error) {
	p := &pattern{name: name, nodes: nodes, messages: messages}
	switch name {
	case "barrier":
		for round := range bits.Len(uint(nodes - 1)) {
			p.shifts = append(p.shifts, 1<<round)
		}
	case "ring":
		p.shifts = []int{1}
	case "random":
		for m := range messages {
			p.random = append(p.random, newPermutation(nodes, seed, uint64(m)))
		}
	case "incast":
	case "alltoall-sample":
		distances := newPermutation(nodes-1, seed, 0)
		for m := range min(messages, nodes-1) {
			p.shifts = append(p.shifts, 1+distances.of(m))
		}
	default:
		return nil, fmt.Errorf("no pattern is called %q; use barrier, ring, random, incast or alltoall-sample", name)
	}
	return p, nil
}

// to returns the node that a node's message goes to, or nobody.
func (p *pattern) to(node, message int) int {
	to := 0
	switch {
	case p.shifts != nil:
		return (node + p.shifts[message%len(p.shifts)]) % p.nodes
	case p.random != nil:
		to = p.random[message].of(node)
	}
	if to == node {
		return nobody
	}
	return to
}

// from returns the node whose message of a number goes to a node, or nobody. It does not serve
// incast, where there are many.
func (p *pattern) from(node, message int) int {
	if p.shifts != nil {
		return (node + p.nodes - p.shifts[message%len(p.shifts)]) % p.nodes
	}
	if from := p.random[message].origin(node); from != node {
		return from
	}
	return nobody
}

// gathers reports whether all nodes send to node 0.
func (p *pattern) gathers() bool { return p.shifts == nil && p.random == nil }

// expected returns how many messages a node gets.
func (p *pattern) expected(node int) (n int) {
	if p.gathers() {
		if node == 0 {
			n = (p.nodes - 1) * p.messages
		}
		return n
	}
	for m := range p.messages {
		if p.from(node, m) != nobody {
			n++
		}
	}
	return n
}

// place numbers the messages that a node gets, from 0 to places-1.
func (p *pattern) place(from, message int) int {
	if p.gathers() {
		return from*p.messages + message
	}
	return message
}

func (p *pattern) places(node int) int {
	switch {
	case !p.gathers():
		return p.messages
	case node == 0:
		return p.nodes * p.messages
	}
	return 0
}

// peers returns the nodes that a node sends to or gets from, in ascending order.
func (p *pattern) peers(node int) (peers []int) {
	if p.gathers() {
		if node != 0 {
			return []int{0}
		}
		for i := 1; i < p.nodes; i++ {
			peers = append(peers, i)
		}
		return peers
	}
	for m := range max(len(p.shifts), len(p.random)) {
		for _, peer := range []int{p.to(node, m), p.from(node, m)} {
			if peer != nobody {
				peers = append(peers, peer)
			}
		}
	}
	slices.Sort(peers)
	return slices.Compact(peers)
}

// permutation is a random permutation of 0 to n-1 that needs no table: a Feistel network of four
// rounds on an even number of bits, applied until the result is below n.
type permutation struct {
	n    int
	half int // bits of a half
	keys [4]uint64
}

func newPermutation(n int, seed, number uint64) permutation {
	p := permutation{n: n, half: (bits.Len(uint(max(n-1, 1))) + 1) / 2}
	random := rand.NewPCG(seed, number)
	for i := range p.keys {
		p.keys[i] = random.Uint64()
	}
	return p
}

// round returns what a round adds to a half.
func (p *permutation) round(i int, half uint64) uint64 {
	return mixed(half^p.keys[i]) & (1<<p.half - 1)
}

// of returns what the permutation makes of i.
func (p *permutation) of(i int) int {
	for {
		left, right := uint64(i)>>p.half, uint64(i)&(1<<p.half-1)
		for k := range p.keys {
			left, right = right, left^p.round(k, right)
		}
		if i = int(left<<p.half | right); i < p.n {
			return i
		}
	}
}

// origin returns what the permutation makes i of.
func (p *permutation) origin(i int) int {
	for {
		left, right := uint64(i)>>p.half, uint64(i)&(1<<p.half-1)
		for k := len(p.keys) - 1; k >= 0; k-- {
			left, right = right^p.round(k, left), left
		}
		if i = int(left<<p.half | right); i < p.n {
			return i
		}
	}
}

// mixed returns a number that looks random (splitmix64: G. Steele, D. Lea and C. Flood, Fast
// splittable pseudorandom number generators, OOPSLA 2014).
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
