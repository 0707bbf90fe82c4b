package am_test

// This file tests barrier, broadcast and reduction: what they bring, how many hops they
// take, and what becomes of them when something goes wrong.

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/tests/wire"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/engine"
	"github.com/funet/funet/uspace/funi"
)

// TestBarrierHops: a barrier of N nodes takes ceil(log2 N) hops, 6 for 64 nodes, and as
// many messages of each node. On a wire that is slow beside everything else a hop is its delay.
func TestBarrierHops(t *testing.T) {
	const hop = time.Millisecond
	for nodes, want := range map[int]int{2: 1, 3: 2, 5: 3, 8: 3, 32: 5, 64: 6} {
		if testing.Short() && nodes > 8 {
			continue
		}
		b := bed.New(t, bed.Options{Nodes: nodes, Net: wire.Config{Delay: hop}, Tune: func(c *engine.Config) {
			c.FirstRTO, c.MinRTO, c.MaxRTO = time.Second, time.Second, time.Second
		}})
		entered, left, calm := int64(0), int64(0), int64(200*hop)
		var before, after [64]uint64
		b.MustRun(func(n *bed.Node) error {
			err := n.Barrier()                 // greetings come first
			for err == nil && n.Now() < calm { // nothing is left to be acknowledged
				_, err = n.Poll()
			}
			before[n.Node()] = n.Card.Counters().PacketsRetrieved
			entered = max(entered, n.Now())
			if err == nil {
				err = n.Barrier()
			}
			left = max(left, n.Now())
			after[n.Node()] = n.Card.Counters().PacketsRetrieved
			return errors.Join(err, n.Barrier())
		})
		if hops := math.Round(float64(left-entered) / float64(hop)); hops != float64(want) {
			t.Errorf("%d nodes: %v hops in %v, want %d", nodes, hops, time.Duration(left-entered), want)
		}
		messages := uint64(0)
		for i := range nodes {
			messages += after[i] - before[i]
		}
		if messages != uint64(nodes*want) {
			t.Errorf("%d nodes: %d messages, want %d", nodes, messages, nodes*want)
		}
	}
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// TestReduce: every node gets the sum, minimum or maximum of the values of all, many
// times in a row; sums of doubles are the same to the last bit on all nodes.
func TestReduce(t *testing.T) {
	for nodes := 1; nodes <= 9 && !(testing.Short() && nodes > 5); nodes++ {
		for _, f := range []wire.Faults{{}, faults} {
			b := bed.New(t, bed.Options{Nodes: nodes, Slots: 4, Net: wire.Config{Seed: uint64(nodes), Faults: f}})
			var sums [20][]uint64
			b.MustRun(func(n *bed.Node) error {
				for round := range sums {
					// all nodes draw all values
					r := rand.New(rand.NewPCG(uint64(round), uint64(nodes)))
					var ints []int64
					var doubles []float64
					total, about := int64(0), 0.0
					for range nodes {
						ints, doubles = append(ints, r.Int64()-r.Int64()), append(doubles, r.NormFloat64())
					}
					for i := range nodes {
						total, about = total+ints[i], about+doubles[i]
					}
					n.Pause(r.Int64N(int64(1+n.Node()) * 10000))
					var got [5]any
					var errs [5]error
					got[0], errs[0] = n.ReduceInt64(am.Sum, ints[n.Node()])
					got[1], errs[1] = n.ReduceInt64(am.Min, ints[n.Node()])
					got[2], errs[2] = n.ReduceInt64(am.Max, ints[n.Node()])
					got[3], errs[3] = n.ReduceFloat64(am.Min, doubles[n.Node()])
					got[4], errs[4] = n.ReduceFloat64(am.Max, doubles[n.Node()])
					sum, err := n.ReduceFloat64(am.Sum, doubles[n.Node()])
					if err := errors.Join(append(errs[:], err)...); err != nil {
						return err
					}
					if want := [5]any{total, slices.Min(ints), slices.Max(ints), slices.Min(doubles),
						slices.Max(doubles)}; got != want {
						return fmt.Errorf("round %d: got %v, want %v", round, got, want)
					}
					if math.Abs(sum-about) > 1e-12 {
						return fmt.Errorf("round %d: sum %v, want %v", round, sum, about)
					}
					sums[round] = append(sums[round], math.Float64bits(sum))
				}
				return nil
			})
			for round, s := range sums {
				if len(slices.Compact(s)) != 1 {
					t.Errorf("%d nodes, round %d: the sums differ: %x", nodes, round, s)
				}
			}
		}
	}
}

// TestReduceEdges: NaN wins, sums of int64 wrap around, and operations are three.
func TestReduceEdges(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 3})
	b.MustRun(func(n *bed.Node) error {
		value := []float64{1, math.NaN(), -1}[n.Node()]
		least, err1 := n.ReduceFloat64(am.Min, value)
		most, err2 := n.ReduceFloat64(am.Max, value)
		wrapped, err3 := n.ReduceInt64(am.Sum, math.MaxInt64)
		_, err4 := n.ReduceInt64(am.Max+1, 0)
		_, err5 := n.ReduceFloat64(255, 0)
		return errors.Join(err1, err2, err3,
			check(errors.Is(err4, am.ErrOperation) && errors.Is(err5, am.ErrOperation),
				"operations 3 and 255: %v, %v", err4, err5),
			check(math.IsNaN(least) && math.IsNaN(most), "min %v and max %v of NaN and others", least, most),
			check(wrapped == math.MaxInt64-2, "sum %d", wrapped), n.Barrier())
	})
}

// TestBroadcast: all nodes get the root's words, of any number, from any root, many
// times in a row; a root that comes first or last does no harm.
func TestBroadcast(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := rapid.IntRange(1, 9).Draw(r, "nodes")
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 500)), 1, 5).Draw(r, "lengths")
		roots := rapid.SliceOfN(rapid.IntRange(0, nodes-1), len(lengths), len(lengths)).Draw(r, "roots")
		pauses := rapid.SliceOfN(rapid.Int64Range(0, 100000), nodes, nodes).Draw(r, "pauses")
		cfg := wire.Config{Seed: rapid.Uint64().Draw(r, "seed")}
		if rapid.Bool().Draw(r, "faults") {
			cfg.Faults = faults
		}
		b := bed.New(t, bed.Options{Nodes: nodes, Slots: rapid.SampledFrom([]int{2, 64}).Draw(r, "slots"), Net: cfg})
		for i, err := range b.Run(func(n *bed.Node) error {
			for k, length := range lengths {
				words := make([]uint32, length)
				if n.Node() == roots[k] {
					for i := range words {
						words[i] = uint32(k<<16 | i)
					}
				}
				n.Pause(pauses[n.Node()])
				if err := n.Broadcast(roots[k], words); err != nil {
					return err
				}
				for i, w := range words {
					if w != uint32(k<<16|i) {
						return fmt.Errorf("broadcast %d: word %d is %#x", k, i, w)
					}
				}
			}
			return nil
		}) {
			if err != nil {
				r.Fatalf("node %d: %v", i, err)
			}
		}
	})
}

// TestCollectiveRepeated: a collective call that ends because some other message came
// back can be called again and goes on; nothing is counted twice.
func TestCollectiveRepeated(t *testing.T) {
	for nodes := 2; nodes <= 6 && !(testing.Short() && nodes > 3); nodes++ {
		b := bed.New(t, bed.Options{Nodes: nodes, Slots: 2, Net: wire.Config{Seed: 1, Faults: faults}})
		b.MustRun(func(n *bed.Node) error {
			spoilt := 0
			again := func(call func() error) error {
				for {
					err := call()
					var u *am.Undelivered
					if err == nil || !errors.As(err, &u) || u.Library {
						return err
					}
				}
			}
			// some come back at once, as the source is none, and some after a while
			spoil := func() error {
				x := funi.Transfer{Source: segment, Destination: 0x100, Words: 4}
				if spoilt++; spoilt%4 == 0 {
					x.Source = 0x100
				}
				return again(func() error { return n.Transfer((n.Node()+spoilt)%nodes, 1, x) })
			}
			if _, err := shared(n, 1024); err != nil {
				return err
			}
			for round := range 20 {
				words := make([]uint32, 500)
				if n.Node() == round%nodes {
					for i := range words {
						words[i] = uint32(round + i)
					}
				}
				sum := int64(0)
				err := errors.Join(spoil(), spoil(), again(func() (err error) {
					sum, err = n.ReduceInt64(am.Sum, int64(n.Node()))
					return err
				}),
					spoil(), spoil(), spoil(), again(func() error { return n.Broadcast(round%nodes, words) }), spoil(),
					again(n.Barrier))
				if err != nil {
					return err
				}
				if sum != int64(nodes*(nodes-1)/2) || words[0] != uint32(round) || words[499] != uint32(round+499) {
					return fmt.Errorf("round %d: sum %d, words %v", round, sum, words)
				}
			}
			return errors.Join(again(n.Barrier), check(n.Unknown() == 0, "%d messages were for nobody", n.Unknown()))
		})
	}
}

// impatient is a card that gives a silent peer up soon.
func impatient(c *engine.Config) {
	c.PeerTimeout, c.ConnectTimeout = 100*time.Millisecond, 100*time.Millisecond
}

// TestCollectiveMismatch: nodes that call different things learn it; nobody hangs.
func TestCollectiveMismatch(t *testing.T) {
	calls := map[string]func(n *bed.Node) error{
		"barrier":  func(n *bed.Node) error { return n.Barrier() },
		"sum":      func(n *bed.Node) error { _, err := n.ReduceInt64(am.Sum, 1); return err },
		"min":      func(n *bed.Node) error { _, err := n.ReduceInt64(am.Min, 1); return err },
		"double":   func(n *bed.Node) error { _, err := n.ReduceFloat64(am.Sum, 1); return err },
		"words":    func(n *bed.Node) error { return n.Broadcast(0, make([]uint32, 3)) },
		"no words": func(n *bed.Node) error { return n.Broadcast(0, nil) },
	}
	names := slices.Sorted(maps.Keys(calls))
	for i, one := range names {
		others := slices.Concat(names[i+1:], names[:i])
		if testing.Short() {
			others = others[:1]
		}
		for _, other := range others {
			first, second := calls[one], calls[other]
			b := bed.New(t, bed.Options{Nodes: 3, Tune: impatient})
			wrong := 0
			for i, err := range b.Run(func(n *bed.Node) error {
				if n.Node() == 2 {
					return second(n)
				}
				return first(n)
			}) {
				var u *am.Undelivered
				if errors.Is(err, am.ErrCollective) {
					wrong++
				} else if !errors.As(err, &u) && (i == 2) == (err == nil) {
					t.Errorf("%s and %s: node %d ended with %v", one, other, i, err)
				}
			}
			if wrong == 0 {
				t.Errorf("%s and %s: no node said that the calls differ", one, other)
			}
		}
	}
	b := bed.New(t, bed.Options{Nodes: 2})
	for _, root := range []int{-1, 2} {
		if err := b.Nodes[0].Broadcast(root, nil); !errors.Is(err, am.ErrNode) {
			t.Errorf("root %d: %v, want ErrNode", root, err)
		}
	}
}
