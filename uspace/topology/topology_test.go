package topology

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// all returns networks of all kinds, small enough to look at every way.
func all(t *testing.T) map[string]*Network {
	t.Helper()
	networks := map[string]*Network{}
	add := func(name string, n *Network, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		networks[name] = n
	}
	for _, c := range [][3]int{{4, 0, 4}, {4, 3, 1}, {4, 2, 2}, {8, 4, 2}, {8, 5, 1}} {
		n, err := Hypercube(c[0], c[1], c[2])
		add(fmt.Sprint("hypercube ", c), n, err)
	}
	for _, terminals := range []int{2, 4, 5, 8} {
		n, err := Star(terminals)
		add(fmt.Sprint("star ", terminals), n, err)
	}
	for _, c := range [][2]int{{4, 1}, {4, 2}, {4, 4}, {8, 2}, {8, 3}} {
		n, err := FatTree(c[0], c[1])
		add(fmt.Sprint("fat tree ", c), n, err)
	}
	for _, c := range [][2]int{{2, 4}, {3, 2}, {4, 1}} {
		n, err := Butterfly(c[0], c[1])
		add(fmt.Sprint("butterfly ", c), n, err)
	}
	return networks
}

// fataler is a test, or a check of rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// follow walks a way from a terminal and calls step with each port by which it leaves a router. It
// returns the end that the last port leads to.
func follow(t fataler, n *Network, from int, w Way, step func(at int)) End {
	t.Helper()
	router, _ := n.Home(from)
	ports := w.Ports()
	for i, p := range ports {
		step(router*n.Radix() + p)
		e := n.End(router, p)
		next, _, ok := e.Port(n.Radix())
		if !ok {
			if i < len(ports)-1 {
				t.Fatalf("the way %v from %d ends at %v after %d routers", ports, from, e, i+1)
			}
			return e
		}
		router = next
	}
	return Unwired
}

// Rule (thesis 5.4): every way ends at its terminal, and leads through as many routers as the
// shortest over wires in their directions.
func TestReachableAndMinimal(t *testing.T) {
	for name, n := range all(t) {
		t.Run(name, func(t *testing.T) {
			for from := range n.Terminals() {
				shortest := distances(n, from)
				for to := range n.Terminals() {
					w := n.Way(from, to)
					if got, ok := follow(t, n, from, w, func(int) {}).Terminal(); !ok || got != to {
						t.Fatalf("the way %v from %d to %d ends at %d", w.Ports(), from, to, got)
					}
					if w.Hops != shortest[to] {
						t.Fatalf("the way from %d to %d leads through %d routers, the shortest through %d", from, to, w.Hops,
							shortest[to])
					}
				}
			}
		})
	}
}

// distances returns how many routers the shortest way from a terminal to each leads through.
func distances(n *Network, from int) []int {
	hops := make([]int, n.Terminals())
	router, _ := n.Home(from)
	seen := map[int]bool{router: true}
	for row, depth := []int{router}, 1; len(row) > 0; depth++ {
		var next []int
		for _, r := range row {
			for p := range n.Radix() {
				e := n.End(r, p)
				if terminal, ok := e.Terminal(); ok {
					hops[terminal] = depth
				} else if to, _, ok := e.Port(n.Radix()); ok && !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		row = next
	}
	return hops
}

// Rule (Dally and Seitz 1987): no channel depends on itself over others, so no packets wait for
// each other in a circle.
func TestFreeOfDeadlock(t *testing.T) {
	for name, n := range all(t) {
		if circle := circleOf(t, n, n.Way); circle != nil {
			t.Errorf("%s: channels %v depend on each other in a circle", name, circle)
		}
	}
}

// circleOf returns channels that depend on each other in a circle, or nil.
func circleOf(t fataler, n *Network, way func(from, to int) Way) []int {
	t.Helper()
	after := make([]map[int]bool, n.Routers()*n.Radix())
	for from := range n.Terminals() {
		for to := range n.Terminals() {
			last := -1
			follow(t, n, from, way(from, to), func(at int) {
				if last >= 0 {
					if after[last] == nil {
						after[last] = map[int]bool{}
					}
					after[last][at] = true
				}
				last = at
			})
		}
	}
	state := make([]int8, len(after)) // 1: on the path, 2: done
	var path []int
	var visit func(c int) bool
	visit = func(c int) bool {
		state[c] = 1
		path = append(path, c)
		for next := range after[c] {
			if state[next] == 1 || state[next] == 0 && visit(next) {
				return true
			}
		}
		state[c], path = 2, path[:len(path)-1]
		return false
	}
	for c := range after {
		if state[c] == 0 && visit(c) {
			return path
		}
	}
	return nil
}

// The search for circles finds one: a ring of routers that all go round in one direction.
func TestCircleIsFound(t *testing.T) {
	n := newNetwork("ring", 4, 1, 4, 4)
	for r := range 4 {
		n.place(r, r, 2)
		n.wire(r, 0, (r+1)%4, 1)
	}
	way := func(from, to int) Way {
		w := n.start()
		for range (to - from + 4) % 4 {
			w.leave(0)
		}
		w.leave(2)
		return w
	}
	if circleOf(t, n, way) == nil {
		t.Fatal("a ring has no circle, so nothing is tested")
	}
}

// Rule: wires join two free ports, and each terminal has a port of its own.
func TestWires(t *testing.T) {
	for name, n := range all(t) {
		terminals := map[int]bool{}
		into := map[End]bool{}
		for r := range n.Routers() {
			for p := range n.Radix() {
				e := n.End(r, p)
				if e == Unwired {
					continue
				}
				if into[e] {
					t.Fatalf("%s: two ports lead to %v", name, e)
				}
				into[e] = true
				if terminal, ok := e.Terminal(); ok {
					terminals[terminal] = true
					if hr, hp := n.Home(terminal); hr != r || hp != p {
						t.Fatalf("%s: terminal %d is at port %d of router %d, and its home says %d of %d", name, terminal, p, r,
							hp, hr)
					}
				}
			}
		}
		if len(terminals) != n.Terminals() {
			t.Errorf("%s: %d terminals are wired of %d", name, len(terminals), n.Terminals())
		}
	}
}

func TestImpossible(t *testing.T) {
	for what, f := range map[string]func() (*Network, error){
		"too many dimensions":    func() (*Network, error) { return Hypercube(4, 4, 1) },
		"nobody at a router":     func() (*Network, error) { return Hypercube(4, 2, 0) },
		"five ports":             func() (*Network, error) { return Hypercube(5, 2, 1) },
		"nine at a star":         func() (*Network, error) { return Star(9) },
		"no level":               func() (*Network, error) { return FatTree(4, 0) },
		"too few route bits":     func() (*Network, error) { return FatTree(4, 9) },
		"levels without end":     func() (*Network, error) { return FatTree(8, 1000) },
		"butterfly of a column":  func() (*Network, error) { return Butterfly(1, 2) },
		"five at a router of it": func() (*Network, error) { return Butterfly(3, 5) },
	} {
		if _, err := f(); !errors.Is(err, Err) {
			t.Errorf("%s: got %v, want Err", what, err)
		}
	}
}

// Rule (thesis 7.2.1): when any wire fails, all terminals that hang together still reach each
// other. Their ways avoid the wire, and no packets on them wait for each other in a circle.
func TestWithout(t *testing.T) {
	for name, n := range all(t) {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			failed := map[int]bool{}
			for range rapid.IntRange(1, 4).Draw(t, "failures") {
				failed[rapid.IntRange(0, len(n.ends)-1).Draw(t, "port")] = true
			}
			m := n.Without(func(router, port int) bool { return failed[router*n.radix+port] })
			part := parts(m)
			for from := range n.Terminals() {
				for to := range n.Terminals() {
					w := m.Way(from, to)
					hr, hp := m.Home(from)
					tr, tp := m.Home(to)
					together := part[hr] == part[tr] && m.End(hr, hp) != Unwired && m.End(tr, tp) != Unwired
					// a way around what has failed may need more digits than a route has
					if together != (w.Hops > 0) &&
						(w.Hops > 0 || len(m.portsUpAndDown(m.ranks(), from, to))*m.Width() <= routeBits) {
						t.Fatalf("without %v: %d and %d hang together: %v, and the way is %v", failed, from, to, together, w.Ports())
					}
					if w.Hops == 0 {
						continue
					}
					end := follow(t, m, from, w, func(at int) {
						if failed[at] {
							t.Fatalf("the way %v from %d to %d uses port %d, which has failed", w.Ports(), from, to, at)
						}
					})
					if got, ok := end.Terminal(); !ok || got != to {
						t.Fatalf("the way %v from %d to %d ends at %d", w.Ports(), from, to, got)
					}
				}
			}
			if circle := circleOf(t, m, m.Way); circle != nil {
				t.Fatalf("without %v channels %v depend on each other in a circle", failed, circle)
			}
		}))
	}
}

// parts numbers the parts of a network that hang together.
func parts(n *Network) []int {
	part := make([]int, n.Routers())
	for i := range part {
		part[i] = i
	}
	for again := true; again; {
		again = false
		for at, e := range n.ends {
			if to, _, ok := e.Port(n.radix); ok && part[at/n.radix] != part[to] {
				part[at/n.radix], part[to] = min(part[at/n.radix], part[to]), min(part[at/n.radix], part[to])
				again = true
			}
		}
	}
	return part
}

// Rule: without failures nothing changes, and a fat tree keeps its ports that lead up.
func TestWithoutNothing(t *testing.T) {
	n, err := FatTree(4, 3)
	if err != nil {
		t.Fatal(err)
	}
	if n.Without(func(int, int) bool { return false }) != n || n.Up(0) != 0b1100 {
		t.Errorf("up ports %#b", n.Up(0))
	}
}
