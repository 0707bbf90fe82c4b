package am_test

// This file tests what primitives charge to a modelled processor, by the prices of
// costs.go, and that a message can be seen without being handled.

import (
	"fmt"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/am"
	"github.com/funet/funet/uspace/funi"
	"github.com/funet/funet/uspace/timing"
)

// processor is one of a cycle of 25 ns whose stores take two, on a bus that costs 1 ms a
// transaction, with a clock of its own.
func processor(clock *int64) *timing.CPU {
	return timing.NewCPU(timing.CPUConfig{Cycle: 25, Store: 50}, timing.NewBus(time.Millisecond, 0),
		timing.Clock{Now: func() int64 { return *clock }, Until: func(at int64) { *clock = max(*clock, at) }})
}

// Sending charges the instructions of appendix A's code, statement by statement, and two
// cycles for each store: of cmam_4 three double words and the head register. It does not
// wait for the bus (thesis 6.1.1).
func TestSendingIsCharged(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 2})
	b.MustRun(func(n *bed.Node) error {
		if n.Node() == 1 {
			return n.Barrier()
		}
		words := make([]uint32, am.MaxWords)
		for _, c := range []struct {
			name   string
			send   func() error
			cycles int64
		}{
			{"cmam_4", func() error { return n.Post4(1, 1, 1, 2, 3, 4) }, 105 + 4*2},
			{"cmam_n=1", func() error { return n.Post(1, 1, words[:1]...) }, 121 + 4*2},
			{"cmam_n=4", func() error { return n.Post(1, 1, words[:4]...) }, 121 + 4*2},
			{"cmam_n=20", func() error { return n.Post(1, 1, words...) }, 121 + 4*19 + 12*2},
			{"cmam_xfer_4", func() error { return n.Xfer4(1, 0, 1, 2, 3, 4) }, 105 + 14 + 4*2},
		} {
			for !n.Retrieved(funi.Request) { // and the queue's state is known
				if _, err := n.Poll(); err != nil {
					return err
				}
			}
			clock := int64(1)
			cpu := processor(&clock)
			n.Pace(cpu)
			if err := c.send(); err != nil {
				return err
			}
			cpu.Settle()
			n.Pace(nil)
			if got := (clock - 1) / 25; got != c.cycles {
				t.Errorf("%s takes %d cycles, want %d", c.name, got, c.cycles)
			}
		}
		return n.Barrier()
	})
}

// Receiving waits for the bus: three double words of the slot, two more for each further
// four words of a long message, and the head register when the card has changed it, and
// only then. The loads of a long message wait behind the store of the tail register.
func TestReceivingWaitsForTheBus(t *testing.T) {
	for words, loads := range map[int]int64{0: 4, 4: 4, 5: 4 + 1 + 2, 20: 4 + 1 + 8} {
		b := bed.New(t, bed.Options{Nodes: 2})
		b.MustRun(func(n *bed.Node) error {
			got := 0
			if err := n.Handle(0, func(*am.Message) { got++ }); err != nil {
				return err
			}
			if n.Node() == 1 {
				if err := n.Request(0, 0, make([]uint32, words)...); err != nil {
					return err
				}
				return n.Barrier()
			}
			for n.Waiting(funi.Request) == 0 {
			}
			if got != 0 {
				return fmt.Errorf("looking at a message handled it")
			}
			clock := int64(1)
			cpu := processor(&clock)
			n.Pace(cpu)
			defer n.Pace(nil)
			if _, err := n.Poll(); err != nil {
				return err
			}
			cpu.Settle()
			if got != 1 || clock/1_000_000 != loads {
				t.Errorf("%d words: %d handled in %d ns, want %d transactions of 1 ms", words, got, clock, loads)
			}
			before := clock
			for range 10 {
				n.Waiting(funi.Request)
			}
			cpu.Settle()
			if clock-before >= 1_000_000 {
				t.Errorf("looking ten times at a register in the cache took %d ns", clock-before)
			}
			n.Pace(nil)
			return n.Barrier()
		})
	}
}
