package sim

// This file tests networks in parts.

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/funet/funet/uspace/topology"
)

// meshed makes a cluster in parts whose nodes do barriers.
func meshed(t *testing.T, nodes, parts, barriers int, cfg ArcticConfig) *Cluster {
	t.Helper()
	top, err := topology.Large("fat-tree", nodes)
	if err != nil {
		t.Fatal(err)
	}
	o := ClusterOptions{Topology: top, Arctic: cfg, Nodes: nodes, Parts: parts}
	k, err := NewCluster(o, func(p *Process) error {
		p.Sleep(int64(p.Context().Node()) * 7 % 50)
		e, err := p.Endpoint(nodes)
		for i := 0; i < barriers && err == nil; i++ {
			err = e.Barrier()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// Rule: what crosses to a part comes after all that the part has done, whatever the network's times
// are. So no part ever works on from a past that changes.
func TestNothingComesTooLate(t *testing.T) {
	for name, cfg := range map[string]ArcticConfig{
		"plain": {}, "bare": {Bare: true}, "weightless": {Weightless: true},
		"long wires": {Wire: 9}, "quick routers": {FlowThrough: 1}, "slow routers": {FlowThrough: 100},
	} {
		k := meshed(t, 64, 16, 2, cfg)
		crossed := 0
		err := k.FinishOn(context.Background(), 2, time.Second, func() {
			for _, from := range k.parts {
				for phase := range from.mail {
					for to, m := range from.mail[phase] {
						now := k.parts[to].world.now
						for _, x := range m.crossings {
							if crossed++; x.at <= now {
								t.Fatalf("%s: an event of %d ns came to part %d at %d ns", name, x.at, to, now)
							}
						}
					}
				}
			}
		})
		if err != nil || crossed == 0 {
			t.Errorf("%s: %d events crossed; %v", name, crossed, err)
		}
	}
}

// Rule: packets pass the same routers in one world and in parts, on one processor and on several;
// and in parts the run is the same on any number of processors, as its hash says.
func TestPartsAreOneNetwork(t *testing.T) {
	var hashes []uint64
	var want uint64
	for _, c := range []struct{ parts, cores, procs int }{{1, 1, 1}, {16, 1, 1}, {16, 2, 1}, {16, 2, 2}, {16, 5, 2}} {
		before := runtime.GOMAXPROCS(c.procs)
		k := meshed(t, 64, c.parts, 3, ArcticConfig{})
		err := k.Finish(time.Second)
		if c.parts > 1 {
			k = meshed(t, 64, c.parts, 3, ArcticConfig{})
			err = errors.Join(err, k.FinishOn(context.Background(), c.cores, time.Second, nil))
		}
		runtime.GOMAXPROCS(before)
		_, hops := k.Carried()
		if want == 0 {
			want = hops
		}
		if err != nil || hops != want || hops == 0 {
			t.Errorf("%+v: packets passed %d routers, in one world %d; %v", c, hops, want, err)
		}
		if c.parts > 1 {
			hashes = append(hashes, k.Hash())
		}
	}
	if slices.Min(hashes) != slices.Max(hashes) {
		t.Errorf("the same run has the hashes %x", hashes)
	}
}

// A run in parts ends with its context, and at its limit.
func TestPartsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	k := meshed(t, 64, 4, 1<<30, ArcticConfig{})
	windows := 0
	err := k.FinishOn(ctx, 2, time.Hour, func() {
		if windows++; windows == 10 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || windows != 10 {
		t.Errorf("after %d windows: %v", windows, err)
	}
	k = meshed(t, 64, 4, 1<<30, ArcticConfig{})
	if err := k.FinishOn(context.Background(), 1, time.Millisecond, nil); err == nil {
		t.Error("endless programs have ended")
	}
}

// Ethernet has no parts, and a network not more than routers with cards.
func TestImpossibleParts(t *testing.T) {
	top, err := topology.Large("hypercube", 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []ClusterOptions{{Nodes: 2, Parts: 1}, {Nodes: 2, Topology: top, Parts: 5}} {
		if _, err := NewCluster(o, func(*Process) error { return nil }); !errors.Is(err, topology.Err) {
			t.Errorf("%d parts: %v", o.Parts, err)
		}
	}
}

// A large network has a million channels.
func TestSizeOfAChannel(t *testing.T) {
	if n := unsafe.Sizeof(channel{}); n > 64 {
		t.Errorf("a channel has %d bytes, want at most 64", n)
	}
}
