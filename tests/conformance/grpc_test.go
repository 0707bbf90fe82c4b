package conformance

// This file runs the service and the client of gRPC's own benchmarks
// (google.golang.org/grpc/benchmark) over FUNet and over TCP. The services are processes of their
// own, as on two hosts: in one process the goroutines of both ends would share the processors of
// one Go runtime.

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/benchmark"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

const (
	grpcRounds = 5
	// grpcCalls one after the other, and grpcFlight in flight for grpcTime, in each round.
	grpcCalls  = 3000
	grpcFlight = 64
	grpcTime   = time.Second
	// grpcBytes is how long a request and its answer are.
	grpcBytes = 64
)

// grpcFigures are those of one way.
type grpcFigures struct {
	client testgrpc.BenchmarkServiceClient
	p50    []float64 // microseconds, by round
	rate   []float64 // calls a second
}

// Rule: gRPC's benchmark runs over our listener and dialer without an error. How it compares with
// TCP is printed.
func TestGRPC(t *testing.T) {
	b := emptyBed(t, veth)
	b.open(0)
	var figures [2]grpcFigures
	for i, w := range []way{b.funet(), b.tcp()} {
		figures[i].client = grpcOver(b, w)
	}
	for range grpcRounds {
		for i := range figures {
			figures[i].round(t)
		}
	}
	report(t, "grpc", map[string]float64{
		"p50_ratio_to_tcp":            median(byRound(figures[0].p50, figures[1].p50)),
		"calls_per_s_64_ratio_to_tcp": median(byRound(figures[0].rate, figures[1].rate)),
		"p50_us":                      median(figures[0].p50), "tcp_p50_us": median(figures[1].p50),
		"calls_per_s_64": median(figures[0].rate), "tcp_calls_per_s_64": median(figures[1].rate),
	})
}

// Rule: the same through daemons.
func TestGRPCThroughDaemons(t *testing.T) {
	b := emptyBed(t, daemons)
	b.open(0)
	f := grpcFigures{client: grpcOver(b, b.funet())}
	f.round(t)
	report(t, "grpc_daemons", map[string]float64{"p50_us": f.p50[0], "calls_per_s_64": f.rate[0]})
}

// grpcOver starts the service on host 1, in a process of its own, and returns a client.
func grpcOver(b *bed, w way) testgrpc.BenchmarkServiceClient {
	t := b.t
	t.Helper()
	address := b.serve(w)
	c := benchmark.NewClientConn("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return w.dial(ctx, "", address)
		}))
	t.Cleanup(func() { c.Close() })
	client := testgrpc.NewBenchmarkServiceClient(c)
	for range 100 {
		if err := benchmark.DoUnaryCall(client, grpcBytes, grpcBytes); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// round measures once.
func (f *grpcFigures) round(t *testing.T) {
	t.Helper()
	times := make([]float64, grpcCalls)
	for i := range times {
		begin := time.Now()
		if err := benchmark.DoUnaryCall(f.client, grpcBytes, grpcBytes); err != nil {
			t.Fatal(err)
		}
		times[i] = float64(time.Since(begin).Nanoseconds()) / 1000
	}
	f.p50 = append(f.p50, median(times))

	var calls atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range grpcFlight {
		all.Go(func() {
			for time.Since(begin) < grpcTime {
				if err := benchmark.DoUnaryCall(f.client, grpcBytes, grpcBytes); err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	all.Wait()
	f.rate = append(f.rate, float64(calls.Load())/time.Since(begin).Seconds())
}

// median is the middle one, or the mean of the two.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// byRound divides the first by the second.
func byRound(a, b []float64) (ratios []float64) {
	for i := range a {
		ratios = append(ratios, a[i]/b[i])
	}
	return ratios
}
