package sim_test

// This file measures the simulator: events a second, and memory of many nodes.

import (
	"runtime"
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
