package sim_test

// This file tests the promise of the package: same options, same run.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/sim"
)

// bad is a network on which everything happens.
func bad(seed uint64) sim.EthernetConfig {
	return sim.EthernetConfig{Seed: seed, Bandwidth: 10e9,
		Faults: sim.Faults{Loss: .02, Duplicate: .02, Reorder: .05, Corrupt: .02, HoldBack: time.Millisecond}}
}

// crowd runs ping-pong and barriers on eight nodes and returns the world's hash and
// the bytes of its trace and capture.
func crowd(t *testing.T, seed uint64) (hash uint64, trace, capture []byte) {
	t.Helper()
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 8, Net: bad(seed)}, func(p *sim.Process) error {
		e, err := p.Endpoint(8)
		if err != nil {
			return err
		}
		_, err = apps.PingPong(e, p.Now, apps.PingPongOptions{Exchanges: 200})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var tr, pc bytes.Buffer
	k.Trace(&tr)
	k.Capture(&pc)
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := k.CloseTrace(); err != nil {
		t.Fatal(err)
	}
	return k.Hash(), tr.Bytes(), pc.Bytes()
}

// The same seed gives the same trace, byte for byte, on any number of processors; and
// another seed another one (design idea 1).
func TestSameSeedSameTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	hash, trace, capture := crowd(t, 1)
	for _, n := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(n)
		h, tr, pc := crowd(t, 1)
		if h != hash || !bytes.Equal(tr, trace) || !bytes.Equal(pc, capture) {
			t.Fatalf("GOMAXPROCS %d: another run: hash %x, want %x", n, h, hash)
		}
	}
	if h, _, _ := crowd(t, 2); h == hash {
		t.Fatal("another seed gave the same run")
	}
	if !json.Valid(trace) {
		t.Fatal("the trace is not JSON")
	}
}

// Worlds do not share anything: run side by side they are as they are alone.
func TestWorldsSideBySide(t *testing.T) {
	want, _, _ := crowd(t, 3)
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if h, _, _ := crowd(t, 3); h != want {
				t.Errorf("hash %x, want %x", h, want)
			}
		})
	}
}

// On an idle network a round trip is twice the delay, and what the looks and steps cost.
func TestRoundTrip(t *testing.T) {
	var p50 int64
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 2, Net: sim.EthernetConfig{Delay: 10 * time.Microsecond}},
		func(p *sim.Process) error {
			e, err := p.Endpoint(2)
			if err != nil {
				return err
			}
			h, err := apps.PingPong(e, p.Now, apps.PingPongOptions{Exchanges: 100})
			if h != nil {
				p50 = h.ValueAtPercentile(50)
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Finish(time.Minute); err != nil {
		t.Fatal(err)
	}
	if p50 < 20_000 || p50 > 22_000 {
		t.Errorf("round trip %d ns, want twice 10 us and little more", p50)
	}
}
