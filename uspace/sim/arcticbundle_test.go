package sim

// This file tests bundles on the Arctic model: what arrives, which links carry them, and that runs
// with them repeat.

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/collective"
	"github.com/funet/funet/uspace/topology"
)

// frameFor returns a frame of a card for another one, of a level, with some packets as far as a
// network looks.
func frameFor(random *rand.Rand, from, to int, level arctic.Level, packets byte) []byte {
	b := make([]byte, arctic.HeaderSize+1+random.IntN(100))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	h := arctic.Header{Route: uint32(to), SourceCard: uint16(from), DestinationCard: uint16(to), Level: level,
		Sequence: random.Uint32()}
	h.Encode(b)
	b[28] = packets
	return b
}

// edges returns how many links the ways from a terminal to others have, if a link is one for all of
// those that have come by the same links.
func edges(top *topology.Network, from int, to []int) int {
	links := map[[2]uint32]bool{} // by length, and digits
	for _, t := range to {
		way := top.Way(from, t)
		for n := range way.Hops {
			at := uint32(1)<<((n+1)*top.Width()) - 1
			links[[2]uint32{uint32(n), way.Bits & at}] = true
		}
	}
	return len(links) + 1
}

// Rule: each station gets its frames of a bundle as they were sent, and each link of the tree there
// carries one frame. The packets come to as many routers as without bundles. All buffers are free
// afterwards.
func TestBundlesOnArctic(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for name, top := range networks(t) {
		w := NewWorld(Options{})
		a, err := w.NewArctic(top, ArcticConfig{})
		if err != nil {
			t.Fatal(err)
		}
		got := make([][][]byte, top.Terminals())
		for i := range got {
			p := a.Port(i)
			p.wake = func() {
				for l := range p.in {
					for p.in[l].n > 0 {
						at := p.in[l].at(0)
						p.in[l].drop(1)
						got[i] = append(got[i], bytes.Clone(a.pool.frames[at].bytes()))
						a.release(at)
					}
				}
			}
		}
		for range 200 {
			from, level := random.IntN(len(got)), arctic.Level(random.IntN(2))
			to := random.Perm(len(got))[:2+random.IntN(min(len(got), arctic.MaxBundled)-1)]
			var frames [][]byte
			hops := uint64(0)
			for _, terminal := range to {
				packets := byte(1 + random.IntN(3))
				frames = append(frames, frameFor(random, from, terminal, level, packets))
				hops += uint64(packets) * uint64(top.Way(from, terminal).Hops)
			}
			crossed, all := a.Crossed, a.Hops
			b := a.Port(from).Reserve()
			a.Port(from).Commit(arctic.PutBundle(b, frames))
			for w.Step() {
			}
			if n, want := int(a.Crossed-crossed), edges(top, from, to); n != want {
				t.Fatalf("%s: %d to %v: links carried %d frames, and the tree has %d", name, from, to, n, want)
			}
			if n := a.Hops - all; n != hops {
				t.Fatalf("%s: %d to %v: the packets came to %d routers, want %d", name, from, to, n, hops)
			}
			for i, terminal := range to {
				if len(got[terminal]) != 1 || !bytes.Equal(got[terminal][0], frames[i]) {
					t.Fatalf("%s: terminal %d got %d frames, or another", name, terminal, len(got[terminal]))
				}
				got[terminal] = got[terminal][:0]
			}
			if i := slices.IndexFunc(got, func(f [][]byte) bool { return len(f) > 0 }); i >= 0 {
				t.Fatalf("%s: terminal %d got what is another's", name, i)
			}
		}
		if n := a.UnderWay(); n != 0 {
			t.Errorf("%s: %d frames are left", name, n)
		}
		for i := range a.out {
			if a.out[i].free != 3 {
				t.Errorf("%s: output section %d counts %d free buffers on an idle network, want 3", name, i,
					a.out[i].free)
			}
		}
	}
}

// Rule: a bundle with a frame for nowhere is lost as a whole, as such a frame is.
func TestBundleForNowhere(t *testing.T) {
	top, err := topology.Hypercube(4, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewWorld(Options{}).NewArctic(top, ArcticConfig{})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(4, 1))
	p := a.Port(0)
	b := p.Reserve()
	p.Commit(arctic.PutBundle(b, [][]byte{frameFor(random, 0, 1, 0, 1), frameFor(random, 0, 4, 0, 1)}))
	if a.Frames != 0 || a.UnderWay() != 0 {
		t.Errorf("%d frames were sent, and %d are under way", a.Frames, a.UnderWay())
	}
}

// broadcasting makes a cluster whose nodes take part in broadcasts.
func broadcasting(t *testing.T, parts, broadcasts int, bundles bool) *Cluster {
	t.Helper()
	const nodes = 64
	top, err := topology.Large("fat-tree", nodes)
	if err != nil {
		t.Fatal(err)
	}
	o := ClusterOptions{Topology: top, Nodes: nodes, Parts: parts, Bundles: bundles}
	o.StepTime = 5 * time.Microsecond // in which a node sends to all its children
	k, err := NewCluster(o,
		func(p *Process) error {
			e, err := p.Endpoint(nodes)
			if err != nil {
				return err
			}
			g, b := collective.New(e), make([]byte, 40)
			for i := range broadcasts {
				// so that cards know each other, and a broadcast does not ride on the last one
				if err := e.Barrier(); err != nil {
					return err
				}
				clear(b)
				if e.Node() == 0 {
					b[0], b[39] = byte(i), 1
				}
				if err := g.Broadcast(0, b); err != nil {
					return err
				}
				if b[0] != byte(i) || b[39] != 1 {
					return fmt.Errorf("node %d got %v of broadcast %d", e.Node(), b, i)
				}
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// Rule: a broadcast in bundles reaches all nodes over fewer links' frames, and repeats: in one
// world, and in parts on any number of processors.
func TestBroadcastInBundles(t *testing.T) {
	var crossed []uint64
	for _, bundles := range []bool{false, true} {
		var hashes []uint64
		for range 2 {
			k := broadcasting(t, 0, 8, bundles)
			if err := k.Finish(time.Second); err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, k.Hash())
			if !bundles || len(hashes) == 1 {
				crossed = append(crossed, k.Arctic.Crossed)
			}
		}
		if hashes[0] != hashes[1] {
			t.Errorf("bundles %t: the same run has the hashes %x", bundles, hashes)
		}
	}
	if crossed[0] != crossed[1] || crossed[2] >= crossed[0] {
		t.Errorf("links carried %d frames without bundles, and %d with them", crossed[0], crossed[2])
	}
	var hashes []uint64
	for _, cores := range []int{1, 2, 5} {
		before := runtime.GOMAXPROCS(min(cores, 2))
		k := broadcasting(t, 16, 8, true)
		err := k.FinishOn(context.Background(), cores, time.Second, nil)
		runtime.GOMAXPROCS(before)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, k.Hash())
	}
	if slices.Min(hashes) != slices.Max(hashes) {
		t.Errorf("in parts the same run has the hashes %x", hashes)
	}
}
