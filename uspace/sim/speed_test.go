package sim_test

// This file measures the simulator: events a second, and memory of many nodes.

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/sim"
)

// BenchmarkPingPong is two nodes: an event is a turn, a step or a frame that moves on.
func BenchmarkPingPong(b *testing.B) {
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: 2, Net: sim.EthernetConfig{Bandwidth: 10e9}}, func(p *sim.Process) error {
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

// ring is a program that sends messages to its neighbour and takes what arrives.
func ring(nodes, messages int) sim.Program {
	return func(p *sim.Process) error {
		i := p.Interface()
		to := (p.Context().Node() + 1) % uint16(nodes)
		sent, got := 0, 0
		for sent < messages || got < messages {
			for sent < messages {
				s := i.Reserve(funi.Request)
				if s == nil {
					break
				}
				s.SetHeader(funi.NewHeader(to, 1, 4))
				i.Commit(funi.Request)
				sent++
			}
			for i.Receive(funi.Request) != nil {
				i.Release(funi.Request)
				got++
			}
			p.Drive()
		}
		return nil
	}
}

// BenchmarkThousand is 1,024 nodes in a ring, b.N messages each; it reports memory too.
func BenchmarkThousand(b *testing.B) {
	const nodes = 1024
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	k, err := sim.NewCluster(sim.ClusterOptions{Nodes: nodes, Net: sim.EthernetConfig{Bandwidth: 10e9},
		Tune: func(c *engine.Config) { c.Lines, c.ReplyLines = 128, 32 }}, ring(nodes, b.N))
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	b.ResetTimer()
	if err := k.Finish(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(k.Events())/b.Elapsed().Seconds(), "events/s")
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Sys)/(1<<20), "MiB-sys")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB-heap")
}

// everybody is a program that sends one message to every other node at each level and
// takes theirs.
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
	var stats runtime.MemStats
	heap := func() int64 {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
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
	b.ReportMetric(float64(stats.HeapSys)/(1<<20), "MiB-heap-sys")
	k.Run(k.Now()+int64(time.Second), func() bool { return false })
	b.ReportMetric(float64(made-before)/(1<<20), "MiB-made")
	b.ReportMetric(float64(ended-before)/(1<<20), "MiB-ended")
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-quiet")
}
