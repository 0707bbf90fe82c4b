package am_test

// This file tests the barrier: how many hops it takes, and what becomes of it when something goes
// wrong.

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

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

// TestBarrierRepeated: a barrier that ends because some other message came back can be called again
// and goes on; no node leaves it before all have come.
func TestBarrierRepeated(t *testing.T) {
	for nodes := 2; nodes <= 6 && !(testing.Short() && nodes > 3); nodes++ {
		b := bed.New(t, bed.Options{Nodes: nodes, Slots: 2, Net: wire.Config{Seed: 1, Faults: faults}})
		var came [60]int
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
			for round := range 60 {
				came[round]++
				err := errors.Join(spoil(), spoil(), again(n.Barrier), spoil())
				if err != nil {
					return err
				}
				if came[round] != nodes {
					return fmt.Errorf("round %d: the barrier ended when %d of %d nodes had come", round, came[round], nodes)
				}
			}
			return errors.Join(again(n.Barrier), check(n.Unknown() == 0, "%d messages were for nobody", n.Unknown()))
		})
	}
}
