package daemon_test

// This file measures round trips through daemons.

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/funet/funet/ctl/config"
	"github.com/funet/funet/ctl/daemon"
	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// open attaches a client of the library.
func open(t testing.TB, d *running, gid, node uint16, token attach.Token, spin bool) *attach.Client {
	t.Helper()
	c, err := attach.Open(attach.Config{Socket: d.socket, GID: gid, Node: node, Slots: 1024, Token: token, Spin: spin})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// put sends a message of one word.
func put(i *funi.Interface, to uint16, word uint32) {
	s := i.Reserve(funi.Request)
	s.SetHeader(funi.NewHeader(to, 5, 1))
	s[funi.PayloadWord] = word
	i.Commit(funi.Request)
}

// percentiles reports those of round trips.
func percentiles(b *testing.B, h *hdrhistogram.Histogram) {
	b.ReportMetric(float64(h.ValueAtPercentile(50)), "p50-ns")
	b.ReportMetric(float64(h.ValueAtPercentile(99)), "p99-ns")
}

// BenchmarkTwoContexts is the round trip between two contexts of one process, whose
// daemon spins on another processor.
func BenchmarkTwoContexts(b *testing.B) {
	bed := newBed(b)
	d := bed.start(0, func(c *daemon.Config) { c.Polling = config.Spin; c.CPU = 1 })
	gid, token, _ := two(b, []*running{d}, 0, 0)
	x, y := open(b, d, gid, 0, token, true), open(b, d, gid, 1, token, true)
	defer x.Close(0)
	defer y.Close(0)
	unpin := pin(b, 0)
	defer unpin()
	h := hdrhistogram.New(1, int64(time.Second), 3)
	i, j := x.Interface(), y.Interface()
	b.ResetTimer()
	for n := range b.N {
		at := time.Now()
		put(i, 1, uint32(n))
		for j.Receive(funi.Request) == nil {
		}
		j.Release(funi.Request)
		put(j, 0, uint32(n))
		for i.Receive(funi.Request) == nil {
		}
		i.Release(funi.Request)
		_ = h.RecordValue(int64(time.Since(at)))
	}
	percentiles(b, h)
}

// BenchmarkTwoHosts is the round trip between two processes through two daemons, which
// share the machine's processors.
func BenchmarkTwoHosts(b *testing.B) {
	for _, p := range []config.Polling{config.Adaptive, config.Sleep} {
		b.Run(p.String(), func(b *testing.B) { benchmarkTwoHosts(b, p) })
	}
}

func benchmarkTwoHosts(b *testing.B, p config.Polling) {
	bed := newBed(b)
	configs := [2]daemon.Config{bed.config(0), bed.config(1)}
	configs[0].Polling, configs[1].Polling = p, p
	var daemons []*running
	for i := range configs {
		bed.run(i, role{Do: "daemon", Config: &configs[i]})
		daemons = append(daemons, &running{socket: configs[i].Socket})
	}
	gid, token, _ := two(b, daemons, 0, 1)
	bed.run(1, role{Do: "library", Socket: daemons[1].socket, GID: gid, Node: 1, Token: token.Text()})
	c := open(b, daemons[0], gid, 0, token, false)
	defer c.Close(0)
	h := hdrhistogram.New(1, int64(time.Second), 3)
	i := c.Interface()
	b.ResetTimer()
	for n := range b.N {
		at := time.Now()
		put(i, 1, uint32(n))
		for i.Receive(funi.Request) == nil {
			c.Drive()
		}
		i.Release(funi.Request)
		_ = h.RecordValue(int64(time.Since(at)))
	}
	percentiles(b, h)
}
