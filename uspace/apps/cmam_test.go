package apps_test

// This file tests the CMAM primitives benchmark on cards in memory.

import (
	"testing"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/apps"
)

// The benchmark runs wherever programs do, and node 0, which alone measures, has each of
// Table 6.1's 53 rows once, with the bytes that a call moves for block transfers.
func TestCMAM(t *testing.T) {
	b := bed.New(t, bed.Options{Nodes: 6, Slots: 64})
	b.MustRun(func(n *bed.Node) error {
		rows, err := apps.CMAM(n.Endpoint, n.Register, n.Now, apps.CMAMOptions{Messages: 40})
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, r := range rows {
			if name := r.Name + " " + r.Measure; seen[name] || r.Nanoseconds < 0 {
				t.Errorf("row %s: twice, or %v ns", name, r.Nanoseconds)
			} else {
				seen[name] = true
			}
		}
		if want := map[bool]int{true: 53}[n.Node() == 0]; len(rows) != want {
			t.Errorf("node %d has %d rows, want %d", n.Node(), len(rows), want)
		}
		return nil
	})
}

// What the benchmark cannot do is refused before anything is sent.
func TestCMAMRefused(t *testing.T) {
	for _, c := range []struct{ nodes, messages int }{{4, 40}, {6, 0}, {6, 41}, {6, 256}} {
		bed.New(t, bed.Options{Nodes: c.nodes}).MustRun(func(n *bed.Node) error {
			if _, err := apps.CMAM(n.Endpoint, n.Register, n.Now, apps.CMAMOptions{Messages: c.messages}); err == nil {
				t.Errorf("%d messages on %d nodes were not refused", c.messages, c.nodes)
			}
			return nil
		})
	}
}
