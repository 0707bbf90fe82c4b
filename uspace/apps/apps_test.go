package apps_test

// This file tests the programs on cards in memory, without faults and with: what they
// compute, what they measure, and what they refuse.

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/apps"
	"github.com/funet/funet/uspace/engine"
)

// faults are those of an Ethernet; programs notice none of them.
var faults = wire.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.1, Corrupt: 0.02}

// Rule: programs tell on node 0 how far they have come: never less than before, nor more than all.
func TestProgress(t *testing.T) {
	for name, run := range map[string]func(n *bed.Node, p apps.Progress) error{
		"pingpong": func(n *bed.Node, p apps.Progress) error {
			_, err := apps.PingPong(n.Endpoint, n.Now, apps.PingPongOptions{Exchanges: 2000, WarmUp: 100, Progress: p})
			return err
		},
		"stream": func(n *bed.Node, p apps.Progress) error {
			_, err := apps.Stream(n.Endpoint, n.Now,
				apps.StreamOptions{Senders: 1, Messages: 3000, Words: 4, Progress: p})
			return err
		},
		"flood": func(n *bed.Node, p apps.Progress) error {
			_, err := apps.Flood(n.Endpoint, n.Now, func(int64) {}, apps.FloodOptions{Messages: 3000, Progress: p})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t, bed.Options{Nodes: 2, Net: wire.Config{Seed: 1}})
			last, total, told := 0, 0, 0
			b.MustRun(func(n *bed.Node) error {
				var p apps.Progress // of the other node nobody wants to know
				if n.Node() == 0 {
					p = func(done, of int) {
						if done < last || done > of || total != 0 && of != total {
							t.Errorf("%d of %d after %d of %d", done, of, last, total)
						}
						last, total, told = done, of, told+1
					}
				}
				return run(n, p)
			})
			if told < 3 || 2*last < total {
				t.Errorf("it told %d times, last %d of %d", told, last, total)
			}
		})
	}
}

// TestPingPong: node 0 gets a histogram of exactly the measured exchanges, each of
// which takes at least two trips of the wire; the others get none.
func TestPingPong(t *testing.T) {
	for _, c := range []struct {
		nodes  int
		faults wire.Faults
		o      apps.PingPongOptions
	}{
		{2, wire.Faults{}, apps.PingPongOptions{Exchanges: 2000, WarmUp: 100}},
		{2, wire.Faults{}, apps.PingPongOptions{Exchanges: 1}},
		{2, faults, apps.PingPongOptions{Exchanges: 500, WarmUp: 10}},
		{5, wire.Faults{}, apps.PingPongOptions{Exchanges: 100, WarmUp: 10}},
		{3, faults, apps.PingPongOptions{Exchanges: 100}},
	} {
		t.Run(fmt.Sprintf("%d nodes faults %v", c.nodes, c.faults != wire.Faults{}), func(t *testing.T) {
			b := bed.New(t, bed.Options{Nodes: c.nodes,
				Net: wire.Config{Seed: 1, Delay: 2 * time.Microsecond, Faults: c.faults}})
			histograms := make([]*hdrhistogram.Histogram, c.nodes)
			b.MustRun(func(n *bed.Node) (err error) {
				histograms[n.Node()], err = apps.PingPong(n.Endpoint, n.Now, c.o)
				return err
			})
			h := histograms[0]
			if h == nil || h.TotalCount() != int64(c.o.Exchanges) {
				t.Fatalf("histogram of %v, want %d exchanges", h, c.o.Exchanges)
			}
			// The histogram has three significant figures.
			if low := time.Duration(h.Min()); low < 4*time.Microsecond*999/1000 {
				t.Errorf("shortest round trip %v over a wire of 2us each way", low)
			}
			if h.Max() < h.ValueAtPercentile(99) || h.ValueAtPercentile(99) < h.ValueAtPercentile(50) ||
				h.ValueAtPercentile(50) < h.Min() {
				t.Errorf("percentiles are not in order: %v", h)
			}
			if slices.ContainsFunc(histograms[1:], func(h *hdrhistogram.Histogram) bool { return h != nil }) {
				t.Error("a node other than 0 got a histogram")
			}
		})
	}
}

// TestMatMulShapes: the product is that of a local Dgemm for matrices of any shape on
// any number of nodes, also where nodes have no column (thesis appendix C).
func TestMatMulShapes(t *testing.T) {
	for _, c := range []struct {
		nodes, n, r, m int
		faults         wire.Faults
	}{
		{2, 1, 1, 1, wire.Faults{}}, {9, 1, 1, 1, wire.Faults{}}, {3, 1, 1, 20, wire.Faults{}},
		{3, 20, 1, 1, wire.Faults{}}, {3, 1, 20, 1, wire.Faults{}},
		{2, 7, 7, 7, wire.Faults{}}, {4, 9, 10, 11, wire.Faults{}}, {4, 11, 10, 9, wire.Faults{}},
		{5, 3, 4, 2, wire.Faults{}}, {8, 10, 5, 17, wire.Faults{}},
		{2, 64, 64, 64, wire.Faults{}}, {3, 100, 37, 50, wire.Faults{}}, {1, 5, 6, 7, wire.Faults{}},
		{2, 17, 18, 19, faults}, {4, 30, 20, 10, faults}, {7, 5, 3, 4, faults},
	} {
		t.Run(fmt.Sprintf("%dx%d by %dx%d on %d faults %v", c.n, c.r, c.r, c.m, c.nodes, c.faults != wire.Faults{}),
			func(t *testing.T) {
				b := bed.New(t, bed.Options{Nodes: c.nodes, Net: wire.Config{Seed: 3, Faults: c.faults}})
				matMul(t, b, apps.MatMulOptions{N: c.n, R: c.r, M: c.m, Seed: 5})
			})
	}
}

// TestMatMulAnyShape is the same for shapes, nodes, queues and faults that nobody chose.
func TestMatMulAnyShape(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dim := rapid.IntRange(1, 24)
		b := bed.New(t, bed.Options{
			Nodes: rapid.IntRange(1, 9).Draw(r, "nodes"), Slots: 1 << rapid.IntRange(1, 6).Draw(r, "log slots"),
			Net: wire.Config{Seed: rapid.Uint64().Draw(r, "seed"),
				Faults: rapid.SampledFrom([]wire.Faults{{}, faults}).Draw(r, "faults")},
		})
		matMul(r, b, apps.MatMulOptions{N: dim.Draw(r, "N"), R: dim.Draw(r, "R"), M: dim.Draw(r, "M"),
			Seed: rapid.Uint64().Draw(r, "matrices")})
	})
}

// matMul multiplies and checks what each node got.
func matMul(t rapid.TB, b *bed.Bed, o apps.MatMulOptions) {
	t.Helper()
	results := make([]apps.MatMulResult, len(b.Nodes))
	b.MustRun(func(n *bed.Node) (err error) {
		results[n.Node()], err = apps.MatMul(n.Endpoint, n.Segment, n.Now, o)
		return err
	})
	if r := results[0]; !r.Verified || r.WorstError > apps.Tolerance || r.Nanoseconds <= 0 ||
		r.Flops != 2*float64(o.N)*float64(o.R)*float64(o.M) {
		t.Fatalf("node 0 got %+v", r)
	}
	for i, r := range results[1:] {
		if r != (apps.MatMulResult{}) {
			t.Fatalf("node %d got %+v, want nothing", i+1, r)
		}
	}
}

// TestMatMulNoticesAWrongProduct: one node multiplies other matrices than the rest.
func TestMatMulNoticesAWrongProduct(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3})
	var got apps.MatMulResult
	b.MustRun(func(n *bed.Node) error {
		o := apps.MatMulOptions{N: 10, R: 10, M: 10, Seed: 1}
		if n.Node() == 2 {
			o.Seed = 2
		}
		r, err := apps.MatMul(n.Endpoint, n.Segment, n.Now, o)
		if n.Node() == 0 {
			got = r
		}
		return err
	})
	if got.Verified || got.WorstError < apps.Tolerance {
		t.Errorf("node 0 believes a wrong product: %+v", got)
	}
}

// TestMatMulDisagreement: nodes that were given different dimensions end with an
// error, all of them, and none panics.
func TestMatMulDisagreement(t *testing.T) {
	ten := apps.MatMulOptions{N: 10, R: 10, M: 10}
	for _, c := range [][2]apps.MatMulOptions{
		{ten, {N: 10, R: 4, M: 10}}, {ten, {N: 10, R: 9, M: 10}}, {ten, {N: 10, R: 11, M: 10}},
		{ten, {N: 10, R: 20, M: 10}},
		{ten, {N: 5, R: 10, M: 10}}, {ten, {N: 20, R: 10, M: 10}}, {ten, {N: 10, R: 10, M: 9}},
		{{N: 10, R: 1, M: 10}, {N: 9, R: 1, M: 10}}, // only one node is ever asked
	} {
		t.Run(fmt.Sprintf("%+v and %+v", c[0], c[1]), func(t *testing.T) {
			// long enough to be in a barrier
			b := bed.New(t, bed.Options{Nodes: 2, Net: wire.Config{Delay: time.Millisecond}, Limit: 30 * time.Second})
			errs := b.Run(func(n *bed.Node) error {
				o := c[n.Node()]
				_, err := apps.MatMul(n.Endpoint, n.Segment, n.Now, o)
				return err
			})
			verify := false
			for i, err := range errs {
				var u *am.Undelivered
				verify = verify || errors.Is(err, apps.ErrVerify)
				if !errors.Is(err, apps.ErrVerify) && !errors.As(err, &u) {
					t.Errorf("node %d ended with %v", i, err)
				}
			}
			if !verify {
				t.Errorf("no node says what is wrong: %v", errs)
			}
		})
	}
}

// TestFlood: nothing is lost, nothing comes twice, under faults, receive rings that
// overflow, stalls and the smallest queues (design idea 4).
func TestFlood(t *testing.T) {
	for name, c := range map[string]struct {
		nodes, slots int
		net          wire.Config
		o            apps.FloodOptions
		tune         func(*engine.Config)
	}{
		"quiet":  {2, 64, wire.Config{}, apps.FloodOptions{Messages: 20000}, nil},
		"one":    {2, 64, wire.Config{}, apps.FloodOptions{Messages: 1, Stalls: 3, Stall: 1e6}, nil},
		"faults": {2, 64, wire.Config{Faults: faults}, apps.FloodOptions{Messages: 5000}, nil},
		"stalls": {2, 64, wire.Config{}, apps.FloodOptions{Messages: 20000, Stalls: 10, Stall: 200e6}, nil},
		"ring":   {2, 64, wire.Config{Ring: 4}, apps.FloodOptions{Messages: 20000, Stalls: 3, Stall: 200e6}, nil},
		"all of them": {2, 16, wire.Config{Ring: 4, Faults: faults},
			apps.FloodOptions{Messages: 3000, Stalls: 5, Stall: 200e6}, nil},
		"two slots": {2, 2, wire.Config{Faults: faults},
			apps.FloodOptions{Messages: 1000, Stalls: 2, Stall: 50e6}, nil},
		"onlookers": {4, 16, wire.Config{Faults: faults},
			apps.FloodOptions{Messages: 1000, Stalls: 2, Stall: 1e6}, nil},
		"thesis card": {2, 16, wire.Config{Faults: faults}, apps.FloodOptions{Messages: 1000, Stalls: 2, Stall: 50e6},
			func(c *engine.Config) { c.Lines, c.ReplyLines, c.FIFO, c.Train = 8, 2, 10, 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			c.net.Seed, c.o.Seed = 11, 13
			b := bed.New(t, bed.Options{Nodes: c.nodes, Slots: c.slots, Net: c.net, Tune: c.tune,
				Limit: 10 * time.Minute})
			results := make([]apps.FloodResult, c.nodes)
			b.MustRun(func(n *bed.Node) (err error) {
				results[n.Node()], err = apps.Flood(n.Endpoint, n.Now, n.Pause, c.o)
				return err
			})
			for i, r := range results {
				want := apps.FloodResult{Nanoseconds: r.Nanoseconds}
				if i < 2 {
					want.Delivered = c.o.Messages
				}
				if r != want {
					t.Errorf("node %d: %+v, want %+v", i, r, want)
				}
			}
		})
	}
}

// TestPeerGone checks that the program ends with an error on every other node when a node dies in
// the middle of it. The error comes after the 5 s that a peer may be silent. On a node that had not
// yet heard of the peer, it comes after the 30 s that a peer may take to be there.
func TestPeerGone(t *testing.T) {
	programs := map[string]func(n *bed.Node) error{
		"ping-pong": func(n *bed.Node) error {
			_, err := apps.PingPong(n.Endpoint, n.Now, apps.PingPongOptions{Exchanges: 1e6})
			return err
		},
		"flood": func(n *bed.Node) error {
			_, err := apps.Flood(n.Endpoint, n.Now, n.Pause, apps.FloodOptions{Messages: 1e6})
			return err
		},
		"matmul": func(n *bed.Node) error {
			_, err := apps.MatMul(n.Endpoint, n.Segment, n.Now, apps.MatMulOptions{N: 1000, R: 1000, M: 1000})
			return err
		},
	}
	for name, program := range programs {
		for victim := range 2 {
			t.Run(fmt.Sprintf("%s node %d", name, victim), func(t *testing.T) {
				b := bed.New(t, bed.Options{Nodes: 3, Limit: 40 * time.Second})
				b.At(2*time.Millisecond, b.Nodes[victim].Kill)
				for i, err := range b.Run(program) {
					var u *am.Undelivered
					if i == victim && !errors.Is(err, bed.ErrKilled) || i != victim && !errors.As(err, &u) {
						t.Errorf("node %d ended with %v", i, err)
					}
				}
			})
		}
	}
}

// TestRefusals: options out of range are errors that say the range, before anything is sent.
func TestRefusals(t *testing.T) {
	matMul := func(n, r, m int) func(*bed.Node) error {
		return func(b *bed.Node) error {
			_, err := apps.MatMul(b.Endpoint, b.Segment, b.Now, apps.MatMulOptions{N: n, R: r, M: m})
			return err
		}
	}
	flood := func(o apps.FloodOptions) func(*bed.Node) error {
		return func(b *bed.Node) error {
			_, err := apps.Flood(b.Endpoint, b.Now, b.Pause, o)
			return err
		}
	}
	for name, program := range map[string]func(*bed.Node) error{
		"N 0": matMul(0, 1, 1), "R 0": matMul(1, 0, 1), "M 0": matMul(1, 1, 0), "negative": matMul(1, -1, 1),
		"too large":   matMul(1, apps.MaxDimension+1, 1),
		"no messages": flood(apps.FloodOptions{}), "too many": flood(apps.FloodOptions{Messages: 1<<31 + 1}),
		"negative stalls": flood(apps.FloodOptions{Messages: 1, Stalls: -1}),
		"negative stall":  flood(apps.FloodOptions{Messages: 1, Stall: -1}),
	} {
		b := bed.New(t, bed.Options{Nodes: 2})
		for i, err := range b.Run(program) {
			if err == nil || b.Nodes[i].Card.Counters().FramesSent != 0 {
				t.Errorf("%s: error %v and %d frames sent on node %d", name, err,
					b.Nodes[i].Card.Counters().FramesSent, i)
			}
		}
	}
}

// TestOneAppOfAnEndpoint: an app registers handlers 0 and up; a second one on the same
// endpoint is refused.
func TestOneAppOfAnEndpoint(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		if _, err := apps.PingPong(n.Endpoint, n.Now, apps.PingPongOptions{Exchanges: 1}); err != nil {
			return err
		}
		if _, err := apps.Flood(n.Endpoint, n.Now, n.Pause, apps.FloodOptions{Messages: 1}); !errors.Is(err,
			am.ErrNumber) {
			return fmt.Errorf("a second app: %v, want ErrNumber", err)
		}
		return nil
	})
}
