package hub

// This file tests the messages between routers: what is told is heard, and any bytes are taken.

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/topology"
)

// Rule: the states that are told are heard, in as many messages as they need; another network's are
// not.
func TestNews(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := make([]state, rapid.IntRange(1, 450).Draw(t, "routers"))
		for i := range states {
			states[i] = state{rapid.Byte().Draw(t, "down"), rapid.Uint64Range(0, 3).Draw(t, "number")}
		}
		odd := rapid.Bool().Draw(t, "odd ones only")
		chosen := func(r int) bool { return !odd || r&1 != 0 }
		want, got := make([]state, len(states)), make([]state, len(states))
		for r, s := range states {
			if chosen(r) && s.number > 0 {
				want[r] = s
			}
		}
		for _, m := range compose(7, states, chosen) {
			if len(m) > 1500 {
				t.Fatalf("a message of %d bytes", len(m))
			}
			if hear(8, m, func(int, state) { t.Fatal("another network's") }) {
				t.Fatal("another network's message is taken")
			}
			if !hear(7, m, func(r int, s state) { got[r] = s }) {
				t.Fatal("not heard")
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("heard %v, want %v", got, want)
		}
	})
}

// Rule: a number that no router gives is not heard, so that none comes after it.
func TestNoNumber(t *testing.T) {
	for _, m := range compose(7, []state{{1, mostNumber}, {1, 1<<64 - 1}}, func(int) bool { return true }) {
		if !hear(7, m, func(r int, s state) { t.Errorf("router %d said %+v", r, s) }) {
			t.Error("the message is refused")
		}
	}
}

// Rule: routers that wire their network in different ways, or to other stations, do not hear each
// other.
func TestIdentity(t *testing.T) {
	cube, err := topology.Hypercube(4, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.FatTree(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := [][6]byte{{2, 1}, {2, 2}}, [][6]byte{{2, 1}, {2, 3}}
	all := []uint64{identity(cube, a), identity(cube, a), identity(cube, b), identity(tree, a)}
	if slices.Sort(all); len(slices.Compact(all)) != 3 {
		t.Error("networks are taken for each other, or one for two")
	}
}

// FuzzHear: any bytes are refused, or have states of routers in them.
func FuzzHear(f *testing.F) {
	f.Add(compose(7, []state{{1, 2}, {3, 4}}, func(int) bool { return true })[0])
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		if hear(7, b, func(int, state) { n++ }); newsHeader+n*stateSize > max(len(b), newsHeader) {
			t.Fatalf("%d states in %d bytes", n, len(b))
		}
	})
}
