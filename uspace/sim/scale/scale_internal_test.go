package scale

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/topology"
)

func run(t fataler, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o, func() {}, func() {})
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return r
}

// fataler is a test, or a check of rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Rule: a run is the same on any number of processors, with any GOMAXPROCS, and another with
// another seed.
func TestSameOnAnyProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Nodes:    rapid.IntRange(MinNodes, 100).Draw(t, "nodes"),
			Pattern:  rapid.SampledFrom(Patterns()).Draw(t, "pattern"),
			Network:  rapid.SampledFrom(topology.LargeKinds()).Draw(t, "network"),
			Messages: rapid.IntRange(1, 5).Draw(t, "messages"),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		var first *Result
		for _, c := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {3, 2}} {
			o.Cores = c[0]
			runtime.GOMAXPROCS(c[1])
			r := run(t, o)
			r.Wall, r.Setup = 0, 0
			if first == nil {
				first = r
			}
			if *r != *first {
				t.Fatalf("on %d processors the run was %+v, and on one %+v", o.Cores, *r, *first)
			}
		}
		o.Seed++
		if r := run(t, o); r.Hash == first.Hash {
			t.Fatalf("with the seeds %d and %d the run has the hash %x", o.Seed-1, o.Seed, r.Hash)
		}
	})
}

// Rule: a barrier of all nodes passes as many routers as the closed form says, on networks whose
// places are all taken.
func TestBarrierOfAllNodes(t *testing.T) {
	for _, c := range []struct {
		network string
		nodes   int
		hops    uint64 // computed by hand for the smallest, and by the closed form
	}{
		// Distances 1, 2, 4, 8 on blocks of 4: 12, 8, 0 and 0 messages pass 1 router, the rest 3.
		{"fat-tree", 16, 12 + 8 + 3*(4+8+16+16)},
		// Bits 2 and 3 are the router's. Distance 1 changes bit 2 in a quarter and bit 3 in an
		// eighth of the nodes, 2 in a half and a quarter, 4 in all and a half, 8 bit 3 in all.
		{"hypercube", 16, 4*16 + 4 + 2 + 8 + 4 + 16 + 8 + 16},
		// All that leave a block of 4 pass 2 columns and the first one again.
		{"butterfly", 16, 12 + 8 + 3*(4+8+16+16)},
		{"fat-tree", 256, 0}, {"hypercube", 512, 0}, {"butterfly", 256, 0},
	} {
		r := run(t, Options{Nodes: c.nodes, Pattern: "barrier", Network: c.network, Messages: 2, Seed: 7, Cores: 2})
		if r.Hops != r.HopsExpected || c.hops != 0 && r.Hops != 2*c.hops {
			t.Errorf("%s of %d: packets passed %d routers, want %d and %d", c.network, c.nodes, r.Hops, r.HopsExpected,
				2*c.hops)
		}
	}
}

// Rule: the closed form is the sum over the ways of the network, whatever the distance.
func TestClosedForm(t *testing.T) {
	networks := map[string]*topology.Network{}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(topology.LargeKinds()).Draw(t, "kind")
		nodes := 1 << rapid.IntRange(1, 10).Draw(t, "bits")
		if kind == "fat-tree" {
			nodes = 1 << (2 * rapid.IntRange(1, 5).Draw(t, "levels"))
		}
		key := fmt.Sprint(kind, nodes)
		if networks[key] == nil {
			n, err := topology.Large(kind, nodes)
			if err != nil {
				t.Fatal(err)
			}
			networks[key] = n
		}
		n := networks[key]
		d := rapid.IntRange(1, nodes-1).Draw(t, "distance")
		got, ok := shiftHops(n, nodes, d)
		if full := nodes == n.Terminals() && (kind != "hypercube" || d&(d-1) == 0); ok != full {
			t.Fatalf("%s: there is a form for %d nodes at distance %d: %v", key, nodes, d, ok)
		}
		want := 0
		for i := range nodes {
			want += n.Way(i, (i+d)%nodes).Hops
		}
		if ok && got != uint64(want) {
			t.Fatalf("%s: the form for distance %d says %d, the ways %d", key, d, got, want)
		}
	})
}

// Rule: each message that a node sends is one that its receiver expects, and the other way round;
// and each is a peer of the other.
func TestPatternsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, messages := rapid.IntRange(2, 200).Draw(t, "nodes"), rapid.IntRange(1, 20).Draw(t, "messages")
		name := rapid.SampledFrom(Patterns()).Draw(t, "pattern")
		p, err := newPattern(name, nodes, messages, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int, nodes)
		for node := range nodes {
			for m := range messages {
				to := p.to(node, m)
				if to == nobody {
					continue
				}
				got[to]++
				if to < 0 || to >= nodes || to == node {
					t.Fatalf("message %d of node %d goes to %d", m, node, to)
				}
				if !p.gathers() && p.from(to, m) != node {
					t.Fatalf("message %d of node %d goes to %d, which expects it from %d", m, node, to, p.from(to, m))
				}
				if at := p.place(node, m); at < 0 || at >= p.places(to) {
					t.Fatalf("message %d of node %d has place %d of %d", m, node, at, p.places(to))
				}
				if !slices.Contains(p.peers(to), node) || !slices.Contains(p.peers(node), to) {
					t.Fatalf("nodes %d and %d are no peers of each other", node, to)
				}
			}
		}
		for node, n := range got {
			if want := p.expected(node); n != want {
				t.Fatalf("node %d gets %d messages and expects %d", node, n, want)
			}
		}
	})
}

// Rule: a permutation hits every number once, and origin is its inverse.
func TestPermutations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		p := newPermutation(n, rapid.Uint64().Draw(t, "seed"), 3)
		hit := make([]bool, n)
		for i := range n {
			to := p.of(i)
			if hit[to] || p.origin(to) != i {
				t.Fatalf("%d of %d goes to %d, which was hit: %v; its origin is %d", i, n, to, hit[to], p.origin(to))
			}
			hit[to] = true
		}
	})
}

// Rule: a node refuses each message that it should not have got.
func TestCheckRefuses(t *testing.T) {
	const seed, nodes, messages = 5, 16, 3
	p, err := newPattern("ring", nodes, messages, seed)
	if err != nil {
		t.Fatal(err)
	}
	slot := func(change func(s *funi.Slot)) *funi.Slot {
		s := new(funi.Slot)
		s.SetHeader(funi.NewHeader(8, messageType, messageWords))
		s[funi.SourceWord] = 7
		words := s.Payload()
		words[0] = 1
		for k := 1; k < messageWords; k++ {
			words[k] = word(seed, 7, 1, k)
		}
		change(s)
		return s
	}
	got := make([]uint64, 1)
	if err := p.check(slot(func(*funi.Slot) {}), 8, seed, got); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(s *funi.Slot){
		"twice":          func(*funi.Slot) {},
		"another node":   func(s *funi.Slot) { s[funi.SourceWord] = 6 },
		"no node":        func(s *funi.Slot) { s[funi.SourceWord] = 60_000 },
		"another word":   func(s *funi.Slot) { s.Payload()[messageWords-1]++ },
		"another number": func(s *funi.Slot) { s.Payload()[0] = 2 },
		"no number":      func(s *funi.Slot) { s.Payload()[0] = messages },
		"another type":   func(s *funi.Slot) { s.SetHeader(funi.NewHeader(8, messageType+1, messageWords)) },
		"fewer words":    func(s *funi.Slot) { s.SetHeader(funi.NewHeader(8, messageType, messageWords-1)) },
	} {
		if err := p.check(slot(change), 8, seed, got); !errors.Is(err, errVerify) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run ends with its context, while it makes nodes and later. Options that make no sense are
// refused.
func TestRunEnds(t *testing.T) {
	o := Options{Nodes: 64, Pattern: "barrier", Network: "hypercube", Messages: MaxMessages, Cores: 1}
	for name, run := range map[string]func(context.Context, func()) error{
		"making": func(ctx context.Context, end func()) error { _, err := Run(ctx, o, end, func() {}); return err },
		"running": func(ctx context.Context, end func()) error {
			_, err := Run(ctx, o, func() {}, end)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		if err := run(ctx, cancel); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, bad := range map[string]func(*Options){
		"1 nodes": func(o *Options) { o.Nodes = 1 }, "65537 nodes": func(o *Options) { o.Nodes = 65_537 },
		"star": func(o *Options) { o.Network = "star" }, "storm": func(o *Options) { o.Pattern = "storm" },
		"0 messages": func(o *Options) { o.Messages = 0 }, "65 messages": func(o *Options) { o.Messages = 65 },
		"0 processors": func(o *Options) { o.Cores = 0 },
	} {
		o := o
		bad(&o)
		if _, err := Run(context.Background(), o, func() {}, func() {}); !errors.Is(err, ErrOptions) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
