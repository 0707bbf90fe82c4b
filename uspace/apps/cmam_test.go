package apps_test

// This file tests the CMAM primitives benchmark on cards in memory.

import (
	"testing"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/apps"
)

// The benchmark runs wherever programs do, on two nodes and on more. Node 0, which alone measures,
// has each of Table 6.1's 53 rows once, however many rounds there are. Rows of block transfers have
// the bytes that a call moves.
func TestCMAM(t *testing.T) {
	for _, c := range []struct{ nodes, messages, rounds int }{{6, 40, 0}, {2, 40, 1}, {2, 44, 3}, {4, 40, 2}} {
		b := bed.New(t, bed.Options{Nodes: c.nodes, Slots: 64})
		b.MustRun(func(n *bed.Node) error {
			rows, err := apps.CMAM(n.Endpoint, n.Segment, n.Now,
				apps.CMAMOptions{Messages: c.messages, Rounds: c.rounds})
			if err != nil {
				return err
			}
			seen := map[string]bool{}
			for _, r := range rows {
				if name := r.Name + " " + r.Measure; seen[name] || r.Nanoseconds < 0 {
					t.Errorf("%+v: row %s: twice, or %v ns", c, name, r.Nanoseconds)
				} else {
					seen[name] = true
				}
			}
			if want := map[bool]int{true: 53}[n.Node() == 0]; len(rows) != want {
				t.Errorf("%+v: node %d has %d rows, want %d", c, n.Node(), len(rows), want)
			}
			return nil
		})
	}
}

// What the benchmark cannot do is refused before anything is sent.
func TestCMAMRefused(t *testing.T) {
	for _, c := range []struct{ nodes, messages, rounds int }{{1, 40, 1}, {6, 0, 1}, {6, 41, 1}, {6, 256, 1},
		{2, 40, -1}, {2, 40, 101}} {
		bed.New(t, bed.Options{Nodes: c.nodes}).MustRun(func(n *bed.Node) error {
			if _, err := apps.CMAM(n.Endpoint, n.Segment, n.Now,
				apps.CMAMOptions{Messages: c.messages, Rounds: c.rounds}); err == nil {
				t.Errorf("%+v was not refused", c)
			}
			return nil
		})
	}
}
