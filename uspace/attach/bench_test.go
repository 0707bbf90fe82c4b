package attach_test

// This file measures what an exchange through shared memory costs.

import (
	"runtime"
	"testing"

	"github.com/funet/funet/uspace/attach"
	"github.com/funet/funet/uspace/funi"
)

// BenchmarkRoundTrip: one goroutine holds two contexts and sends itself a message and an
// answer, over a card that spins on another processor.
func BenchmarkRoundTrip(b *testing.B) {
	d := start(b, "")
	d.spins.Store(true)
	var c [2]*attach.Client
	for node := range c {
		cfg := d.config(uint16(node))
		cfg.Spin = true
		var err error
		if c[node], err = attach.Open(cfg); err != nil {
			b.Fatal(err)
		}
		defer c[node].Close(0)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	take := func(to int, l funi.Level) {
		for c[to].Interface().Receive(l) == nil {
			c[to].Drive()
		}
		c[to].Interface().Release(l)
	}
	for b.Loop() {
		send(c[0].Interface(), funi.Request, 1, 1)
		take(1, funi.Request)
		send(c[1].Interface(), funi.Reply, 0, 1)
		take(0, funi.Reply)
	}
}
