package sim

// This file tests the Arctic model against thesis 5.6.1 and 6.1.4.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/arctic"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/topology"
)

// networks are one of each kind, with routers of 4 and of 8 ports.
func networks(t *testing.T) map[string]*topology.Network {
	t.Helper()
	all := map[string]*topology.Network{}
	add := func(name string) func(*topology.Network, error) {
		return func(top *topology.Network, err error) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[name] = top
		}
	}
	add("cube of 8, 4 ports")(topology.Hypercube(4, 3, 1))
	add("cube of 8, two to a router")(topology.Hypercube(4, 2, 2))
	add("cube of 128, 8 ports")(topology.Hypercube(8, 6, 2))
	add("one router")(topology.Hypercube(4, 0, 4))
	add("fat tree of 16, 4 ports")(topology.FatTree(4, 4))
	add("fat tree of 64, 8 ports")(topology.FatTree(8, 3))
	return all
}

// sink absorbs what arrives at a port and notes when the last packet did.
func sink(a *Arctic, p *ArcticPort, got *[]uint32, at *int64) {
	p.wake = func() {
		for l := range p.in {
			for p.in[l].n > 0 {
				i := p.in[l].at(0)
				p.in[l].drop(1)
				*got = append(*got, uint32(a.pool.frames[i].data[0])|uint32(a.pool.frames[i].data[1])<<8)
				*at = a.world.now
				a.release(i)
			}
		}
	}
}

// Every way of route bits leads from its sender to its receiver. On an idle network it takes a wire
// delay and the flow-through time for each router. Then come a last wire delay and the packet's
// words at a word a cycle: virtual cut-through (6.1.4).
func TestWaysAndLatency(t *testing.T) {
	for name, top := range networks(t) {
		w := NewWorld(Options{})
		a, err := w.NewArctic(top, ArcticConfig{})
		if err != nil {
			t.Fatal(err)
		}
		got := make([][]uint32, top.Terminals())
		at := make([]int64, top.Terminals())
		for i := range got {
			sink(a, a.Port(i), &got[i], &at[i])
		}
		for from := range got {
			for to := range got {
				const bytes = 24 * 4
				i := a.pool.take(bytes)
				a.pool.frames[i].n = bytes
				a.pool.frames[i].data[0], a.pool.frames[i].data[1] = byte(from), byte(from>>8)
				begin := w.now
				a.inject(a.Port(from), i, to, 1, from%2 == 0)
				for w.Step() {
				}
				if n := len(got[to]); n != 1 || got[to][0] != uint32(from) {
					t.Fatalf("%s: terminal %d got %v, want one packet from %d", name, to, got[to], from)
				}
				got[to] = got[to][:0]
				hops := int64(top.Way(from, to).Hops)
				if want := 40 * (hops*(1+5) + 1 + 24); at[to]-begin != want {
					t.Fatalf("%s: %d to %d by %d routers took %d ns, want %d", name, from, to, hops, at[to]-begin, want)
				}
			}
		}
		if n := a.UnderWay(); n != 0 {
			t.Errorf("%s: %d packets are left", name, n)
		}
		for i := range a.out {
			if a.out[i].free != 3 {
				t.Errorf("%s: output section %d counts %d free buffers on an idle network, want 3", name,
					i, a.out[i].free)
			}
		}
	}
}

// The last buffer of an input section takes only packets of high priority, and packets
// of high priority go before others (5.6.1).
func TestReservedBuffer(t *testing.T) {
	top, err := topology.Hypercube(4, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(Options{})
	a, err := w.NewArctic(top, ArcticConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := a.Port(1)
	p.wake = func() {} // absorbs nothing
	send := func(high bool) {
		i := a.pool.take(96)
		a.pool.frames[i].n = 96
		a.inject(a.Port(0), i, 1, 1, high)
	}
	for range 10 {
		send(false)
	}
	for w.Step() {
	}
	if p.in[0].n != 2 || p.in[1].n != 0 {
		t.Fatalf("%d packets of low priority are in an input section of 3 buffers, want 2", p.in[0].n)
	}
	send(true)
	for w.Step() {
	}
	if p.in[0].n != 2 || p.in[1].n != 1 {
		t.Fatalf("%d of low and %d of high priority, want 2 and 1: the third buffer is reserved", p.in[0].n, p.in[1].n)
	}
}

// The engine runs on Arctic as on Ethernet: ping-pong, and a barrier of everybody.
func TestEngineOnArctic(t *testing.T) {
	for name, top := range networks(t) {
		n := min(top.Terminals(), 16)
		k, err := NewCluster(ClusterOptions{Topology: top, Nodes: n, Tune: func(c *engine.Config) { c.Train = 1 }},
			func(p *Process) error {
				e, err := p.Endpoint(n)
				if err != nil {
					return err
				}
				_, err = apps.PingPong(e, p.Now, apps.PingPongOptions{Exchanges: 50})
				return err
			})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Finish(time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		k.Close()
	}
}

// What cannot be built is refused with a reason.
func TestImpossibleTopologies(t *testing.T) {
	top, err := topology.Hypercube(4, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(Options{})
	if _, err := w.NewArctic(top, ArcticConfig{Buffers: 1}); !errors.Is(err, topology.Err) {
		t.Errorf("one buffer for two levels: got %v, want topology.Err", err)
	}
	if _, err := NewCluster(ClusterOptions{Topology: top, Nodes: 5}, nil); !errors.Is(err, topology.Err) {
		t.Errorf("five nodes on a network for four: got %v, want topology.Err", err)
	}
}

// A card's frame that names no place goes nowhere and is not kept.
func TestNoSuchPlace(t *testing.T) {
	top, err := topology.Hypercube(4, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(Options{})
	a, err := w.NewArctic(top, ArcticConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := a.Port(0)
	h := arctic.Header{Route: 7}
	b := p.Reserve()
	h.Encode(b)
	arctic.Seal(b, arctic.HeaderSize)
	p.Commit(arctic.HeaderSize)
	for w.Step() {
	}
	if n := a.UnderWay(); n != 0 {
		t.Error(fmt.Sprint(n, " frames are under way"))
	}
}

// A card that has looked at what arrived and sleeps does not keep the network's buffers:
// what waits behind would never wake it (thesis 5.6.1, the Input Port Buffer).
func TestLentFramesHoldNoBuffers(t *testing.T) {
	top, err := topology.Hypercube(4, 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(Options{})
	a, err := w.NewArctic(top, ArcticConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := a.Port(1)
	p.wake = func() {}
	const packets = 6
	for range packets {
		i := a.pool.take(96)
		a.pool.frames[i].n = 96
		a.inject(a.Port(0), i, 1, 1, false)
	}
	var frames [packets][]byte
	for got := 0; got < packets; {
		for w.Step() {
		}
		p.Release()
		n := p.Receive(frames[:])
		if n == 0 {
			t.Fatalf("%d of %d packets arrived, and nothing more happens", got, packets)
		}
		for w.Step() { // they are still lent
		}
		if got += n; got < packets && p.in[0].n == n {
			t.Fatalf("%d packets are lent and nothing takes their place", n)
		}
	}
}
