package topology

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// walk returns the ports by which a packet leaves the routers of a large network, and the terminal
// that it comes to.
func walk(t fataler, n *Network, from, to int) (ports []int, reached int) {
	t.Helper()
	router, _ := n.Home(from)
	for {
		p := n.Next(router, to)
		ports = append(ports, p)
		e := n.End(router, p)
		if terminal, ok := e.Terminal(); ok {
			return ports, terminal
		}
		next, _, ok := e.Port(n.Radix())
		if !ok || len(ports) > 64 {
			t.Fatalf("after the ports %v from %d to %d there is no router", ports, from, to)
		}
		router = next
	}
}

// Rule: routers that decide by the destination lead every packet to it, through as many routers as
// the way has.
func TestNextReaches(t *testing.T) {
	networks := map[string]*Network{}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(LargeKinds()).Draw(t, "kind")
		terminals := rapid.SampledFrom([]int{2, 3, 5, 16, 63, 64, 65, 1000, 4096, 65_536}).Draw(t, "terminals")
		key := kind + string(rune(terminals))
		n := networks[key]
		if n == nil {
			var err error
			if n, err = Large(kind, terminals); err != nil {
				t.Fatal(err)
			}
			networks[key] = n
		}
		if n.Terminals() < terminals || n.Carried() {
			t.Fatalf("the %s for %d terminals has %d, and its packets carry ways: %v", kind, terminals, n.Terminals(),
				n.Carried())
		}
		from := rapid.IntRange(0, n.Terminals()-1).Draw(t, "from")
		to := rapid.IntRange(0, n.Terminals()-1).Draw(t, "to")
		ports, reached := walk(t, n, from, to)
		if w := n.Way(from, to); reached != to || len(ports) != w.Hops || w.Bits != 0 {
			t.Fatalf("the ports %v from %d to %d lead to %d; the way is %+v", ports, from, to, reached, w)
		}
	})
}

// Rule: the routers of a large network decide as the ways of a network that packets carry.
func TestNextIsTheWay(t *testing.T) {
	tree, err1 := FatTree(8, 4)
	cube, err2 := Hypercube(8, 4, 4)
	fly, err3 := Butterfly(6, 4)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	for kind, small := range map[string]*Network{"fat-tree": tree, "hypercube": cube, "butterfly": fly} {
		n, err := Large(kind, small.Terminals())
		if err != nil {
			t.Fatal(err)
		}
		if n.Terminals() != small.Terminals() || !slices.Equal(n.ends, small.ends) {
			t.Fatalf("the %s for %d terminals is wired otherwise", kind, small.Terminals())
		}
		for from := range small.Terminals() {
			for to := range small.Terminals() {
				if ports, _ := walk(t, n, from, to); !slices.Equal(ports, small.Way(from, to).Ports()) {
					t.Fatalf("%s: the ports from %d to %d are %v, and the way %v", kind, from, to, ports,
						small.Way(from, to).Ports())
				}
			}
		}
	}
}

// Rule: the parts of a network are of the same number of routers with terminals, and terminals of
// one router are in one part.
func TestBlocks(t *testing.T) {
	for _, kind := range LargeKinds() {
		n, err := Large(kind, 4096)
		if err != nil {
			t.Fatal(err)
		}
		size := make([]int, 16)
		for i := range n.Terminals() {
			router, _ := n.Home(i)
			size[n.Block(router, 16)]++
		}
		if slices.Min(size) != 256 || slices.Max(size) != 256 {
			t.Errorf("%s: parts of %v terminals", kind, size)
		}
		for r := range n.Routers() {
			if b := n.Block(r, 16); b < 0 || b > 15 {
				t.Errorf("%s: router %d is in part %d", kind, r, b)
			}
		}
	}
}

// What no network is refused.
func TestNoSuchLargeNetwork(t *testing.T) {
	for _, c := range []struct {
		kind      string
		terminals int
	}{{"fat-tree", 1}, {"fat-tree", 65_537}, {"ring", 16}, {"hypercube", -1}} {
		if _, err := Large(c.kind, c.terminals); err == nil {
			t.Errorf("a %s of %d terminals was made", c.kind, c.terminals)
		}
	}
}
