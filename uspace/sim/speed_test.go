package sim_test

// This file measures the simulator: events a second, and memory of many nodes.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// BenchmarkPingPong is two nodes: an event is a turn, a step or a frame that moves on.
func BenchmarkPingPong(b *testing.B) {
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 2, Net: sim.EthernetConfig{Bandwidth: 10e9}},
		func(p *sim.Process) error {
			e, err := p.Endpoint(2)
			if err != nil {
				return err
			}
			_, err = apps.PingPong(e, p.Now, apps.PingPongOptions{Exchanges: b.N})
			return err
		})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	b.ReportAllocs()
	b.ResetTimer()
	if err := k.Finish(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(k.Events())/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(k.Events())/float64(b.N), "events/op")
}

// Kinds of traffic: each is a program that never ends. Nodes have routes to the 16 next
// ones, or to those that a barrier needs.
var traffic = []struct {
	name    string
	program func(nodes int) sim.Program
}{
	{"ring", func(nodes int) sim.Program { return send(nodes, func(*rand.PCG) int { return 1 }) }},
	{"sixteen", func(nodes int) sim.Program {
		return send(nodes, func(r *rand.PCG) int { return 1 + int(r.Uint64()%16) })
	}},
	{"barrier", func(nodes int) sim.Program {
		return func(p *sim.Process) error {
			e, err := p.Endpoint(nodes)
			for err == nil {
				err = e.Barrier()
			}
			return err
		}
	}},
}

// send keeps the send queue full of messages to the node that is so much further on,
// and takes what arrives.
func send(nodes int, distance func(*rand.PCG) int) sim.Program {
	return func(p *sim.Process) error {
		i, random := p.Interface(), rand.NewPCG(uint64(p.Context().Node()), 1)
		for {
			for k := 0; k < 8; k++ {
				s := i.Reserve(funi.Request)
				if s == nil {
					break
				}
				to := (int(p.Context().Node()) + distance(random)) % nodes
				s.SetHeader(funi.NewHeader(uint16(to), 1, 4))
				i.Commit(funi.Request)
			}
			for i.Receive(funi.Request) != nil {
				i.Release(funi.Request)
			}
			p.Drive()
		}
	}
}

// neighbours are the nodes that a node of the benchmarks sends to or hears of.
func neighbours(nodes int, barrier bool) func(int) []int {
	return func(node int) []int {
		near := map[int]bool{}
		for k := 1; k <= 16; k++ {
			d := k
			if barrier {
				d = 1 << (k - 1)
			}
			if barrier && d >= nodes {
				break
			}
			near[(node+d)%nodes], near[(node-d+16*nodes)%nodes] = true, true
		}
		delete(near, node)
		return slices.Sorted(maps.Keys(near))
	}
}

// BenchmarkNodes is a cluster in full traffic; an operation is an event. It reports the
// memory of everything too: simulator, cards and programs. Events a second are of
// processor time, so that what else the machine does counts little.
func BenchmarkNodes(b *testing.B) {
	for _, kind := range traffic {
		for _, nodes := range []int{2, 16, 128, 1024} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, nodes), func(b *testing.B) {
				before := heap()
				k, err := sim.NewCluster(sim.ClusterOptions{Nodes: nodes, Net: sim.EthernetConfig{Bandwidth: 10e9},
					Tune:       func(c *engine.Config) { c.Lines, c.ReplyLines = 128, 32 },
					Neighbours: neighbours(nodes, kind.name == "barrier")}, kind.program(nodes))
				if err != nil {
					b.Fatal(err)
				}
				defer k.Close()
				for range 500 * nodes { // greetings are over, memory is allocated
					k.Step()
				}
				b.ReportAllocs()
				b.ResetTimer()
				begin := processorTime(b)
				for range b.N {
					k.Step()
				}
				spent := processorTime(b) - begin
				b.StopTimer()
				b.ReportMetric(float64(b.N)/spent.Seconds()/1e6, "Mevents/s")
				b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-heap")
			})
		}
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processorTime returns the processor time that the benchmark has used.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// everybody is a program that sends one message to every other node at each level and takes theirs.
func everybody(nodes int) sim.Program {
	return func(p *sim.Process) error {
		i, me := p.Interface(), int(p.Context().Node())
		for l := range funi.Level(2) {
			for n, got := 1, 0; n < nodes || got < nodes-1; {
				for ; n < nodes; n++ {
					s := i.Reserve(l)
					if s == nil {
						break
					}
					s.SetHeader(funi.NewHeader(uint16((me+n)%nodes), 1, 4))
					i.Commit(l)
				}
				for i.Receive(l) != nil {
					i.Release(l)
					got++
				}
				p.Drive()
			}
		}
		return nil
	}
}

// BenchmarkEverybody is nodes that all send to all. It reports the memory that the
// cluster takes at most, and what the peers of a node cost when all is quiet again.
func BenchmarkEverybody(b *testing.B) {
	for _, nodes := range []int{256, 1024} {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for b.Loop() {
				benchmarkEverybody(b, nodes)
			}
		})
	}
}

func benchmarkEverybody(b *testing.B, nodes int) {
	before := heap()
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: nodes, Net: sim.EthernetConfig{Bandwidth: 10e9},
		Tune: func(c *engine.Config) { c.Lines, c.ReplyLines = 128, 32 }}, everybody(nodes))
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	made := heap()
	if err := k.Finish(time.Hour); err != nil {
		b.Fatal(err)
	}
	ended := heap()
	b.ReportMetric(float64(k.Now())/1e6, "virtual-ms")
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	b.ReportMetric(float64(stats.HeapSys)/(1<<20), "MiB-heap-sys")
	k.Run(k.Now()+int64(time.Second), func() bool { return false })
	b.ReportMetric(float64(made-before)/(1<<20), "MiB-made")
	b.ReportMetric(float64(ended-before)/(1<<20), "MiB-ended")
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-quiet")
}
