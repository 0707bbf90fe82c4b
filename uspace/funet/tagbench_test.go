package funet_test

// This file measures long messages with tags beside messages of the same length that run a handler,
// in turns.

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/funet/funet/uspace/funet"
)

// BenchmarkTagged is a message with a tag, and its ratio to one that runs a handler: ten of each in
// turn.
func BenchmarkTagged(b *testing.B) {
	const take, tag, turn = 1, 1, 10
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			d := newBed(b, "embedded")
			nodes := [2]*funet.Endpoint{d.open(0), d.open(1)}
			for _, e := range nodes {
				if err := e.Handle(take, func(*funet.Message) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var receiver sync.WaitGroup
			receiver.Go(func() {
				room := make([]byte, size)
				for {
					if _, err := nodes[1].Recv(ctx, 0, tag, room); err != nil {
						return
					}
				}
			})
			message := make([]byte, size)
			var times [2]time.Duration
			b.SetBytes(int64(size))
			for n := -turn; n < b.N; n += turn {
				if n == 0 {
					times = [2]time.Duration{}
					b.ResetTimer()
				}
				for i, send := range []func() error{
					func() error { return nodes[0].SendTag(ctx, 1, tag, message) },
					func() error { return nodes[0].Send(ctx, 1, take, message) },
				} {
					since := time.Now()
					for range turn {
						if err := send(); err != nil {
							b.Fatal(err)
						}
					}
					times[i] += time.Since(since)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(times[0].Nanoseconds())/float64(times[1].Nanoseconds()), "time_ratio_to_Send")
			cancel()
			receiver.Wait()
		})
	}
}
