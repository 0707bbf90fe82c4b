package funet_test

// This file measures messages and calls between two hosts of a lab, each with a card in this
// process.

import (
	"context"
	"sync"
	"testing"

	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funet"
)

// BenchmarkCall is a call of 64 bytes, by the given number of goroutines at the same time.
func BenchmarkCall(b *testing.B) {
	for name, goroutines := range map[string]int{"1 goroutine": 1, "2 goroutines": 2, "8 goroutines": 8} {
		b.Run(name, func(b *testing.B) {
			d := newBed(b, "embedded")
			nodes := [2]*funet.Endpoint{d.open(0), d.open(1)}
			for _, e := range nodes {
				if err := e.Serve(double, func(m *funet.Message) ([]byte, error) { return m.Bytes, nil }); err != nil {
					b.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var server sync.WaitGroup
			server.Go(func() { _ = nodes[1].Run(ctx) })
			request := make([]byte, 64)
			if _, err := nodes[0].Call(ctx, 1, double, request); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for g := range goroutines {
				all.Go(func() {
					room := make([]byte, 0, 64)
					for range (b.N + g) / goroutines {
						if _, err := nodes[0].AppendCall(ctx, room, 1, double, request); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			cancel()
			server.Wait()
		})
	}
}

// BenchmarkWords is a request and a reply of four words of package am, between the same hosts.
func BenchmarkWords(b *testing.B) {
	d := newBed(b, "embedded")
	nodes := [2]*funet.Endpoint{d.open(0), d.open(1)}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var server sync.WaitGroup
	server.Go(func() {
		_ = nodes[1].AM(func(e *am.Endpoint) error {
			e.Bind(ctx)
			_ = e.Handle(0, func(m *am.Message) { _ = m.Reply4(1, 1, 2, 3, 4) })
			return e.Wait(func() bool { return false })
		})
	})
	err := nodes[0].AM(func(e *am.Endpoint) error {
		n := 0
		_ = e.Handle(1, func(*am.Message) { n++ })
		for i := -1; i < b.N; i++ {
			if i == 0 {
				b.ResetTimer()
			}
			if err := e.Request4(1, 0, 1, 2, 3, 4); err != nil {
				return err
			}
			if err := e.Wait(func() bool { return n > i+1 }); err != nil {
				return err
			}
		}
		return nil
	})
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	cancel()
	server.Wait()
}
