package am_test

// This file tests that a barrier names the nodes that have not come.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/funet/funet/tests/bed"
	"github.com/funet/funet/uspace/am"
)

// Rule: a barrier that ends before all nodes have come names, on each node, the nodes of which
// nothing was heard. The node that has not come is always among them. Where nothing hides it, it is
// named alone.
func TestMissing(t *testing.T) {
	for _, nodes := range []int{2, 3, 4, 7, 16} {
		for _, absent := range []int{0, nodes - 1, nodes / 2} {
			b := bed.New(t, bed.Options{Nodes: nodes})
			ctx, cancel := context.WithCancel(t.Context())
			b.At(100*time.Millisecond, cancel)
			alone, stop := 0, false
			b.MustRun(func(n *bed.Node) error {
				if err := n.Barrier(); err != nil {
					return err
				}
				if n.Node() == absent {
					return n.Wait(func() bool { return stop })
				}
				n.Bind(ctx)
				err := n.Barrier()
				var m *am.Missing
				if !errors.As(err, &m) || !slices.Contains(m.Nodes, absent) || slices.Contains(m.Nodes, n.Node()) {
					return fmt.Errorf("node %d misses %d and says %w", n.Node(), absent, err)
				}
				if len(m.Nodes) == 1 {
					alone++
					if !strings.Contains(err.Error(), fmt.Sprintf("node %d has not come", absent)) {
						return err
					}
				}
				stop = alone > 0
				return nil
			})
			if alone == 0 {
				t.Errorf("of %d nodes none knows that %d alone is missing", nodes, absent)
			}
		}
	}
}
