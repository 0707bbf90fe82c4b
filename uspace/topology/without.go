package topology

// This file finds ways where wires have failed.

import "slices"

// Without returns the network without the ports that have failed, and without the far ends of their
// wires. Where none has failed it is the network itself. Else its ways are the shortest among those
// that go up and then down: up is towards router 0, or among routers equally far from it towards
// the lower number, as in Autonet (M. D. Schroeder et al., IEEE Journal on Selected Areas in
// Communications 9(8), 1991). No packets on such ways wait for each other in a circle. A way of no
// routers leads nowhere: the terminal cannot be reached, or not with 30 route bits. Way then costs
// time in proportion to the number of routers. Wires that packets use in one direction alone are
// used in both.
func (n *Network) Without(failed func(router, port int) bool) *Network {
	m := *n
	m.ends, m.up = append([]End(nil), n.ends...), nil
	for at, e := range n.ends {
		if e >= 0 && e < terminalBase && n.ends[e] == Unwired {
			m.ends[e] = End(at)
		}
	}
	whole := true
	for at := range m.ends {
		if !failed(at/n.radix, at%n.radix) || m.ends[at] == Unwired {
			continue
		}
		whole = false
		if e := m.ends[at]; e < terminalBase {
			m.ends[e] = Unwired
		}
		m.ends[at] = Unwired
	}
	if whole {
		return n
	}
	rank := m.ranks()
	m.next = nil
	m.route = func(from, to int) Way { return m.upAndDown(rank, from, to) }
	return &m
}

// ranks numbers the routers by how far they are from router 0, and then by number. Parts of the
// network that do not hang together have a first router each.
func (n *Network) ranks() []int32 {
	rank := make([]int32, n.Routers())
	for r := range rank {
		rank[r] = -1
	}
	next := int32(0)
	for first := range rank {
		if rank[first] >= 0 {
			continue
		}
		rank[first], next = next, next+1
		for row := []int{first}; len(row) > 0; {
			var further []int
			for _, r := range row {
				for p := range n.radix {
					if to, _, ok := n.End(r, p).Port(n.radix); ok && rank[to] < 0 {
						rank[to], next = next, next+1
						further = append(further, to)
					}
				}
			}
			row = further
		}
	}
	return rank
}

// upAndDown returns the shortest way that never goes up after it has gone down, unless it takes
// more than the route bits.
func (n *Network) upAndDown(rank []int32, from, to int) Way {
	ports := n.portsUpAndDown(rank, from, to)
	if len(ports)*n.Width() > routeBits {
		return Way{}
	}
	w := n.start()
	for _, p := range ports {
		w.leave(p)
	}
	return w
}

// portsUpAndDown returns the ports of that way, or none.
func (n *Network) portsUpAndDown(rank []int32, from, to int) []int {
	source, _ := n.Home(from)
	target, out := n.Home(to)
	if n.End(n.Home(from)) == Unwired || n.End(target, out) == Unwired {
		return nil
	}
	// A state is a router, and whether the way has gone down: 2*router+1.
	type step struct{ before, port int32 }
	seen := make(map[int32]step, 2*n.Routers())
	row := []int32{int32(2 * source)}
	seen[row[0]] = step{before: -1}
	for len(row) > 0 {
		var further []int32
		for _, s := range row {
			router := int(s / 2)
			if router == target {
				ports := []int{out}
				for at := s; seen[at].before >= 0; at = seen[at].before {
					ports = append(ports, int(seen[at].port))
				}
				slices.Reverse(ports)
				return ports
			}
			for p := range n.radix {
				next, _, ok := n.End(router, p).Port(n.radix)
				if !ok {
					continue
				}
				down := rank[next] > rank[router]
				if !down && s&1 != 0 {
					continue
				}
				state := int32(2 * next)
				if down {
					state++
				}
				if _, ok := seen[state]; !ok {
					seen[state] = step{s, int32(p)}
					further = append(further, state)
				}
			}
		}
		row = further
	}
	return nil
}
